// What the decoders on CUDA do with a row of scores: its best label and its normaliser.
#pragma once

#include "ctc.h"
#include "ctc_decode.h"
#include "cuda_portable.cuh"

namespace ctc_cuda {

constexpr int ROWS_PER_BLOCK = 8;  // a warp a row

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

static __host__ __device__ inline unsigned blocks_of_rows(int64_t rows) {
    return unsigned((rows + ROWS_PER_BLOCK - 1) / ROWS_PER_BLOCK);
}

static inline bool are_valid(const ctc_scores* scores, int32_t type, const int64_t* frames, int32_t blank) {
    if (!scores || scores->batch < 0 || scores->frames < 0 || scores->vocabulary < 1) return false;
    if (scores->vocabulary > INT32_MAX || double(scores->batch) * double(scores->frames) > INT32_MAX) return false;
    if ((!frames && scores->batch > 0) || (!scores->data && scores->batch * scores->frames > 0)) return false;
    return type >= CTC_FLOAT32 && type <= CTC_BFLOAT16 && blank >= 0 && blank < scores->vocabulary;
}

static __device__ inline int64_t bounded(int64_t length, int64_t most) {
    return length < 0 ? 0 : smaller_of(length, most);
}

}  // namespace ctc_cuda
