// The lattices of a batch on a device, and what is read of the logits of a cell.
//
// begin      lengths and labels checked                                         a warp an utterance
// read       log-probabilities of a cell's label, blank and durations           a warp a cell
// walk       alpha and beta in double, by anti-diagonals; the losses            two blocks an utterance
// threshold  of the cells that the gradient skips                              a warp an utterance
// gradient   softmax times occupancy less flows                                 a warp a cell
//
// Planes lie in anti-diagonals: cells (t, u) with the same t + u are neighbours, since a step of the walk takes them.
#pragma once

#include "cuda_portable.cuh"
#include "cuda_transducer.h"

namespace transducer_cuda {

constexpr int HELD = 8;             // logits that a lane reads at once

// One utterance's lattice.
class Lattice {
  public:
    __device__ Lattice(const Batch& b, int64_t n)
        : frames(b.outcomes[n].frames), labels(b.outcomes[n].labels), b(b),
          planes(b.planes + n * planes_doubles(b.problem)), plane_size(plane_doubles(b.problem)),
          row(b.problem.positions) {}

    __device__ double& at(int64_t plane, int64_t t, int64_t u) const {
        return planes[plane * plane_size + (t + u) * row + u];
    }

    // RNN-T: a label has duration 0, a blank 1. TDT: both have all, but for a blank of duration 0.
    __device__ int durations() const { return b.problem.duration_count ? int(b.problem.duration_count) : 2; }

    // Log-probability to leave (t, u) by a blank of duration number i and to reach the end; -inf where it cannot be.
    __device__ double blank_to_end(int64_t t, int64_t u, int i) const {
        const int64_t d = duration(i), after = t + d;
        if (d == 0 || after > frames || (after == frames && u != labels)) return -double(INFINITY);
        return at(BLANK_PLANE, t, u) + score(t, u, i) + (after == frames ? 0 : at(BETA_PLANE, after, u));
    }

    __device__ double label_to_end(int64_t t, int64_t u, int i) const {
        const int64_t after = t + duration(i);
        if (!may_be_of_label(i) || u == labels || after >= frames) return -double(INFINITY);
        return at(LABEL_PLANE, t, u) + score(t, u, i) + at(BETA_PLANE, after, u + 1);
    }

    // Log-probability to come from the start to (t, u) by a blank of duration number i.
    __device__ double blank_from_start(int64_t t, int64_t u, int i) const {
        const int64_t d = duration(i), before = t - d;
        if (d == 0 || before < 0) return -double(INFINITY);
        return at(ALPHA_PLANE, before, u) + at(BLANK_PLANE, before, u) + score(before, u, i);
    }

    __device__ double label_from_start(int64_t t, int64_t u, int i) const {
        const int64_t before = t - duration(i);
        if (!may_be_of_label(i) || u == 0 || before < 0) return -double(INFINITY);
        return at(ALPHA_PLANE, before, u - 1) + at(LABEL_PLANE, before, u - 1) + score(before, u - 1, i);
    }

    int64_t frames, labels;

  private:
    __device__ int64_t duration(int i) const { return b.problem.duration_count ? b.durations[i] : i; }
    __device__ bool may_be_of_label(int i) const { return b.problem.duration_count || i == 0; }
    __device__ double score(int64_t t, int64_t u, int i) const {
        return b.problem.duration_count ? at(DURATION_PLANE + i, t, u) : 0;
    }

    const Batch& b;
    double* planes;
    int64_t plane_size, row;
};

struct Softmax {
    double largest, sum;  // of the logits; of their exponentials relative to it. 0 if all are -inf

    __device__ bool is_finite() const { return sum < double(INFINITY) && largest < double(INFINITY); }  // not for NaN
    __device__ double score(double logit) const { return sum == 0 ? -double(INFINITY) : logit - largest - log(sum); }
};

// By a warp, in one pass: a lane's sum is taken relative to its largest logit so far, in double every few of them.
template <typename In> static __device__ Softmax softmax_of(const In* logits, int64_t count) {
    using Real = typename Computed<In>::type;
    const Real least = -Real(INFINITY);
    Real largest = least;
    double sum = 0;
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
        sum = sum * double(exp(largest - reference)) + double(part);
        largest = most;
    }
    const Real all = warp_max(largest), reference = all > least ? all : Real(0);
    return {double(reference), warp_sum(sum * double(exp(largest - reference)))};
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
    const Lattice lattice(b, c.utterance);
    if (c.frame >= lattice.frames || c.position > lattice.labels) return;
    const In* const x = logits_at<In>(p, logits, first, c);
    const Softmax tokens = softmax_of(x, p.classes);
    bool is_finite = tokens.is_finite();
    if (lane_index() == 0) {
        const bool has_label = c.position < lattice.labels;
        const int64_t label = has_label ? b.targets[c.utterance * p.targets_stride + c.position] : 0;
        lattice.at(BLANK_PLANE, c.frame, c.position) = tokens.score(to_real(x[p.blank])) - p.sigma;
        lattice.at(LABEL_PLANE, c.frame, c.position) =
            has_label ? tokens.score(to_real(x[label])) - p.sigma : -double(INFINITY);
        lattice.at(LARGEST_PLANE, c.frame, c.position) = tokens.largest;
        lattice.at(SUM_PLANE, c.frame, c.position) = tokens.sum;
    }
    if (p.duration_count) {
        const In* const y = x + p.classes;
        const Softmax lengths = softmax_of(y, p.duration_count);
        is_finite &= lengths.is_finite();
        for (int64_t i = lane_index(); i < p.duration_count; i += WARP)
            lattice.at(DURATION_PLANE + i, c.frame, c.position) = lengths.score(to_real(y[i]));
    }
    if (!is_finite && lane_index() == 0) b.outcomes[c.utterance].state = NOT_A_NUMBER;  // whoever comes first
}

}  // namespace transducer_cuda
