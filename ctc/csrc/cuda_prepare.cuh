// What comes before the lattice: checks, and the emissions of every frame.
#pragma once

#include "cuda_ctc.h"
#include "cuda_portable.cuh"

namespace ctc_cuda {

struct Claim {  // what an utterance says of itself
    int64_t frames, labels, first_label;
    bool has_valid_lengths;
};

static __device__ inline bool are_valid_lengths(const ctcProblem& p, int64_t frames, int64_t labels) {
    return frames >= 0 && frames <= p.frames && labels >= 0 && labels <= p.longest_target;
}

// Called by whole warps. Where targets are concatenated, an utterance behind one of invalid length is invalid too, and
// all are where the lengths fit but leave labels over.
static __device__ inline Claim claim_of(const Batch& b, int64_t n) {
    const ctcProblem& p = b.problem;
    Claim claim = {index_at(b.input_lengths, n, p.flags), index_at(b.target_lengths, n, p.flags), 0, true};
    claim.has_valid_lengths = are_valid_lengths(p, claim.frames, claim.labels);
    if (p.targets_stride) {
        claim.first_label = n * p.targets_stride;
    } else {
        int64_t before = 0, behind = 0;
        bool is_valid_before = true, is_valid = true;
        for (int64_t m = lane_index(); m < p.batch; m += WARP) {
            const int64_t count = index_at(b.target_lengths, m, p.flags);
            is_valid &= count >= 0 && count <= p.longest_target;
            if (m < n) is_valid_before = is_valid;
            (m < n ? before : behind) += is_valid ? count : 0;
        }
        claim.first_label = warp_sum(before);
        const bool are_all_valid = __ballot_sync(ALL_LANES, is_valid) == ALL_LANES;
        claim.has_valid_lengths &= __ballot_sync(ALL_LANES, is_valid_before) == ALL_LANES;
        claim.has_valid_lengths &= !are_all_valid || claim.first_label + warp_sum(behind) == p.targets_count;
    }
    claim.has_valid_lengths &= claim.labels <= p.targets_count - claim.first_label;
    return claim;
}

// Copies the labels without the stars between them, marks where these stood, and returns how many labels are left. A
// label that is no class becomes blank. Called by a whole block.
static __device__ inline int64_t take_stars_out(const Batch& b, int64_t n, const Claim& claim, int64_t given) {
    __shared__ int64_t left;
    const ctcProblem& p = b.problem;
    int32_t* const out = b.workspace.labels + n * p.longest_target;
    uint8_t* const stars = stars_of(b, n);
    for (int64_t i = threadIdx.x; i <= given; i += PREPARE_THREADS) stars[i] = 0;
    __syncthreads();
    if (warp_index() == 0) {
        int64_t count = 0;
        for (int64_t first = 0; first < given; first += WARP) {
            const int64_t i = first + lane_index();
            const int64_t label = i < given ? index_at(b.targets, claim.first_label + i, p.flags) : 0;
            const bool is_star = i < given && label == p.star, is_label = i < given && !is_star;
            const unsigned labels = __ballot_sync(ALL_LANES, is_label);
            const int64_t place = count + __popc(labels & ((1u << lane_index()) - 1));
            if (is_star) stars[place] = 1;
            if (is_label) out[place] = int32_t(label < 0 || label >= p.classes ? p.blank : label);
            count += __popc(labels);
        }
        if (lane_index() == 0) left = count;
    }
    __syncthreads();
    return left;
}

template <typename> __global__ void __launch_bounds__(PREPARE_THREADS) prepare_kernel(const __grid_constant__ Batch b) {
    const ctcProblem& p = b.problem;
    const int64_t n = blockIdx.x;
    const Claim claim = claim_of(b, n);
    const int64_t given = claim.has_valid_lengths ? claim.labels : 0;
    const bool may_have_stars = p.flags & CTC_STARS;
    const int64_t labels = may_have_stars ? take_stars_out(b, n, claim, given) : given;
    int32_t* const out = b.workspace.labels + n * p.longest_target;
    int64_t needed = labels;
    int invalid = 0;
    for (int64_t first = 0; first < labels; first += PREPARE_THREADS) {
        const int64_t i = first + threadIdx.x;
        bool is_repeat = false, is_invalid = false;
        if (i < labels) {
            const auto label_at = [&](int64_t at) {
                return may_have_stars ? out[at] : index_at(b.targets, claim.first_label + at, p.flags);
            };
            const int64_t label = label_at(i);
            is_repeat = i > 0 && label == label_at(i - 1);
            is_invalid = label < 0 || label >= p.classes || label == p.blank;
            if (!may_have_stars) out[i] = int32_t(is_invalid ? p.blank : label);
        }
        needed += __syncthreads_count(is_repeat);
        invalid += __syncthreads_count(is_invalid);
    }
    if (threadIdx.x != 0) return;
    Outcome outcome = {claim.frames, labels, 0, 0, PENDING, 0, reduction_weight(p, given), labels < given};
    if (!claim.has_valid_lengths || invalid)
        outcome = {0, 0, 0, 0, INVALID, 0, reduction_weight(p, 0), false};
    else if (needed > claim.frames)
        outcome.state = IMPOSSIBLE;
    else if (claim.frames == 0)
        outcome.state = DONE;
    b.workspace.outcomes[n] = outcome;
}

// exp(x - c) for x <= c, with the rounding of the difference put right: x = -30 and c = 30 leave 4e-6 of it.
static __device__ inline float exp_of_difference(float x, float c) {
    const float d = x - c;
    if (!(d > -87.0f)) return 0;
    const float subtracted = x - d;
    const float error = (x - (d + subtracted)) + (subtracted - c);
    const float e = expf(d);
    return fmaf(e, error, e);
}

// exp(x + rest), where the rest is what x was rounded by.
static __device__ inline float exp_of_parts(float x, float rest) {
    const float e = expf(x);
    return e > 0 ? fmaf(e, rest, e) : 0;
}

struct Frame {
    int64_t utterance, frame;
};

// Frame number `index` of the padded batch, in the order in which the logits lie in memory.
static __device__ inline Frame frame_of(const ctcProblem& p, int64_t index) {
    if (p.logits_frame_stride >= p.logits_batch_stride) return {index % p.batch, index / p.batch};
    return {index / p.frames, index % p.frames};
}

// log sum_k exp x(k) of the frames of utterances with stars, which take all classes together.
template <typename In>
__global__ void __launch_bounds__(FRAMES_PER_BLOCK* WARP) star_sums_kernel(const __grid_constant__ Batch b) {
    using Real = typename Computed<In>::type;
    const ctcProblem& p = b.problem;
    const int64_t index = int64_t(blockIdx.x) * FRAMES_PER_BLOCK + warp_index();
    if (index >= p.batch * p.frames) return;
    const auto [n, t] = frame_of(p, index);
    const Outcome outcome = b.workspace.outcomes[n];
    if (outcome.state != PENDING || t >= outcome.frames || !outcome.has_stars) return;

    const In* const frame = logits_at<In>(b, n, t);
    Real largest = -Real(INFINITY);
    bool is_odd = false;
    for (int64_t k = lane_index(); k < p.classes; k += WARP) {
        const Real x = to_real(frame[k]);
        largest = larger_of(largest, x);
        is_odd |= !(x < INFINITY);
    }
    largest = warp_max(largest);
    double sum = 0;
    for (int64_t k = lane_index(); k < p.classes; k += WARP) sum += double(exp(to_real(frame[k]) - largest));
    sum = warp_sum(sum);
    const bool has_odd = __ballot_sync(ALL_LANES, is_odd) != 0;
    if (lane_index() != 0) return;
    const double log_sum = largest == -Real(INFINITY) ? -double(INFINITY) : double(largest) + log(sum);
    b.workspace.normalisers[n * p.frames + t] = has_odd ? double(NAN) : log_sum;
}

template <typename In> __global__ void __launch_bounds__(FRAMES_PER_BLOCK* WARP) emissions_kernel(const __grid_constant__ Batch b) {
    const ctcProblem& p = b.problem;
    const int64_t index = int64_t(blockIdx.x) * FRAMES_PER_BLOCK + warp_index();
    if (index >= p.batch * p.frames) return;
    const auto [n, t] = frame_of(p, index);
    const Outcome outcome = b.workspace.outcomes[n];
    if (outcome.state != PENDING || t >= outcome.frames || !wants_linear(p, outcome.labels)) return;

    const In* const frame = logits_at<In>(b, n, t);
    const int32_t* const labels = labels_of(b, n);
    const int64_t stride = pair_stride(outcome.labels);
    float* const q = (float*)scratch_of(b, n) + t * stride;
    const float blank = to_real(frame[p.blank]);
    float largest = blank;
    bool is_odd = !(blank < INFINITY);
    for (int64_t i = lane_index(); i < outcome.labels; i += WARP) {
        const float x = to_real(frame[labels[i]]);
        q[i] = x;
        largest = larger_of(largest, x);
        is_odd |= !(x < INFINITY);
    }
    const double log_sum = outcome.has_stars ? b.workspace.normalisers[n * p.frames + t] : 0;
    const bool has_odd = __ballot_sync(ALL_LANES, is_odd) != 0 || !(log_sum < INFINITY);
    const float reference = warp_max(largest);
    // With stars, whose emission is 1, others are shares of what all classes do together.
    const double log_share = double(reference) - log_sum;
    const float share = outcome.has_stars ? exp_of_parts(float(log_share), float(log_share - float(log_share))) : 1.0f;
    const float blank_emission = exp_of_difference(blank, reference) * share;
    float sum = 0, smallest = blank_emission;
    for (int64_t i = lane_index(); i < stride; i += WARP) {
        const float e = i < outcome.labels ? exp_of_difference(q[i], reference) * share : 0;
        q[i] = e;
        sum += e;
        if (i < outcome.labels) smallest = smaller_of(smallest, e);
    }
    sum = warp_sum(sum);
    smallest = warp_min(smallest);
    if (lane_index() == 0)
        b.workspace.statistics[n * p.frames + t] =
            {blank_emission, has_odd ? float(NAN) : reference, sum, smallest};
}

}  // namespace ctc_cuda
