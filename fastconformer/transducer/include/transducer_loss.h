/* Transducer losses, RNN-T (Graves 2012) and TDT (Xu et al. 2023), with their gradients, on the CPU and on CUDA devices.
 *
 * The library allocates nothing, prints nothing, throws nothing and keeps no state: the caller owns every buffer, and
 * any number of threads may call at once. There is no limit on frames, labels, classes, durations or batch.
 *
 * An utterance of T frames and U labels is a lattice of T x (U + 1) cells. In cell (t, u), where u labels are out, the
 * model emits label u, or the blank, and moves on by a duration. RNN-T: 0 frames behind a label, 1 behind a blank. TDT:
 * a duration of its own distribution; behind a blank not 0. Every path ends with a blank that lands on frame T.
 */
#ifndef TRANSDUCER_LOSS_H
#define TRANSDUCER_LOSS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TRANSDUCER_API __attribute__((visibility("default")))
#else
#define TRANSDUCER_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { TRANSDUCER_SUCCESS = 0, TRANSDUCER_INVALID_VALUE = 2, TRANSDUCER_EXECUTION_FAILED = 3 } transducerStatus;

typedef enum {
    TRANSDUCER_FLOAT32 = 0,
    TRANSDUCER_FLOAT64 = 1,
    TRANSDUCER_FLOAT16 = 2,
    TRANSDUCER_BFLOAT16 = 3
} transducerType;

typedef enum { TRANSDUCER_RELU = 0, TRANSDUCER_TANH = 1, TRANSDUCER_SIGMOID = 2 } transducerActivation;

/* AUTOMATIC takes the best that the processor has. */
typedef enum {
    TRANSDUCER_AUTOMATIC = 0,
    TRANSDUCER_GENERIC = 1,
    TRANSDUCER_AVX2 = 2,
    TRANSDUCER_AVX512 = 3
} transducerInstructionSet;

/* A model's 1 - p that is less counts as much: rounding in float is more than such a gradient. */
#define TRANSDUCER_SURE 1e-4

/* What is computed. Strides count elements; the classes of a cell are adjacent, its durations behind them. */
typedef struct {
    int64_t batch;
    int64_t frames;                  /* of the padded batch: no utterance has more */
    int64_t positions;               /* of the padded batch: no utterance has more labels than positions - 1 */
    int64_t classes;                 /* labels and the blank; without durations */
    int64_t blank;
    int64_t logits_batch_stride;
    int64_t logits_frame_stride;
    int64_t logits_position_stride;
    int64_t gradient_batch_stride;
    int64_t gradient_frame_stride;
    int64_t gradient_position_stride;
    int64_t targets_stride;          /* labels from one utterance to the next */
    int64_t duration_count;          /* 0: RNN-T */
    const int32_t* durations;        /* TDT: ascending, none negative, one positive at least */
    int32_t type;                    /* transducerType of logits and gradient */
    int32_t threads;                 /* at least 1 */
    int32_t instruction_set;         /* transducerInstructionSet */
    int32_t loss_only;               /* not 0: no gradient will be asked for */
    double sigma;                    /* is taken off the log-probability of every label and blank */
    double fastemit;                 /* l: gradients of emitting a label, and the loss, times 1 + l (Yu et al. 2021) */
    double skip_below;               /* s: cells that less than s max(1 - p, TRANSDUCER_SURE) of the probability of all
                                        paths, p, goes through get gradient 0 unread; p without what sigma takes off */
} transducerProblem;

/* Bytes of `lattices`, which the loss writes and the gradient reads, and of the workspace of a gradient: they depend on
 * batch, frames, positions, classes, duration_count, the longest duration and threads alone. Both buffers are aligned to
 * 64 bytes. */
TRANSDUCER_API transducerStatus transducer_lattices_bytes(const transducerProblem* problem, size_t* bytes);
TRANSDUCER_API transducerStatus transducer_workspace_bytes(const transducerProblem* problem, size_t* bytes);

/* Losses of a batch. Labels and lengths are int64_t. An utterance without a path costs infinity; one with NaN or
 * +infinity in a cell of its own costs NaN. The loss of an utterance, and its gradient, are bitwise the same in every
 * batch, at every index, with any padding and any number of threads.
 *
 * TRANSDUCER_INVALID_VALUE: an argument does not fit; `invalid`, unless NULL, is then the utterance whose lengths or
 * labels are at fault, or -1 where the fault is not in an utterance. Nothing is written in that case.
 */
TRANSDUCER_API transducerStatus transducer_loss(const transducerProblem* problem, const void* logits,
                                                const int64_t* targets, const int64_t* frame_counts,
                                                const int64_t* label_counts, double* losses, void* lattices,
                                                int64_t* invalid);

/* The gradient of the sum of all losses, each times its `scale`, with respect to the logits; `gradient` may be `logits`
 * itself. All other arguments are those of the loss, and `lattices` what it left. The gradient is 0 behind an
 * utterance's lengths, whatever the logits there, and where its loss is infinite; NaN where it is NaN.
 */
TRANSDUCER_API transducerStatus transducer_gradient(const transducerProblem* problem, const void* logits,
                                                    void* gradient, const int64_t* targets,
                                                    const int64_t* frame_counts, const int64_t* label_counts,
                                                    const double* scale, const void* lattices, void* workspace);

/* ---- The same for one utterance whose logits are made in pieces, and again for the gradient: nobody stores them all.
 * Cell (t, u) has the number t * (label_count + 1) + u. Rows of logits and gradients are adjacent; the strides, batch,
 * frames and positions of `problem` mean nothing. Calls write to `lattice` what the next ones read. ---- */

/* Bytes of `lattice`, which is aligned to 64 bytes. */
TRANSDUCER_API transducerStatus transducer_lattice_bytes(const transducerProblem* problem, int64_t frame_count,
                                                         int64_t label_count, size_t* bytes);

/* Reads the logits of `count` cells from `first` on. Every cell has to be read before the walk. */
TRANSDUCER_API transducerStatus transducer_read_cells(const transducerProblem* problem, const void* logits,
                                                      int64_t first, int64_t count, const int64_t* labels,
                                                      int64_t frame_count, int64_t label_count, void* lattice);

/* The loss; and unless `kept_count` is NULL, in the lattice what the gradient needs. `kept` then takes the numbers of
 * cells that are not skipped, ascending, and `kept_count` how many there are: none where the loss is infinite, all where
 * it is NaN. */
TRANSDUCER_API transducerStatus transducer_walk(const transducerProblem* problem, int64_t frame_count,
                                                int64_t label_count, void* lattice, double* loss, int64_t* kept,
                                                int64_t* kept_count);

/* Row i of `rows`, the logits of cell `cells[i]`, becomes `scale` times its gradient. */
TRANSDUCER_API transducerStatus transducer_cell_gradients(const transducerProblem* problem, void* rows,
                                                          const int64_t* cells, int64_t count, const int64_t* labels,
                                                          int64_t frame_count, int64_t label_count, double scale,
                                                          const void* lattice, void* workspace);

/* ---- The same fused with the joint, in float: logits W a(encoded + predicted) + bias, of some cells at a time. With
 * `skip_below` not 0, and sigma not negative, frames are walked from the first on, and the joint is computed only of cells
 * that something worth counting reaches: what is left out is less than skip_below * 1e-6 of the probability of all paths.
 * If little can be left out, as of an untrained model, all cells are computed. ---- */
typedef struct {
    const float* encoded;    /* frames of the batch, projected to the width of the joint, whose numbers are adjacent */
    const float* predicted;  /* positions of the batch likewise */
    int64_t encoded_batch_stride;
    int64_t encoded_frame_stride;
    int64_t predicted_batch_stride;
    int64_t predicted_position_stride;
    const float* weights; /* [classes + duration_count, width] */
    const float* bias;    /* [classes + duration_count] */
    int64_t width;
    int32_t activation; /* transducerActivation */
} transducerJoint;

/* Lattices lie one behind the other, that of utterance n in transducer_lattice_bytes; `workspace` is aligned to 64 bytes,
 * of a size that depends on width, frames, positions, classes, duration_count and threads alone. */
TRANSDUCER_API transducerStatus transducer_joint_workspace_bytes(const transducerProblem* problem,
                                                                 const transducerJoint* joint, size_t* bytes);

/* As transducer_loss and transducer_walk. `kept` has room for frame_counts[n] * (label_counts[n] + 1) numbers of each
 * utterance, one utterance behind the other, and takes those of the cells that are not skipped; `kept_counts` how many. */
TRANSDUCER_API transducerStatus transducer_joint_losses(const transducerProblem* problem, const transducerJoint* joint,
                                                        const int64_t* targets, const int64_t* frame_counts,
                                                        const int64_t* label_counts, double* losses, void* lattices,
                                                        int64_t* kept, int64_t* kept_counts, void* workspace);

/* ---- On a CUDA device. All pointers but `problem` and its durations are to memory of the
 * device; `threads` and `instruction_set` mean nothing. Calls launch kernels on `stream` and return: nothing waits for
 * the device, so that all may be captured in a graph. Lengths and labels are looked at on the device alone: an utterance
 * whose own do not fit has loss and gradient NaN. At most TRANSDUCER_MOST_DURATIONS durations. ---- */

#define TRANSDUCER_MOST_DURATIONS 256

/* Where kernels are, as ctc_cuda_use of ctc.h says it; and the name of a kernel, NULL where there are not so many. */
TRANSDUCER_API void transducer_cuda_use(const char* folder,
                                        int (*make)(const char* kernel, int32_t architecture, const char* file),
                                        const char* libcuda);
TRANSDUCER_API const char* transducer_cuda_kernel(int32_t index);

/* Bytes of `lattices`, aligned to 64 bytes. */
TRANSDUCER_API transducerStatus transducer_lattices_bytes_cuda(const transducerProblem* problem, size_t* bytes);

/* As transducer_loss. */
TRANSDUCER_API transducerStatus transducer_loss_cuda(const transducerProblem* problem, const void* logits,
                                                     const int64_t* targets, const int64_t* frame_counts,
                                                     const int64_t* label_counts, double* losses, void* lattices,
                                                     struct CUstream_st* stream);

/* The same in pieces, for logits that nobody stores: the lengths are looked at; the logits of some frames are read, of
 * all utterances and positions, until every frame was read once; all lattices are walked. */
TRANSDUCER_API transducerStatus transducer_begin_cuda(const transducerProblem* problem, const int64_t* targets,
                                                      const int64_t* frame_counts, const int64_t* label_counts,
                                                      void* lattices, struct CUstream_st* stream);
TRANSDUCER_API transducerStatus transducer_read_frames_cuda(const transducerProblem* problem, const void* logits,
                                                            int64_t first, int64_t count, const int64_t* targets,
                                                            void* lattices, struct CUstream_st* stream);
TRANSDUCER_API transducerStatus transducer_walk_cuda(const transducerProblem* problem, double* losses, void* lattices,
                                                     struct CUstream_st* stream);

/* As transducer_gradient, for the frames from `first` on, which is where `logits` and `gradient` begin; 0 and
 * `problem->frames` for all. */
TRANSDUCER_API transducerStatus transducer_gradient_cuda(const transducerProblem* problem, const void* logits,
                                                         void* gradient, int64_t first, int64_t count,
                                                         const int64_t* targets, const double* scale,
                                                         const void* lattices, struct CUstream_st* stream);

#ifdef __cplusplus
}
#endif

#endif
