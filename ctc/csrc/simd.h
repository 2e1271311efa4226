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
typedef uint32_t Bits32 __attribute__((vector_size(CTC_VECTOR_BYTES)));
typedef uint64_t Bits64 __attribute__((vector_size(CTC_VECTOR_BYTES)));
typedef float Quad __attribute__((vector_size(16)));

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

static inline Floats vmin(Floats a, Floats b) {
#if defined(__AVX512F__)
    return (Floats)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (Floats)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (Floats)_mm_min_ps((__m128)a, (__m128)b);
#else
    return a < b ? a : b;
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

#if defined(__clang__)
#define CTC_SHUFFLE(Mask, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define CTC_SHUFFLE(Mask, a, b, ...) __builtin_shuffle(a, b, Mask{__VA_ARGS__})
#endif

// shift_up and shift_down see two vectors as one row, low first, and give the lanes one below those of the second or
// one above those of the first. fold calls `combine` on lanes that lie half the vector apart, then a quarter, until
// every lane holds the result of all: the order is fixed, so that a sum never depends on where its vector stands.
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
template <typename Combine> static inline Floats fold(Floats v, Combine combine) {
    v = combine(v, CTC_SHUFFLE(Ints, v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    v = combine(v, CTC_SHUFFLE(Ints, v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    v = combine(v, CTC_SHUFFLE(Ints, v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    return combine(v, CTC_SHUFFLE(Ints, v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
}
template <typename Combine> static inline Doubles fold(Doubles v, Combine combine) {
    v = combine(v, CTC_SHUFFLE(Longs, v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    v = combine(v, CTC_SHUFFLE(Longs, v, v, 2, 3, 0, 1, 6, 7, 4, 5));
    return combine(v, CTC_SHUFFLE(Longs, v, v, 1, 0, 3, 2, 5, 4, 7, 6));
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
template <typename Combine> static inline Floats fold(Floats v, Combine combine) {
    v = combine(v, CTC_SHUFFLE(Ints, v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    v = combine(v, CTC_SHUFFLE(Ints, v, v, 2, 3, 0, 1, 6, 7, 4, 5));
    return combine(v, CTC_SHUFFLE(Ints, v, v, 1, 0, 3, 2, 5, 4, 7, 6));
}
template <typename Combine> static inline Doubles fold(Doubles v, Combine combine) {
    v = combine(v, CTC_SHUFFLE(Longs, v, v, 2, 3, 0, 1));
    return combine(v, CTC_SHUFFLE(Longs, v, v, 1, 0, 3, 2));
}
#else
static inline Floats shift_up(Floats low, Floats v) { return CTC_SHUFFLE(Ints, low, v, 3, 4, 5, 6); }
static inline Floats shift_down(Floats v, Floats high) { return CTC_SHUFFLE(Ints, v, high, 1, 2, 3, 4); }
static inline Doubles shift_up(Doubles low, Doubles v) { return CTC_SHUFFLE(Longs, low, v, 1, 2); }
static inline Doubles shift_down(Doubles v, Doubles high) { return CTC_SHUFFLE(Longs, v, high, 1, 2); }
template <typename Combine> static inline Floats fold(Floats v, Combine combine) {
    v = combine(v, CTC_SHUFFLE(Ints, v, v, 2, 3, 0, 1));
    return combine(v, CTC_SHUFFLE(Ints, v, v, 1, 0, 3, 2));
}
template <typename Combine> static inline Doubles fold(Doubles v, Combine combine) {
    return combine(v, CTC_SHUFFLE(Longs, v, v, 1, 0));
}
#endif

template <typename V> static inline auto sum_of(V v) {
    return fold(v, [](V a, V b) { return a + b; })[0];
}

template <typename V> static inline auto max_of(V v) {
    return fold(v, [](V a, V b) { return vmax(a, b); })[0];
}

// Quads: four floats, one for each of four frames or four lanes of a row. A vector is QUADS of them.
constexpr int QUADS = CTC_VECTOR_BYTES / 16;

#define CTC_IN_QUAD(q, i) ((i) < 4 ? 4 * (q) + (i) : 4 * (QUADS - 1 + (q)) + (i))
#define CTC_QUAD(q, a, b, c, d) CTC_IN_QUAD(q, a), CTC_IN_QUAD(q, b), CTC_IN_QUAD(q, c), CTC_IN_QUAD(q, d)
#if CTC_VECTOR_BYTES == 64
#define CTC_TWO_QUADS(q, ...) CTC_QUAD(q, __VA_ARGS__), CTC_QUAD(q + 1, __VA_ARGS__)
#define CTC_QUADS(...) CTC_TWO_QUADS(0, __VA_ARGS__), CTC_TWO_QUADS(2, __VA_ARGS__)
#elif CTC_VECTOR_BYTES == 32
#define CTC_QUADS(...) CTC_QUAD(0, __VA_ARGS__), CTC_QUAD(1, __VA_ARGS__)
#else
#define CTC_QUADS(...) CTC_QUAD(0, __VA_ARGS__)
#endif

// Transposes the first quads of four vectors, their second quads, and so on.
static inline void transpose(Floats v[4]) {
    const Floats low01 = CTC_SHUFFLE(Ints, v[0], v[1], CTC_QUADS(0, 4, 1, 5));
    const Floats low23 = CTC_SHUFFLE(Ints, v[2], v[3], CTC_QUADS(0, 4, 1, 5));
    const Floats high01 = CTC_SHUFFLE(Ints, v[0], v[1], CTC_QUADS(2, 6, 3, 7));
    const Floats high23 = CTC_SHUFFLE(Ints, v[2], v[3], CTC_QUADS(2, 6, 3, 7));
    v[0] = CTC_SHUFFLE(Ints, low01, low23, CTC_QUADS(0, 1, 4, 5));
    v[1] = CTC_SHUFFLE(Ints, low01, low23, CTC_QUADS(2, 3, 6, 7));
    v[2] = CTC_SHUFFLE(Ints, high01, high23, CTC_QUADS(0, 1, 4, 5));
    v[3] = CTC_SHUFFLE(Ints, high01, high23, CTC_QUADS(2, 3, 6, 7));
}

// Quad q of the vector is the one at `at(q)`.
template <typename At> static inline Floats load_quads(At at) {
#if CTC_VECTOR_BYTES == 64
    const __m512 two = _mm512_insertf32x4(_mm512_castps128_ps512(_mm_loadu_ps(at(0))), _mm_loadu_ps(at(1)), 1);
    return (Floats)_mm512_insertf32x4(_mm512_insertf32x4(two, _mm_loadu_ps(at(2)), 2), _mm_loadu_ps(at(3)), 3);
#elif CTC_VECTOR_BYTES == 32
    return (Floats)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(at(0))), _mm_loadu_ps(at(1)), 1);
#else
    return load(at(0));
#endif
}

// Calls use(q, quad) for every quad of a vector.
template <typename Use> static inline void for_quads(Floats v, Use use) {
#if CTC_VECTOR_BYTES == 64
    use(0, (Quad)_mm512_extractf32x4_ps((__m512)v, 0));
    use(1, (Quad)_mm512_extractf32x4_ps((__m512)v, 1));
    use(2, (Quad)_mm512_extractf32x4_ps((__m512)v, 2));
    use(3, (Quad)_mm512_extractf32x4_ps((__m512)v, 3));
#elif CTC_VECTOR_BYTES == 32
    use(0, (Quad)_mm256_extractf128_ps((__m256)v, 0));
    use(1, (Quad)_mm256_extractf128_ps((__m256)v, 1));
#else
    use(0, v);
#endif
}

// Combines all quads, as fold does lanes.
template <typename Combine> static inline Floats fold_quads(Floats v, Combine combine) {
#if CTC_VECTOR_BYTES == 64
    v = combine(v, CTC_SHUFFLE(Ints, v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    v = combine(v, CTC_SHUFFLE(Ints, v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
#elif CTC_VECTOR_BYTES == 32
    v = combine(v, CTC_SHUFFLE(Ints, v, v, 4, 5, 6, 7, 0, 1, 2, 3));
#else
    (void)combine;
#endif
    return v;
}

static inline Floats sum_of_quads(Floats v) {
    return fold_quads(v, [](Floats a, Floats b) { return a + b; });
}

// The sum of `count` floats' quads, for counts that are multiples of 64; `vector_at(i)` loads the vector at i. Branches
// of a tree add up few numbers each: one after the other, 64 equal ones would all be rounded to the same side.
template <typename VectorAt> static inline Floats sum_of_quads(int64_t count, VectorAt vector_at) {
    constexpr int W = LANES<float>, BRANCHES = 64 / W;
    Floats sums[BRANCHES] = {};
    for (int64_t i = 0; i < count; i += 64)
        for (int b = 0; b < BRANCHES; b++) sums[b] += vector_at(i + b * W);
    for (int half = BRANCHES / 2; half > 0; half /= 2)
        for (int b = 0; b < half; b++) sums[b] += sums[b + half];
    return sum_of_quads(sums[0]);
}

static inline Floats max_of_quads(Floats v) {
    return fold_quads(v, [](Floats a, Floats b) { return vmax(a, b); });
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
