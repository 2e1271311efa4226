// The mathematics that the CPU and the CUDA kernels share.
//
// Graves' lattice, split in two: pair i < L is (blank_i, label_i), pair L is (blank_L, nothing). With emissions
// q_t(k) = exp(x_t(k) - c_t), where c_t is the largest logit among blank and the utterance's own labels, and a tilt z:
//
//   blank_i(t) = (blank_i + z label_{i-1})                       q_t(blank)
//   label_i(t) = (label_i + blank_i + z [l_i != l_{i-1}] label_{i-1}) q_t(l_i)          right sides at t - 1
//
// and backwards, beta without its own emission, y = q_{t+1} beta(t+1):
//
//   blank_i(t) = y_blank_i + y_label_i
//   label_i(t) = y_label_i + z y_blank_{i+1} + z [l_{i+1} != l_i] y_label_{i+1}
//
// The probability of being in a state at t is alpha beta / sum(alpha beta): neither the softmax's normaliser nor a scale
// per frame matters to it. log Z = log(blank_L(T-1) + z label_{L-1}(T-1)) - L log z, and
// loss = sum_t (log sum_k exp x_t(k) - c_t) - log Z. Where a star stands before label_i or behind the last one, the
// emission of blank_i is that of all classes together; with c_t = log sum_k exp x_t(k) that is 1.
//
// Why the tilt: with z = 1 the states far from the best path outgrow those on it by hundreds of powers of two, and one
// scale per frame cannot hold both in a float. z^i is the gradient along the labels of a lattice whose every frame is
// the average one; what is left of it is noise.
#pragma once

#include <math.h>
#include <stdint.h>

#if defined(__CUDACC__)
#define CTC_SHARED static __host__ __device__ inline
#else
#define CTC_SHARED static inline
#endif

// Every so many frames alpha and beta are scaled, by powers of two, so that their largest state lies at these targets.
constexpr int FRAMES_PER_RESCALE = 4;
constexpr int ALPHA_TARGET = 52;
constexpr int BETA_TARGET = 38;

constexpr float TINY_EMISSION = 0x1p-80f;
constexpr float LARGEST_SUM = 1e37f;

CTC_SHARED int rounded_tilt(double z) {
    const double k = log2(z);
    return k < -8 ? -8 : k > 20 ? 20 : int(lrint(k));
}

// Exponent of the tilt z = 2^k that keeps the lattice of average frames level. labels > 0; `ratio` is the mean emission
// of the labels over that of blank. Solves for the stationary growth of the two-state recurrence at a speed of v labels
// a frame. Any k gives the same answer in exact arithmetic.
CTC_SHARED int tilt_exponent(int64_t frames, int64_t labels, double ratio) {
    const double v = labels < frames ? double(labels) / double(frames) : 1.0 - 1e-6;
    const double r = ratio < 1e-30 ? 1e-30 : ratio > 1e30 ? 1e30 : ratio;
    const double v2 = v * v;
    const double root = sqrt(v2 * v2 * (1 + r) * (1 + r) + (1 - v2) * v2 * (1 - r) * (1 - r));
    return rounded_tilt((v2 * (1 + r) + root) / ((1 - v2) * r));
}

// The same of a lattice with stars, of whose emissions that of a star is 1; `blank` and `label` are the mean ones. Stars
// make it grow by 1 a frame: z is what keeps blank = z q(blank) / (1 - q(blank)) and 1 = q(label) (1 + blank + z).
CTC_SHARED int star_tilt_exponent(double blank, double label) {
    const double l = label < 1e-30 ? 1e-30 : label, z = (1 - l) * (1 - blank) / l;
    return rounded_tilt(z > 1e-30 ? z : 1e-30);
}

// The certificate: a linear-domain result in float is taken only if every frame's sum of alpha beta is at least this
// and at most LARGEST_SUM. A state flushed below 2^-126 would have added at most 2^-126 max(beta) to that sum, and a
// flushed emission 2^60 times more; either is then below the rounding of a float by a margin for the growth between
// two rescalings. Larger than LARGEST_SUM, the reciprocal would be flushed.
CTC_SHARED float smallest_accepted_sum(int64_t frames, int64_t labels, bool has_tiny_emission) {
    const float cells = float(2 * labels + 1) * float(frames);
    return cells * (has_tiny_emission ? 0x1p26f : 0x1p-30f);
}
