/* A convolution of a training step by blocks of overlap-save, forward and backward, by one thread:
 *
 *     y = A [(G w) * (B x)]; then with Y' = A' dy: dx = B' [(G w) * Y'] and dw = G' [Y' * (B x)], sums over blocks.
 *
 * As in convolution.h the library allocates nothing. All tensors are dense.
 */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "convolution.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BLOCKS_GAP 32 /* values between the planes of `kept`, which then do not all start in the same set of a cache */

typedef struct {
    int64_t utterances, channels, frames, filters, taps, padding; /* at most 256 taps; padding at each end */
    int64_t block, points; /* frames of a block; points that it is multiplied at */
    int64_t cached_bytes;  /* of rows at all points that are read again for every few columns of the weights */
    int64_t chunk_bytes;   /* of weights at the points that are made at once, where rows are more than that */
    const float *input, *transform, *output; /* B [points][block], G [points][taps], A' [points][block - taps + 1] */
    const float *x, *weight;       /* [utterances][channels][frames], [filters][channels][taps] */
    float* y;                      /* [utterances][filters][frames + 2 padding - taps + 1] */
    float* kept;                   /* B x, [points][blocks of all utterances][channels] and gaps: for the way back; or NULL */
    const float* grad_y;           /* as y; the last three in blocks_backward alone */
    float *grad_x, *grad_weight;   /* as x and weight; or NULL */
    int32_t instructions;
    void* workspace;
    size_t workspace_bytes;
} blocks_problem;

/* Bytes of workspace that the next two need for the problem. */
CONVOLUTION_API size_t blocks_workspace(const blocks_problem* problem);

/* Writes y, and what the way back needs to `kept`. */
CONVOLUTION_API int32_t blocks_forward(const blocks_problem* problem);

/* Writes grad_x and grad_weight; B x is made anew where it was not kept. */
CONVOLUTION_API int32_t blocks_backward(const blocks_problem* problem);

#ifdef __cplusplus
}
#endif
#endif
