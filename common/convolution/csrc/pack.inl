// Weights in the order of the kernels. Included after kernels.inl.

namespace convolution {
namespace {

// Weights at the points of an algorithm, of one panel of filters, from the small matrix `transform` in double precision.
template <class W>
void pack_panel(const packing& p, int64_t panel) {
    const int64_t panels = rounded(p.filters, PANEL) / PANEL, depth = rounded(p.channels, sizeof(W) == 2 ? 2 : 1);
    const int64_t first = panel * PANEL, count = std::min(PANEL, p.filters - first);
    alignas(64) double strip[LONGEST_TAPS * PANEL], sum[ROWS * PANEL];
    W* packed = static_cast<W*>(p.packed);
    for (int64_t channel = 0; channel < depth; channel++) {
        memset(strip, 0, p.taps * PANEL * sizeof(double));
        for (int64_t k = 0; k < p.taps && channel < p.channels; k++)
            for (int64_t j = 0; j < count; j++)
                strip[k * PANEL + j] = p.weight[(k * p.channels + channel) * p.filters + first + j];
        in_parts(p.points, ROWS, [&](int64_t start, int64_t rows) {
            const Factors<double, double> factors{p.transform + start * p.taps, p.taps, 0, strip, 1, p.taps, nullptr};
            sums_of<0, ROWS>(rows, factors, sum);
            for (int64_t r = 0; r < rows; r++) {
                const int64_t point = start + r;
                int64_t slab = point * panels + panel, parts = 1, part = 0;
                if (p.form == CONVOLUTION_PAIRS) {  // real parts of all frequencies, then the imaginary ones
                    const int64_t inner = sines(p.block), even = p.block - inner, edges = even - inner;
                    const int64_t frequency = point < even ? point : point - even + 1;
                    const bool is_edge = frequency == 0 || frequency > inner;
                    parts = is_edge ? 1 : 2;
                    part = point < even ? 0 : 1;
                    slab = is_edge ? (frequency == 0 ? 0 : 1) * panels + panel
                                   : edges * panels + 2 * ((frequency - 1) * panels + panel);
                }
                if constexpr (sizeof(W) == 4) {
                    W* to = packed + slab * depth * PANEL + (channel * parts + part) * PANEL;
                    for (int64_t j = 0; j < PANEL; j++) to[j] = static_cast<float>(sum[r * PANEL + j]);
                } else {
                    W* to = packed + slab * depth * PANEL + (channel / 2 * parts + part) * 2 * PANEL + channel % 2;
                    for (int64_t j = 0; j < PANEL; j++) to[2 * j] = to_bfloat16(static_cast<float>(sum[r * PANEL + j]));
                }
            }
        });
    }
}

void pack_all(const packing& p) {
    const int64_t panels = rounded(p.filters, PANEL) / PANEL;
#pragma omp parallel for num_threads(p.threads) if (p.threads > 1)
    for (int64_t panel = 0; panel < panels; panel++) {
        if (p.is_bf16)
            pack_panel<uint16_t>(p, panel);
        else
            pack_panel<float>(p, panel);
    }
}
}  // namespace
}  // namespace convolution
