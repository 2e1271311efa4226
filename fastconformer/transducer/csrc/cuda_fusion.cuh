// Which label, once it is known that it is one, with a language model and phrases: decode_fusion.cpp, by a warp. A lane walks
// the tables for every 32nd label, and only where that can reach the best one so far.
#pragma once

#include "cuda_products.cuh"
#include "decode_scorer.h"

namespace transducer_cuda {

static_assert(sizeof(ctc_decode::Scorer) <= TRANSDUCER_SCORER_BYTES, "the caller has room for it");

static __device__ inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

// Of a sum of projections, in the joint.
static __device__ inline float activated(const Job& job, float x) {
    return job.activation == TRANSDUCER_RELU ? (x < 0 ? 0 : x)  // NaN stays
           : job.activation == TRANSDUCER_TANH ? tanhf(x) : sigmoid(x);
}

static __device__ inline const ctc_decode::Scorer* scorer_of(const Job& job, int64_t n) {
    return job.batch.scorers ? (const ctc_decode::Scorer*)job.batch.scorers[n] : nullptr;
}

static __device__ inline void keep(const ctc_decode::State& state, int32_t* numbers) {
    numbers[0] = state.history;
    numbers[1] = state.word;
    numbers[2] = state.phrase;
}

// Not inlined: what walks the tables would be there three times, and keep more numbers than there are registers.
static __device__ __noinline__ ctc_decode::Step extended(const ctc_decode::Scorer& scorer, const ctc_decode::State& state,
                                                         int64_t label, double least) {
    return scorer.extend(state, int32_t(label), least);
}

// Of a label, by the prediction network and a frame of zeros. Called by a warp.
template <typename Weight> __device__ float internal_logit(const Job& job, int64_t n, int64_t label) {
    const Weight* const row = (const Weight*)job.output_weights + label / PANEL * PANEL * job.joint + label % PANEL;
    float sum = 0;
    for (int64_t j = lane_index(); j < job.joint; j += WARP)
        sum = fmaf(to_real(row[j * PANEL]), activated(job, job.encoder_bias[j] + job.prediction(n)[j]), sum);
    return job.output_bias[label] + warp_sum(sum);
}

// The label whose score with what the scorer adds, less the internal one, is largest; `heard` is the one without. Goes on
// after it. Called by a warp.
template <typename Weight>
__device__ int64_t fused_label(const Job& job, int64_t n, const float* scores, int64_t heard) {
    const ctc_decode::Scorer* const scorer = scorer_of(job, n);
    if (!scorer) return heard;
    const int64_t labels = job.blank;
    int32_t* const kept = job.batch.scorer_states + 3 * n;
    const ctc_decode::State state = {kept[0], kept[1], kept[2]};
    const double weight = job.batch.internal_weight, limit = job.batch.internal_most;
    const double bound = scorer->label_bound(state.phrase);
    int64_t best = heard;
    double most = double(scores[heard]) + extended(*scorer, state, heard, -INFINITY).gain;
    // Labels compete first without the internal logits, of which few are then needed.
    for (int pass = 0; pass < (weight > 0 ? 2 : 1); pass++) {
        const double room = pass * weight * limit;
        const float internal = pass ? internal_logit<Weight>(job, n, heard) : 0;
        const auto gain = [&](int64_t label) {  // called by the warp
            const double less = double(internal) - double(internal_logit<Weight>(job, n, label));
            return weight * fmax(-limit, fmin(limit, less));
        };
        if (pass && best != heard) most += gain(best);
        double own_most = most;
        int64_t own_best = best;
        const auto can_win = [&](int label) {
            const double score = double(scores[label]);
            const double added = label == scorer->boundary() ? scorer->boundary_bound(state) : bound;
            return score + added + room >= own_most - 1e-9 * (1 + fabs(own_most) + fabs(score));
        };
        // A lane goes on to the next of its labels that can win, so that all walk the tables at once.
        for (int label = lane_index();; label += WARP) {
            while (label < labels && !can_win(label)) label += WARP;
            if (__ballot_sync(ALL_LANES, label < labels) == 0) break;
            double fused = -INFINITY;
            if (label < labels) {
                const double score = double(scores[label]);
                const double sum = score + extended(*scorer, state, label, own_most - room - score).gain;
                if (sum + room > own_most) fused = sum;
            }
            if (pass)
                for (unsigned open = __ballot_sync(ALL_LANES, fused > -INFINITY); open; open &= open - 1) {
                    const int lane = __ffs(int(open)) - 1;
                    const int other = __shfl_sync(ALL_LANES, label, lane);
                    const double less = other == heard ? 0 : gain(other);
                    if (lane == lane_index()) fused += less;
                }
            if (fused > own_most) {
                own_most = fused;
                own_best = label;
            }
        }
        const double largest = warp_max(own_most);
        if (largest > most) best = warp_min(own_most == largest ? own_best : labels);
        most = largest;
    }
    const ctc_decode::State after = extended(*scorer, state, best, -INFINITY).state;
    __syncwarp();  // all lanes have read the state
    if (lane_index() == 0) keep(after, kept);
    return best;
}

}  // namespace transducer_cuda
