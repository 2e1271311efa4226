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

/* Products at the points of blocks of a convolution: at each point another matrix W, which is made of taps when it is
 * needed, W[point][depth][column] = the sum over k of matrix[point][k] times weight[depth][column][k]. */
typedef struct {
    int64_t points, rows, depth, columns, taps; /* at most 256 taps */
    const float* a; /* [points][rows][depth], planes a_plane values apart */
    int64_t a_plane;
    float* c; /* [points][rows][columns] */
    int64_t c_plane;
    const float* matrix; /* [points][taps] */
    float* weight;       /* taps are adjacent */
    int64_t weight_depth, weight_column;
    int32_t instructions;
    void* workspace;
    size_t workspace_bytes;
} points_problem;

/* Bytes of workspace that the next two need for the problem. */
CONVOLUTION_API size_t points_workspace(const points_problem* problem);

/* c = a W, at every point, by one thread. */
CONVOLUTION_API int32_t points_multiply(const points_problem* problem);

/* weight = the gradient of the taps where a and the gradient of c, or c and that of a, are those of points_multiply. */
CONVOLUTION_API int32_t points_gradient(const points_problem* problem);

#ifdef __cplusplus
}
#endif
#endif
