// A product of matrices by the kernels of an instruction set. Included after kernels.inl.
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "product.h"

namespace convolution {
namespace {

// Rows of A that are side by side in memory, [depth][ROWS], against rows of columns.
struct Columns {
    const float* x;
    const float* w;  // [depth][PANEL]
    int64_t depth;
};

template <int R, int LINES>
void sums(const Columns& f, float* y) {
    for (int64_t column = 0; column < PANEL; column += STEP) {
        Vector low[R], high[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) low[r] = high[r] = Vector{};
        const float *w = f.w + column, *x = f.x;
        for (int64_t i = 0; i < f.depth; i++, w += PANEL, x += ROWS) {
            const Vector u = load(w), v = load(w + WIDTH);
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) {
                low[r] += x[r] * u;
                high[r] += x[r] * v;
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            store(y + r * PANEL + column, low[r]);
            store(y + r * PANEL + column + WIDTH, high[r]);
        }
    }
}

// The same where the panel has no more columns than a vector.
struct NarrowColumns {
    const float* x;
    const float* w;
    int64_t depth;
};

template <int R, int LINES>
void sums(const NarrowColumns& f, float* y) {
    Vector sum[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) sum[r] = Vector{};
    const float *w = f.w, *x = f.x;
    for (int64_t i = 0; i < f.depth; i++, w += PANEL, x += ROWS) {
        const Vector u = load(w);
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) sum[r] += x[r] * u;
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) store(y + r * PANEL, sum[r]);
}

#ifdef __clang__
#define SHUFFLED(a, b, lanes) shuffled(a, b, lanes)
inline Vector shuffled(Vector a, Vector b, Bits lanes) {
    Vector found;
    for (int i = 0; i < WIDTH; i++) found[i] = lanes[i] < WIDTH ? a[lanes[i]] : b[lanes[i] - WIDTH];
    return found;
}
#else
#define SHUFFLED(a, b, lanes) __builtin_shuffle(a, b, lanes)
#endif

// Exchanges the blocks of size S that lie across the diagonal, then smaller ones.
template <int S>
inline __attribute__((always_inline)) void transpose(Vector (&rows)[WIDTH]) {
    if constexpr (S > 0) {
        Bits upper{}, lower{};
#pragma GCC unroll 16
        for (int lane = 0; lane < WIDTH; lane++) {
            upper[lane] = lane & S ? WIDTH + lane - S : lane;
            lower[lane] = lane & S ? WIDTH + lane : lane + S;
        }
#pragma GCC unroll 16
        for (int i = 0; i < WIDTH; i++) {
            if (i & S) continue;
            const Vector a = rows[i], b = rows[i + S];
            rows[i] = SHUFFLED(a, b, upper);
            rows[i + S] = SHUFFLED(a, b, lower);
        }
        transpose<S / 2>(rows);
    }
}

// The first `count` values, up to a vector, then zeros.
inline Vector first_of(const float* from, int64_t count) {
#ifdef __AVX512F__
    return (Vector)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
#else
    alignas(64) float values[WIDTH] = {};
    for (int64_t j = 0; j < count; j++) values[j] = from[j];
    return load(values);
#endif
}

inline void store_first(float* to, Vector value, int64_t count) {
#ifdef __AVX512F__
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), (__m512)value);
#else
    for (int64_t j = 0; j < count; j++) to[j] = value[j];
#endif
}

// Part of the normal distribution above u >= 0, times exp(u^2 / 2); see `gelu`.
inline Vector gelu_slope(Vector x) {
    const Vector size = x < 0 ? -x : x, u = size > 8.0f ? Vector{} + 8.0f : size;
    const Vector above = ((u * -0.0001075059554f + 0.0370704606f) * u + 0.1953612268f) * u + 0.5000004173f;
    const Vector below = ((u * 0.0885942355f + 0.5224207044f) * u + 1.1886233091f) * u + 1.0f;
    const Vector bell = exponential(u * u * -0.5f), tail = bell * above / below;
    return (x < 0 ? tail - u * bell * 0.3989422804f : 1.0f - tail + u * bell * 0.3989422804f);
}

class Product {
  public:
    explicit Product(const product_problem& problem)
        : p(problem), plan(plan_of(problem)), panels(rounded(p.columns, PANEL) / PANEL),
          packed_b(static_cast<float*>(p.workspace)), packed_a(packed_b + plan.b_values) {}

    void operator()() const {
#pragma omp parallel num_threads(p.threads) if (p.threads > 1)
        for (int64_t n = 0; n < p.outer * p.batch; n++)
            for (int64_t segment = 0; segment < p.segments; segment += plan.segments)
                for (int64_t from = 0; from < p.depth; from += plan.depth)
                    multiply(n, segment, std::min(plan.segments, p.segments - segment), from,
                             std::min(plan.depth, p.depth - from));
    }

  private:
    // One part of the depth, for all rows and columns: called by all threads.
    void multiply(int64_t n, int64_t segment, int64_t segments, int64_t from, int64_t depth) const {
        const int64_t outer = n / p.batch, inner = n % p.batch, place = outer * p.c_outer + inner * p.c_batch;
        const float* a = p.a + outer * p.a_outer + inner * p.a_batch + segment * p.a_segment + from * p.a_depth;
        const float* b = p.b + outer * p.b_outer + inner * p.b_batch + segment * p.b_segment + from * p.b_depth;
        const int64_t deep = segments * depth;
        const bool is_first = segment == 0 && from == 0;
        const bool is_last = segment + segments == p.segments && from + depth == p.depth;
        for (int64_t first = 0; first < p.rows; first += plan.rows) {
            const int64_t count = std::min(plan.rows, p.rows - first), parts = (count + ROWS - 1) / ROWS;
            if (p.a_depth != 1) {
#pragma omp for schedule(static)
                for (int64_t piece = 0; piece < p.threads; piece++) {
                    const int64_t from_part = start(piece, p.threads, parts);
                    pack_rows(a + first * p.a_row, from_part, from_part + size(piece, p.threads, parts), parts, count,
                              segments, depth);
                }
            }
#pragma omp for schedule(static)
            for (int64_t panel = 0; panel < panels; panel++) {
                float* w = packed_b + (plan.keeps ? panel : 0) * deep * PANEL;
                if (first == 0 || !plan.keeps)
                    for (int64_t s = 0; s < segments; s++)
                        pack_panel(b + s * p.b_segment + panel * PANEL * p.b_column,
                                   std::min(PANEL, p.columns - panel * PANEL), depth, w + s * depth * PANEL);
                for (int64_t part = 0; part < parts; part++) {
                    const int64_t row = first + start(part, parts, count), size_of_part = size(part, parts, count);
                    alignas(64) float sum[ROWS * PANEL];
                    if (p.a_depth == 1)
                        sums_of<0, ROWS>(size_of_part,
                                         Factors<float, float>{a + row * p.a_row, p.a_row, p.a_segment, w, segments,
                                                               depth, nullptr},
                                         sum);
                    else if (p.columns - panel * PANEL <= WIDTH)
                        sums_of<0, ROWS>(size_of_part, NarrowColumns{packed_a + part * deep * ROWS, w, deep}, sum);
                    else
                        sums_of<0, ROWS>(size_of_part, Columns{packed_a + part * deep * ROWS, w, deep}, sum);
                    for (int64_t r = 0; r < size_of_part; r++)
                        write(place + (row + r) * p.c_row, panel * PANEL, sum + r * PANEL, is_first, is_last);
                }
            }
        }
    }

    static int64_t start(int64_t part, int64_t parts, int64_t count) {
        return part * (count / parts) + std::min(part, count % parts);
    }
    static int64_t size(int64_t part, int64_t parts, int64_t count) { return count / parts + (part < count % parts); }

    // Parts of the rows of A: what is side by side in memory is read so, whatever part it is of.
    void pack_rows(const float* a, int64_t first, int64_t last, int64_t parts, int64_t rows, int64_t segments,
                   int64_t depth) const {
        const int64_t deep = segments * depth;
        for (int64_t s = 0; s < segments; s++)
            for (int64_t i = 0; i < depth; i++) {
                const float* from = a + s * p.a_segment + i * p.a_depth;
                float* to = packed_a + (s * depth + i) * ROWS;
                for (int64_t part = first; part < last; part++) {
                    const int64_t row = start(part, parts, rows), count = size(part, parts, rows);
                    float* place = to + part * deep * ROWS;
                    if (p.a_row == 1 && row + ROWS <= rows)  // more than the part has does no harm
                        memcpy(place, from + row, ROWS * sizeof(float));
                    else
                        for (int64_t r = 0; r < count; r++) place[r] = from[(row + r) * p.a_row];
                }
            }
    }

    // `count` columns of B, filled up with zeros.
    void pack_panel(const float* b, int64_t count, int64_t depth, float* to) const {
        if (p.b_column == 1) {
            for (int64_t i = 0; i < depth; i++, to += PANEL) {
                if (count == PANEL) {
                    put(to, b + i * p.b_depth);
                } else {
                    memcpy(to, b + i * p.b_depth, count * sizeof(float));
                    memset(to + count, 0, (PANEL - count) * sizeof(float));
                }
            }
            return;
        }
        for (int64_t column = 0; column < PANEL; column += WIDTH)
            for (int64_t i = 0; i < depth; i += WIDTH) {
                const int64_t rest = std::min<int64_t>(WIDTH, depth - i);
                Vector rows[WIDTH];
#pragma GCC unroll 16
                for (int64_t j = 0; j < WIDTH; j++) {
                    const float* from = b + (column + j) * p.b_column + i;
                    rows[j] = column + j >= count ? Vector{} : rest == WIDTH ? load(from) : first_of(from, rest);
                }
                transpose<WIDTH / 2>(rows);
                if (rest == WIDTH)
#pragma GCC unroll 16
                    for (int64_t j = 0; j < WIDTH; j++) store(to + (i + j) * PANEL + column, rows[j]);
                else
                    for (int64_t j = 0; j < rest; j++) store(to + (i + j) * PANEL + column, rows[j]);
            }
    }

    void write(int64_t row, int64_t column, const float* sum, bool is_first, bool is_last) const {
        const int64_t count = std::min(PANEL, p.columns - column), place = row + column;
        float *c = p.c + place, *activated = p.gelu && is_last ? p.gelu + place : nullptr;
        const float* bias = p.bias && is_first ? p.bias + column : nullptr;
        const bool adds = p.adds || !is_first;
        for (int64_t j = 0; j < count; j += WIDTH) {
            const int64_t rest = std::min<int64_t>(WIDTH, count - j);
            Vector value = load(sum + j);
            if (rest < WIDTH) {
                if (bias) value += first_of(bias + j, rest);
                if (adds) value += first_of(c + j, rest);
                store_first(c + j, value, rest);
                if (activated) store_first(activated + j, convolution::gelu(value), rest);
                continue;
            }
            if (bias) value += load(bias + j);
            if (adds) value += load(c + j);
            store(c + j, value);
            if (activated) store(activated + j, convolution::gelu(value));
        }
    }

    const product_problem& p;
    const ProductPlan plan;
    const int64_t panels;
    float *const packed_b, *const packed_a;
};

void all_gelu_backward(int64_t values, const float* x, const float* grad_y, float* grad_x, int32_t threads) {
    constexpr int64_t STRETCH = 1 << 12;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t first = 0; first < values; first += STRETCH) {
        const int64_t end = std::min(values, first + STRETCH), whole = first + (end - first) / WIDTH * WIDTH;
        for (int64_t i = first; i < whole; i += WIDTH) store(grad_x + i, load(grad_y + i) * gelu_slope(load(x + i)));
        if (whole == end) continue;
        alignas(64) float rest[WIDTH] = {};
        memcpy(rest, x + whole, (end - whole) * sizeof(float));
        store(rest, gelu_slope(load(rest)));
        for (int64_t i = whole; i < end; i++) grad_x[i] = grad_y[i] * rest[i - whole];
    }
}
}  // namespace
}  // namespace convolution
