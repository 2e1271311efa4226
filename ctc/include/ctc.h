/* Connectionist temporal classification: loss and gradient, on the CPU or on CUDA, from C or anything that calls C.
 *
 * The library allocates nothing, prints nothing, throws nothing and keeps no state: the caller owns every buffer, and
 * any number of threads may call at once. The first half of this header is call-compatible with warp-ctc's; the second
 * half, `ctc_loss`, does the same for every layout and type. There is no limit on frames, labels, classes or batch.
 *
 * Where the first half departs from warp-ctc:
 * - An example whose frames cannot carry its labels costs infinity and has gradient 0. warp-ctc: cost 0, and whatever
 *   the gradients held before.
 * - Gradients of the frames behind an example's length are 0. warp-ctc leaves them as they were.
 * - Probabilities are not clamped to the smallest normal float, which makes warp-ctc's cost at most 87.3 a frame, and
 *   finite where a label cannot be: here that costs infinity (CTC_UNDERFLOW says from where on).
 * - A label that is blank, negative or no class, or a negative length, is CTC_STATUS_INVALID_VALUE.
 * - On CUDA there may be more than 639 labels, and launches that fail are reported.
 */
#ifndef CTC_H
#define CTC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CTC_API __attribute__((visibility("default")))
#else
#define CTC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    CTC_STATUS_SUCCESS = 0,
    CTC_STATUS_MEMOPS_FAILED = 1,
    CTC_STATUS_INVALID_VALUE = 2,
    CTC_STATUS_EXECUTION_FAILED = 3,
    CTC_STATUS_UNKNOWN_ERROR = 4
} ctcStatus_t;

typedef enum { CTC_CPU = 0, CTC_GPU = 1 } ctcComputeLocation;

typedef struct CUstream_st* CUstream;

struct ctcOptions {
    ctcComputeLocation loc;
    union {
        unsigned int num_threads; /* CTC_CPU: 0 is one thread per processor */
        CUstream stream;          /* CTC_GPU */
    };
    int blank_label;
};
#ifndef __cplusplus
typedef struct ctcOptions ctcOptions;
#endif

/* The version of the interface, 2. */
CTC_API int get_warpctc_version(void);

CTC_API const char* ctcGetStatusString(ctcStatus_t status);

/* Losses, and gradients unless `gradients` is NULL, of a minibatch. Element (t, n, k) of `activations`, which are
 * unnormalised, and of `gradients` is at (t * minibatch + n) * alphabet_size + k, for t < max(input_lengths).
 * `flat_labels` holds the labels of all examples one after the other. An example whose frames cannot carry its labels
 * costs infinity and has gradient 0; so have the frames behind an example's length.
 */
CTC_API ctcStatus_t compute_ctc_loss(const float* activations, float* gradients, const int* flat_labels,
                                     const int* label_lengths, const int* input_lengths, int alphabet_size,
                                     int minibatch, float* costs, void* workspace, struct ctcOptions options);

CTC_API ctcStatus_t compute_ctc_loss_double(const double* activations, double* gradients, const int* flat_labels,
                                            const int* label_lengths, const int* input_lengths, int alphabet_size,
                                            int minibatch, double* costs, void* workspace, struct ctcOptions options);

/* Bytes of workspace that the call with the same arguments needs. */
CTC_API ctcStatus_t get_workspace_size(const int* label_lengths, const int* input_lengths, int alphabet_size,
                                       int minibatch, struct ctcOptions options, size_t* size_bytes);

CTC_API ctcStatus_t get_workspace_size_double(const int* label_lengths, const int* input_lengths, int alphabet_size,
                                              int minibatch, struct ctcOptions options, size_t* size_bytes);

/* ---- The wide interface ---- */

typedef enum { CTC_FLOAT32 = 0, CTC_FLOAT64 = 1, CTC_FLOAT16 = 2, CTC_BFLOAT16 = 3 } ctcType;

enum {
    CTC_INDEX64 = 1,        /* targets and both lengths are int64_t; otherwise int32_t */
    CTC_ZERO_INFINITY = 2,  /* impossible alignments cost 0 instead of infinity */
    CTC_EXTENDED_RANGE = 4, /* never take the fast path: the result is the same within rounding; for tests */
    CTC_STARS = 8,          /* targets may hold `star`, for any number of frames of anything */
    CTC_UNDERFLOW = 16      /* a logit 7.8e14 below the best of blank and labels of its frame is impossible, like -inf;
                               warp-ctc's functions set it. Without it the CPU counts all finite floats, and doubles
                               down to -1e270; CUDA always has it */
};

/* CTC_MEAN divides each loss by its number of labels, or 1 if it has none, and then their sum by the batch. */
typedef enum { CTC_NONE = 0, CTC_SUM = 1, CTC_MEAN = 2 } ctcReduction;

/* CPU: AUTOMATIC takes the best that the processor has. */
typedef enum { CTC_AUTOMATIC = 0, CTC_GENERIC = 1, CTC_AVX2 = 2, CTC_AVX512 = 3 } ctcInstructionSet;

/* What is computed. All strides count elements; the classes of one frame are adjacent. */
typedef struct {
    int64_t frames;                /* of the padded batch: no input length exceeds it */
    int64_t batch;
    int64_t classes;
    int64_t blank;
    int64_t logits_frame_stride;
    int64_t logits_batch_stride;
    int64_t gradient_frame_stride;
    int64_t gradient_batch_stride;
    int64_t targets_stride;        /* labels from one utterance to the next; 0: concatenated without gaps */
    int64_t targets_count;         /* labels that `targets` holds in all; concatenated, what the lengths add up to */
    int64_t longest_target;        /* no target length exceeds it */
    int32_t type;                  /* ctcType of logits and gradient */
    int32_t flags;
    int32_t threads;               /* CPU: at least 1 */
    int32_t instruction_set;       /* CPU: ctcInstructionSet */
    int32_t reduction;             /* ctcReduction */
    int32_t star;                  /* with CTC_STARS: no class, but where it stands in targets */
    double label_smoothing;        /* e: the loss is (1 - e) CTC + e sum_t KL(uniform || p_t) */
    double entropy_weight;         /* w: the loss is lowered by w sum_t H(p_t) */
} ctcProblem;

/* Bytes of workspace for `ctc_loss`: depends on frames, batch, classes, longest_target, type and threads alone. */
CTC_API ctcStatus_t ctc_loss_workspace(const ctcProblem* problem, size_t* bytes);

/* Losses of a batch, and the gradient of their reduction (of their sum, for CTC_NONE) with respect to the logits unless
 * `gradient` is NULL; `gradient` may be `logits` itself. `losses` are double for CTC_FLOAT64, else float; so are
 * `reduced`, one number that is written unless it is NULL, 0 for an empty batch, and `scale`, which multiplies each utterance's gradient and
 * is 1 if NULL. `workspace` is aligned to 64 bytes.
 *
 * CTC_STATUS_INVALID_VALUE: an argument does not fit; `invalid`, unless NULL, is then the utterance whose lengths or
 * labels are at fault, or -1 where the fault is not in an utterance. Nothing is written in that case.
 */
CTC_API ctcStatus_t ctc_loss(const ctcProblem* problem, const void* logits, void* gradient, const void* targets,
                             const void* input_lengths, const void* target_lengths, const void* scale, void* losses,
                             void* reduced, void* workspace, int64_t* invalid);

/* ---- The same on CUDA. With CTC_GPU the compatible functions above wait for the stream before they return, since their
 * labels, lengths and costs are in host memory; those below never wait. libcuda is loaded at the first launch; no other
 * part of CUDA is needed. CTC_STATUS_EXECUTION_FAILED: there is no device, or no kernel for it. ---- */

/* Where kernels are: `folder` holds sm_90/NAME.cubin of every architecture, as `python -m ctc.build --cuda all` leaves it,
 * and prints it. `make`, unless NULL, is called for a file that is missing, and answers 0 when it is there. `libcuda`
 * names the driver, and is NULL for the usual one. To be called before anything is launched. */
CTC_API void ctc_cuda_use(const char* folder, int (*make)(const char* kernel, int32_t architecture, const char* file),
                          const char* libcuda);

/* The name of a kernel; NULL where there are not so many. */
CTC_API const char* ctc_cuda_kernel(int32_t index);

/* Bytes of workspace for `ctc_loss_cuda`: depends on frames, batch, classes, longest_target and type alone. */
CTC_API ctcStatus_t ctc_loss_cuda_workspace(const ctcProblem* problem, size_t* bytes);

/* `ctc_loss` with everything but `problem` in the device's memory, `workspace` aligned to 256 bytes. All work goes to
 * `stream`; nothing is allocated and nothing waits, so that it may be captured in a graph. `threads` and
 * `instruction_set` mean nothing. At most 2^31 - 1 frames in all.
 *
 * Lengths and labels are looked at on the device alone: an utterance whose do not fit has loss and gradient NaN, and
 * `*invalid` becomes the number of the first, or -1, unless `invalid` is NULL. Where targets are concatenated, so have
 * all behind one whose target length does not fit, and all of the batch where the lengths leave labels over.
 */
CTC_API ctcStatus_t ctc_loss_cuda(const ctcProblem* problem, const void* logits, void* gradient, const void* targets,
                                  const void* input_lengths, const void* target_lengths, const void* scale,
                                  void* losses, void* reduced, void* workspace, int64_t* invalid,
                                  CUstream stream);

/* Multiplies the gradient of utterance n with by[n * by_stride], float or for CTC_FLOAT64 double, in place; elements
 * that are 0 stay 0. Returns at once, on the device, where `by_stride` is 0 and `*by` is 1. */
CTC_API ctcStatus_t ctc_scale_gradient_cuda(const ctcProblem* problem, void* gradient, const void* by,
                                            int64_t by_stride, CUstream stream);

#ifdef __cplusplus
}
#endif

#endif
