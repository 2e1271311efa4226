// For AVX-512: vectors of 16 floats, 24 of 32 registers hold sums.
#define WIDTH 16
#define ROWS 12
#include "run.inl"
#include "bytes.inl"
#include "pack.inl"
#include "product.inl"
#include "points.inl"
#include "normalization.inl"

void convolution::run_avx512(const convolution_problem& problem) {
    if (problem.weights == CONVOLUTION_INT8)
        RunBytes{problem}();
    else
        run_floats(problem);
}

void convolution::pack_avx512(const packing& problem) { pack_all(problem); }

void convolution::product_avx512(const product_problem& problem) { Product{problem}(); }

void convolution::points_multiply_avx512(const points_problem& problem) { AtPoints{problem}.multiply(); }

void convolution::points_gradient_avx512(const points_problem& problem) { AtPoints{problem}.gradient(); }

void convolution::gelu_backward_avx512(int64_t values, const float* x, const float* grad_y, float* grad_x, int32_t threads) {
    all_gelu_backward(values, x, grad_y, grad_x, threads);
}

void convolution::normalize_avx512(const normalization_problem& problem) { Normalized{problem}.forward(); }

void convolution::normalize_back_avx512(const normalization_problem& problem) { Normalized{problem}.backward(); }
