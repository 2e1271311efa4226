// Products at the points of blocks, whose weights are made of the taps a tile at a time. Included after product.inl.
namespace convolution {
namespace {

// R points of a strip [taps][PANEL], each to a plane of its own.
template <int R>
void spread(const float* matrix, int64_t taps, const float* strip, float* to, int64_t plane) {
    for (int64_t column = 0; column < PANEL; column += STEP) {
        Vector low[R], high[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) low[r] = high[r] = Vector{};
        for (int64_t k = 0; k < taps; k++) {
            const Vector u = load(strip + k * PANEL + column), v = load(strip + k * PANEL + column + WIDTH);
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) {
                const float factor = matrix[r * taps + k];
                low[r] += factor * u;
                high[r] += factor * v;
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            store(to + r * plane + column, low[r]);
            store(to + r * plane + column + WIDTH, high[r]);
        }
    }
}

template <int R>
void spread_of(int64_t points, const float* matrix, int64_t taps, const float* strip, float* to, int64_t plane) {
    if constexpr (R > 0) {
        if (points == R) return spread<R>(matrix, taps, strip, to, plane);
        spread_of<R - 1>(points, matrix, taps, strip, to, plane);
    }
}

// Sums over rows of what stands in columns of both: R columns of x against a panel of w, to rows of `to`.
template <int R>
void outer(const float* x, int64_t x_row, const float* w, int64_t w_row, int64_t rows, float* to, int64_t to_row) {
    for (int64_t column = 0; column < PANEL; column += STEP) {
        Vector low[R], high[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) low[r] = high[r] = Vector{};
        const float *a = x, *b = w + column;
        for (int64_t i = 0; i < rows; i++, a += x_row, b += w_row) {
            const Vector u = load(b), v = load(b + WIDTH);
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) {
                low[r] += a[r] * u;
                high[r] += a[r] * v;
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            store(to + r * to_row + column, low[r]);
            store(to + r * to_row + column + WIDTH, high[r]);
        }
    }
}

template <int R>
void outer_of(int64_t columns, const float* x, int64_t x_row, const float* w, int64_t w_row, int64_t rows, float* to,
              int64_t to_row) {
    if constexpr (R > 0) {
        if (columns == R) return outer<R>(x, x_row, w, w_row, rows, to, to_row);
        outer_of<R - 1>(columns, x, x_row, w, w_row, rows, to, to_row);
    }
}

// `count` rows of a panel, each of so many values side by side and `stride` apart, as [values][PANEL]. Those of a later
// call, `ahead` values from here, are fetched meanwhile: the rows are far from each other, and too short to be foreseen.
void transposed(const float* from, int64_t stride, int64_t count, int64_t values, int64_t ahead, float* to) {
    for (int64_t j = 0; ahead && j < count; j++)
        for (int64_t i = 0; i < values; i += 16) __builtin_prefetch(from + ahead + j * stride + i);
    for (int64_t column = 0; column < PANEL; column += WIDTH)
        for (int64_t i = 0; i < values; i += WIDTH) {
            const int64_t rest = std::min<int64_t>(WIDTH, values - i);
            Vector rows[WIDTH];
#pragma GCC unroll 16
            for (int64_t j = 0; j < WIDTH; j++) {
                const float* row = from + (column + j) * stride + i;
                rows[j] = column + j >= count ? Vector{} : rest == WIDTH ? load(row) : first_of(row, rest);
            }
            transpose<WIDTH / 2>(rows);
            for (int64_t j = 0; j < rest; j++) store(to + (i + j) * PANEL + column, rows[j]);
        }
}

// The way back.
void transposed_back(const float* from, int64_t values, int64_t count, float* to, int64_t stride) {
    for (int64_t column = 0; column < count; column += WIDTH)
        for (int64_t i = 0; i < values; i += WIDTH) {
            const int64_t rest = std::min<int64_t>(WIDTH, values - i);
            Vector rows[WIDTH];
#pragma GCC unroll 16
            for (int64_t j = 0; j < WIDTH; j++) rows[j] = j < rest ? load(from + (i + j) * PANEL + column) : Vector{};
            transpose<WIDTH / 2>(rows);
            for (int64_t j = 0; j < WIDTH && column + j < count; j++) {
                float* row = to + (column + j) * stride + i;
                if (rest == WIDTH)
                    store(row, rows[j]);
                else
                    store_first(row, rows[j], rest);
            }
        }
}

class AtPoints {
  public:
    explicit AtPoints(const points_problem& problem)
        : p(problem), deep(deep_of(problem)), tile(static_cast<float*>(p.workspace)),
          matrix_taps_points(tile + tile_values(problem)) {}

    void multiply() const {
        for (int64_t column = 0; column < p.columns; column += PANEL) {
            const int64_t count = std::min(PANEL, p.columns - column);
            for (int64_t from = 0; from < p.depth; from += deep) {
                const int64_t depth = std::min(deep, p.depth - from), plane = depth * PANEL + PANEL;
                const float* weight = p.weight + column * p.weight_column + from * p.weight_depth;
                for (int64_t i = 0; i < depth; i++) {
                    alignas(64) float strip[LONGEST_BLOCK * PANEL];
                    const int64_t ahead = from + i + AHEAD < p.depth ? AHEAD * p.weight_depth : 0;
                    transposed(weight + i * p.weight_depth, p.weight_column, count, p.taps, ahead, strip);
                    in_parts(p.points, ROWS, [&](int64_t first, int64_t points) {
                        spread_of<ROWS>(points, p.matrix + first * p.taps, p.taps, strip,
                                        tile + first * plane + i * PANEL, plane);
                    });
                }
                for (int64_t point = 0; point < p.points; point++)
                    in_parts(p.rows, ROWS, [&](int64_t first, int64_t rows) {
                        alignas(64) float sum[ROWS * PANEL];
                        const float* x = p.a + point * p.a_plane + first * p.depth + from;
                        sums_of<0, ROWS>(rows,
                                         Factors<float, float>{x, p.depth, 0, tile + point * plane, 1, depth, nullptr},
                                         sum);
                        float* y = p.c + point * p.c_plane + first * p.columns + column;
                        for (int64_t r = 0; r < rows; r++) write(y + r * p.columns, sum + r * PANEL, count, from > 0);
                    });
            }
        }
    }

    void gradient() const {
        for (int64_t k = 0; k < p.taps; k++)
            for (int64_t point = 0; point < p.points; point++)
                matrix_taps_points[k * p.points + point] = p.matrix[point * p.taps + k];
        for (int64_t column = 0; column < p.columns; column += PANEL) {
            const int64_t count = std::min(PANEL, p.columns - column), row = p.points * PANEL;
            for (int64_t from = 0; from < p.depth; from += deep) {
                const int64_t depth = std::min(deep, p.depth - from);
                for (int64_t point = 0; point < p.points; point++) {
                    const float* x = p.a + point * p.a_plane + from;
                    const float* w = p.c + point * p.c_plane + column;
                    int64_t w_row = p.columns;
                    if (count < PANEL) {
                        w = filled(w, count);
                        w_row = PANEL;
                    }
                    in_parts(depth, ROWS, [&](int64_t first, int64_t columns) {
                        outer_of<ROWS>(columns, x + first, p.depth, w, w_row, p.rows,
                                       tile + first * row + point * PANEL, row);
                    });
                }
                for (int64_t i = 0; i < depth; i++) {
                    alignas(64) float strip[LONGEST_BLOCK * PANEL];
                    in_parts(p.taps, ROWS, [&](int64_t first, int64_t taps) {
                        sums_of<0, ROWS>(taps,
                                         Factors<float, float>{matrix_taps_points + first * p.points, p.points, 0,
                                                               tile + i * row, 1, p.points, nullptr},
                                         strip + first * PANEL);
                    });
                    float* to = p.weight + column * p.weight_column + (from + i) * p.weight_depth;
                    transposed_back(strip, p.taps, count, to, p.weight_column);
                }
            }
        }
    }

  private:
    static constexpr int64_t AHEAD = 6;

    // The last columns of a plane, [rows][PANEL], filled up with zeros.
    const float* filled(const float* from, int64_t count) const {
        float* to = matrix_taps_points + p.taps * p.points;
        for (int64_t r = 0; r < p.rows; r++) {
            memcpy(to + r * PANEL, from + r * p.columns, count * sizeof(float));
            memset(to + r * PANEL + count, 0, (PANEL - count) * sizeof(float));
        }
        return to;
    }

    static void write(float* to, const float* sum, int64_t count, bool adds) {
        for (int64_t j = 0; j < count; j += WIDTH) {
            const int64_t rest = std::min<int64_t>(WIDTH, count - j);
            if (rest == WIDTH)
                store(to + j, adds ? load(to + j) + load(sum + j) : load(sum + j));
            else
                store_first(to + j, adds ? first_of(to + j, rest) + load(sum + j) : load(sum + j), rest);
        }
    }

    const points_problem& p;
    const int64_t deep;
    float *const tile, *const matrix_taps_points;
};
}  // namespace
}  // namespace convolution
