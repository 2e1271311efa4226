// A convolution by products of bytes. Included after run.inl.
//
// Every row of the transformed input, at each frequency, has a unit of its own, which is measured as the row is made: what is
// rounded to bytes is never far from their range, and nothing has to be known of the input before. Bytes of the input have no
// sign, as the instructions want it; what is subtracted for that are the totals of the weights.
#include <math.h>

namespace convolution {
namespace {

class RunBytes : Run<float, float> {
  public:
    explicit RunBytes(const convolution_problem& problem)
        : Run<float, float>(problem), bytes(reinterpret_cast<uint8_t*>(input)),
          levels(reinterpret_cast<Level*>(floats + layout.kept_bytes / sizeof(float))),
          columns((p.form == CONVOLUTION_DIRECT ? 1 : p.block) * panels * PANEL),
          units(reinterpret_cast<const float*>(static_cast<const int8_t*>(p.weight) + depth() * columns)),
          totals(reinterpret_cast<const int32_t*>(units + columns)) {}

    void operator()() const {
        if (p.form == CONVOLUTION_DIRECT)
            direct();
        else
            transformed();
        clear();
    }

  private:
    void direct() const {
#pragma omp parallel num_threads(p.threads) if (p.threads > 1)
        for (int64_t b = 0; b < p.batch; b++) {
            const int64_t outputs = output_length(b);
            for (int64_t first = 0; first < outputs; first += layout.chunk) {
                const int64_t rows = std::min(layout.chunk, outputs - first), parts = (rows + ROWS - 1) / ROWS;
#pragma omp for schedule(static)
                for (int64_t row = 0; row < rows; row++) round_frame(b, first + row - p.before, row);
#pragma omp for schedule(static)
                for (int64_t job = 0; job < panels * parts; job++) {
                    const int64_t panel = job / parts, part = job % parts;
                    const int64_t row = part * (rows / parts) + std::min(part, rows % parts);
                    const int64_t count = rows / parts + (part < rows % parts);
                    const int8_t* w = static_cast<const int8_t*>(p.weight) + panel * depth() * PANEL;
                    alignas(64) int32_t whole[ROWS * PANEL];
                    alignas(64) float sum[ROWS * PANEL];
                    const uint8_t* x = bytes + row * layout.input_stride;
                    if (part == 0)
                        sums_of<2, ROWS>(count, factors(x, w, ahead_of(w), STREAMED), whole);
                    else
                        sums_of<0, ROWS>(count, factors(x, w, nullptr, 0), whole);
                    scale(panel, levels + row, whole, count, sum);
                    for (int64_t r = 0; r < count; r++) write(b, first + row + r, panel * PANEL, sum + r * PANEL);
                }
            }
        }
    }

    void round_frame(int64_t b, int64_t frame, int64_t row) const {
        float* values = kept_values();
        for (int64_t column = 0; column < p.channels; column += PANEL)
            Run<float, float>::read(b, frame, column, std::min(PANEL, p.channels - column), values + column);
        Range range;
        range.add(values, layout.kept_values);
        levels[row] = range.level();
        to_bytes(values, layout.kept_values, levels[row], bytes + row * layout.input_stride);
    }

    void transformed() const {
        by_blocks(
            1,
            [&](const Row& row, int64_t place, int64_t) {
                float* values = kept_values();
                for (int64_t column = 0; column < layout.input_stride; column += PANEL)
                    transform_input<false>(row, column, layout.input_stride, values + column);
                round_row(values, place);
            },
            [&](int64_t point, int64_t panel, int64_t count) { multiply(point, panel, count); },
            [&](int64_t pair, int64_t panel, int64_t count) { multiply_pair(pair, panel, count); });
    }

    void round_row(const float* values, int64_t row) const {
        const int64_t size = layout.input_stride, inner = sines(p.block), even = p.block - inner;
        uint8_t* to = bytes + row * size;
        const auto plane = [&](int64_t point) { return to + point * layout.input_plane; };
        for (int64_t f = 0; f < even; f++) {
            const float* real = values + f * size;
            Level& level = levels[f * layout.room + row];
            Range range;
            range.add(real, size);
            if (f == 0 || f > inner) {
                level = range.level();
                to_bytes(real, size, level, plane(f));
                continue;
            }
            const float* imaginary = real + inner_planes() * size;
            range.add(imaginary, size);
            level = range.symmetric();
            to_bytes(real, size, level, plane(f));
            to_bytes(imaginary, size, level, plane(even + f - 1), plane(even + inner + f - 1));
        }
    }

    // Planes from a frequency's real part to its imaginary one.
    int64_t inner_planes() const { return p.block - sines(p.block) - 1; }

    void multiply(int64_t point, int64_t panel, int64_t rows) const {
        const int64_t size = depth() * PANEL, plane = point == 1 ? p.block / 2 : point;
        const int8_t* w = static_cast<const int8_t*>(p.weight) + (point * panels + panel) * size;
        in_parts(rows, ROWS, [&](int64_t first, int64_t count) {
            alignas(64) int32_t whole[ROWS * PANEL];
            alignas(64) float sum[ROWS * PANEL];
            const uint8_t* x = bytes + plane * layout.input_plane + first * layout.input_stride;
            const char* next = reinterpret_cast<const char*>(w + size);
            const int64_t lines = first == 0 && layout.is_streamed ? 2 : 0;
            if (lines > 0)
                sums_of<2, ROWS>(count, factors(x, w, next, 4 * PANEL), whole);
            else
                sums_of<0, ROWS>(count, factors(x, w, next, 0), whole);
            scale(point * panels + panel, levels + plane * layout.room + first, whole, count, sum);
            put_rows(products + plane * layout.sums_plane + first * panels * PANEL + panel * PANEL, sum, count);
        });
    }

    void multiply_pair(int64_t pair, int64_t panel, int64_t rows) const {
        const int64_t size = 2 * depth() * PANEL, parts = (rows + BYTE_PAIR_ROWS - 1) / BYTE_PAIR_ROWS;
        const int64_t inner = sines(p.block), even = p.block - inner;
        const int64_t slab = edges() * panels + 2 * (pair * panels + panel);
        const int8_t* w = static_cast<const int8_t*>(p.weight) + slab * size / 2;
        // Lines of the next panel for four of this.
        const int64_t fetching = parts == 1 ? 4 : parts < 4 ? 2 : 1;
        int64_t part = 0;
        in_parts(rows, BYTE_PAIR_ROWS, [&](int64_t first, int64_t count) {
            alignas(64) int32_t real[BYTE_PAIR_ROWS * PANEL], imaginary[BYTE_PAIR_ROWS * PANEL];
            alignas(64) float sum[BYTE_PAIR_ROWS * PANEL];
            const uint8_t* x = bytes + first * layout.input_stride;
            const char* next = reinterpret_cast<const char*>(w + size) + part * fetching * size / 4;
            const BytePairs factors{x + (pair + 1) * layout.input_plane, x + (even + pair) * layout.input_plane,
                                    x + (even + inner + pair) * layout.input_plane, layout.input_stride, w, depth(),
                                    next, fetching * 64};
            if (!layout.is_streamed || part * fetching >= 4)
                pairs_of<0, BYTE_PAIR_ROWS>(count, factors, real, imaginary);
            else if (fetching == 4)
                pairs_of<4, BYTE_PAIR_ROWS>(count, factors, real, imaginary);
            else if (fetching == 2)
                pairs_of<2, BYTE_PAIR_ROWS>(count, factors, real, imaginary);
            else
                pairs_of<1, BYTE_PAIR_ROWS>(count, factors, real, imaginary);
            const Level* level = levels + (pair + 1) * layout.room + first;
            float* y = products + first * panels * PANEL + panel * PANEL;
            scale(slab, level, real, count, sum);
            put_rows(y + (pair + 1) * layout.sums_plane, sum, count);
            scale(slab, level, imaginary, count, sum);
            put_rows(y + (even + pair) * layout.sums_plane, sum, count);
            part++;
        });
    }

    Factors<uint8_t, int8_t> factors(const uint8_t* x, const int8_t* w, const char* next, int64_t step) const {
        return {x, layout.input_stride, 0, w, 1, depth(), next, step};
    }

    // Sums of R rows as floats.
    void scale(int64_t slab, const Level* level, const int32_t* whole, int64_t rows, float* sum) const {
        const float* unit = units + slab * PANEL;
        const int32_t* total = totals + slab * PANEL;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t j = 0; j < PANEL; j++)
                sum[r * PANEL + j] = static_cast<float>(whole[r * PANEL + j] - level[r].zero * total[j]) *
                                     (level[r].step * unit[j]);
    }

    // Least and greatest of values; what is not finite makes the step so, and with it all sums.
    struct Range {
        Vector least{}, greatest{}, wrong{};

        void add(const float* values, int64_t count) {
            for (int64_t j = 0; j < count; j += WIDTH) {
                const Vector value = load(values + j);
                least = value < least ? value : least;
                greatest = value > greatest ? value : greatest;
                wrong += value * 0.0f;
            }
        }

        Level level() const {
            const float step = step_of(highest() - lowest(), 255.0f);
            return {step, step == step ? static_cast<int32_t>(lrintf(-lowest() / step)) : 0};
        }

        Level symmetric() const { return {step_of(std::max(highest(), -lowest()), 127.0f), 128}; }

        float lowest() const {
            float value = least[0];
            for (int j = 1; j < WIDTH; j++) value = std::min(value, static_cast<float>(least[j]));
            return value;
        }

        float highest() const {
            float value = greatest[0];
            for (int j = 1; j < WIDTH; j++) value = std::max(value, static_cast<float>(greatest[j]));
            return value;
        }

        float step_of(float width, float steps) const {
            float sum = 0;
            for (int j = 0; j < WIDTH; j++) sum += wrong[j];
            return (width < 1e-30f ? 1.0f : width / steps) + sum;
        }
    };

    // Values as bytes of a level, and with the other sign in `negative`, where the level is symmetric.
    static void to_bytes(const float* values, int64_t count, Level level, uint8_t* to, uint8_t* negative = nullptr) {
        constexpr float SHIFT = 12582912.0f;  // added, it leaves of a number its nearest integer, in the lowest bits
        const float inverse = 1.0f / level.step, zero = static_cast<float>(level.zero);
        for (int64_t j = 0; j < count; j += WIDTH) {
            Vector value = load(values + j) * inverse + zero;
            value = value > 0.0f ? value : Vector{};
            value = value < 255.0f ? value : Vector{} + 255.0f;
            const Bits bits = (Bits)(value + SHIFT);
            store_lowest(to + j, bits);
            if (negative) store_lowest(negative + j, -bits);
        }
    }

    uint8_t* const bytes;
    Level* const levels;  // of every frequency, and of the frames of a direct sum
    const int64_t columns;
    const float* const units;
    const int32_t* const totals;
};
}  // namespace
}  // namespace convolution
