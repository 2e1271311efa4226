/* Convolutions over time with fewer multiplications: y = A [(G w) * (B x)], on a CPU.
 *
 * The library allocates nothing, prints nothing, throws nothing and keeps no state: the caller owns every buffer, and
 * any number of threads may call at once. All pointers but those of lengths and packed weights are to float. Channels
 * are adjacent in memory; strides count values.
 */
#ifndef CONVOLUTION_H
#define CONVOLUTION_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CONVOLUTION_API __attribute__((visibility("default")))
#else
#define CONVOLUTION_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    CONVOLUTION_SUCCESS = 0,
    CONVOLUTION_INVALID_VALUE = 1,
    CONVOLUTION_NO_INSTRUCTIONS = 2, /* this processor lacks the instruction set that is asked for */
    CONVOLUTION_WORKSPACE_TOO_SMALL = 3
} convolution_status;

/* Which kernels: 0 takes the widest vectors of this processor. AVX512_BF16 is for weights in bfloat16 alone: it rounds
 * the transformed inputs to bfloat16 too, and multiplies both at once, which some processors do at twice the speed of
 * floats and others at half. All others widen the weights, so that only they are rounded. AVX512_VNNI is AVX512 but
 * for products of bytes, of which it makes four at once; the sums of these are the same by all. */
typedef enum {
    CONVOLUTION_AUTOMATIC = 0,
    CONVOLUTION_GENERIC = 1,
    CONVOLUTION_AVX2 = 2,
    CONVOLUTION_AVX512 = 3,
    CONVOLUTION_AVX512_VNNI = 4,
    CONVOLUTION_AVX512_BF16 = 5
} convolution_instructions;

typedef enum {
    CONVOLUTION_DIRECT = 0, /* the sum as it is defined: any stride */
    CONVOLUTION_PLAIN = 1,  /* input [points, block] and output [fresh, points] as they are */
    CONVOLUTION_HALVES = 2, /* overlap-save: sums and differences of mirrored frames first, see `input` */
    CONVOLUTION_PAIRS = 3   /* the same with two thirds of the weights: a real and an imaginary part each */
} convolution_form;

/* What packed weights are; sums are floats always. Fixed point needs three quarters of the bytes of floats, where reading them
 * takes longer than multiplying: whole numbers of 24 bits, each filter at each point with a unit of its own, a 2^23rd of its greatest weight, which is the rounding of a float of that size. It is not for DIRECT. INT8 is for
 * PAIRS, and for DIRECT of one tap and no stride: bytes in units of each filter at each frequency, a 127th of its
 * greatest part. Then the input is rounded to bytes too, after its transform, in steps that each block has for each
 * frequency, a 127th of the greatest part; where values are real alone, and of the frames of a direct sum, a 255th from
 * the least, or zero, to the greatest. Sums of products are exact. */
typedef enum {
    CONVOLUTION_FLOAT32 = 0,
    CONVOLUTION_BFLOAT16 = 1,
    CONVOLUTION_FIXED24 = 2,
    CONVOLUTION_INT8 = 3
} convolution_weights;

typedef enum {
    CONVOLUTION_IDENTITY = 0,
    CONVOLUTION_LEAKY_RELU = 1, /* of slope `output_slope`; ReLU is that of slope 0 */
    CONVOLUTION_CLIPPED_RELU = 2, /* between 0 and `output_slope` */
    CONVOLUTION_GELU = 3,         /* x times the normal distribution up to x, by the error function */
    CONVOLUTION_SILU = 4          /* x times the logistic function of x */
} convolution_activation;

/* One layer applied to one batch. Output frame s of an utterance is the sum over taps k of weight[k] times input frame
 * s * stride + k * dilation - before; input frames outside of [0, frames) are zero. A block of frames that differ much in
 * loudness is done in parts, each of frames that are about as loud, and a part reaches those outputs alone that see a
 * frame of it: what a loud frame rounds away is lost to no other. */
typedef struct {
    int64_t batch, frames, outputs, channels, filters, taps, stride, dilation, before;
    const float* x;
    int64_t x_batch_stride, x_frame_stride;
    const int64_t* output_lengths; /* [batch] output frames that count; zeros are written beyond. NULL: all */
    float* y;
    int64_t y_batch_stride, y_frame_stride;
    const float* bias;     /* [filters] or NULL */
    const float* residual; /* added before the activation, or NULL; it may be y itself */
    int64_t residual_batch_stride, residual_frame_stride;
    int32_t activation;
    float input_slope; /* leaky ReLU of the input; 1 leaves it as it is */
    float output_slope;
    const float* scale; /* [channels] what the input is multiplied by, as the weights were divided by it; or NULL */

    int32_t form;
    int64_t block, points;      /* input frames of a block; products per output block: `block` - taps + 1 outputs */
    const float* input;         /* plain: [points, block]. Otherwise: cosines [E, E], then sines [O, E] */
    const float* output;        /* plain: [fresh, points]. Otherwise: [fresh, block] */
    const void* weight;         /* made by convolution_pack for the same form */
    int32_t weights;            /* what `weight` is, as it was packed */
    int32_t threads;            /* of OpenMP */
    int32_t instructions;
    void* workspace;
    size_t workspace_bytes;
} convolution_problem;

/* The last instruction set of the list that this processor has. */
CONVOLUTION_API int32_t convolution_best_instructions(void);

/* Bytes of the packed weights at `points` places: taps, if direct; the block's frames, of pairs. */
CONVOLUTION_API size_t convolution_packed_bytes(int64_t points, int64_t channels, int64_t filters, int32_t weights);

/* Whether such weights can be packed and run: a block of 0 is that of DIRECT; `instructions` as above. */
CONVOLUTION_API int32_t convolution_fits(int32_t form, int64_t block, int64_t taps, int64_t stride, int32_t weights,
                                         int32_t instructions);

/* weight_OKI [filters, taps, channels], divided by `scale` [channels] if that is not NULL, to the order the kernels read,
 * at the places of `transform` [points, taps] in double precision: of pairs the real parts of all frequencies, then the
 * imaginary ones. Direct: transform is NULL. */
CONVOLUTION_API int32_t convolution_pack(const float* weight_OKI, const float* scale, const double* transform,
                                         int32_t form, int64_t block, int64_t points, int64_t taps, int64_t channels,
                                         int64_t filters, int32_t weights, int32_t threads, void* packed);

/* Bytes of workspace that `convolution_run` needs for the problem. */
CONVOLUTION_API size_t convolution_workspace(const convolution_problem* problem);

CONVOLUTION_API int32_t convolution_run(const convolution_problem* problem);

/* Multiplies and adds floats in registers, by the widest vectors of this processor, as fast as it can; returns how many
 * of each a round makes. */
CONVOLUTION_API int64_t convolution_multiply_adds(int64_t rounds);

#ifdef __cplusplus
}
#endif
#endif
