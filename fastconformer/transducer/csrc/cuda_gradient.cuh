// The gradient of the losses: softmax times occupancy less flows.
#pragma once

#include "cuda_cells.cuh"

namespace transducer_cuda {

// Probability of going through a cell by each of its ways.
template <typename Real> struct Flows {
    Real blank, label;
};

// By a blank and by a label of duration number i.
template <typename Real>
static __device__ inline Flows<Real> flows_of(const Lattice<Real>& lattice, Scaled<Real> here, int64_t t, int64_t u, int i) {
    return {value_of(times(here, lattice.blank_to_end(t, u, i))), value_of(times(here, lattice.label_to_end(t, u, i)))};
}

// Calls value(k, logit) for the elements of a row, HELD of a lane at once, and writes what it returns.
template <typename In, typename Value> static __device__ void map_row(const In* from, In* to, int64_t count, Value value) {
    for (int64_t begin = 0; begin < count; begin += HELD * WARP) {
        typename Computed<In>::type x[HELD];
CTC_UNROLL
        for (int j = 0; j < HELD; j++) {
            const int64_t k = begin + j * WARP + lane_index();
            if (k < count) x[j] = to_real(from[k]);
        }
CTC_UNROLL
        for (int j = 0; j < HELD; j++) {
            const int64_t k = begin + j * WARP + lane_index();
            if (k < count) from_real(to + k, value(k, x[j]));
        }
    }
}

template <typename In> static __device__ void fill_row(In* to, int64_t count, float value) {
    for (int64_t k = lane_index(); k < count; k += WARP) from_real(to + k, typename Computed<In>::type(value));
}

template <typename In>
__global__ void __launch_bounds__(CELLS_PER_BLOCK* WARP)
    gradient_kernel(const __grid_constant__ Batch b, const void* logits, void* gradient, int64_t first, int64_t count,
                    const double* scales) {
    using Real = typename Computed<In>::type;
    const transducerProblem& p = b.problem;
    const int64_t index = int64_t(blockIdx.x) * CELLS_PER_BLOCK + warp_index();
    if (index >= p.batch * count * p.positions) return;
    const Cell c = cell_of(p, first, count, index);
    const Outcome outcome = b.outcomes[c.utterance];
    const int64_t outputs = p.classes + p.duration_count;
    In* const to = gradient_at<In>(p, gradient, first, c);
    const bool is_own = c.frame < outcome.frames && c.position <= outcome.labels;
    if (outcome.state == INVALID || (is_own && outcome.state == NOT_A_NUMBER)) return fill_row(to, outputs, NAN);
    if (!is_own || outcome.log_probability == -double(INFINITY)) return fill_row(to, outputs, 0);

    const Lattice<Real> lattice(b, c.utterance);
    const Scaled<Real> here = normalised(times(lattice.at(ALPHA_PLANE, c.frame, c.position), lattice.inverse_of_all()));
    Flows<double> flows = {0, 0};
    for (int i = lane_index(); i < lattice.durations(); i += WARP) {
        const Flows<Real> one = flows_of(lattice, here, c.frame, c.position, i);
        flows.blank += double(one.blank);
        flows.label += double(one.label);
    }
    flows = {warp_sum(flows.blank), warp_sum(flows.label)};
    const double of_label = flows.label * (1 + p.fastemit), occupancy = flows.blank + of_label;
    if (!(occupancy > 0 && occupancy >= outcome.skip_below)) return fill_row(to, outputs, 0);

    const double scale = scales[c.utterance];
    const Real largest = lattice.at(LARGEST_PLANE, c.frame, c.position).mantissa.value();
    const Real factor = Real(scale * occupancy) / lattice.at(SUM_PLANE, c.frame, c.position).mantissa.value();
    const Real less_blank = Real(scale * flows.blank), less_label = Real(scale * of_label);
    const bool has_label = c.position < outcome.labels;
    const int64_t label = has_label ? b.targets[c.utterance * p.targets_stride + c.position] : -1;
    const In* const from = logits_at<In>(p, logits, first, c);
    map_row(from, to, p.classes, [=](int64_t k, Real x) {
        const Real expected = exp(x - largest) * factor;
        return k == p.blank ? expected - less_blank : k == label ? expected - less_label : expected;
    });
    const double of_durations = flows.blank + flows.label;
    for (int i = lane_index(); i < p.duration_count; i += WARP) {
        const Flows<Real> own = flows_of(lattice, here, c.frame, c.position, i);
        const Real softmax = value_of(lattice.at(DURATION_PLANE + i, c.frame, c.position));
        from_real(to + p.classes + i, Real(scale * (of_durations * double(softmax) - double(own.blank + own.label))));
    }
}

}  // namespace transducer_cuda
