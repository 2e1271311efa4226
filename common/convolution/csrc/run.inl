// Included by one file per instruction set, which defines WIDTH (floats of a vector) and ROWS (of a register block).
#include <string.h>

#include <algorithm>

#include "kernels.h"

namespace convolution {
namespace {

typedef float Vector __attribute__((vector_size(4 * WIDTH), aligned(4)));
constexpr int64_t STEP = 2 * WIDTH;  // columns of a register block

inline Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<Vector*>(to) = value; }

typedef uint32_t Bits __attribute__((vector_size(4 * WIDTH), aligned(4)));

// A matrix of broadcast values against rows of columns: sum over s, i of x[r, s * jump + i] times w[s * depth + i].
template <class X, class W>
struct Factors {
    const X* x;
    int64_t row, jump;  // values between rows of x, and between its segments
    const W* w;         // [segments * depth][PANEL]; of bfloat16 two rows are interleaved
    int64_t segments, depth;
    const char* ahead;  // what to fetch into the second cache meanwhile
};

// y [R][PANEL] = the sums of R rows; LINES cache lines are fetched per 128 bytes of w. GCC keeps the accumulators in
// registers only if it is told to unroll.
template <int R, int LINES>
void sums(const Factors<float, float>& f, float* y) {
    for (int64_t column = 0; column < PANEL; column += STEP) {
        Vector low[R], high[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) low[r] = high[r] = Vector{};
        const float* w = f.w + column;
        const char* ahead = f.ahead;
        for (int64_t s = 0; s < f.segments; s++) {
            const float* x = f.x + s * f.jump;
            for (int64_t i = 0; i < f.depth; i++, w += PANEL, ahead += 64 * LINES) {
                const Vector u = load(w), v = load(w + WIDTH);
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
            for (int64_t i = 0; i < f.depth; i += 2, w += 2 * PANEL, ahead += 64 * LINES) {
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
        for (int64_t i = 0; i < f.depth; i += 2, w += 2 * PANEL, ahead += 64 * LINES) {
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

// The kernel of as many rows as there are, up to ROWS.
template <int LINES, int R, class F>
void sums_of(int64_t rows, const F& factors, float* y) {
    if constexpr (R > 0) {
        if (rows == R) return sums<R, LINES>(factors, y);
        sums_of<LINES, R - 1>(rows, factors, y);
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

// X: transformed inputs, and those that are copied; W: weights; floats, or uint16_t for bfloat16.
template <class X, class W>
class Run {
  public:
    explicit Run(const convolution_problem& problem)
        : p(problem), layout(layout_of(problem)), panels(rounded(p.filters, PANEL) / PANEL),
          starts(static_cast<int64_t*>(p.workspace)),
          input(reinterpret_cast<X*>(static_cast<char*>(p.workspace) + layout.starts_bytes)),
          products(reinterpret_cast<float*>(static_cast<char*>(p.workspace) + layout.starts_bytes +
                                            layout.input_bytes)) {}

    void operator()() const {
        if (p.form == CONVOLUTION_DIRECT)
            direct();
        else
            transformed();
        if (!p.output_lengths) return;
        for (int64_t b = 0; b < p.batch; b++)
            for (int64_t s = output_length(b); s < p.outputs; s++)
                memset(p.y + b * p.y_batch_stride + s * p.y_frame_stride, 0, p.filters * sizeof(float));
    }

  private:
    int64_t output_length(int64_t b) const {
        return p.output_lengths ? std::min(std::max<int64_t>(p.output_lengths[b], 0), p.outputs) : p.outputs;
    }

    // `count` columns of an input frame, `to` being filled up with zeros to a panel; zeros outside of the input.
    void read(int64_t b, int64_t frame, int64_t column, int64_t count, float* to) const {
        const int64_t valid = frame >= 0 && frame < p.frames ? count : 0;
        const float* from = p.x + b * p.x_batch_stride + (valid ? frame : 0) * p.x_frame_stride + column;
        if (valid == PANEL && p.input_slope == 1.0f) return put(to, from);
        for (int64_t j = 0; j < valid; j++) to[j] = from[j] * (from[j] < 0 ? p.input_slope : 1.0f);
        for (int64_t j = valid; j < PANEL; j++) to[j] = 0;
    }

    // Bias, residual and activation of a row of a panel's sums, to its place.
    void write(int64_t b, int64_t s, int64_t column, const float* sum) const {
        const int64_t count = std::min(PANEL, p.filters - column);
        float* y = p.y + b * p.y_batch_stride + s * p.y_frame_stride + column;
        const float* bias = p.bias ? p.bias + column : nullptr;
        const float* residual =
            p.residual ? p.residual + b * p.residual_batch_stride + s * p.residual_frame_stride + column : nullptr;
        if (count == PANEL)
            finish(sum, bias, residual, y, PANEL);
        else
            finish(sum, bias, residual, y, count);
    }

    inline __attribute__((always_inline)) void finish(const float* sum, const float* bias, const float* residual,
                                                      float* y, int64_t count) const {
        float value[PANEL];
        for (int64_t j = 0; j < count; j++) value[j] = sum[j];
        if (bias)
            for (int64_t j = 0; j < count; j++) value[j] += bias[j];
        if (residual)
            for (int64_t j = 0; j < count; j++) value[j] += residual[j];
        const float slope = p.output_slope;
        if (p.activation == CONVOLUTION_LEAKY_RELU)
            for (int64_t j = 0; j < count; j++) value[j] = value[j] < 0 ? value[j] * slope : value[j];
        else if (p.activation == CONVOLUTION_CLIPPED_RELU)
            for (int64_t j = 0; j < count; j++) value[j] = value[j] < 0 ? 0 : (value[j] > slope ? slope : value[j]);
        for (int64_t j = 0; j < count; j++) y[j] = value[j];
    }

    // ---- the sum as it is defined

    void direct() const {
        const bool copied = is_copied(p);
#pragma omp parallel num_threads(p.threads) if (p.threads > 1)
        for (int64_t b = 0; b < p.batch; b++) {
            const int64_t outputs = output_length(b);
            for (int64_t first = 0; first < outputs; first += layout.chunk) {
                const int64_t rows = std::min(layout.chunk, outputs - first);
                const X* x = input;
                int64_t frame = layout.input_stride;
                if (copied) {
                    copy(b, first, rows);
                } else {  // then they are floats
                    x = reinterpret_cast<const X*>(p.x + b * p.x_batch_stride + first * p.stride * p.x_frame_stride);
                    frame = p.x_frame_stride;
                }
                const int64_t parts = (rows + ROWS - 1) / ROWS;
#pragma omp for schedule(static)
                for (int64_t job = 0; job < panels * parts; job++) {
                    const int64_t panel = job / parts, part = job % parts;
                    const int64_t row = part * (rows / parts) + std::min(part, rows % parts);
                    const int64_t count = rows / parts + (part < rows % parts);
                    const W* w = static_cast<const W*>(p.weight) + panel * p.taps * depth() * PANEL;
                    alignas(64) float sum[ROWS * PANEL];
                    const Factors<X, W> factors{x + row * p.stride * frame, p.stride * frame, p.dilation * frame,
                                                w, p.taps, depth(), nullptr};
                    sums_of<0, ROWS>(count, factors, sum);
                    for (int64_t r = 0; r < count; r++) write(b, first + row + r, panel * PANEL, sum + r * PANEL);
                }
            }
        }
    }

    // Rows of a panel of weights: channels, even in number for bfloat16.
    int64_t depth() const { return rounded(p.channels, sizeof(W) == 2 ? 2 : 1); }

    void copy(int64_t b, int64_t first, int64_t rows) const {
        const int64_t frames = (rows - 1) * p.stride + (p.taps - 1) * p.dilation + 1;
#pragma omp for schedule(static)
        for (int64_t frame = 0; frame < frames; frame++) {
            X* to = input + frame * layout.input_stride;
            for (int64_t column = 0; column < p.channels; column += PANEL) {
                alignas(64) float values[PANEL];
                alignas(64) X rounded_values[PANEL];
                const int64_t count = std::min(PANEL, layout.input_stride - column);
                read(b, first * p.stride + frame - p.before, column, std::min(PANEL, p.channels - column), values);
                if (count == PANEL) {
                    put(to + column, values);
                } else {
                    put(rounded_values, values);
                    memcpy(to + column, rounded_values, count * sizeof(X));
                }
            }
        }
    }

    // ---- fast

    // Rows of a small matrix of `size` columns against a strip of as many rows.
    static Factors<float, float> matrix(const float* rows, int64_t size, const float* strip) {
        return {rows, size, 0, strip, 1, size, nullptr};
    }

    // A row of the products: one phase of one block, dilated frames t0, t0 + dilation, ...
    struct Row {
        int64_t b, t0;
    };

    Row row_of(int64_t q) const {
        const int64_t b = std::upper_bound(starts, starts + p.batch + 1, q) - starts - 1;
        const int64_t block = (q - starts[b]) / p.dilation, phase = (q - starts[b]) % p.dilation;
        return {b, block * fresh(p) * p.dilation + phase};
    }

    void transformed() const {
        const int64_t made = fresh(p) * p.dilation;
        starts[0] = 0;
        for (int64_t b = 0; b < p.batch; b++)
            starts[b + 1] = starts[b] + (output_length(b) + made - 1) / made * p.dilation;
        const int64_t rows = starts[p.batch], strips = layout.input_stride / PANEL;
#pragma omp parallel num_threads(p.threads) if (p.threads > 1)
        for (int64_t first = 0; first < rows; first += layout.chunk) {
            const int64_t count = std::min(layout.chunk, rows - first);
#pragma omp for schedule(static)
            for (int64_t job = 0; job < count * strips; job++)
                transform_input(row_of(first + job / strips), job / strips, job % strips * PANEL);
#pragma omp for schedule(static)
            for (int64_t job = 0; job < p.points * panels; job++) multiply(job / panels, job % panels, count);
#pragma omp for schedule(static)
            for (int64_t job = 0; job < count * panels; job++)
                transform_output(row_of(first + job / panels), job / panels, job % panels * PANEL);
        }
    }

    void multiply(int64_t point, int64_t panel, int64_t rows) const {
        const int64_t size = depth() * PANEL, parts = (rows + ROWS - 1) / ROWS;
        const W* w = static_cast<const W*>(p.weight) + (point * panels + panel) * size;
        for (int64_t part = 0, first = 0; part < parts; part++) {
            const int64_t count = rows / parts + (part < rows % parts);
            alignas(64) float sum[ROWS * PANEL];
            const X* x = input + point * layout.input_plane + first * layout.input_stride;
            // Weights are read from memory once: while a panel is in use, the first two parts fetch half of the next.
            const char* next = reinterpret_cast<const char*>(w + size);
            if (part == 1) next += size * sizeof(W) / 2;
            const Factors<X, W> factors{x, layout.input_stride, 0, w, 1, depth(), next};
            if (!layout.is_streamed || part > 1)
                sums_of<0, ROWS>(count, factors, sum);
            else if (parts > 1)
                sums_of<1, ROWS>(count, factors, sum);
            else
                sums_of<2, ROWS>(count, factors, sum);
            float* y = products + point * layout.sums_plane + first * panels * PANEL + panel * PANEL;
            for (int64_t r = 0; r < count; r++) put(y + r * panels * PANEL, sum + r * PANEL);
            first += count;
        }
    }

    void transform_input(Row at, int64_t row, int64_t column) const {
        alignas(64) float strip[2 * BLOCKS * PANEL];
        const int64_t columns = std::min(PANEL, p.channels - column);
        X* to = input + row * layout.input_stride + column;
        const int64_t plane = layout.input_plane;
        alignas(64) float sum[2 * ROWS * PANEL];
        if (p.form == CONVOLUTION_PLAIN) {
            for (int64_t n = 0; n < p.block; n++)
                read(at.b, at.t0 + n * p.dilation - p.before, column, columns, strip + n * PANEL);
            in_parts(p.points, ROWS, [&](int64_t first, int64_t count) {
                sums_of<0, ROWS>(count, matrix(p.input + first * p.block, p.block, strip), sum);
                for (int64_t r = 0; r < count; r++) put(to + (first + r) * plane, sum + r * PANEL);
            });
            return;
        }
        const int64_t inner = sines(p.block), size = p.block - inner;
        float *even = strip, *odd = strip + size * PANEL;
        for (int64_t n = 0; n < size; n++) {
            const int64_t mirrored = p.block - n;
            read(at.b, at.t0 + n * p.dilation - p.before, column, columns, even + n * PANEL);
            if (n == 0 || mirrored == n) {
                memset(odd + n * PANEL, 0, PANEL * sizeof(float));
                continue;
            }
            alignas(64) float other[PANEL];
            read(at.b, at.t0 + mirrored * p.dilation - p.before, column, columns, other);
            for (int64_t j = 0; j < PANEL; j++) {
                const float value = even[n * PANEL + j];
                even[n * PANEL + j] = value + other[j];
                odd[n * PANEL + j] = value - other[j];
            }
        }
        const float *cosines = p.input, *sine = p.input + size * size;
        for (int64_t f = 0; f < size; f += inner + 1) {  // zero and, of an even block, half of the sampling frequency
            sums<1, 0>(matrix(cosines + f * size, size, strip), sum);
            put(to + f * plane, sum);
        }
        float* imaginary = sum + ROWS * PANEL;
        in_parts(inner, ROWS / 2, [&](int64_t first, int64_t count) {
            halves_of<ROWS / 2>(count, cosines + (first + 1) * size, sine + first * size, size, strip, sum, imaginary);
            for (int64_t r = 0; r < count; r++) {
                put(to + (first + r + 1) * plane, sum + r * PANEL);
                put(to + (size + first + r) * plane, imaginary + r * PANEL);
                for (int64_t j = 0; j < PANEL; j++) sum[r * PANEL + j] += imaginary[r * PANEL + j];
                put(to + (size + inner + first + r) * plane, sum + r * PANEL);
            }
        });
    }

    void transform_output(Row at, int64_t row, int64_t column) const {
        const int64_t outputs = output_length(at.b);
        if (at.t0 >= outputs) return;
        const int64_t wanted = std::min(fresh(p), (outputs - at.t0 + p.dilation - 1) / p.dilation);
        alignas(64) float strip[2 * BLOCKS * PANEL];
        const float* from = products + row * panels * PANEL + column;
        const int64_t plane = layout.sums_plane;
        int64_t size = p.points;
        if (p.form == CONVOLUTION_PLAIN) {
            for (int64_t point = 0; point < size; point++) put(strip + point * PANEL, from + point * plane);
        } else {
            const int64_t inner = sines(p.block), even = p.block - inner;
            size = p.block;
            for (int64_t f = 0; f < even; f += inner + 1) put(strip + f * PANEL, from + f * plane);
            for (int64_t f = 1; f <= inner; f++) {
                const float *cosine = from + f * plane, *sine = cosine + (even - 1) * plane;
                const float* both = sine + inner * plane;
                float *real = strip + f * PANEL, *imaginary = strip + (even + f - 1) * PANEL;
                for (int64_t j = 0; j < PANEL; j++) {
                    real[j] = both[j] - sine[j];
                    imaginary[j] = both[j] + cosine[j];
                }
            }
        }
        in_parts(wanted, ROWS, [&](int64_t first, int64_t count) {
            alignas(64) float sum[ROWS * PANEL];
            sums_of<0, ROWS>(count, matrix(p.output + first * size, size, strip), sum);
            for (int64_t r = 0; r < count; r++)
                write(at.b, at.t0 + (first + r) * p.dilation, column, sum + r * PANEL);
        });
    }

    static constexpr int64_t BLOCKS = 256;  // the longest block

    const convolution_problem& p;
    const Layout layout;
    const int64_t panels;
    int64_t* const starts;
    X* const input;
    float* const products;
};

}  // namespace
}  // namespace convolution
