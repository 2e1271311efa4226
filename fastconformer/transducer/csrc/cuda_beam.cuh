// Beam search on CUDA: the search of decode_beam.cpp, an utterance a warp, whose first lane does what is not sums over
// classes. States of the prediction network lie side by side, those of sequences that have left the beam too, and so do
// the rows of all utterances; the kernels of greedy decoding compute with those that there are, without gaps. A step is
//
// (beam)      what follows the rows, which sequences stay, the next rows     a warp an utterance
// cell        as in greedy decoding, of new sequences                        a layer each
// project     likewise
// (internal)  score and log-sum of new sequences without a frame             where the internal model is taken off
// score       likewise, of the rows
#pragma once

#include "beam_steps.h"
#include "cuda_decode.cuh"

namespace transducer_cuda {

// Where `above` finds its numbers without vectors.
static __device__ inline int64_t scores_above(const float* scores, int64_t count, float lowest, int32_t* which) {
    int64_t found = 0;
    for (int64_t k = 0; k < count; k++)
        if (scores[k] >= lowest) which[found++] = int32_t(k);
    return found;
}

// A search of utterance n on the device. Its parts point to one another: it stays where it was made.
struct DeviceSearch {
    transducerNetwork net;
    transducer_beam_search::Sizes sizes;
    BeamKernels kernels;
    transducer_beam_search::Job job;

    __device__ explicit DeviceSearch(const BeamJob& b)
        : net(b.net), sizes{net, b.options}, kernels{},
          job{net, b.options, nullptr, b.beam.batch, 0, 0, b.beam.frame_counts, nullptr, true, nullptr, b.beam.capacity,
              b.beam.tokens, b.beam.found_frames, b.beam.durations, b.beam.confidences, b.beam.entropies, b.beam.lengths,
              nullptr, b.beam.acoustic, b.beam.external, b.beam.counts, nullptr, &kernels} {
        net.durations = b.job.durations;
        kernels.above = scores_above;
    }
};

// The log-sum of scores, double; their entropy, if asked for. Called by a warp.
static __device__ inline double log_sum_of(const float* scores, int64_t count, float* entropy) {
    float largest = -INFINITY;
    for (int64_t k = lane_index(); k < count; k += WARP) largest = larger_of(largest, scores[k]);
    largest = warp_max(largest);
    double sum = 0, weighted = 0;
    for (int64_t k = lane_index(); k < count; k += WARP) {
        const float x = scores[k] - largest, e = expf(x);
        sum += double(e);
        weighted += e > 0 ? double(x * e) : 0;
    }
    sum = warp_sum(sum);
    weighted = warp_sum(weighted);
    if (entropy) *entropy = float(log(sum) - weighted / sum);
    return double(largest) + log(sum);
}

template <typename> __global__ void __launch_bounds__(WARP, 16) beam_start_kernel(const __grid_constant__ BeamJob b) {
    const int64_t n = blockIdx.x, first = n * b.predictions, count = b.beam.frame_counts[n];
    for (int64_t i = lane_index(); i < 2 * b.job.layers * b.job.hidden; i += WARP) b.job.state(first)[i] = 0;
    for (int64_t i = lane_index(); i < b.predictions; i += WARP) {
        b.job.batch.emitted[first + i] = i ? NOTHING : b.job.blank;
        b.job.batch.is_active[first + i] = i == 0;
    }
    for (int64_t i = lane_index(); i < b.options.beam; i += WARP) b.row_is_active[n * b.options.beam + i] = 0;
    if (lane_index() > 0) return;
    const bool fits = count >= 0 && count <= b.beam.frames;
    b.beam.is_active[n] = fits;
    b.beam.counts[n] = 0;
    if (!fits) return;
    const DeviceSearch search(b);
    transducer_beam_search::Arena arena(b.memory + n * b.bytes_each);
    auto* const s = arena.take<transducer_beam_search::Slot>(1);
    transducer_beam_search::Slot made{};
    made.take_tables(arena, search.sizes);
    made.take_room(arena, search.sizes);
    made.internals = b.internals + first * search.sizes.internal_floats();
    made.utterance = n;
    made.frames = count;
    if (b.beam.scorers && b.beam.scorers[n]) made.scorer = *(const ctc_decode::Scorer*)b.beam.scorers[n];
    *s = made;
    s->enter(search.sizes, false);
}

// `is_first`: before any row was scored.
template <typename>
__global__ void __launch_bounds__(WARP, 16) beam_kernel(const __grid_constant__ BeamJob b, bool is_first) {
    const int64_t n = blockIdx.x, first = n * b.predictions, first_row = n * b.options.beam;
    for (int64_t i = lane_index(); i < b.predictions; i += WARP) {
        b.job.batch.emitted[first + i] = NOTHING;
        b.job.batch.is_active[first + i] = 0;
    }
    if (!b.beam.is_active[n]) return;
    auto& s = *(transducer_beam_search::Slot*)(b.memory + n * b.bytes_each);
    for (int32_t i = 0; i < s.rows_count; i++) {
        transducer_beam_search::Row& row = s.rows[i];
        float entropy;
        const double log_sum = log_sum_of(row.logits, b.job.classes, &entropy);
        const double log_durations =
            b.job.duration_count ? log_sum_of(row.logits + b.job.classes, b.job.duration_count, nullptr) : 0;
        if (lane_index() > 0) continue;
        row.log_sum = log_sum;
        row.log_durations = log_durations;
        row.entropy = entropy;
    }
    __syncwarp();
    if (lane_index() == 0) {
        const DeviceSearch search(b);
        const transducer_beam_search::Steps steps(search.sizes, search.job, b.which + n * b.job.classes,
                                                  b.fused + n * search.sizes.internal_floats());
        if (!is_first)
            steps.advance(s, [&](int32_t from, int32_t own, int32_t label) {
                b.before[first + own] = from;
                b.job.batch.emitted[first + own] = label;
                b.job.batch.is_active[first + own] = 1;
            });
        const int32_t frame = s.is_over ? NOTHING : steps.collect(s);
        if (s.is_over) s.rows_count = 0;
        for (int64_t i = 0; i < b.options.beam; i++) {
            const bool is_row = i < s.rows_count;
            b.row_is_active[first_row + i] = is_row;
            if (!is_row) continue;
            s.rows[i].logits = b.logits + (first_row + i) * b.job.logit_width;
            b.row_frames[first_row + i] = frame;
            b.row_states[first_row + i] = int32_t(first) + steps.state_of(s, s.rows[i]);
        }
        b.beam.is_active[n] = !s.is_over;
    }
    __syncwarp();
    for (int64_t own = is_first ? b.predictions : 0; own < b.predictions; own++) {
        if (!b.job.batch.is_active[first + own]) continue;
        const float* const from = b.job.state(first + b.before[first + own]);
        for (int64_t i = lane_index(); i < 2 * b.job.layers * b.job.hidden; i += WARP) b.job.state(first + own)[i] = from[i];
    }
}

// From the logits of labels without a frame to what these gain by taking the internal model off, for new sequences.
template <typename> __global__ void __launch_bounds__(WARP) internal_kernel(const __grid_constant__ BeamJob b) {
    const int64_t n = blockIdx.x, labels = b.job.blank;
    if (!b.job.batch.is_active[n]) return;
    float* const scores = b.internals + n * b.job.classes;
    const double log_sum = log_sum_of(scores, labels, nullptr);
    for (int64_t k = lane_index(); k < labels; k += WARP)
        scores[k] = float(b.options.internal_weight * (log_sum - double(scores[k])));
}

}  // namespace transducer_cuda
