// The C interface of normalisation: checks, and which kernels run.
#include "normalization.h"

#include "kernels.h"

namespace convolution {
namespace {

bool is_valid(const normalization_problem& p) {
    const bool sizes = p.utterances > 0 && p.channels > 0 && p.frames > 0 && p.branches > 0 && p.threads > 0;
    return sizes && p.branch && p.mask && p.y;
}

int32_t run(const normalization_problem* problem, void (*const (&kernels)[3])(const normalization_problem&)) {
    if (!problem || !is_valid(*problem)) return CONVOLUTION_INVALID_VALUE;
    return dispatched(*problem, kernels);
}

}  // namespace
}  // namespace convolution

using namespace convolution;

int32_t normalization_forward(const normalization_problem* problem) {
    return run(problem, {normalize_generic, FOR_AVX2(normalize_avx2), FOR_AVX512(normalize_avx512)});
}

int32_t normalization_backward(const normalization_problem* problem) {
    if (problem && !problem->grad_y) return CONVOLUTION_INVALID_VALUE;
    return run(problem, {normalize_back_generic, FOR_AVX2(normalize_back_avx2), FOR_AVX512(normalize_back_avx512)});
}
