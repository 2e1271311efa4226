// Products of a few vectors with a packed matrix, by a block: what the decoder's kernels compute with.
//
// A warp takes some columns of a panel, its lanes a row of the matrix each, and the sums of the warps are added in a fixed
// order. So what a vector gives does not depend on those beside it. Weights are read once for all vectors of a block; they
// are float, or half of it, from which the float32 that they stand for is computed with.
#pragma once

#include "cuda_portable.cuh"
#include "cuda_transducer.h"
#include "network.h"

namespace transducer_cuda {

static_assert(PANEL == WARP, "lanes are rows of a panel");

// Adds to sums[i] the products of columns [begin, end) with those of vectors[i]. `panel` begins with column 0.
template <int COUNT, typename Weight>
__device__ void add_products(const float* const* vectors, const Weight* panel, int64_t begin, int64_t end, float* sums) {
CTC_UNROLL
    for (int64_t k = begin; k < end; k += 4) {
        const Weight* const column = panel + k * PANEL + lane_index();
        const float w[] = {to_real(column[0]), to_real(column[PANEL]), to_real(column[2 * PANEL]), to_real(column[3 * PANEL])};
CTC_UNROLL
        for (int i = 0; i < COUNT; i++) {
            const float4 x = *(const float4*)(vectors[i] + k);
            sums[i] = fmaf(w[3], x.w, fmaf(w[2], x.z, fmaf(w[1], x.y, fmaf(w[0], x.x, sums[i]))));
        }
    }
}

// The same for as many vectors as there are; VECTORS pointers can be read, and all sums are written.
template <typename Weight>
__device__ void add_products(int count, const float* const* vectors, const Weight* panel, int64_t begin, int64_t end,
                             float* sums) {
    if (count <= 1) return add_products<1>(vectors, panel, begin, end, sums);
    if (count <= 4) return add_products<4>(vectors, panel, begin, end, sums);
    add_products<VECTORS>(vectors, panel, begin, end, sums);
}

// Sums of every warp, [warp][vector][lane].
using Partial = float[VECTORS][WARP];

static __device__ inline void keep_sums(const float* sums, Partial* partial) {
    for (int i = 0; i < VECTORS; i++) partial[warp_index()][i][lane_index()] = sums[i];
    __syncthreads();
}

// What warps have kept of a vector and a row of the panel.
static __device__ inline float total(const Partial* partial, int warps, int vector, int row) {
    float sum = 0;
    for (int i = 0; i < warps; i++) sum += partial[i][vector][row];
    return sum;
}

// Numbers n < count with is_one(n), in order, without the first `passed` of them and up to `most`: how many they are.
// Called by all threads of a block, which then may read them.
template <typename IsOne>
__device__ int listed(int64_t count, int64_t passed, int most, int64_t* numbers, IsOne is_one) {
    __shared__ int found;
    if (warp_index() == 0) {
        int64_t before = 0;
        for (int64_t first = 0; first < count && before < passed + most; first += WARP) {
            const int64_t n = first + lane_index();
            const bool is = n < count && is_one(n);
            const unsigned bits = __ballot_sync(ALL_LANES, is);
            const int64_t place = before - passed + __popc(bits & ((1u << lane_index()) - 1));
            if (is && place >= 0 && place < most) numbers[place] = n;
            before += __popc(bits);
        }
        if (lane_index() == 0) found = int(smaller_of(larger_of(before - passed, int64_t(0)), int64_t(most)));
    }
    __syncthreads();
    return found;
}

}  // namespace transducer_cuda
