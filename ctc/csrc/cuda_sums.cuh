// Sums that keep more than the digits of their terms. Most GPUs have one unit for double for 32 or 64 for float, and a
// frame's sums are what every lane of every warp computes: those of floats are two floats, the second what the first
// lost to rounding, and so is everything that follows. Where the terms are double, a sum is a double.
#pragma once

#include "cuda_portable.cuh"

namespace ctc_cuda {

template <typename Real> struct Sum;

template <> struct Sum<double> {
    double high;
    __device__ double value() const { return high; }
};

template <> struct Sum<float> {
    float high, low;
    __device__ float value() const { return high; }
};

static __device__ inline Sum<double> sum_of(double x) { return {x}; }
static __device__ inline Sum<float> sum_of(float x) { return {x, 0}; }

static __device__ inline Sum<double> operator+(Sum<double> a, Sum<double> b) { return {a.high + b.high}; }

// Knuth's: what a + b is rounded by is exact, whichever of them is larger; so the order of a and b changes no bit.
static __device__ inline Sum<float> operator+(Sum<float> a, Sum<float> b) {
    const float sum = a.high + b.high, of_b = sum - a.high, of_a = sum - of_b;
    const float low = ((a.high - of_a) + (b.high - of_b)) + (a.low + b.low);
    const float high = sum + low;
    return {high, low - (high - sum)};
}

template <typename Real> static __device__ inline Sum<Real> operator+(Sum<Real> a, Real b) { return a + sum_of(b); }

static __device__ inline Sum<double> operator-(Sum<double> a) { return {-a.high}; }
static __device__ inline Sum<float> operator-(Sum<float> a) { return {-a.high, -a.low}; }

// The second is at most 1, and exact where it is 1.
static __device__ inline Sum<double> times(Sum<double> a, double b) { return {a.high * b}; }
static __device__ inline Sum<float> times(Sum<float> a, float b) { return {a.high * b, a.low * b}; }

static __device__ inline Sum<double> other_lane(Sum<double> a, int by) { return {__shfl_xor_sync(ALL_LANES, a.high, by)}; }
static __device__ inline Sum<float> other_lane(Sum<float> a, int by) {
    return {__shfl_xor_sync(ALL_LANES, a.high, by), __shfl_xor_sync(ALL_LANES, a.low, by)};
}

template <typename Real> static __device__ inline Sum<Real> warp_sum(Sum<Real> x) {
    for (int by = WARP / 2; by > 0; by /= 2) x = x + other_lane(x, by);
    return x;
}

}  // namespace ctc_cuda
