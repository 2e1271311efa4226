// Greedy decoding on CUDA: a warp finds the best label of a frame, a block merges the frames of an utterance.
#pragma once

#include "cuda_scores.cuh"

namespace ctc_cuda {

constexpr int32_t NOT_A_LABEL = -1;  // a frame that holds NaN, or nothing finite

template <typename In>
__global__ void __launch_bounds__(ROWS_PER_BLOCK* WARP, 4)
    best_kernel(const __grid_constant__ ctc_scores scores, const int64_t* frames, int32_t blank, FrameBest* found) {
    const int64_t index = int64_t(blockIdx.x) * ROWS_PER_BLOCK + warp_index();
    if (index >= scores.batch * scores.frames) return;
    const int64_t item = index / scores.frames, t = index % scores.frames;
    if (t >= frames[item]) return;
    const In* const row = scores_at<In>(scores, item, t);
    const auto best = best_label(row, scores.vocabulary);
    FrameBest result = {best.index, 0};
    if (best.has_nan || !isfinite(best.value))
        result.label = NOT_A_LABEL;
    else if (best.index != blank)
        result.log_prob = float(-log_exp_sum(row, scores.vocabulary, best.value));
    if (lane_index() == 0) found[index] = result;
}

// Row b of `packed`: labels, first frames, frames past the last, bits of confidences, each [frames]; then how many labels,
// how many frames with NaN, how many frames.
template <typename>
__global__ void __launch_bounds__(COLLAPSE_THREADS)
    collapse_kernel(const __grid_constant__ ctc_scores scores, const int64_t* frames, int32_t blank,
                    const FrameBest* found, int32_t* packed) {
    __shared__ int32_t starts_of_warp[COLLAPSE_THREADS / WARP];
    const int64_t item = blockIdx.x, size = scores.frames;
    const int64_t length = bounded(frames[item], size);
    const FrameBest* const best = found + item * size;
    int32_t* const out = packed + item * (4 * size + 3);
    int32_t labels = 0, nans = 0;
    for (int64_t first = 0; first < length; first += COLLAPSE_THREADS) {
        const int64_t t = first + threadIdx.x;
        const int32_t label = t < length ? best[t].label : blank;
        const int32_t before = t > 0 && t < length ? best[t - 1].label : blank;
        nans += __syncthreads_count(label == NOT_A_LABEL);
        const bool starts = label != blank && label != NOT_A_LABEL && label != before;
        const unsigned starting = __ballot_sync(ALL_LANES, starts);
        if (lane_index() == 0) starts_of_warp[warp_index()] = __popc(starting);
        __syncthreads();
        int32_t position = labels + __popc(starting & ((1u << lane_index()) - 1));
        for (int w = 0; w < COLLAPSE_THREADS / WARP; w++) {
            if (w < warp_index()) position += starts_of_warp[w];
            labels += starts_of_warp[w];
        }
        __syncthreads();
        if (!starts) continue;
        int64_t end = t;
        double log_prob = 0;
        for (; end < length && best[end].label == label; end++) log_prob += best[end].log_prob;
        out[position] = label;
        out[size + position] = int32_t(t);
        out[2 * size + position] = int32_t(end);
        out[3 * size + position] = int32_t(__float_as_uint(float(exp(log_prob / double(end - t)))));
    }
    if (threadIdx.x != 0) return;
    out[4 * size] = labels;
    out[4 * size + 1] = nans;
    out[4 * size + 2] = int32_t(smaller_of(larger_of(frames[item], int64_t(INT32_MIN)), int64_t(INT32_MAX)));
}

}  // namespace ctc_cuda
