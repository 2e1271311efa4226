// Products of a few rows with a packed matrix. A number of the result is one sum in the order of the columns, whatever
// other rows there are, so that a row's result does not depend on them.
#pragma once

#include "network.h"
#include "simd.h"

namespace CTC_ISA {

// Rows whose sums stay in registers: two vectors for each of them.
#if CTC_VECTOR_BYTES == 64
constexpr int MOST_ROWS = 12;
#elif CTC_VECTOR_BYTES == 32
constexpr int MOST_ROWS = 6;
#else
constexpr int MOST_ROWS = 4;
#endif

// y = x w + bias for ROWS rows and two vectors of each of PANELS panels of `depth` rows, of which the first k count.
template <int ROWS, int PANELS>
static inline void multiply_block(const float* x, int64_t x_stride, int64_t k, const float* w, int64_t depth,
                                  const float* bias, float* y, int64_t y_stride) {
    constexpr int W = LANES<float>;
    Floats sums[ROWS][PANELS][2];
    for (int r = 0; r < ROWS; r++)
        for (int p = 0; p < PANELS; p++)
            for (int v = 0; v < 2; v++) sums[r][p][v] = bias ? load(bias + p * PANEL + v * W) : Floats{};
    for (int64_t i = 0; i < k; i++) {
        Floats columns[PANELS][2];
        for (int p = 0; p < PANELS; p++)
            for (int v = 0; v < 2; v++) columns[p][v] = load(w + (p * depth + i) * PANEL + v * W);
        for (int r = 0; r < ROWS; r++) {
            const Floats value = all(x[r * x_stride + i]);
            for (int p = 0; p < PANELS; p++)
                for (int v = 0; v < 2; v++) sums[r][p][v] += value * columns[p][v];
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int p = 0; p < PANELS; p++)
            for (int v = 0; v < 2; v++) store(y + r * y_stride + p * PANEL + v * W, sums[r][p][v]);
}

struct Product {
    const float* x;
    int64_t x_stride, rows, k;
    const float *weights, *bias;
    float* y;
    int64_t y_stride;
    int64_t depth = k;  // of the packed matrix, where that is more than k
};

template <int ROWS, int PANELS> static void multiply_rows(const Product& p, int64_t row, int64_t panel) {
    for (int64_t part = 0; part < PANEL; part += 2 * LANES<float>) {
        const int64_t column = panel * PANEL + part;
        multiply_block<ROWS, PANELS>(p.x + row * p.x_stride, p.x_stride, p.k,
                                     p.weights + panel * p.depth * PANEL + part, p.depth,
                                     p.bias ? p.bias + column : nullptr, p.y + row * p.y_stride + column, p.y_stride);
    }
}

// As few blocks of rows as there must be, of much the same size. ROWS counts down to the size at hand.
template <int ROWS, int PANELS> static void multiply_panels(const Product& p, int64_t size, int64_t panel) {
    if constexpr (ROWS > 1) {
        if (size < ROWS) return multiply_panels<ROWS - 1, PANELS>(p, size, panel);
    }
    int64_t row = 0;
    for (; row + ROWS <= p.rows; row += ROWS) multiply_rows<ROWS, PANELS>(p, row, panel);
    if (row < p.rows) {
        Product rest = p;
        rest.x += row * p.x_stride;
        rest.y += row * p.y_stride;
        rest.rows -= row;
        if constexpr (ROWS > 1) multiply_panels<ROWS - 1, PANELS>(rest, rest.rows, panel);
    }
}

static void multiply(const Product& p, int64_t width) {
    if (p.rows == 0) return;
    const int64_t panels = width / PANEL;
    int64_t panel = 0;
    // Of few rows, several panels at once: one would wait for its own sums.
    constexpr int FEW = MOST_ROWS / 4;
    if (p.rows <= FEW)
        for (; panel + 4 <= panels; panel += 4) multiply_panels<FEW, 4>(p, p.rows, panel);
    else if (p.rows <= 2 * FEW)
        for (; panel + 2 <= panels; panel += 2) multiply_panels<2 * FEW, 2>(p, p.rows, panel);
    const int64_t blocks = (p.rows + MOST_ROWS - 1) / MOST_ROWS;
    for (; panel < panels; panel++) multiply_panels<MOST_ROWS, 1>(p, (p.rows + blocks - 1) / blocks, panel);
}

}  // namespace CTC_ISA
