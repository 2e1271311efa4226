// exp and powers of two on vectors, to about one unit in the last place. NaN stays NaN, -inf gives exactly 0.
#pragma once

#include "simd.h"

namespace CTC_ISA {

// exp of x <= 0 and then of a small error, which `corrected` adds to what is left of x less its multiple of ln 2.
// Exactly 1 for 0, exactly 0 for x below that of the smallest normal number, whatever the error.
#if defined(__AVX512F__)
// 2^(i/32), which one instruction looks up in two vectors: what is left of x is so small that three terms are enough.
alignas(64) static const float POWERS[32] = {
    0x1.000000p+0f, 0x1.059b0ep+0f, 0x1.0b5586p+0f, 0x1.11301ep+0f, 0x1.172b84p+0f, 0x1.1d4874p+0f,
    0x1.2387a6p+0f, 0x1.29e9e0p+0f, 0x1.306fe0p+0f, 0x1.371a74p+0f, 0x1.3dea64p+0f, 0x1.44e086p+0f,
    0x1.4bfdaep+0f, 0x1.5342b6p+0f, 0x1.5ab07ep+0f, 0x1.6247ecp+0f, 0x1.6a09e6p+0f, 0x1.71f75ep+0f,
    0x1.7a1148p+0f, 0x1.82589ap+0f, 0x1.8ace54p+0f, 0x1.93737cp+0f, 0x1.9c4918p+0f, 0x1.a5503cp+0f,
    0x1.ae89fap+0f, 0x1.b7f770p+0f, 0x1.c199bep+0f, 0x1.cb720ep+0f, 0x1.d5818ep+0f, 0x1.dfc974p+0f,
    0x1.ea4afap+0f, 0x1.f50766p+0f,
};

template <typename Corrected> static inline Floats exp_with(Floats x, Corrected corrected) {
    const Floats shifter = all(0x1.8p18f);
    const Floats shifted = x * 0x1.715476p0f + shifter;
    const Floats n = shifted - shifter;  // a multiple of 1/32, whose part above the point `scalef` takes
    // ln 2 in two parts, the first so short that n times it is exact.
    const Floats r = corrected((x - n * 0x1.63p-1f) + n * 2.12194440e-4f);
    const Floats power =
        (Floats)_mm512_permutex2var_ps(_mm512_load_ps(POWERS), (__m512i)shifted, _mm512_load_ps(POWERS + 16));
    Floats p = r * 1.6666667e-1f + 0.5f;
    p = p * r + 1.0f;
    p = power * (p * r) + power;
    const __mmask16 keep = _mm512_cmp_ps_mask((__m512)x, (__m512)all(-87.0f), _CMP_NLT_UQ);
    return (Floats)_mm512_maskz_scalef_ps(keep, (__m512)p, (__m512)n);
}
#else
template <typename Corrected> static inline Floats exp_with(Floats x, Corrected corrected) {
    const Floats shifter = all(0x1.8p23f);
    const Floats shifted = x * 0x1.715476p0f + shifter;
    const Floats n = shifted - shifter;
    // ln 2 in two parts, the first so short that n times it is exact.
    const Floats r = corrected((x - n * 0x1.63p-1f) + n * 2.12194440e-4f);
    // Minimax coefficients of Cephes' expf.
    Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const Floats power = (Floats)(((Bits32)shifted << 23) + 0x3f800000u);
    const Ints keep = ~(x < all(-87.0f));
    return (Floats)((Ints)(p * power) & keep);
}
#endif

static inline Floats exp_of(Floats x) {
    return exp_with(x, [](Floats r) { return r; });
}

// exp(x - c) for x <= c, with the rounding of the difference put right: x = -30 and c = 30 leave 4e-6 of it.
static inline Floats exp_of_difference(Floats x, Floats c) {
    const Floats d = x - c;
    const Floats subtracted = x - d;
    const Floats error = (x - (d + subtracted)) + (subtracted - c);
    return exp_with(d, [=](Floats r) { return r + error; });
}

// exp(r) for |r| <= ln(2) / 2, by Taylor's series.
static inline Doubles exp_reduced(Doubles r) {
    Doubles p = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    return p * (r * r) + r + 1.0;
}

// Nearest integer for |x| < 2^51.
static inline Doubles round_of(Doubles x) { return (x + 0x1.8p52) - 0x1.8p52; }

// 2^n for integers n <= 0; about 0 below -1022.
static inline Doubles power_of_two(Doubles n) {
    const Doubles bounded = vmax(all(-1022.0), n);
    return (Doubles)((Bits64)(bounded + (0x1p52 + 1023)) << 52);
}

static inline Doubles exp_of(Doubles x) {
    const Doubles n = round_of(vmax(all(-1020.0), x * 0x1.71547652b82fep0));
    const Doubles r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    const Longs keep = ~(x < all(-707.0));
    return (Doubles)((Longs)(exp_reduced(r) * power_of_two(n)) & keep);
}

}  // namespace CTC_ISA
