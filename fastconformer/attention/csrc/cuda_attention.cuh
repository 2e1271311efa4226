// Attention to keys of one's own: a block for a token and a head, whose warps take every fourth group of keys each, with a
// softmax that is corrected as larger scores come (Milakov and Gimelshein 2018, arXiv:1805.02867).
#pragma once

#include "cuda_attend.h"
#include "cuda_portable.cuh"

namespace attention_cuda {

template <typename In, int ELEMENTS>
__global__ void __launch_bounds__(WARPS* WARP) attend_kernel(const __grid_constant__ attention_problem problem) {
    const attention_problem& p = problem;
    __shared__ float largest[WARPS], sums[WARPS], found[WARPS][ELEMENTS * WARP];
    const int64_t token = blockIdx.x / p.heads, head = blockIdx.x % p.heads, count = p.counts[token * p.count_stride];
    const int64_t* const slots = p.store ? p.slots + token * p.slot_stride : nullptr;
    const In* keys;
    int64_t to_value, stride;  // in elements
    if (p.store) {
        keys = (const In*)p.store + head * p.width;
        to_value = p.heads * p.width;
        stride = 2 * to_value;
    } else {
        to_value = p.heads * count * p.width;
        keys = (const In*)p.places[token * p.place_stride] + 2 * p.layer * to_value + head * count * p.width;
        stride = p.width;
    }
    const In* const query = (const In*)p.queries + token * p.query_stride + head * p.width;
    const float scale = 1 / sqrtf(float(p.width));
    float q[ELEMENTS], sum = 0, most = -INFINITY, total[ELEMENTS];
CTC_UNROLL
    for (int e = 0; e < ELEMENTS; e++) {
        const int64_t at = e * WARP + lane_index();
        q[e] = at < p.width ? scale * to_real(query[at]) : 0;
        total[e] = 0;
    }
    for (int64_t first = warp_index() * AT_ONCE; first < count; first += WARPS * AT_ONCE) {
        const In* of[AT_ONCE];
        float scores[AT_ONCE];
        float before = most;
CTC_UNROLL
        for (int i = 0; i < AT_ONCE; i++) {
            const int64_t key = first + i < count ? first + i : first;
            of[i] = keys + (slots ? slots[key] : key) * stride;
            float product = 0;
CTC_UNROLL
            for (int e = 0; e < ELEMENTS; e++) {
                const int64_t at = e * WARP + lane_index();
                if (at < p.width) product = fmaf(q[e], to_real(of[i][at]), product);
            }
            scores[i] = product;
        }
CTC_UNROLL
        for (int i = 0; i < AT_ONCE; i++) {
            scores[i] = first + i < count ? warp_sum(scores[i]) : -INFINITY;
            most = larger_of(most, scores[i]);
        }
        const float kept = expf(before - most);
        sum *= kept;
CTC_UNROLL
        for (int e = 0; e < ELEMENTS; e++) total[e] *= kept;
CTC_UNROLL
        for (int i = 0; i < AT_ONCE; i++) {
            const float share = expf(scores[i] - most);
            sum += share;
CTC_UNROLL
            for (int e = 0; e < ELEMENTS; e++) {
                const int64_t at = e * WARP + lane_index();
                if (at < p.width) total[e] = fmaf(share, to_real(of[i][to_value + at]), total[e]);
            }
        }
    }
    for (int e = 0; e < ELEMENTS; e++) found[warp_index()][e * WARP + lane_index()] = total[e];
    if (lane_index() == 0) {
        largest[warp_index()] = most;
        sums[warp_index()] = sum;
    }
    __syncthreads();
    most = -INFINITY;
    sum = 0;
    for (int i = 0; i < WARPS; i++) most = larger_of(most, largest[i]);
    for (int i = 0; i < WARPS; i++) sum += sums[i] * expf(largest[i] - most);
    In* const to = (In*)p.found + blockIdx.x * p.width;
    for (int64_t at = threadIdx.x; at < p.width; at += WARPS * WARP) {
        float value = 0;
        for (int i = 0; i < WARPS; i++) value += found[i][at] * expf(largest[i] - most);
        from_real(to + at, value / sum);
    }
}

}  // namespace attention_cuda
