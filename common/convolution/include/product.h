/* Products of matrices as training needs them, where either matrix changes at every step: C = A B, on a CPU.
 *
 * As in convolution.h the library allocates nothing, and strides count values. A row of A, and a column of B, are
 * `segments` stretches of `depth` values each, so that windows of a signal of several channels are rows of a matrix
 * without a copy.
 */
#ifndef PRODUCT_H
#define PRODUCT_H

#include "convolution.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int64_t outer, batch, rows, columns, segments, depth; /* outer * batch products */
    const float* a;
    int64_t a_outer, a_batch, a_row, a_segment, a_depth;
    const float* b;
    int64_t b_outer, b_batch, b_column, b_segment, b_depth; /* b_column or b_depth is 1 */
    float* c;                                      /* columns are adjacent */
    int64_t c_outer, c_batch, c_row;
    const float* bias; /* [columns] or NULL */
    float* gelu;       /* where GELU of the sums is written besides, with the strides of c; or NULL */
    int32_t adds;      /* to what is in c; then products may overlap there */
    int32_t threads;   /* of OpenMP */
    int32_t instructions;
    void* workspace;
    size_t workspace_bytes;
} product_problem;

/* Bytes of workspace that `product_run` needs for the problem. */
CONVOLUTION_API size_t product_workspace(const product_problem* problem);

CONVOLUTION_API int32_t product_run(const product_problem* problem);

/* grad_x = grad_y times the derivative of GELU at x; grad_x may be grad_y itself. */
CONVOLUTION_API int32_t product_gelu_backward(int64_t values, const float* x, const float* grad_y, float* grad_x,
                                              int32_t threads, int32_t instructions);

#ifdef __cplusplus
}
#endif
#endif
