// Vectors as wide as the instruction set that this file is compiled for; one namespace for each, so that the linker
// cannot mix them up. No other header with inline functions may be included beside it, for the same reason.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define CTC_ISA avx512
#define CTC_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define CTC_ISA avx2
#define CTC_VECTOR_BYTES 32
#else
#define CTC_ISA generic
#define CTC_VECTOR_BYTES 16
#endif

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace CTC_ISA {

typedef float Floats __attribute__((vector_size(CTC_VECTOR_BYTES)));
typedef double Doubles __attribute__((vector_size(CTC_VECTOR_BYTES)));
typedef int32_t Ints __attribute__((vector_size(CTC_VECTOR_BYTES)));
typedef int64_t Longs __attribute__((vector_size(CTC_VECTOR_BYTES)));

template <typename Real> struct Vector;
template <> struct Vector<float> { using type = Floats; };
template <> struct Vector<double> { using type = Doubles; };
template <typename Real> using VectorOf = typename Vector<Real>::type;
template <typename Real> constexpr int LANES = CTC_VECTOR_BYTES / sizeof(Real);

static inline int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

template <typename Real> static inline VectorOf<Real> load(const Real* p) {
    VectorOf<Real> v;
    memcpy(&v, p, sizeof v);
    return v;
}

template <typename Real, typename V> static inline void store(Real* p, V v) {
    static_assert(sizeof(V) == CTC_VECTOR_BYTES, "a whole vector");
    memcpy(p, &v, sizeof v);
}

template <typename Real> static inline VectorOf<Real> all(Real x) { return x - VectorOf<Real>{}; }

// The second where either is NaN.
static inline Floats vmax(Floats a, Floats b) {
#if defined(__AVX512F__)
    return (Floats)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (Floats)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (Floats)_mm_max_ps((__m128)a, (__m128)b);
#else
    return a > b ? a : b;
#endif
}

static inline Doubles vmax(Doubles a, Doubles b) {
#if defined(__AVX512F__)
    return (Doubles)_mm512_max_pd((__m512d)a, (__m512d)b);
#elif defined(__AVX2__)
    return (Doubles)_mm256_max_pd((__m256d)a, (__m256d)b);
#elif defined(__SSE2__)
    return (Doubles)_mm_max_pd((__m128d)a, (__m128d)b);
#else
    return a > b ? a : b;
#endif
}

// Two vectors seen as one row, low first: the lanes one below (above) those of the second (first).
#if defined(__clang__)
#define CTC_SHUFFLE(Mask, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define CTC_SHUFFLE(Mask, a, b, ...) __builtin_shuffle(a, b, Mask{__VA_ARGS__})
#endif
#if CTC_VECTOR_BYTES == 64
static inline Floats shift_up(Floats low, Floats v) {
    return CTC_SHUFFLE(Ints, low, v, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30);
}
static inline Floats shift_down(Floats v, Floats high) {
    return CTC_SHUFFLE(Ints, v, high, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
}
static inline Doubles shift_up(Doubles low, Doubles v) {
    return CTC_SHUFFLE(Longs, low, v, 7, 8, 9, 10, 11, 12, 13, 14);
}
static inline Doubles shift_down(Doubles v, Doubles high) {
    return CTC_SHUFFLE(Longs, v, high, 1, 2, 3, 4, 5, 6, 7, 8);
}
#elif CTC_VECTOR_BYTES == 32
static inline Floats shift_up(Floats low, Floats v) {
    return CTC_SHUFFLE(Ints, low, v, 7, 8, 9, 10, 11, 12, 13, 14);
}
static inline Floats shift_down(Floats v, Floats high) {
    return CTC_SHUFFLE(Ints, v, high, 1, 2, 3, 4, 5, 6, 7, 8);
}
static inline Doubles shift_up(Doubles low, Doubles v) { return CTC_SHUFFLE(Longs, low, v, 3, 4, 5, 6); }
static inline Doubles shift_down(Doubles v, Doubles high) { return CTC_SHUFFLE(Longs, v, high, 1, 2, 3, 4); }
#else
static inline Floats shift_up(Floats low, Floats v) { return CTC_SHUFFLE(Ints, low, v, 3, 4, 5, 6); }
static inline Floats shift_down(Floats v, Floats high) { return CTC_SHUFFLE(Ints, v, high, 1, 2, 3, 4); }
static inline Doubles shift_up(Doubles low, Doubles v) { return CTC_SHUFFLE(Longs, low, v, 1, 2); }
static inline Doubles shift_down(Doubles v, Doubles high) { return CTC_SHUFFLE(Longs, v, high, 1, 2); }
#endif

// In a fixed order, so that a sum never depends on where its vector stands.
template <typename Real> static inline Real sum_of(VectorOf<Real> v) {
    Real lanes[LANES<Real>];
    store(lanes, v);
    for (int width = LANES<Real> / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) lanes[i] += lanes[i + width];
    return lanes[0];
}

template <typename Real> static inline Real max_of(VectorOf<Real> v) {
    Real lanes[LANES<Real>];
    store(lanes, v);
    for (int width = LANES<Real> / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
    return lanes[0];
}

// Past the caches; p is aligned to a vector.
template <typename Real> static inline void stream(Real* p, VectorOf<Real> v) {
#if defined(__AVX512F__)
    _mm512_stream_si512((__m512i*)p, (__m512i)v);
#elif defined(__AVX2__)
    _mm256_stream_si256((__m256i*)p, (__m256i)v);
#elif defined(__SSE2__)
    _mm_stream_si128((__m128i*)p, (__m128i)v);
#else
    store(p, v);
#endif
}

// Denormal numbers are flushed while one of these lives: they cost a hundred cycles each, and the certificate allows
// for the loss of them.
class FlushDenormals {
#if defined(__SSE2__)
  public:
    FlushDenormals() : before(_mm_getcsr()) { _mm_setcsr(before | 0x8040); }
    ~FlushDenormals() { _mm_setcsr(before); }

  private:
    unsigned before;
#endif
};

}  // namespace CTC_ISA
