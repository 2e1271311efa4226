// Vectors of WIDTH floats: what is made of each value, and of each weight. Included by kernels.inl.
#if WIDTH > 4
#include <immintrin.h>
#endif

#include "kernels.h"

namespace convolution {
namespace {

typedef float Vector __attribute__((vector_size(4 * WIDTH), aligned(4)));
constexpr int64_t STEP = 2 * WIDTH;  // columns of a register block

inline Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<Vector*>(to) = value; }

typedef uint32_t Bits __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef int32_t Words __attribute__((vector_size(4 * WIDTH), aligned(4)));

// The first `count` of a vector's values, from none to all of them; zeros besides.
inline Vector load(const float* from, int64_t count) {
    if (count >= WIDTH) return load(from);
#if WIDTH == 16
    return (Vector)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1 << std::max<int64_t>(count, 0)) - 1), from);
#elif WIDTH == 8
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (Vector)_mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), places));
#else
    Vector value{};
    for (int64_t j = 0; j < count; j++) value[j] = from[j];
    return value;
#endif
}

inline void store(float* to, Vector value, int64_t count) {
    if (count >= WIDTH) return store(to, value);
#if WIDTH == 16
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1 << std::max<int64_t>(count, 0)) - 1), (__m512)value);
#elif WIDTH == 8
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), places);
    _mm256_maskstore_ps(to, mask, (__m256)value);
#else
    for (int64_t j = 0; j < count; j++) to[j] = value[j];
#endif
}

// The lowest byte of every word.
inline void store_lowest(uint8_t* to, Bits words) {
#if WIDTH == 16
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8((__m512i)words));
#elif WIDTH == 8
    const __m256i lowest = _mm256_setr_epi32(0x0c080400, 0, 0, 0, 0x0c080400, 0, 0, 0);
    const __m256i lanes = _mm256_shuffle_epi8((__m256i)words, lowest);
    const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), both);
#else
    for (int j = 0; j < WIDTH; j++) to[j] = static_cast<uint8_t>(words[j]);
#endif
}

// In every word, `sum` and the products of four bytes: of x, which have no sign, and of w, which have one.
inline Words dot(Words sum, Words x, Words w) {
#if WIDTH == 16 && defined(VNNI)
    return (Words)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
#elif WIDTH == 16
    const __m512i low = _mm512_set1_epi16(255), a = (__m512i)x, b = (__m512i)w;
    const __m512i even = _mm512_madd_epi16(_mm512_and_si512(a, low), _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8));
    return sum + (Words)even + (Words)_mm512_madd_epi16(_mm512_srli_epi16(a, 8), _mm512_srai_epi16(b, 8));
#elif WIDTH == 8
    const __m256i low = _mm256_set1_epi16(255), a = (__m256i)x, b = (__m256i)w;
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(a, low), _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
    return sum + (Words)even + (Words)_mm256_madd_epi16(_mm256_srli_epi16(a, 8), _mm256_srai_epi16(b, 8));
#else
    for (int shift = 0; shift < 32; shift += 8) sum += (x >> shift & 255) * (w << (24 - shift) >> 24);
    return sum;
#endif
}

// e to the power of x, which lies between -87 and 0, to two units in the last place.
inline Vector exponential(Vector x) {
    constexpr float SHIFT = 12582912.0f;  // added, it leaves of a number its nearest integer, in the lowest bits
    const Vector shifted = x * 1.44269504f + SHIFT, whole = shifted - SHIFT;
    const Vector rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;  // less whole * ln 2, in two parts
    Vector sum = rest * (1.0f / 720) + 1.0f / 120;
    sum = sum * rest + 1.0f / 24;
    sum = sum * rest + 1.0f / 6;
    sum = sum * rest + 0.5f;
    sum = sum * rest * rest + rest + 1.0f;
    return (Vector)((Bits)sum + ((Bits)shifted << 23));
}

// x times the normal distribution up to x: what lacks from max(x, 0) is u exp(-u^2 / 2) times a quotient of two
// polynomials, fitted to its least greatest error, 7e-9. Where u = |x| > 8 nothing is left of it.
inline Vector gelu(Vector x) {
    const Vector size = x < 0 ? -x : x, u = size > 8.0f ? Vector{} + 8.0f : size;
    const Vector above = ((u * -0.0001075059554f + 0.0370704606f) * u + 0.1953612268f) * u + 0.5000004173f;
    const Vector below = ((u * 0.0885942355f + 0.5224207044f) * u + 1.1886233091f) * u + 1.0f;
    return (x < 0 ? Vector{} : x) - u * exponential(u * u * -0.5f) * above / below;
}

// x times the logistic function of x.
inline Vector silu(Vector x) {
    const Vector less = x < 0 ? x : -x, part = exponential(less < -87.0f ? Vector{} - 87.0f : less);
    return x * (x < 0 ? part : Vector{} + 1.0f) / (part + 1.0f);
}

// A vector of a panel's row of weights, from `column` on.
inline Vector weights_at(const float* row, int64_t column) { return load(row + column); }

// A vector's numbers are spread over the lanes of 128 bits, four to each, and then over upper three quarters of words. More
// is read than a vector's, but units lie behind the last row.
inline Vector weights_at(const Fixed24* row, int64_t column) {
#if WIDTH == 16
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11);
    const __m512i places = _mm512_broadcast_i32x4(
        _mm_setr_epi8(-1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11));
    const __m512i spread = _mm512_permutexvar_epi32(lanes, _mm512_loadu_si512(row + column));
    return (Vector)_mm512_cvtepi32_ps(_mm512_shuffle_epi8(spread, places));
#elif WIDTH == 8
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 2, 3, 4, 5, 5);
    const __m256i places = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11));
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + column));
    return (Vector)_mm256_cvtepi32_ps(_mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(bytes, lanes), places));
#else
    Vector value;
    for (int j = 0; j < WIDTH; j++) {
        const uint8_t* bytes = row[column + j].bytes;
        value[j] = static_cast<float>(static_cast<int32_t>(bytes[0] << 8 | bytes[1] << 16 | uint32_t{bytes[2]} << 24));
    }
    return value;
#endif
}
}  // namespace
}  // namespace convolution
