// Alpha and beta, by anti-diagonals: a cell needs those of earlier ones, or of later ones, alone. A block walks forward,
// another back; they meet in the gradient, whose flows are alpha times way times beta over the probability of all paths.
#pragma once

#include "cuda_cells.cuh"

namespace transducer_cuda {

// Sum of way(i) for i < count, in a fixed order.
template <typename Real, typename Way> static __device__ Scaled<Real> sum_of_ways(int count, Way way) {
    Scaled<Real> sum = nothing<Real>();
    for (int i = 0; i < count; i++) sum = plus(sum, way(i));
    return normalised(sum);
}

// Calls step(t, u) for the cells of diagonal n.
template <typename Real, typename Step> static __device__ void for_diagonal(const Lattice<Real>& lattice, int64_t n, Step step) {
    const int64_t low = n < lattice.frames ? 0 : n - lattice.frames + 1;
    const int64_t high = n < lattice.labels ? n : lattice.labels;
    for (int64_t u = low + threadIdx.x; u <= high; u += blockDim.x) step(n - u, u);
    __syncthreads();
}

template <typename Real> static __device__ void walk_to_end(const Lattice<Real>& lattice) {
    const int ways = lattice.durations();
    for (int64_t n = 0; n < lattice.frames + lattice.labels; n++)
        for_diagonal(lattice, n, [&](int64_t t, int64_t u) {
            const auto way = [&](int i) {
                return i % 2 ? lattice.label_from_start(t, u, i / 2) : lattice.blank_from_start(t, u, i / 2);
            };
            lattice.at(ALPHA_PLANE, t, u) = n == 0 ? one<Real>() : sum_of_ways<Real>(2 * ways, way);
        });
}

template <typename Real> static __device__ void walk_to_start(const Lattice<Real>& lattice) {
    const int ways = lattice.durations();
    for (int64_t n = lattice.frames + lattice.labels - 1; n >= 0; n--)
        for_diagonal(lattice, n, [&](int64_t t, int64_t u) {
            const auto way = [&](int i) {
                return i % 2 ? lattice.label_to_end(t, u, i / 2) : lattice.blank_to_end(t, u, i / 2);
            };
            lattice.at(BETA_PLANE, t, u) = sum_of_ways<Real>(2 * ways, way);
        });
}

// Blocks beyond the batch, which are not there if the loss is all that is wanted, walk to the end.
template <typename Real>
__global__ void __launch_bounds__(MOST_WALK_THREADS)
    walk_kernel(const __grid_constant__ Batch b, double* losses) {
    const transducerProblem& p = b.problem;
    const bool is_forward = blockIdx.x >= p.batch;
    const int64_t n = is_forward ? blockIdx.x - p.batch : blockIdx.x;
    const Lattice<Real> lattice(b, n);
    const bool is_fitting = b.outcomes[n].state == FITTING;
    if (is_fitting && lattice.frames > 0) {
        if (is_forward)
            walk_to_end(lattice);
        else
            walk_to_start(lattice);
    }
    if (is_forward || threadIdx.x != 0) return;
    const double log_probability = !is_fitting          ? double(NAN)
                                   : lattice.frames > 0 ? log_of(lattice.at(BETA_PLANE, 0, 0))
                                                        : -double(INFINITY);
    const double loss = -log_probability * (1 + p.fastemit);
    b.outcomes[n].log_probability = log_probability;
    losses[n] = loss == 0 ? 0 : loss;  // no minus before 0
}

// As `skipped_below` of the CPU: relative to what other sequences have of the probability, without what sigma took off.
template <typename Real>
__global__ void __launch_bounds__(WARP) threshold_kernel(const __grid_constant__ Batch b) {
    const transducerProblem& p = b.problem;
    const int64_t n = blockIdx.x;
    const Lattice<Real> lattice(b, n);
    const double log_probability = b.outcomes[n].log_probability;
    double steps = 0;
    if (p.sigma != 0 && log_probability > -double(INFINITY)) {
        const int64_t positions = lattice.labels + 1;
        const Scaled<Real> inverse = lattice.inverse_of_all();
        for (int64_t i = lane_index(); i < lattice.frames * positions; i += WARP) {
            const int64_t t = i / positions, u = i % positions;
            steps += double(value_of(times(times(lattice.at(ALPHA_PLANE, t, u), inverse), lattice.at(BETA_PLANE, t, u))));
        }
    }
    steps = warp_sum(steps);
    if (lane_index() != 0) return;
    const double others = -expm1(log_probability + p.sigma * steps);
    b.outcomes[n].skip_below = p.skip_below * (others > TRANSDUCER_SURE ? others : TRANSDUCER_SURE);
}

}  // namespace transducer_cuda
