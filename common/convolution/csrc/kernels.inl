// The kernels, of registers. Included by one file per instruction set, which defines WIDTH (floats of a vector) and ROWS (of a register block).
#include <string.h>

#include <algorithm>

#include "vectors.inl"

namespace convolution {
namespace {

// A matrix of broadcast values against rows of columns: sum over s, i of x[r, s * jump + i] times w[s * depth + i].
template <class X, class W>
struct Factors {
    const X* x;
    int64_t row, jump;  // values between rows of x, and between its segments
    const W* w;         // [segments * depth][PANEL]; of bfloat16 two rows are interleaved
    int64_t segments, depth;
    const char* ahead;  // what to fetch into the second cache meanwhile, and how much of it with a row of w
    int64_t step = 0;
    float* kept = nullptr;  // weights in fixed point are written here as floats, if it is not null
};

// The same of floats, for the first vector of the columns alone.
struct Narrow : Factors<float, float> {};

// Weights that are used once: while they are, those that follow are fetched, as products of few rows take less time than
// reading. 128 bytes are what a round of every kernel takes.
constexpr int64_t STREAMED = 128;
constexpr int64_t AHEAD_BYTES = 6144;
inline const char* ahead_of(const void* weights) { return static_cast<const char*>(weights) + AHEAD_BYTES; }

// Channels of a round.
template <class W>
constexpr int64_t interleaved_of = sizeof(W) == 2 ? 2 : sizeof(W) == 1 ? 4 : 1;

// y [R][PANEL] = the sums of R rows; LINES cache lines are fetched with each of its rows. GCC keeps the accumulators in
// registers only if it is told to unroll.
template <int R, int LINES, class W>
void sums(const Factors<float, W>& f, float* y) {
    for (int64_t column = 0; column < PANEL; column += STEP) {
        Vector low[R], high[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) low[r] = high[r] = Vector{};
        const W* w = f.w;
        const char* ahead = f.ahead;
        for (int64_t s = 0; s < f.segments; s++) {
            const float* x = f.x + s * f.jump;
            for (int64_t i = 0; i < f.depth; i++, w += PANEL, ahead += f.step) {
                const Vector u = weights_at(w, column), v = weights_at(w, column + WIDTH);
                if constexpr (sizeof(W) == 3) {
                    if (f.kept) store(f.kept + i * PANEL + column, u), store(f.kept + i * PANEL + column + WIDTH, v);
                }
                if (LINES > 0) __builtin_prefetch(ahead, 0, 2);
                if (LINES > 1) __builtin_prefetch(ahead + 64, 0, 2);
#pragma GCC unroll 16
                for (int r = 0; r < R; r++) {
                    const float factor = x[r * f.row + i];
                    low[r] += factor * u;
                    high[r] += factor * v;
                }
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            store(y + r * PANEL + column, low[r]);
            store(y + r * PANEL + column + WIDTH, high[r]);
        }
    }
}

template <int R, int LINES>
void sums(const Narrow& f, float* y) {
    Vector sum[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) sum[r] = Vector{};
    const float* w = f.w;
    for (int64_t s = 0; s < f.segments; s++) {
        const float* x = f.x + s * f.jump;
        for (int64_t i = 0; i < f.depth; i++, w += PANEL) {
            const Vector u = load(w);
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) sum[r] += x[r * f.row + i] * u;
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) store(y + r * PANEL, sum[r]);
}

// The same in double precision.
template <int R, int LINES>
void sums(const Factors<double, double>& f, double* y) {
    constexpr int64_t DOUBLES = WIDTH / 2;
    typedef double Doubles __attribute__((vector_size(4 * WIDTH), aligned(8)));
    for (int64_t column = 0; column < PANEL; column += 2 * DOUBLES) {
        Doubles low[R], high[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) low[r] = high[r] = Doubles{};
        for (int64_t i = 0; i < f.depth; i++) {
            const Doubles* w = reinterpret_cast<const Doubles*>(f.w + i * PANEL + column);
            const Doubles u = w[0], v = w[1];
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) {
                const double factor = f.x[r * f.row + i];
                low[r] += factor * u;
                high[r] += factor * v;
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            Doubles* to = reinterpret_cast<Doubles*>(y + r * PANEL + column);
            to[0] = low[r];
            to[1] = high[r];
        }
    }
}

// The same with weights in bfloat16, which are the upper halves of floats.
template <int R, int LINES>
void sums(const Factors<float, uint16_t>& f, float* y) {
    for (int64_t column = 0; column < PANEL; column += STEP) {
        Vector low[R], high[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) low[r] = high[r] = Vector{};
        const uint16_t* w = f.w + 2 * column;
        const char* ahead = f.ahead;
        for (int64_t s = 0; s < f.segments; s++) {
            const float* x = f.x + s * f.jump;
            for (int64_t i = 0; i < f.depth; i += 2, w += 2 * PANEL, ahead += f.step) {
                const Bits left = *reinterpret_cast<const Bits*>(w), right = *reinterpret_cast<const Bits*>(w + 2 * WIDTH);
                if (LINES > 0) __builtin_prefetch(ahead, 0, 2);
                if (LINES > 1) __builtin_prefetch(ahead + 64, 0, 2);
                Vector u = (Vector)(left << 16), v = (Vector)(right << 16);
#pragma GCC unroll 16
                for (int r = 0; r < R; r++) {
                    const float factor = x[r * f.row + i];
                    low[r] += factor * u;
                    high[r] += factor * v;
                }
                u = (Vector)(left & 0xffff0000u), v = (Vector)(right & 0xffff0000u);
#pragma GCC unroll 16
                for (int r = 0; r < R; r++) {
                    const float factor = x[r * f.row + i + 1];
                    low[r] += factor * u;
                    high[r] += factor * v;
                }
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            store(y + r * PANEL + column, low[r]);
            store(y + r * PANEL + column + WIDTH, high[r]);
        }
    }
}

// Cosine and sine parts [R][PANEL] of R frequencies, of sums and of differences of mirrored frames.
template <int R>
void halves(const float* cosines, const float* sines, int64_t size, const float* strip, float* real, float* imaginary) {
    for (int64_t column = 0; column < PANEL; column += STEP) {
        Vector a[R], b[R], c[R], d[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) a[r] = b[r] = c[r] = d[r] = Vector{};
        const float *even = strip + column, *odd = even + size * PANEL;
        for (int64_t i = 0; i < size; i++) {
            const Vector u = load(even + i * PANEL), v = load(even + i * PANEL + WIDTH);
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) {
                const float factor = cosines[r * size + i];
                a[r] += factor * u;
                b[r] += factor * v;
            }
            const Vector y = load(odd + i * PANEL), z = load(odd + i * PANEL + WIDTH);
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) {
                const float factor = sines[r * size + i];
                c[r] += factor * y;
                d[r] += factor * z;
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            store(real + r * PANEL + column, a[r]);
            store(real + r * PANEL + column + WIDTH, b[r]);
            store(imaginary + r * PANEL + column, c[r]);
            store(imaginary + r * PANEL + column + WIDTH, d[r]);
        }
    }
}

inline void put(float* to, const float* from) { memcpy(to, from, PANEL * sizeof(float)); }

#ifdef BFLOAT16
inline void put(uint16_t* to, const float* from) {
    for (int64_t j = 0; j < PANEL; j += 16) {
        const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(from + j));
        memcpy(to + j, &rounded, sizeof rounded);
    }
}

template <int R, int LINES>
void sums(const Factors<uint16_t, uint16_t>& f, float* y) {
    __m512 low[R], high[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) low[r] = high[r] = _mm512_setzero_ps();
    const uint16_t* w = f.w;
    const char* ahead = f.ahead;
    for (int64_t s = 0; s < f.segments; s++) {
        const uint16_t* x = f.x + s * f.jump;
        for (int64_t i = 0; i < f.depth; i += 2, w += 2 * PANEL, ahead += f.step) {
            const __m512bh u = (__m512bh)_mm512_loadu_si512(w), v = (__m512bh)_mm512_loadu_si512(w + PANEL);
            if (LINES > 0) __builtin_prefetch(ahead, 0, 2);
            if (LINES > 1) __builtin_prefetch(ahead + 64, 0, 2);
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) {
                int32_t pair;
                memcpy(&pair, x + r * f.row + i, sizeof pair);
                const __m512bh factor = (__m512bh)_mm512_set1_epi32(pair);
                low[r] = _mm512_dpbf16_ps(low[r], factor, u);
                high[r] = _mm512_dpbf16_ps(high[r], factor, v);
            }
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
        _mm512_storeu_ps(y + r * PANEL, low[r]);
        _mm512_storeu_ps(y + r * PANEL + 16, high[r]);
    }
}
#endif

// Products of complex numbers whose weights are pairs of a real and an imaginary part, from three real products each.
template <class W>
struct Pairs {
    const float *real, *imaginary, *both;
    int64_t row;
    const W* w;  // [depth][2][PANEL]; of bfloat16 two rows of either part are interleaved
    int64_t depth;
    const char* ahead;  // as in Factors
    int64_t step;
    float* kept;
};

constexpr int PAIR_ROWS = 4, PAIR_VECTORS = ROWS == 12 ? 2 : 1;

// R rows of three sums each, of PAIR_VECTORS vectors.
template <int R>
struct PairSums {
    Vector both[R][PAIR_VECTORS], real[R][PAIR_VECTORS], imaginary[R][PAIR_VECTORS];
};

template <int R, class W>
inline __attribute__((always_inline)) void add(PairSums<R>& sums, const Pairs<W>& f, int64_t i,
                                               const Vector (&cosine)[PAIR_VECTORS],
                                               const Vector (&sine)[PAIR_VECTORS]) {
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
        const float factor = f.both[r * f.row + i];
#pragma GCC unroll 16
        for (int v = 0; v < PAIR_VECTORS; v++) sums.both[r][v] += factor * cosine[v];
    }
    Vector less[PAIR_VECTORS], more[PAIR_VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < PAIR_VECTORS; v++) less[v] = sine[v] - cosine[v];
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
        const float factor = f.real[r * f.row + i];
#pragma GCC unroll 16
        for (int v = 0; v < PAIR_VECTORS; v++) sums.real[r][v] += factor * less[v];
    }
#pragma GCC unroll 16
    for (int v = 0; v < PAIR_VECTORS; v++) more[v] = sine[v] + cosine[v];
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
        const float factor = f.imaginary[r * f.row + i];
#pragma GCC unroll 16
        for (int v = 0; v < PAIR_VECTORS; v++) sums.imaginary[r][v] += factor * more[v];
    }
}

template <int LINES>
inline __attribute__((always_inline)) void fetch(const char* ahead) {
#pragma GCC unroll 16
    for (int line = 0; line < LINES; line++) __builtin_prefetch(ahead + 64 * line, 0, 2);
}

template <int R, class W>
inline __attribute__((always_inline)) void accumulate(PairSums<R>& sums, const Pairs<W>& f, int64_t i,
                                                      int64_t column) {
    const W* w = f.w + i * 2 * PANEL;
    Vector cosine[PAIR_VECTORS], sine[PAIR_VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < PAIR_VECTORS; v++) {
        cosine[v] = weights_at(w, column + v * WIDTH);
        sine[v] = weights_at(w + PANEL, column + v * WIDTH);
    }
    if constexpr (sizeof(W) == 3) {
        if (f.kept) {
            float* kept = f.kept + i * 2 * PANEL + column;
#pragma GCC unroll 16
            for (int v = 0; v < PAIR_VECTORS; v++) {
                store(kept + v * WIDTH, cosine[v]);
                store(kept + PANEL + v * WIDTH, sine[v]);
            }
        }
    }
    add(sums, f, i, cosine, sine);
}

template <int R>
inline __attribute__((always_inline)) void accumulate(PairSums<R>& sums, const Pairs<uint16_t>& f, int64_t i,
                                                      int64_t column) {
    const uint16_t* w = f.w + i * 2 * PANEL + 2 * column;
    Vector cosine[PAIR_VECTORS], sine[PAIR_VECTORS];
    Bits left[PAIR_VECTORS], right[PAIR_VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < PAIR_VECTORS; v++) {
        left[v] = *reinterpret_cast<const Bits*>(w + 2 * v * WIDTH);
        right[v] = *reinterpret_cast<const Bits*>(w + 2 * PANEL + 2 * v * WIDTH);
        cosine[v] = (Vector)(left[v] << 16);
        sine[v] = (Vector)(right[v] << 16);
    }
    add(sums, f, i, cosine, sine);
#pragma GCC unroll 16
    for (int v = 0; v < PAIR_VECTORS; v++) {
        cosine[v] = (Vector)(left[v] & 0xffff0000u);
        sine[v] = (Vector)(right[v] & 0xffff0000u);
    }
    add(sums, f, i + 1, cosine, sine);
}

// real and imaginary [R][PANEL]: the sums of R rows; LINES cache lines are fetched with each of its channels.
template <int R, int LINES, class W>
void pairs(const Pairs<W>& f, float* real, float* imaginary) {
    constexpr int64_t CHANNELS = sizeof(W) == 2 ? 2 : 1;
    for (int64_t column = 0; column < PANEL; column += PAIR_VECTORS * WIDTH) {
        PairSums<R> sums;
#pragma GCC unroll 16
        for (int r = 0; r < R; r++)
#pragma GCC unroll 16
            for (int v = 0; v < PAIR_VECTORS; v++) sums.both[r][v] = sums.real[r][v] = sums.imaginary[r][v] = Vector{};
        const char* ahead = f.ahead;
        for (int64_t i = 0; i < f.depth; i += CHANNELS, ahead += f.step) {
            fetch<LINES>(ahead);
            accumulate(sums, f, i, column);
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; r++)
#pragma GCC unroll 16
            for (int v = 0; v < PAIR_VECTORS; v++) {
                store(real + r * PANEL + column + v * WIDTH, sums.both[r][v] - sums.imaginary[r][v]);
                store(imaginary + r * PANEL + column + v * WIDTH, sums.both[r][v] + sums.real[r][v]);
            }
    }
}

template <int LINES, int R, class W>
void pairs_of(int64_t rows, const Pairs<W>& factors, float* real, float* imaginary) {
    if constexpr (R > 0) {
        if (rows == R) return pairs<R, LINES>(factors, real, imaginary);
        pairs_of<LINES, R - 1>(rows, factors, real, imaginary);
    }
}

// The kernel of as many rows as there are, up to ROWS.
template <int LINES, int R, class F, class Y>
void sums_of(int64_t rows, const F& factors, Y* y) {
    if constexpr (R > 0) {
        if (rows == R) return sums<R, LINES>(factors, y);
        sums_of<LINES, R - 1>(rows, factors, y);
    }
}

// ---- products of bytes

inline Words words(const int8_t* from) { return *reinterpret_cast<const Words*>(from); }

// Four bytes, in every word.
inline Words four(const uint8_t* from) {
    int32_t word;
    memcpy(&word, from, sizeof word);
    return Words{} + word;
}

template <int R, int LINES>
void sums(const Factors<uint8_t, int8_t>& f, int32_t* y) {
    for (int64_t column = 0; column < PANEL; column += STEP) {
        Words low[R], high[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) low[r] = high[r] = Words{};
        const int8_t* w = f.w + 4 * column;
        const char* ahead = f.ahead;
        for (int64_t i = 0; i < f.depth; i += 4, w += 4 * PANEL, ahead += f.step) {
            const Words u = words(w), v = words(w + 4 * WIDTH);
            fetch<LINES>(ahead);
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) {
                const Words factor = four(f.x + r * f.row + i);
                low[r] = dot(low[r], factor, u);
                high[r] = dot(high[r], factor, v);
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            *reinterpret_cast<Words*>(y + r * PANEL + column) = low[r];
            *reinterpret_cast<Words*>(y + r * PANEL + column + WIDTH) = high[r];
        }
    }
}

// Products of complex numbers, by four real ones each.
struct BytePairs {
    const uint8_t *real, *imaginary, *negative;  // the last is the imaginary part with the other sign
    int64_t row;
    const int8_t* w;  // [depth / 4][2][PANEL][4]
    int64_t depth;
    const char* ahead;  // as in Factors
    int64_t step;
};

constexpr int BYTE_PAIR_ROWS = 6;

template <int R, int LINES>
void pairs(const BytePairs& f, int32_t* real, int32_t* imaginary) {
    for (int64_t column = 0; column < PANEL; column += PAIR_VECTORS * WIDTH) {
        Words a[R][PAIR_VECTORS], b[R][PAIR_VECTORS];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++)
#pragma GCC unroll 16
            for (int v = 0; v < PAIR_VECTORS; v++) a[r][v] = b[r][v] = Words{};
        const int8_t* w = f.w + 4 * column;
        const char* ahead = f.ahead;
        for (int64_t i = 0; i < f.depth; i += 4, w += 8 * PANEL, ahead += f.step) {
            Words cosine[PAIR_VECTORS], sine[PAIR_VECTORS];
#pragma GCC unroll 16
            for (int v = 0; v < PAIR_VECTORS; v++) {
                cosine[v] = words(w + 4 * v * WIDTH);
                sine[v] = words(w + 4 * PANEL + 4 * v * WIDTH);
            }
            fetch<LINES>(ahead);
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) {
                const Words x = four(f.real + r * f.row + i), y = four(f.imaginary + r * f.row + i);
                const Words z = four(f.negative + r * f.row + i);
#pragma GCC unroll 16
                for (int v = 0; v < PAIR_VECTORS; v++) {
                    a[r][v] = dot(a[r][v], x, cosine[v]);
                    b[r][v] = dot(b[r][v], x, sine[v]);
                }
#pragma GCC unroll 16
                for (int v = 0; v < PAIR_VECTORS; v++) {
                    a[r][v] = dot(a[r][v], z, sine[v]);
                    b[r][v] = dot(b[r][v], y, cosine[v]);
                }
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; r++)
#pragma GCC unroll 16
            for (int v = 0; v < PAIR_VECTORS; v++) {
                *reinterpret_cast<Words*>(real + r * PANEL + column + v * WIDTH) = a[r][v];
                *reinterpret_cast<Words*>(imaginary + r * PANEL + column + v * WIDTH) = b[r][v];
            }
    }
}

template <int LINES, int R>
void pairs_of(int64_t rows, const BytePairs& factors, int32_t* real, int32_t* imaginary) {
    if constexpr (R > 0) {
        if (rows == R) return pairs<R, LINES>(factors, real, imaginary);
        pairs_of<LINES, R - 1>(rows, factors, real, imaginary);
    }
}

template <int R>
void halves_of(int64_t rows, const float* cosines, const float* sines, int64_t size, const float* strip, float* real,
               float* imaginary) {
    if constexpr (R > 0) {
        if (rows == R) return halves<R>(cosines, sines, size, strip, real, imaginary);
        halves_of<R - 1>(rows, cosines, sines, size, strip, real, imaginary);
    }
}

// Calls body(first, count) for `rows` rows in as few and as equal parts as `most` allows.
template <class Body>
inline void in_parts(int64_t rows, int64_t most, const Body& body) {
    const int64_t parts = (rows + most - 1) / most;
    for (int64_t part = 0, first = 0; part < parts; part++) {
        const int64_t count = rows / parts + (part < rows % parts);
        body(first, count);
        first += count;
    }
}
}  // namespace
}  // namespace convolution
