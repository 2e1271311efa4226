// What comes after the rows: the losses, their reduction, and what backward does to a gradient.
#pragma once

#include "cuda_ctc.h"
#include "cuda_portable.cuh"

namespace ctc_cuda {

static __device__ inline void set_real(void* values, int64_t i, int32_t type, double value) {
    if (type == CTC_FLOAT64)
        ((double*)values)[i] = value;
    else
        ((float*)values)[i] = float(value);
}

static __device__ inline double real_at(const void* values, int64_t i, int32_t type) {
    return type == CTC_FLOAT64 ? ((const double*)values)[i] : double(((const float*)values)[i]);
}

// Called by a warp. NaN where the frames' own numbers are, which the rows may not have noticed alike.
static __device__ inline double loss_of(const Batch& b, int64_t n, const Outcome& outcome) {
    const ctcProblem& p = b.problem;
    if (outcome.state == IMPOSSIBLE) return p.flags & CTC_ZERO_INFINITY ? 0 : double(INFINITY);
    if (outcome.state != DONE) return double(NAN);
    double normalisers = 0, regularisation = 0;
    for (int64_t t = lane_index(); t < outcome.frames; t += WARP) {
        normalisers += b.workspace.normalisers[n * p.frames + t];
        regularisation += b.workspace.regularisation[n * p.frames + t];
    }
    // With stars emissions are relative to the normalisers. Rounding may leave -1e-8.
    const double relative = outcome.has_stars ? 0 : warp_sum(normalisers) - outcome.references;
    const double loss = relative - outcome.log2_z * 0.693147180559945309417;
    const double of_alignments = loss < 0 && !outcome.has_stars ? 0 : loss;
    return (1 - p.label_smoothing) * of_alignments + warp_sum(regularisation);
}

template <typename In> static __device__ void fill_with_nan(const Batch& b, int64_t n, int64_t frames) {
    for (int64_t t = 0; t < frames; t++)
        for (int64_t k = lane_index(); k < b.problem.classes; k += WARP)
            from_real(gradient_at<In>(b, n, t) + k, typename Computed<In>::type(NAN));
}

// One block; a warp an utterance.
template <typename In> __global__ void __launch_bounds__(FINISH_THREADS) finish_kernel(const __grid_constant__ Batch b) {
    __shared__ int64_t invalid[FINISH_THREADS / WARP];
    const ctcProblem& p = b.problem;
    int64_t first_invalid = p.batch;
    for (int64_t n = warp_index(); n < p.batch; n += FINISH_THREADS / WARP) {
        const Outcome outcome = b.workspace.outcomes[n];
        const double loss = loss_of(b, n, outcome);
        if (lane_index() == 0) set_real(b.losses, n, p.type, loss);
        if (b.gradient && outcome.state == DONE && loss != loss) fill_with_nan<In>(b, n, outcome.frames);
        if (outcome.state == INVALID) first_invalid = smaller_of(first_invalid, n);
    }
    if (lane_index() == 0) invalid[warp_index()] = first_invalid;
    __syncthreads();
    if (warp_index() != 0) return;
    if (b.reduced) {
        double sum = 0;
        for (int64_t n = lane_index(); n < p.batch; n += WARP)
            sum += real_at(b.losses, n, p.type) * b.workspace.outcomes[n].weight;
        sum = warp_sum(sum);
        if (lane_index() == 0) set_real(b.reduced, 0, p.type, sum);
    }
    first_invalid = warp_min(invalid[lane_index()]);
    if (b.invalid && lane_index() == 0) *b.invalid = first_invalid < p.batch ? first_invalid : -1;
}

// A gradient of 0 stays 0, whatever it is multiplied with: that of an infinite loss must not become NaN.
template <typename In>
__global__ void __launch_bounds__(SCALE_THREADS)
    scale_kernel(const __grid_constant__ ctcProblem p, void* gradient, const void* by, int64_t by_stride) {
    using Real = typename Computed<In>::type;
    if (by_stride == 0 && ((const Real*)by)[0] == Real(1)) return;
    for (int64_t row = blockIdx.x; row < p.batch * p.frames; row += gridDim.x) {
        const int64_t t = row / p.batch, n = row % p.batch;
        const Real factor = ((const Real*)by)[n * by_stride];
        if (factor == Real(1)) continue;
        In* const to = (In*)gradient + n * p.gradient_batch_stride + t * p.gradient_frame_stride;
        for (int64_t k = threadIdx.x; k < p.classes; k += SCALE_THREADS) {
            const Real g = to_real(to[k]);
            if (g != Real(0)) from_real(to + k, g * factor);
        }
    }
}

}  // namespace ctc_cuda
