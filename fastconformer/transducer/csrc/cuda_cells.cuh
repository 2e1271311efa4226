// The lattices of a batch on a device, and what is read of the logits of a cell.
//
// begin      lengths and labels checked                                         a warp an utterance
// read       probabilities of     a cell's label, blank and durations           a warp a cell
// walk       alpha and beta, by anti-diagonals; the losses                      two blocks an utterance
// threshold  of the cells that the gradient skips                              a warp an utterance
// gradient   softmax times occupancy less flows                                 a warp a cell
//
// Planes lie in anti-diagonals: cells (t, u) with the same t + u are neighbours, since a step of the walk takes them.
#pragma once

#include "cuda_scaled.cuh"
#include "cuda_transducer.h"

namespace transducer_cuda {

constexpr int HELD = 8;             // logits that a lane reads at once

// One utterance's lattice.
template <typename Real> class Lattice {
    using Number = Scaled<Real>;

  public:
    __device__ Lattice(const Batch& b, int64_t n)
        : frames(b.outcomes[n].frames), labels(b.outcomes[n].labels), b(b),
          planes((Number*)b.planes + n * plane_count(b.problem) * plane_size(b.problem)), size(plane_size(b.problem)),
          row(b.problem.positions) {}

    __device__ Number& at(int64_t plane, int64_t t, int64_t u) const { return planes[plane * size + (t + u) * row + u]; }

    // RNN-T: a label has duration 0, a blank 1. TDT: both have all, but for a blank of duration 0.
    __device__ int durations() const { return b.problem.duration_count ? int(b.problem.duration_count) : 2; }

    // Probability to leave (t, u) by a blank of duration number i and to reach the end; 0 where it cannot be.
    __device__ Number blank_to_end(int64_t t, int64_t u, int i) const {
        const int64_t d = duration(i), after = t + d;
        if (d == 0 || after > frames || (after == frames && u != labels)) return nothing<Real>();
        const Number way = leaving(BLANK_PLANE, t, u, i);
        return after == frames ? way : times(way, at(BETA_PLANE, after, u));
    }

    __device__ Number label_to_end(int64_t t, int64_t u, int i) const {
        const int64_t after = t + duration(i);
        if (!may_be_of_label(i) || u == labels || after >= frames) return nothing<Real>();
        return times(leaving(LABEL_PLANE, t, u, i), at(BETA_PLANE, after, u + 1));
    }

    // Probability to come from the start to (t, u) by a blank of duration number i.
    __device__ Number blank_from_start(int64_t t, int64_t u, int i) const {
        const int64_t d = duration(i), before = t - d;
        if (d == 0 || before < 0) return nothing<Real>();
        return times(leaving(BLANK_PLANE, before, u, i), at(ALPHA_PLANE, before, u));
    }

    __device__ Number label_from_start(int64_t t, int64_t u, int i) const {
        const int64_t before = t - duration(i);
        if (!may_be_of_label(i) || u == 0 || before < 0) return nothing<Real>();
        return times(leaving(LABEL_PLANE, before, u - 1, i), at(ALPHA_PLANE, before, u - 1));
    }

    // One over the probability of all paths.
    __device__ Number inverse_of_all() const {
        const Number all = at(BETA_PLANE, 0, 0);
        return inverse(all.mantissa, all.exponent);
    }

    int64_t frames, labels;

  private:
    __device__ int64_t duration(int i) const { return b.problem.duration_count ? b.durations[i] : i; }
    __device__ bool may_be_of_label(int i) const { return b.problem.duration_count || i == 0; }
    __device__ Number leaving(int64_t plane, int64_t t, int64_t u, int i) const {
        const Number way = at(plane, t, u);
        return b.problem.duration_count ? times(way, at(DURATION_PLANE + i, t, u)) : way;
    }

    const Batch& b;
    Number* planes;
    int64_t size, row;
};

template <typename Real> struct Softmax {
    Real largest;   // of the logits
    Sum<Real> sum;  // of their exponentials relative to it. 0 if all are -inf

    __device__ bool is_finite() const { return sum.value() < INFINITY && largest < INFINITY; }  // not for NaN
    __device__ Scaled<Real> probability(Real logit, double sigma) const {
        if (!(sum.value() > 0)) return nothing<Real>();
        return normalised(times(exp_of_difference(logit, largest, sigma), inverse(sum)));
    }
};

// By a warp, in one pass: a lane's sum is taken relative to its largest logit so far.
template <typename In>
static __device__ Softmax<typename Computed<In>::type> softmax_of(const In* logits, int64_t count) {
    using Real = typename Computed<In>::type;
    const Real least = -Real(INFINITY);
    Real largest = least;
    Sum<Real> sum = sum_of(Real(0));
    for (int64_t begin = 0; begin < count; begin += HELD * WARP) {
        Real x[HELD], most = largest;
CTC_UNROLL
        for (int j = 0; j < HELD; j++) {
            const int64_t k = begin + j * WARP + lane_index();
            x[j] = k < count ? to_real(logits[k]) : least;
        }
CTC_UNROLL
        for (int j = 0; j < HELD; j++) most = larger_of(most, x[j]);
        const Real reference = most > least ? most : Real(0);
        Real part = 0;
CTC_UNROLL
        for (int j = 0; j < HELD; j++) part += exp(x[j] - reference);
        sum = times(sum, exp(largest - reference)) + part;
        largest = most;
    }
    const Real all = warp_max(largest), reference = all > least ? all : Real(0);
    return {reference, warp_sum(times(sum, exp(largest - reference)))};
}

// Which cell a warp has: of the frames from `first` on, utterances outermost.
struct Cell {
    int64_t utterance, frame, position;
};

static __device__ inline Cell cell_of(const transducerProblem& p, int64_t first, int64_t count, int64_t index) {
    const int64_t u = index % p.positions, row = index / p.positions;
    return {row / count, first + row % count, u};
}

template <typename In>
static __device__ const In* logits_at(const transducerProblem& p, const void* logits, int64_t first, const Cell& c) {
    return (const In*)logits + c.utterance * p.logits_batch_stride + (c.frame - first) * p.logits_frame_stride +
           c.position * p.logits_position_stride;
}

template <typename In>
static __device__ In* gradient_at(const transducerProblem& p, void* gradient, int64_t first, const Cell& c) {
    return (In*)gradient + c.utterance * p.gradient_batch_stride + (c.frame - first) * p.gradient_frame_stride +
           c.position * p.gradient_position_stride;
}

template <typename>
__global__ void __launch_bounds__(WARP)
    begin_kernel(const __grid_constant__ Batch b, const int64_t* frame_counts, const int64_t* label_counts) {
    const transducerProblem& p = b.problem;
    const int64_t n = blockIdx.x, frames = frame_counts[n], labels = label_counts[n];
    bool fits = frames >= 0 && frames <= p.frames && labels >= 0 && labels < p.positions &&
                labels <= p.targets_stride;
    if (fits)
        for (int64_t i = lane_index(); i < labels; i += WARP) {
            const int64_t label = b.targets[n * p.targets_stride + i];
            fits &= label >= 0 && label < p.classes && label != p.blank;
        }
    fits = __ballot_sync(ALL_LANES, fits) == ALL_LANES;
    if (lane_index() == 0) b.outcomes[n] = {fits ? frames : 0, fits ? labels : 0, 0, 0, fits ? FITTING : INVALID};
}

template <typename In>
__global__ void __launch_bounds__(CELLS_PER_BLOCK* WARP)
    read_kernel(const __grid_constant__ Batch b, const void* logits, int64_t first, int64_t count) {
    const transducerProblem& p = b.problem;
    const int64_t index = int64_t(blockIdx.x) * CELLS_PER_BLOCK + warp_index();
    if (index >= p.batch * count * p.positions) return;
    const Cell c = cell_of(p, first, count, index);
    using Real = typename Computed<In>::type;
    const Lattice<Real> lattice(b, c.utterance);
    if (c.frame >= lattice.frames || c.position > lattice.labels) return;
    const In* const x = logits_at<In>(p, logits, first, c);
    const Softmax<Real> tokens = softmax_of(x, p.classes);
    bool is_finite = tokens.is_finite();
    if (lane_index() < 2) {  // for the blank, and for the label
        const bool is_label = lane_index() == 1, has_label = c.position < lattice.labels;
        const int64_t label = is_label && has_label ? b.targets[c.utterance * p.targets_stride + c.position] : p.blank;
        const Scaled<Real> probability = tokens.probability(to_real(x[label]), p.sigma);
        lattice.at(BLANK_PLANE + lane_index(), c.frame, c.position) =
            is_label && !has_label ? nothing<Real>() : probability;
        if (is_label)
            lattice.at(SUM_PLANE, c.frame, c.position).mantissa = tokens.sum;
        else
            lattice.at(LARGEST_PLANE, c.frame, c.position).mantissa = sum_of(tokens.largest);
    }
    if (p.duration_count) {
        const In* const y = x + p.classes;
        const Softmax<Real> lengths = softmax_of(y, p.duration_count);
        is_finite &= lengths.is_finite();
        for (int64_t i = lane_index(); i < p.duration_count; i += WARP)
            lattice.at(DURATION_PLANE + i, c.frame, c.position) = lengths.probability(to_real(y[i]), 0);
    }
    if (!is_finite && lane_index() == 0) b.outcomes[c.utterance].state = NOT_A_NUMBER;  // whoever comes first
}

}  // namespace transducer_cuda
