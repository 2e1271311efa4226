// Reading and writing the caller's types: float and double as they are, half types through float.
#pragma once

#include <math.h>

#include "simd.h"

namespace CTC_ISA {

struct Half { uint16_t bits; };
struct Bfloat { uint16_t bits; };

template <typename In> struct Computed { using type = float; };
template <> struct Computed<double> { using type = double; };

static inline float as_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

static inline float to_real(float x) { return x; }
static inline double to_real(double x) { return x; }
static inline float to_real(Bfloat x) { return as_float(uint32_t(x.bits) << 16); }

static inline float to_real(Half x) {
#if defined(__F16C__)
    return _cvtsh_ss(x.bits);
#else
    const uint32_t sign = uint32_t(x.bits & 0x8000) << 16;
    const uint32_t magnitude = uint32_t(x.bits & 0x7fff) << 13;
    if (magnitude < 0x0800000u) {  // zero or denormal: that many times 2^-24
        const float value = float(x.bits & 0x3ff) * 0x1p-24f;
        return as_float(bits_of(value) | sign);
    }
    const uint32_t exponent = magnitude >= 0x0f800000u ? 0x70000000u : 0x38000000u;
    return as_float(sign | (magnitude + exponent));
#endif
}

static inline void from_real(float* p, float x) { *p = x; }
static inline void from_real(double* p, double x) { *p = x; }

// To nearest, ties to even, as all below.
static inline void from_real(Bfloat* p, float x) {
    const uint32_t bits = bits_of(x);
    p->bits = x != x ? 0x7fc0 : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static inline void from_real(Half* p, float x) {
#if defined(__F16C__)
    p->bits = uint16_t(_cvtss_sh(x, 0));
#else
    const uint32_t bits = bits_of(x);
    const uint16_t sign = uint16_t((bits >> 16) & 0x8000);
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x47800000u) {  // 65536 and more, infinity, NaN
        p->bits = uint16_t(sign | (magnitude > 0x7f800000u ? 0x7e00 : 0x7c00));
    } else if (magnitude < 0x38800000u) {  // below the smallest normal half: in units of 2^-24
        p->bits = uint16_t(sign | uint16_t(int32_t((as_float(magnitude) * 0x1p24f + 0x1p23f) - 0x1p23f)));
    } else {
        p->bits = uint16_t(sign | uint16_t((magnitude - 0x38000000u + 0xfff + ((magnitude >> 13) & 1)) >> 13));
    }
#endif
}

template <typename In> static inline VectorOf<typename Computed<In>::type> load_elements(const In* p) {
    using Real = typename Computed<In>::type;
    Real lanes[LANES<Real>];
    for (int i = 0; i < LANES<Real>; i++) lanes[i] = to_real(p[i]);
    return load(lanes);
}

template <typename Out, typename V> static inline void store_elements(Out* p, V v) {
    using Real = typename Computed<Out>::type;
    Real lanes[LANES<Real>];
    store(lanes, v);
    for (int i = 0; i < LANES<Real>; i++) from_real(p + i, lanes[i]);
}

// The first `count` lanes, fewer than a vector.
template <typename Out, typename V> static inline void store_first(Out* p, V v, int64_t count) {
    using Real = typename Computed<Out>::type;
    Real lanes[LANES<Real>];
    store(lanes, v);
    for (int64_t i = 0; i < count; i++) from_real(p + i, lanes[i]);
}

// `count` elements, fewer than a vector, with -inf behind them. Never reads past them.
template <typename In> static inline VectorOf<typename Computed<In>::type> load_last(const In* p, int64_t count) {
    using Real = typename Computed<In>::type;
    Real lanes[LANES<Real>];
    for (int i = 0; i < LANES<Real>; i++) lanes[i] = i < count ? to_real(p[i]) : -Real(INFINITY);
    return load(lanes);
}

#if defined(__AVX2__) && !defined(__AVX512F__)
static inline Floats load_last(const float* p, int64_t count) {
    const Ints is_inside = Ints{0, 1, 2, 3, 4, 5, 6, 7} < int32_t(count) - Ints{};
    return is_inside ? (Floats)_mm256_maskload_ps(p, (__m256i)is_inside) : all(-INFINITY);
}

// By halves: a masked store is slow where AVX2 is the best there is.
static inline void store_first(float* p, Floats v, int64_t count) {
    __m128 part = _mm256_castps256_ps128((__m256)v);
    if (count & 4) {
        _mm_storeu_ps(p, part);
        part = _mm256_extractf128_ps((__m256)v, 1);
        p += 4;
    }
    if (count & 2) {
        _mm_storel_pi((__m64*)p, part);
        part = _mm_movehl_ps(part, part);
        p += 2;
    }
    if (count & 1) _mm_store_ss(p, part);
}
#endif

#if defined(__AVX512F__)
static inline void store_first(float* p, Floats v, int64_t count) {
    _mm512_mask_storeu_ps(p, __mmask16((1u << count) - 1), (__m512)v);
}

// The lanes from number `by` on, with -inf behind them.
static inline Floats moved_down(Floats v, int64_t by) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i from = _mm512_add_epi32(lane, _mm512_set1_epi32(int(by)));
    return (Floats)_mm512_mask_permutexvar_ps(_mm512_set1_ps(-INFINITY), __mmask16(0xffffu >> by), from, (__m512)v);
}
#elif defined(__AVX2__)
static inline Floats moved_down(Floats v, int64_t by) {
    const Ints from = Ints{0, 1, 2, 3, 4, 5, 6, 7} + int32_t(by);
    const Floats moved = (Floats)_mm256_permutevar8x32_ps((__m256)v, (__m256i)from);
    return from < 8 ? moved : all(-INFINITY);
}
#endif

#if defined(__AVX512F__)
static inline Floats load_elements(const Half* p) {
    return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
}
static inline void store_elements(Half* p, Floats v) {
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph((__m512)v, 0));
}
#elif defined(__F16C__)
static inline Floats load_elements(const Half* p) {
    return (Floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
}
static inline void store_elements(Half* p, Floats v) {
    _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph((__m256)v, 0));
}
#endif

// The elements of a row from `first` on, fewer than a vector, with -inf behind them: the whole vector that ends where the
// row does, moved. With a mask it takes longer as soon as the row is not in the caches (AVX-512).
template <typename In>
static inline VectorOf<typename Computed<In>::type> load_end(const In* row, int64_t width, int64_t first) {
#if defined(__AVX2__)
    constexpr int W = LANES<float>;
    if constexpr (sizeof(typename Computed<In>::type) == sizeof(float))
        if (width >= W) return moved_down(load_elements(row + width - W), first + W - width);
#endif
    return load_last(row + first, width - first);
}

}  // namespace CTC_ISA
