// The fast lattice on a block: linear domain, float, tilted, scaled by powers of two, with a certificate; recurrence.h.
//
// One team of warps walks alpha from the first frame on, another beta from the last one back, at the same time; every
// thread keeps K neighbouring pairs of states in registers, and a frame costs one exchange with the neighbour. Until they
// meet in the middle both leave their states in memory; behind it each multiplies what the other left with its own and
// leaves the product. A third team groups the labels by class meanwhile.
//
// What a thread will read (emissions, states of the other team) is copied to shared memory DEPTH frames ahead. No thread
// reads what another one copied, so that this needs no barrier.
#pragma once

#include "cuda_classes.cuh"

namespace ctc_cuda {

enum Team { FORWARD, BACKWARD, HELPER };

template <int N> struct alignas(4 * N) FloatVector {
    float x[N];
};

struct BlockState {
    float edges[2][2][MOST_TEAM_WARPS];  // by team, parity of the step and warp
    unsigned largest[2][MOST_TEAM_WARPS];
    float last_blank, last_label;
    double references, label_sum, blank_sum;
    float smallest;
    int64_t alpha_exponent;
};

// STARS: whether there may be any.
template <int K, int W, bool STARS> class Walker {
    using S = Shape<K, W>;

  public:
    float blank[K], label[K];
    int64_t exponent;

    __device__ Walker(const Batch& b, int64_t n, const Outcome& outcome, Team team, BlockState* block, float* rings)
        : exponent(0), frames(int(outcome.frames)), stride(int(pair_stride(outcome.labels))), labels(int(outcome.labels)),
          thread(int(threadIdx.x) - int(team) * S::TEAM), first_pair(thread * K),
          is_active(team != HELPER && first_pair < stride), block(block), ring(rings + int(team) * S::RING),
          emissions((const float*)scratch_of(b, n)), statistics(b.workspace.statistics + n * b.problem.frames),
          states(states_of<float>(b, n)),
          frame_maxima(b.workspace.frame_maxima + n * b.problem.frames * MOST_TEAM_WARPS) {
        const int32_t* const transcript = labels_of(b, n);
        const double blank_mean = block->blank_sum / double(frames);
        const double label_mean = block->label_sum / (double(labels) * double(frames));
        tilt_bits = labels == 0         ? 0
                    : outcome.has_stars ? star_tilt_exponent(blank_mean, label_mean)
                                        : tilt_exponent(frames, labels, block->label_sum / (block->blank_sum * double(labels)));
        tilt = power(tilt_bits);
        in_star = 0;
        if (STARS && outcome.has_stars && team != HELPER)
            for (int k = 0; k < K; k++)
                if (first_pair + k <= labels) in_star |= unsigned(stars_of(b, n)[first_pair + k]) << k;
        for (int k = 0; k < K; k++) {
            const int i = first_pair + k;
            const bool may_skip = team != HELPER && i > 0 && i < labels && transcript[i] != transcript[i - 1];
            skip[k] = may_skip ? tilt : 0;
            blank[k] = label[k] = 0;
            if (team == FORWARD && i == 0) blank[k] = power(ALPHA_TARGET);
            if (team == BACKWARD && i == labels) blank[k] = power(BETA_TARGET);
            if (team == BACKWARD && i == labels - 1) label[k] = tilt * power(BETA_TARGET);
        }
        if (team == FORWARD) exponent = -ALPHA_TARGET;
    }

    // Steps [first, end) of T: step s leaves frame s, or T - 1 - s backwards. MEETS: the other team has been there.
    template <Team TEAM, bool MEETS> __device__ void walk(int first, int end) {
        for (int ahead = 0; ahead < S::DEPTH; ahead++) fetch<TEAM, MEETS>(first + ahead, end);
        float blanks = 0, next_blanks = 0;  // blank's emissions of 32 steps, one a lane
        for (int step = first; step < end; step++) {
            if (step == first || step % WARP == 0) {
                blanks = step == first ? blank_emissions<TEAM>(step / WARP) : next_blanks;
                next_blanks = blank_emissions<TEAM>(step / WARP + 1);
            }
            const float q_blank = __shfl_sync(ALL_LANES, blanks, int(step % WARP));
            wait_for_copies<S::DEPTH - 1>();
            if (step > 0 && step % FRAMES_PER_RESCALE == 0) rescale<TEAM>(step);
            if (TEAM == FORWARD)
                advance(step, q_blank);
            else if (step > 0)
                retreat(step, q_blank);
            leave<TEAM, MEETS>(step);
            fetch<TEAM, MEETS>(step + S::DEPTH, end);
        }
    }

    __device__ void leave_last_states() const {
        for (int k = 0; k < K; k++) {
            if (first_pair + k == labels) block->last_blank = blank[k];
            if (first_pair + k == labels - 1) block->last_label = label[k];
        }
        if (thread == 0) block->alpha_exponent = exponent;
    }

    __device__ double log2_z() const {
        double last = block->last_blank;
        if (labels > 0) last += double(tilt) * block->last_label;
        return log2(last) + double(block->alpha_exponent) - double(tilt_bits) * double(labels);
    }

  private:
    static __device__ float power(int exponent) { return __uint_as_float(unsigned(exponent + 127) << 23); }

    template <Team TEAM> __device__ int row_of(int step) const {
        return TEAM == FORWARD ? step : frames - 1 - step;
    }
    // The frame whose emissions a step needs; backwards step 0 needs none.
    template <Team TEAM> __device__ int emission_of(int step) const {
        return TEAM == FORWARD ? step : frames - step;
    }

    template <Team TEAM> __device__ float blank_emissions(int block_of_steps) const {
        const int step = block_of_steps * WARP + lane_index();
        const bool exists = step < frames && (TEAM == FORWARD || step > 0);
        return exists ? statistics[emission_of<TEAM>(step)].blank : 0;
    }

    __device__ float* slot(int step, int kind, int part) const {
        const int stage = int(step % S::DEPTH);
        return ring + (((stage * 3 + kind) * S::PARTS + part) * S::TEAM + thread) * S::VECTOR;
    }

    __device__ void copy(int step, int kind, const float* from) const {
        for (int part = 0; part < S::PARTS; part++)
            copy_ahead<S::VECTOR * int(sizeof(float))>(slot(step, kind, part), from + part * S::VECTOR);
    }

    template <Team TEAM, bool MEETS> __device__ void fetch(int step, int end) const {
        if (is_active && step < end) {
            if (TEAM == FORWARD || step > 0) copy(step, 0, emissions + int64_t(emission_of<TEAM>(step)) * stride + first_pair);
            if (MEETS) {
                const float* const row = states + int64_t(row_of<TEAM>(step)) * (2 * stride) + first_pair;
                copy(step, 1, row);
                copy(step, 2, row + stride);
            }
        }
        close_copies();
    }

    __device__ void read(int step, int kind, float values[K]) const {
        for (int part = 0; part < S::PARTS; part++) {
            FloatVector<S::VECTOR> v = {};
            if (is_active) v = *(const FloatVector<S::VECTOR>*)slot(step, kind, part);
            for (int k = 0; k < S::VECTOR; k++) values[part * S::VECTOR + k] = v.x[k];
        }
    }

    __device__ void write(float* to, const float values[K]) const {
        for (int part = 0; part < S::PARTS; part++) {
            FloatVector<S::VECTOR> v;
            for (int k = 0; k < S::VECTOR; k++) v.x[k] = values[part * S::VECTOR + k];
            *(FloatVector<S::VECTOR>*)(to + part * S::VECTOR) = v;
        }
    }

    __device__ int team_warp() const { return thread / WARP; }

    // The value of the thread before (forward) or behind, 0 at the end. Two parities of edges make one barrier enough.
    template <Team TEAM> __device__ float exchange(int step, float value) const {
        const bool is_forward = TEAM == FORWARD;
        const int lane = lane_index();
        float other = is_forward ? __shfl_up_sync(ALL_LANES, value, 1) : __shfl_down_sync(ALL_LANES, value, 1);
        const int reader = is_forward ? 0 : WARP - 1;
        if (W == 1) return lane == reader ? 0 : other;
        float* const edges = block->edges[TEAM][step % 2];
        if (lane == WARP - 1 - reader) edges[team_warp()] = value;
        named_barrier(1 + TEAM, S::TEAM);
        const int neighbour = team_warp() + (is_forward ? -1 : 1);
        if (lane == reader) other = neighbour >= 0 && neighbour < W ? edges[neighbour] : 0;
        return other;
    }

    // Where a star stands the emission of the blanks is that of all classes together.
    __device__ float blank_emission(int k, float q_blank) const { return STARS && in_star >> k & 1 ? 1.0f : q_blank; }

    __device__ void advance(int step, float q_blank) {
        float q[K];
        read(step, 0, q);
        const float entering = exchange<FORWARD>(step, label[K - 1]);
CTC_UNROLL
        for (int k = K - 1; k >= 0; k--) {
            const float below = k > 0 ? label[k > 0 ? k - 1 : 0] : entering;
            const float stayed = label[k] + blank[k];
            blank[k] = fmaf(tilt, below, blank[k]) * blank_emission(k, q_blank);
            label[k] = fmaf(skip[k], below, stayed) * q[k];
        }
    }

    __device__ void retreat(int step, float q_blank) {
        float q[K], onward[K];
        read(step, 0, q);
CTC_UNROLL
        for (int k = 0; k < K; k++) {
            blank[k] *= blank_emission(k, q_blank);
            label[k] *= q[k];
            onward[k] = fmaf(skip[k], label[k], tilt * blank[k]);
        }
        const float above = exchange<BACKWARD>(step, onward[0]);
CTC_UNROLL
        for (int k = 0; k < K; k++) {
            blank[k] += label[k];
            label[k] += k < K - 1 ? onward[k < K - 1 ? k + 1 : 0] : above;
        }
    }

    // Forgets states of the frame before that lead nowhere, and brings the largest of the others to the target.
    template <Team TEAM> __device__ void rescale(int step) {
        const int row = row_of<TEAM>(step - 1);
        float most = 0;
CTC_UNROLL
        for (int k = 0; k < K; k++) {
            const int i = first_pair + k;
            if (TEAM == FORWARD ? i < labels - frames + row : i > row) blank[k] = label[k] = 0;
            most = larger_of(most, larger_of(blank[k], label[k]));
        }
        unsigned bits = warp_max_bits(__float_as_uint(most));
        if (W > 1) {
            unsigned* const largest = block->largest[TEAM];
            if (lane_index() == 0) largest[team_warp()] = bits;
            named_barrier(1 + TEAM, S::TEAM);
            for (int w = 0; w < W; w++) bits = larger_of(bits, largest[w]);
        }
        if (bits == 0 || !(__uint_as_float(bits) < LARGEST_SUM)) return;
        const int target = TEAM == FORWARD ? ALPHA_TARGET : BETA_TARGET;
        const int shift = smaller_of(127, larger_of(-126, target + 127 - int(bits >> 23)));
        exponent -= shift;
        const float factor = power(shift);
CTC_UNROLL
        for (int k = 0; k < K; k++) {
            blank[k] *= factor;
            label[k] *= factor;
        }
    }

    template <Team TEAM, bool MEETS> __device__ void leave(int step) const {
        float* const row = states + int64_t(row_of<TEAM>(step)) * (2 * stride) + first_pair;
        if (!MEETS) {
            if (!is_active) return;
            write(row, blank);
            write(row + stride, label);
            return;
        }
        float blanks[K], others[K];
        read(step, 1, blanks);
        read(step, 2, others);
        unsigned largest = 0;
CTC_UNROLL
        for (int k = 0; k < K; k++) {
            blanks[k] *= blank[k];
            others[k] *= label[k];
            // Bits of numbers that are not negative are in their order, and NaN is above all.
            largest = larger_of(largest, larger_of(__float_as_uint(blanks[k]), __float_as_uint(others[k])));
        }
        largest = warp_max_bits(largest);
        if (lane_index() == 0)
            frame_maxima[int64_t(row_of<TEAM>(step)) * MOST_TEAM_WARPS + team_warp()] = __uint_as_float(largest);
        if (!is_active) return;
        write(row, blanks);
        write(row + stride, others);
    }

    int frames, stride, labels, thread, first_pair;
    bool is_active;
    BlockState* block;
    float* ring;
    const float* emissions;
    const FrameStatistics* statistics;
    float *states, *frame_maxima;
    float skip[K], tilt;
    int tilt_bits;
    unsigned in_star;  // bit k is set where a star stands before the label of pair k
};

// One warp's sums over all frames.
static __device__ inline void add_up_statistics(const FrameStatistics* frames, int64_t count, BlockState* block) {
    double references = 0, label_sum = 0, blank_sum = 0;
    float smallest = 1;
    for (int64_t t = lane_index(); t < count; t += WARP) {
        const FrameStatistics frame = frames[t];
        blank_sum += frame.blank;
        references += frame.reference;
        label_sum += frame.sum_of_labels;
        smallest = smaller_of(smallest, frame.smallest);
    }
    references = warp_sum(references);
    label_sum = warp_sum(label_sum);
    blank_sum = warp_sum(blank_sum);
    smallest = warp_min(smallest);
    if (lane_index() != 0) return;
    block->references = references;
    block->label_sum = label_sum;
    block->blank_sum = blank_sum;
    block->smallest = smallest;
}

// Whether every frame's largest product, of all its warps, is in the range in which nothing that mattered was lost.
template <int W>
static __device__ bool is_certain(const Batch& b, int64_t n, const Outcome& outcome, const BlockState& block) {
    const float* const maxima = b.workspace.frame_maxima + n * b.problem.frames * MOST_TEAM_WARPS;
    const bool has_tiny = !(block.smallest >= TINY_EMISSION);
    const float least = smallest_accepted_sum(outcome.frames, outcome.labels, has_tiny);
    const float most = LARGEST_SUM / float(2 * outcome.labels + 2);
    bool is_good = true;
    for (int64_t t = threadIdx.x; t < outcome.frames; t += blockDim.x) {
        unsigned bits = 0;
        for (int w = 0; w < W; w++) bits = larger_of(bits, __float_as_uint(maxima[t * MOST_TEAM_WARPS + w]));
        const float largest = __uint_as_float(bits);
        is_good &= largest >= least && largest <= most;
    }
    return __syncthreads_and(is_good);
}

template <int K, int W, bool STARS> __global__ void __launch_bounds__(Shape<K, W>::THREADS, 1)
    lattice_kernel(const __grid_constant__ Batch b) {
    using S = Shape<K, W>;
    CTC_DYNAMIC_SHARED(rings);
    __shared__ BlockState block;
    const int64_t n = blockIdx.x;
    const Outcome outcome = b.workspace.outcomes[n];
    if (outcome.state != PENDING) return;
    const int warp = warp_index();
    const Team team = warp < W ? FORWARD : warp < 2 * W ? BACKWARD : HELPER;
    const int helper = int(threadIdx.x) - 2 * S::TEAM;
    const bool tries = wants_linear(b.problem, outcome.labels);
    if (tries && warp == 0)
        add_up_statistics(b.workspace.statistics + n * b.problem.frames, outcome.frames, &block);
    __syncthreads();
    if (S::HELPERS == 0) group_by_class(b, n, outcome.labels, int(threadIdx.x), S::THREADS, 3);
    if (!tries || !isfinite(block.references)) {
        if (team == HELPER) group_by_class(b, n, outcome.labels, helper, S::HELPERS, 3);
        return;
    }
    Walker<K, W, STARS> walker(b, n, outcome, team, &block, (float*)rings);
    const int frames = int(outcome.frames), middle = frames / 2;
    if (team == FORWARD)
        walker.template walk<FORWARD, false>(0, middle);
    else if (team == BACKWARD)
        walker.template walk<BACKWARD, false>(0, frames - middle);
    else
        group_by_class(b, n, outcome.labels, helper, S::HELPERS, 3);
    __syncthreads();
    if (team == FORWARD) {
        walker.template walk<FORWARD, true>(middle, frames);
        walker.leave_last_states();
    } else if (team == BACKWARD) {
        walker.template walk<BACKWARD, true>(frames - middle, frames);
    }
    __syncthreads();
    const bool is_done = is_certain<W>(b, n, outcome, block);
    if (threadIdx.x != 0 || !is_done) return;
    Outcome* const result = b.workspace.outcomes + n;
    result->log2_z = walker.log2_z();
    result->references = block.references;
    result->state = DONE;
}

}  // namespace ctc_cuda
