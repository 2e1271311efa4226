// Weights in the order of the kernels. Included after kernels.inl.
#include <float.h>
#include <math.h>

namespace convolution {
namespace {

// Where a point's rows of a panel are: `slab`, and of the parts whose rows alternate there, this one.
struct Place {
    int64_t slab, parts, part;
};

inline Place place_of(const packing& p, int64_t point, int64_t panel) {
    const int64_t panels = rounded(p.filters, PANEL) / PANEL;
    if (p.form != CONVOLUTION_PAIRS) return {point * panels + panel, 1, 0};
    // Real parts of all frequencies, then the imaginary ones.
    const int64_t inner = sines(p.block), even = p.block - inner, edges = even - inner;
    const int64_t frequency = point < even ? point : point - even + 1;
    if (frequency == 0 || frequency > inner) return {(frequency == 0 ? 0 : 1) * panels + panel, 1, 0};
    return {edges * panels + 2 * ((frequency - 1) * panels + panel), 2, point < even ? 0 : 1};
}

inline void put_row(float* to, int64_t, const double* values, const float*) {
    for (int64_t j = 0; j < PANEL; j++) to[j] = static_cast<float>(values[j]);
}

inline void put_row(uint16_t* to, int64_t channel, const double* values, const float*) {
    for (int64_t j = 0; j < PANEL; j++) to[2 * j + channel % 2] = to_bfloat16(static_cast<float>(values[j]));
}

// The nearest whole number, of what is not too large; added, 3 * 2^51 leaves it in the lowest bits.
inline int32_t to_whole(double value) {
    int64_t bits;
    value += 6755399441055744.0;
    memcpy(&bits, &value, sizeof bits);
    return static_cast<int32_t>(bits);
}

inline void put_row(Fixed24* to, int64_t, const double* values, const float* units) {
    int32_t whole[PANEL];
    for (int64_t j = 0; j < PANEL; j++) whole[j] = to_whole(values[j] / (FIXED24_STEP * units[j]));
    for (int64_t j = 0; j < PANEL - 1; j++) memcpy(to + j, whole + j, 4);  // of which the next overwrites the fourth
    memcpy(to + PANEL - 1, whole + PANEL - 1, 3);
}

inline void put_row(int8_t* to, int64_t channel, const double* values, const float* units) {
    for (int64_t j = 0; j < PANEL; j++) {
        const double whole = std::min(127.0, std::max(-127.0, values[j] / units[j]));
        to[4 * j + channel % 4] = static_cast<int8_t>(to_whole(whole));
    }
}

// Weights at the points of an algorithm, of one panel of filters, from the small matrix `transform` in double
// precision: body(place, channel, values [PANEL]).
template <class Body>
void at_points(const packing& p, int64_t panel, const Body& body) {
    const int64_t depth = depth_of(p.channels, p.weights);
    const int64_t first = panel * PANEL, count = std::min(PANEL, p.filters - first);
    alignas(64) double strip[LONGEST_BLOCK * PANEL], sum[ROWS * PANEL];
    for (int64_t channel = 0; channel < depth; channel++) {
        memset(strip, 0, p.taps * PANEL * sizeof(double));
        const double scale = !p.scale || channel >= p.channels ? 1.0 : p.scale[channel] == 0 ? 0.0 : 1.0 / p.scale[channel];
        for (int64_t k = 0; k < p.taps && channel < p.channels; k++)
            for (int64_t j = 0; j < count; j++)
                strip[k * PANEL + j] = scale * p.weight[((first + j) * p.taps + k) * p.channels + channel];
        in_parts(p.points, ROWS, [&](int64_t start, int64_t rows) {
            const Factors<double, double> factors{p.transform + start * p.taps, p.taps, 0, strip, 1, p.taps, nullptr};
            sums_of<0, ROWS>(rows, factors, sum);
            for (int64_t r = 0; r < rows; r++) body(place_of(p, start + r, panel), channel, sum + r * PANEL);
        });
    }
}

// What the greatest weight of each filter at each point, or of both parts of a pair, makes of its unit.
inline void measure(const packing& p, int64_t panel, float largest, float* units) {
    for (int64_t point = 0; point < p.points; point++)
        memset(units + place_of(p, point, panel).slab * PANEL, 0, PANEL * sizeof(float));
    at_points(p, panel, [&](Place place, int64_t, const double* values) {
        float* unit = units + place.slab * PANEL;
        for (int64_t j = 0; j < PANEL; j++) {
            const float size = static_cast<float>(fabs(values[j]));
            unit[j] = size <= FLT_MAX ? std::max(unit[j], size) : NAN;  // which stays, and so do its sums
        }
    });
    for (int64_t point = 0; point < p.points; point++) {
        const Place place = place_of(p, point, panel);
        float* unit = units + place.slab * PANEL;
        if (place.part == 0)
            for (int64_t j = 0; j < PANEL; j++) unit[j] = unit[j] == 0 ? 1.0f : unit[j] / largest;
    }
}

template <class W>
void pack_panel(const packing& p, int64_t panel) {
    const int64_t depth = depth_of(p.channels, p.weights), group = interleaved(p.weights);
    const int64_t columns = p.points * rounded(p.filters, PANEL);
    W* packed = static_cast<W*>(p.packed);
    float* units = nullptr;  // behind all weights
    int32_t* totals = nullptr;  // of bytes, behind the units; of a pair, of both parts
    if constexpr (sizeof(W) == 3 || sizeof(W) == 1) {
        units = reinterpret_cast<float*>(packed + depth * columns);
        measure(p, panel, sizeof(W) == 3 ? FIXED24_STEP * LARGEST_FIXED24 : LARGEST_INT8, units);
    }
    if constexpr (sizeof(W) == 1) {
        totals = reinterpret_cast<int32_t*>(units + columns);
        for (int64_t point = 0; point < p.points; point++)
            memset(totals + place_of(p, point, panel).slab * PANEL, 0, PANEL * sizeof(int32_t));
    }
    at_points(p, panel, [&](Place place, int64_t channel, const double* values) {
        W* row = packed + (place.slab * depth + (channel / group * place.parts + place.part) * group) * PANEL;
        put_row(row, channel, values, units + place.slab * PANEL);
        if constexpr (sizeof(W) == 1)
            for (int64_t j = 0; j < PANEL; j++) totals[place.slab * PANEL + j] += row[4 * j + channel % 4];
    });
}

void pack_all(const packing& p) {
    const int64_t panels = rounded(p.filters, PANEL) / PANEL;
#pragma omp parallel for num_threads(p.threads) if (p.threads > 1)
    for (int64_t panel = 0; panel < panels; panel++) {
        if (p.weights == CONVOLUTION_BFLOAT16)
            pack_panel<uint16_t>(p, panel);
        else if (p.weights == CONVOLUTION_FIXED24)
            pack_panel<Fixed24>(p, panel);
        else if (p.weights == CONVOLUTION_INT8)
            pack_panel<int8_t>(p, panel);
        else
            pack_panel<float>(p, panel);
    }
}
}  // namespace
}  // namespace convolution
