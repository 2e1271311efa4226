/* What follows convolutions in training, as one pass: the sum of outputs that are each normalised over the batch, zeros
 * beyond the ends of utterances, ReLU and dropout; and the way back.
 *
 * As in convolution.h the library allocates nothing. Tensors are dense, [utterances][channels][frames].
 */
#ifndef NORMALIZATION_H
#define NORMALIZATION_H

#include "convolution.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One of the outputs that are summed, z, with the parameters and statistics of its channels. */
typedef struct {
    const float *x, *weight, *bias;
    float *mean, *scale;                 /* written by the forward pass, read by the other: of z, and 1 / deviation */
    float *running_mean, *running_variance; /* which follow by `momentum`; or NULL */
    float *grad_x, *grad_weight, *grad_bias; /* for the backward pass */
} normalized_branch;

typedef struct {
    int64_t utterances, channels, frames, branches;
    const normalized_branch* branch;
    float momentum, epsilon;
    const float* mask;     /* [utterances][frames], ones and zeros */
    const uint16_t* noise; /* of each value, which is kept if it is at least `dropped`; NULL: all are */
    uint32_t dropped;
    float growth;          /* factor of the values that are kept */
    float* y;              /* where it is 0, nothing goes back */
    const float* grad_y;
    int32_t threads, instructions; /* threads of OpenMP */
} normalization_problem;

/* y = growth * kept * max(mask * sum over branches of (weight * (x - mean) * scale + bias), 0) */
CONVOLUTION_API int32_t normalization_forward(const normalization_problem* problem);

CONVOLUTION_API int32_t normalization_backward(const normalization_problem* problem);

#ifdef __cplusplus
}
#endif
#endif
