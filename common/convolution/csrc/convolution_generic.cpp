// For any processor: vectors of 4 floats.
#define WIDTH 4
#define ROWS 6
#include "run.inl"
#include "bytes.inl"
#include "pack.inl"
#include "product.inl"
#include "points.inl"
#include "normalization.inl"

void convolution::run_generic(const convolution_problem& problem) {
    if (problem.weights == CONVOLUTION_INT8)
        RunBytes{problem}();
    else
        run_floats(problem);
}

void convolution::pack_generic(const packing& problem) { pack_all(problem); }

void convolution::product_generic(const product_problem& problem) { Product{problem}(); }

void convolution::points_multiply_generic(const points_problem& problem) { AtPoints{problem}.multiply(); }

void convolution::points_gradient_generic(const points_problem& problem) { AtPoints{problem}.gradient(); }

void convolution::gelu_backward_generic(int64_t values, const float* x, const float* grad_y, float* grad_x, int32_t threads) {
    all_gelu_backward(values, x, grad_y, grad_x, threads);
}

void convolution::normalize_generic(const normalization_problem& problem) { Normalized{problem}.forward(); }

void convolution::normalize_back_generic(const normalization_problem& problem) { Normalized{problem}.backward(); }
