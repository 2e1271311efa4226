// The lattice for what the fast one may not certify, and for double: every state is a double mantissa in [1, 2) and an
// exponent of its own, so that no tilt and no scale are needed. A block computes one utterance, and returns at once where
// there is nothing to do.
//
// beta goes back over all frames first, which gives Z and leaves a row at the end of every block of frames; then alpha
// follows, and beta is computed anew inside each block. Memory for rows grows with the square root of the frames. What is
// left for every frame is alpha beta / Z, the probability of being in a state.
#pragma once

#include "cuda_ctc.h"
#include "cuda_portable.cuh"

namespace ctc_cuda {

constexpr int64_t IMPOSSIBLE_EXPONENT = -(int64_t(1) << 50);

struct Number {
    double mantissa;
    int64_t exponent;
};
struct Pair {
    Number blank, label;
};
static_assert(sizeof(Number) == EXTENDED_NUMBER_BYTES && sizeof(Pair) == EXTENDED_PAIR_BYTES, "");

static __device__ inline Number nothing() { return {1, IMPOSSIBLE_EXPONENT}; }
static __device__ inline Number one() { return {1, 0}; }
static __device__ inline Number times(Number a, Number b) { return {a.mantissa * b.mantissa, a.exponent + b.exponent}; }

// 2^n; 0 for n below the normal numbers.
static __device__ inline double power_of_two(int64_t n) {
    return n < -1022 ? 0 : __longlong_as_double((long long)(n + 1023) << 52);
}

static __device__ inline Number plus(Number a, Number b) {
    const int64_t e = larger_of(a.exponent, b.exponent);
    return {a.mantissa * power_of_two(a.exponent - e) + b.mantissa * power_of_two(b.exponent - e), e};
}

static __device__ inline Number normalised(Number a) {
    const long long bits = __double_as_longlong(a.mantissa);
    const long long mantissa = (bits & 0xfffffffffffffll) | 0x3ff0000000000000ll;
    const int64_t exponent = a.exponent + (bits >> 52) - 1023;
    return {__longlong_as_double(mantissa), larger_of(exponent, IMPOSSIBLE_EXPONENT)};
}

// exp(x - reference)
static __device__ inline Number emission(double x, double reference) {
    const double log2_q = larger_of((x - reference) * 0x1.71547652b82fep0, double(IMPOSSIBLE_EXPONENT));
    const double whole = rint(log2_q);
    return {exp2(log2_q - whole), int64_t(whole)};
}

template <typename In> class ExtendedLattice {
    using Real = typename Computed<In>::type;

  public:
    __device__ ExtendedLattice(const Batch& b, int64_t n, const Outcome& outcome, unsigned char* shared)
        : batch(b), n(n), frames(outcome.frames), labels(outcome.labels), pairs(outcome.labels + 1),
          distance(checkpoint_distance(outcome.frames)), transcript(labels_of(b, n)),
          stars(outcome.has_stars ? stars_of(b, n) : nullptr), log_sums(b.workspace.normalisers + n * b.problem.frames),
          references(b.workspace.references + n * b.problem.frames), states(states_of<Real>(b, n)) {
        char* const scratch = scratch_of(b, n);
        const bool fits = extended_working_bytes(labels) <= int64_t(EXTENDED_SHARED_BYTES);
        rows = (Pair*)(fits ? (char*)shared : scratch);
        emissions = (Number*)(rows + 2 * pairs);
        block = (Pair*)(scratch + extended_working_bytes(labels));
        checkpoints = block + distance * pairs;
    }

    // Of all frames; false where a logit that is needed is NaN or infinity.
    __device__ bool find_references() {
        bool is_odd = false;
        for (int64_t t = warp_index(); t < frames; t += EXTENDED_THREADS / WARP) {
            const In* const frame = logits_at<In>(batch, n, t);
            double largest = to_real(frame[batch.problem.blank]);
            is_odd |= !(largest < INFINITY);
            for (int64_t i = lane_index(); i < labels; i += WARP) {
                const double x = to_real(frame[transcript[i]]);
                is_odd |= !(x < INFINITY);
                largest = larger_of(largest, x);
            }
            largest = warp_max(largest);
            if (stars) {  // relative to all classes together, so that a star's emission is 1
                largest = log_sums[t];
                is_odd |= !(largest < INFINITY);
            }
            if (lane_index() == 0) references[t] = largest == -INFINITY ? 0 : largest;
        }
        return !__syncthreads_or(is_odd);
    }

    __device__ double sum_of_references() const {
        double sum = 0;
        for (int64_t t = lane_index(); t < frames; t += WARP) sum += references[t];
        return warp_sum(sum);
    }

    // Z; leaves beta at the last frame of every block in `checkpoints`.
    __device__ Number run_beta() {
        for (int64_t t = frames - 1; t >= 0; t--) {
            Pair* const row = row_of(t);
            if (t == frames - 1)
                begin_beta(row);
            else
                step_beta(t, row_of(t + 1), row);
            if (t != frames - 1 && t % distance != distance - 1) continue;
            Pair* const checkpoint = checkpoints + t / distance * pairs;
            for (int64_t i = threadIdx.x; i < pairs; i += EXTENDED_THREADS) checkpoint[i] = row[i];
        }
        enter_frame(0);
        const Number blank = times(row_of(0)[0].blank, blank_emission(0));
        const Number label = labels > 0 ? times(row_of(0)[0].label, label_emissions()[0]) : nothing();
        const Number z = normalised(plus(blank, label));
        __syncthreads();
        return z;
    }

    __device__ void run_alpha(Number z) {
        for (int64_t i = threadIdx.x; i < pairs; i += EXTENDED_THREADS)
            row_of(1)[i] = {i == 0 ? one() : nothing(), nothing()};  // before the first frame: in blank 0
        for (int64_t first = 0; first < frames; first += distance) {
            const int64_t last = smaller_of(frames, first + distance) - 1;
            const Pair* next = checkpoints + first / distance * pairs;
            for (int64_t t = last - 1; t >= first; t--) {
                step_beta(t, next, block + (t - first) * pairs);
                next = block + (t - first) * pairs;
            }
            for (int64_t t = first; t <= last; t++) {
                const Pair* const beta = t == last ? checkpoints + first / distance * pairs : block + (t - first) * pairs;
                step_alpha(t, row_of(t + 1), row_of(t));
                leave_probabilities(t, row_of(t), beta, z);
            }
        }
    }

  private:
    // Two rows, and two of emissions, take turns.
    __device__ Pair* row_of(int64_t t) const { return rows + t % 2 * pairs; }
    __device__ Number* label_emissions() const { return emissions + side * pairs; }

    // Each thread computes the emissions of its own pairs; behind the barrier all may be read, and so may all rows that
    // were written before. Two arrays take turns, so that a fast thread does not overwrite what a slow one reads.
    __device__ void enter_frame(int64_t t) {
        side ^= 1;
        const In* const frame = logits_at<In>(batch, n, t);
        const double reference = references[t];
        of_blank = emission(to_real(frame[batch.problem.blank]), reference);
        of_star = stars && log_sums[t] == -INFINITY ? nothing() : one();
        for (int64_t i = threadIdx.x; i < pairs; i += EXTENDED_THREADS)
            label_emissions()[i] = i < labels ? emission(to_real(frame[transcript[i]]), reference) : nothing();
        __syncthreads();
    }

    __device__ Number blank_emission(int64_t i) const { return stars && stars[i] ? of_star : of_blank; }

    __device__ Number skipping(int64_t i, Number label) const {
        return i > 0 && i < labels && transcript[i] != transcript[i - 1] ? label : nothing();
    }

    __device__ void begin_beta(Pair* row) const {
        for (int64_t i = threadIdx.x; i < pairs; i += EXTENDED_THREADS)
            row[i] = {i == labels ? one() : nothing(), i == labels - 1 ? one() : nothing()};
    }

    __device__ void step_beta(int64_t t, const Pair* next, Pair* row) {
        enter_frame(t + 1);
        const Number* const q = label_emissions();
        for (int64_t i = threadIdx.x; i < pairs; i += EXTENDED_THREADS) {
            const Number blank = times(next[i].blank, blank_emission(i));
            const Number label = times(next[i].label, q[i]);
            Number onward = nothing();
            if (i < labels)
                onward = plus(times(next[i + 1].blank, blank_emission(i + 1)),
                              skipping(i + 1, times(next[i + 1].label, q[i + 1])));
            row[i] = {normalised(plus(blank, label)), normalised(plus(label, onward))};
        }
    }

    __device__ void step_alpha(int64_t t, const Pair* before, Pair* row) {
        enter_frame(t);
        const Number* const q = label_emissions();
        for (int64_t i = threadIdx.x; i < pairs; i += EXTENDED_THREADS) {
            const Number below = i > 0 ? before[i - 1].label : nothing();
            const Number blank = plus(before[i].blank, below);
            const Number label = plus(plus(before[i].label, before[i].blank), skipping(i, below));
            row[i] = {normalised(times(blank, blank_emission(i))), normalised(times(label, q[i]))};
        }
    }

    __device__ static Real probability(Number alpha, Number beta, Number z) {
        const int64_t exponent = alpha.exponent + beta.exponent - z.exponent;
        return Real(alpha.mantissa * beta.mantissa / z.mantissa * power_of_two(smaller_of(exponent, int64_t(1))));
    }

    __device__ void leave_probabilities(int64_t t, const Pair* alpha, const Pair* beta, Number z) const {
        const int64_t stride = pair_stride(labels);
        Real* const row = states + t * 2 * stride;
        for (int64_t i = threadIdx.x; i < pairs; i += EXTENDED_THREADS) {
            row[i] = probability(alpha[i].blank, beta[i].blank, z);
            row[stride + i] = i < labels ? probability(alpha[i].label, beta[i].label, z) : Real(0);
        }
    }

    const Batch& batch;
    int64_t n, frames, labels, pairs, distance;
    const int32_t* transcript;
    const uint8_t* stars;  // null where there are none
    const double* log_sums;
    double* references;
    Real* states;
    Pair *rows, *block, *checkpoints;
    Number* emissions;
    Number of_blank, of_star;
    int side = 0;
};

template <typename In> __global__ void __launch_bounds__(EXTENDED_THREADS, 2) extended_kernel(const __grid_constant__ Batch b) {
    CTC_DYNAMIC_SHARED(shared);
    const int64_t n = blockIdx.x;
    const Outcome outcome = b.workspace.outcomes[n];
    if (outcome.state != PENDING) return;
    ExtendedLattice<In> lattice(b, n, outcome, shared);
    const bool has_numbers = lattice.find_references();
    const Number z = has_numbers ? lattice.run_beta() : nothing();
    const bool is_possible = z.exponent > IMPOSSIBLE_EXPONENT / 2;
    if (is_possible && b.gradient) lattice.run_alpha(z);
    if (warp_index() != 0) return;
    const double references = lattice.sum_of_references();
    if (lane_index() != 0) return;
    Outcome* const result = b.workspace.outcomes + n;
    result->references = references;
    result->log2_z = double(z.exponent) + log2(z.mantissa);
    result->state = !has_numbers ? NOT_A_NUMBER : is_possible ? DONE : IMPOSSIBLE;
}

}  // namespace ctc_cuda
