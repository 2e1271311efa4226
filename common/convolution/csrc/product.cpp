// The C interface of products: checks, sizes, and which kernels run.
#include "product.h"

#include <algorithm>

#include "kernels.h"

namespace convolution {
namespace {

constexpr int64_t ROWS_AT_ONCE = 240;  // with DEEPEST values each they stay in the second cache

bool is_valid(const product_problem& p) {
    const bool sizes = p.outer >= 0 && p.batch >= 0 && p.rows >= 0 && p.columns >= 0 && p.segments > 0 &&
                       p.depth > 0 && p.threads > 0;
    return sizes && p.a && p.b && p.c && (p.b_column == 1 || p.b_depth == 1);
}

}  // namespace

ProductPlan plan_of(const product_problem& p) {
    ProductPlan plan{};
    // Parts of the depth are of equal size.
    plan.depth = (p.depth + (p.depth + DEEPEST - 1) / DEEPEST - 1) / ((p.depth + DEEPEST - 1) / DEEPEST);
    plan.segments = std::min(p.segments, std::max<int64_t>(1, DEEPEST / p.depth));
    plan.rows = std::min(std::max<int64_t>(p.rows, 1), ROWS_AT_ONCE);
    plan.keeps = p.rows > plan.rows || p.threads > 1;
    const int64_t deep = plan.segments * plan.depth, panels = rounded(p.columns, PANEL) / PANEL;
    plan.b_values = deep * PANEL * (plan.keeps ? panels : 1);
    plan.a_values = p.a_depth == 1 ? 0 : deep * rounded(plan.rows + MOST_ROWS, MOST_ROWS);
    return plan;
}

}  // namespace convolution

using namespace convolution;

size_t product_workspace(const product_problem* problem) {
    return problem && is_valid(*problem) ? plan_of(*problem).bytes() : 0;
}

int32_t product_run(const product_problem* problem) {
    if (!problem || !is_valid(*problem)) return CONVOLUTION_INVALID_VALUE;
    const int64_t count = problem->outer * problem->batch;
    if (count == 0 || problem->rows == 0 || problem->columns == 0) return CONVOLUTION_SUCCESS;
    if (problem->workspace_bytes < plan_of(*problem).bytes()) return CONVOLUTION_INVALID_VALUE;
    switch (floats_of(problem->instructions)) {
        case CONVOLUTION_GENERIC: product_generic(*problem); break;
#ifdef NATIVE_HAS_AVX2
        case CONVOLUTION_AVX2: product_avx2(*problem); break;
#endif
#ifdef NATIVE_HAS_AVX512
        case CONVOLUTION_AVX512: product_avx512(*problem); break;
#endif
        default: return CONVOLUTION_NO_INSTRUCTIONS;
    }
    return CONVOLUTION_SUCCESS;
}

int32_t product_gelu_backward(int64_t values, const float* x, const float* grad_y, float* grad_x, int32_t threads,
                              int32_t instructions) {
    if (values < 0 || !x || !grad_y || !grad_x || threads <= 0) return CONVOLUTION_INVALID_VALUE;
    switch (floats_of(instructions)) {
        case CONVOLUTION_GENERIC: gelu_backward_generic(values, x, grad_y, grad_x, threads); break;
#ifdef NATIVE_HAS_AVX2
        case CONVOLUTION_AVX2: gelu_backward_avx2(values, x, grad_y, grad_x, threads); break;
#endif
#ifdef NATIVE_HAS_AVX512
        case CONVOLUTION_AVX512: gelu_backward_avx512(values, x, grad_y, grad_x, threads); break;
#endif
        default: return CONVOLUTION_NO_INSTRUCTIONS;
    }
    return CONVOLUTION_SUCCESS;
}

namespace {

bool is_valid(const points_problem& p) {
    const bool sizes = p.points > 0 && p.rows >= 0 && p.depth > 0 && p.columns > 0 && p.taps > 0 && p.taps <= LONGEST_BLOCK;
    return sizes && p.a && p.c && p.matrix && p.weight;
}

int32_t run(const points_problem* problem, void (*const (&kernels)[3])(const points_problem&)) {
    if (!problem || !is_valid(*problem)) return CONVOLUTION_INVALID_VALUE;
    if (problem->workspace_bytes < points_bytes(*problem)) return CONVOLUTION_INVALID_VALUE;
    return dispatched(*problem, kernels);
}

}  // namespace

size_t points_workspace(const points_problem* problem) {
    return problem && is_valid(*problem) ? points_bytes(*problem) : 0;
}

int32_t points_multiply(const points_problem* problem) {
    return run(problem, {points_multiply_generic, FOR_AVX2(points_multiply_avx2), FOR_AVX512(points_multiply_avx512)});
}

int32_t points_gradient(const points_problem* problem) {
    return run(problem, {points_gradient_generic, FOR_AVX2(points_gradient_avx2), FOR_AVX512(points_gradient_avx512)});
}
