// What the decoders on CUDA do with a row of scores: its best label and its normaliser.
#pragma once

#include "cuda_ctc.h"
#include "cuda_portable.cuh"

namespace ctc_cuda {

template <typename In>
static __device__ inline const In* scores_at(const ctc_scores& scores, int64_t item, int64_t frame) {
    return (const In*)scores.data + item * scores.batch_stride + frame * scores.frame_stride;
}

template <typename Real> struct BestLabel {
    Real value;
    int32_t index;  // the lowest of equals
    bool has_nan;
};

// Called by a warp; the same for all its lanes.
template <typename In>
static __device__ inline BestLabel<typename Computed<In>::type> best_label(const In* row, int64_t size) {
    using Real = typename Computed<In>::type;
    BestLabel<Real> best = {-Real(INFINITY), INT32_MAX, false};
    bool is_nan = false;
    for (int64_t k = lane_index(); k < size; k += WARP) {
        const Real x = to_real(row[k]);
        is_nan |= x != x;
        if (x > best.value || (x == best.value && best.index == INT32_MAX)) {
            best.value = x;
            best.index = int32_t(k);
        }
    }
    for (int by = WARP / 2; by > 0; by /= 2) {
        const Real value = __shfl_xor_sync(ALL_LANES, best.value, by);
        const int32_t index = __shfl_xor_sync(ALL_LANES, best.index, by);
        if (value > best.value || (value == best.value && index < best.index)) {
            best.value = value;
            best.index = index;
        }
    }
    best.has_nan = __ballot_sync(ALL_LANES, is_nan) != 0;
    return best;
}

// log(sum(exp(row))) - best, where `best` is the largest of the row.
template <typename In>
static __device__ inline double log_exp_sum(const In* row, int64_t size, typename Computed<In>::type best) {
    double sum = 0;
    for (int64_t k = lane_index(); k < size; k += WARP) sum += exp(to_real(row[k]) - best);
    return log(warp_sum(sum));
}

static __device__ inline int64_t bounded(int64_t length, int64_t most) {
    return length < 0 ? 0 : smaller_of(length, most);
}

}  // namespace ctc_cuda
