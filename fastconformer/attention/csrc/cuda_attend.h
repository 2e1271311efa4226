// The kernel of attention steps as who launches it sees it.
#pragma once

#include "attention_cuda.h"
#include "cuda_types.h"

namespace attention_cuda {

using namespace ctc_cuda;

constexpr int WARPS = 4;  // of a block, for a token and a head: they share its keys
constexpr int AT_ONCE = 4;  // keys of a warp

// ELEMENTS of a head's width for each lane: as many as there are at most.
template <typename In, int ELEMENTS> __global__ void attend_kernel(const __grid_constant__ attention_problem problem);

}  // namespace attention_cuda
