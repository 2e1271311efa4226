// Attention of steps on CUDA: what the C entry point launches.
#include "cuda_attend.h"

#include "cuda_driver.h"

using namespace attention_cuda;

namespace {

template <typename In> bool attend(const attention_problem& p, Stream stream) {
    const Grid grid = {unsigned(p.tokens * p.heads), unsigned(WARPS * WARP), 0};
    if (p.width <= 2 * WARP) return launch<attend_kernel<In, 2>>(grid, stream, p);
    if (p.width <= 4 * WARP) return launch<attend_kernel<In, 4>>(grid, stream, p);
    return launch<attend_kernel<In, 8>>(grid, stream, p);
}

}  // namespace

attention_status attention_attend_cuda(const attention_problem* p, Stream stream) {
    if (!p || p->tokens < 0 || p->heads < 1 || p->width < 1 || p->width > ATTENTION_MOST_WIDTH ||
        p->tokens > INT32_MAX / p->heads || (p->store ? !p->slots : !p->places))
        return ATTENTION_INVALID_VALUE;
    if (p->tokens == 0) return ATTENTION_SUCCESS;
    const bool is_launched = p->type == 2   ? attend<Half>(*p, stream)
                             : p->type == 3 ? attend<Bfloat>(*p, stream)
                                            : attend<float>(*p, stream);
    return is_launched ? ATTENTION_SUCCESS : ATTENTION_NO_PRODUCT;
}

CTC_CUDA_LIBRARY(attention, ATTENTION_API)
