// What the entry points and the kernels of every instruction set have in common.
#pragma once

#include "attention_step.h"

// Where intermediate values are, in floats from the start of the workspace.
struct Layout {
    int64_t x, normed, wide, text, logits, scores, longest, products, bytes;
};

// Sums that are longer than a score's recording fill whole vectors of every instruction set.
constexpr int64_t LANES_AT_MOST = 16;

namespace generic {
int32_t step(const attention_network& network, const attention_step& step, const Layout& layout);
}
namespace avx2 {
int32_t step(const attention_network& network, const attention_step& step, const Layout& layout);
}
namespace avx512 {
int32_t step(const attention_network& network, const attention_step& step, const Layout& layout);
}
