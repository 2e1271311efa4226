// Probabilities of paths, which no float holds: a mantissa and an exponent of its own. Most GPUs have one unit for double
// for 32 or 64 for float. So of float logits a mantissa is two floats, the second what the first lost to rounding, and
// paths are added up without a logarithm or an exponential; of double logits it is a double.
#pragma once

#include "cuda_sums.cuh"

namespace transducer_cuda {

template <typename Real> struct Scaled {
    Sum<Real> mantissa;
    int32_t exponent;
};
static_assert(sizeof(Scaled<float>) == 12 && sizeof(Scaled<double>) == 16, "as cuda_transducer.h has it");

// Below 2 to the power of this nothing is possible. Two of them can be added.
constexpr int32_t IMPOSSIBLE = -(1 << 30);
constexpr float LEAST_LOG = -7e8f;  // a little more than its logarithm

template <typename Real> static __device__ inline Scaled<Real> nothing() { return {sum_of(Real(0)), IMPOSSIBLE}; }
template <typename Real> static __device__ inline Scaled<Real> one() { return {sum_of(Real(1)), 0}; }

// 2^n; 0 for n below the normal numbers.
static __device__ inline float power_of_two(int32_t n, float) { return n < -126 ? 0 : __uint_as_float(unsigned(n + 127) << 23); }
static __device__ inline double power_of_two(int32_t n, double) {
    return n < -1022 ? 0 : __longlong_as_double((long long)(n + 1023) << 52);
}

static __device__ inline int32_t exponent_of(float x) { return int32_t(__float_as_uint(x) >> 23) - 127; }
static __device__ inline int32_t exponent_of(double x) { return int32_t(__double_as_longlong(x) >> 52) - 1023; }

static __device__ inline Sum<double> shifted(Sum<double> x, int32_t by) { return {x.high * power_of_two(by, 0.0)}; }
static __device__ inline Sum<float> shifted(Sum<float> x, int32_t by) {
    const float factor = power_of_two(by, 0.0f);
    return {x.high * factor, x.low * factor};
}

// |a| is larger than |b|, or not by much less.
static __device__ inline Sum<float> rounded(float a, float b) {
    const float sum = a + b;
    return {sum, b - (sum - a)};
}

static __device__ inline Sum<double> product(Sum<double> a, Sum<double> b) { return {a.high * b.high}; }
static __device__ inline Sum<float> product(Sum<float> a, Sum<float> b) {
    const float whole = a.high * b.high;
    return rounded(whole, fmaf(a.high, b.high, -whole) + (a.high * b.low + a.low * b.high));
}

static __device__ inline Sum<double> reciprocal(Sum<double> x) { return {1 / x.high}; }
static __device__ inline Sum<float> reciprocal(Sum<float> x) {
    const float near = 1 / x.high;
    return rounded(near, near * (fmaf(-near, x.high, 1.0f) - near * x.low));
}

// With a mantissa in [1, 2).
template <typename Real> static __device__ inline Scaled<Real> normalised(Scaled<Real> x) {
    if (!(x.mantissa.high > 0)) return nothing<Real>();
    const int32_t by = exponent_of(x.mantissa.high);
    return {shifted(x.mantissa, -by), larger_of(x.exponent + by, IMPOSSIBLE)};
}

template <typename Real> static __device__ inline Scaled<Real> times(Scaled<Real> a, Scaled<Real> b) {
    return {product(a.mantissa, b.mantissa), larger_of(a.exponent + b.exponent, IMPOSSIBLE)};
}

template <typename Real> static __device__ inline Scaled<Real> plus(Scaled<Real> a, Scaled<Real> b) {
    const int32_t exponent = larger_of(a.exponent, b.exponent);
    return {shifted(a.mantissa, a.exponent - exponent) + shifted(b.mantissa, b.exponent - exponent), exponent};
}

template <typename Real> static __device__ inline Scaled<Real> inverse(Sum<Real> x, int32_t exponent = 0) {
    return normalised(Scaled<Real>{reciprocal(x), -exponent});
}

// Of a probability.
template <typename Real> static __device__ inline Real value_of(Scaled<Real> x) {
    return shifted(x.mantissa, smaller_of(x.exponent, 1)).value();
}

static __device__ inline double double_of(Sum<double> x) { return x.high; }
static __device__ inline double double_of(Sum<float> x) { return double(x.high) + double(x.low); }

static __device__ inline Sum<double> split(double x, double) { return {x}; }
static __device__ inline Sum<float> split(double x, float) { return {float(x), float(x - double(float(x)))}; }

template <typename Real> static __device__ inline double log_of(Scaled<Real> x) {
    const double mantissa = double_of(x.mantissa);
    return mantissa > 0 ? log(mantissa) + double(x.exponent) * 0.693147180559945309417 : -double(INFINITY);
}

// exp(r) for |r| <= 0.35: to 4e-9 in float, where the function of the library has 1e-7.
static __device__ inline Sum<double> exp_of_small(Sum<double> r) { return {exp(r.high)}; }
static __device__ inline Sum<float> exp_of_small(Sum<float> r) {
    const float x = r.high;
    float series = 1.0f / 40320;
    const float others[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f};
CTC_UNROLL
    for (int i = 0; i < 6; i++) series = fmaf(x, series, others[i]);
    const Sum<float> whole = rounded(1.0f, x);
    return rounded(whole.high, whole.low + fmaf(x * x, series, r.low));
}

// x - n log 2
static __device__ inline Sum<double> less_logs_of_two(Sum<double> x, double n) {
    return {fma(-n, 0x1.abc9e3b39803fp-56, fma(-n, 0x1.62e42fefa39efp-1, x.high))};
}
static __device__ inline Sum<float> less_logs_of_two(Sum<float> x, float n) {
    const float much = n * 0x1.62e43p-1f, rest = fmaf(n, 0x1.62e43p-1f, -much);
    return sum_of(x.high - much) + sum_of(fmaf(n, 0x1.05c61p-29f, x.low - rest));
}

// e^x for x <= 0, or a little more.
template <typename Real> static __device__ inline Scaled<Real> exp_of(Sum<Real> x) {
    const Real n = rint(x.high * Real(1.44269504088896341));
    return normalised(Scaled<Real>{exp_of_small(less_logs_of_two(x, n)), int32_t(n)});
}

// e^(x - y - less) for x <= y
template <typename Real> static __device__ inline Scaled<Real> exp_of_difference(Real x, Real y, double less) {
    if (!(x - y - Real(less) > Real(LEAST_LOG))) return nothing<Real>();
    return exp_of(sum_of(x) + sum_of(-y) + split(-less, Real(0)));
}

}  // namespace transducer_cuda
