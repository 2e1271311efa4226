// A convolution by the kernels of an instruction set.
#ifdef _OPENMP
#include <omp.h>
#endif

#include <math.h>

#include <type_traits>

#include "kernels.inl"

namespace convolution {
namespace {

// X: transformed inputs, and those that are copied; W: weights; floats, or uint16_t for bfloat16.
template <class X, class W>
class Run {
  public:
    explicit Run(const convolution_problem& problem)
        : p(problem), layout(layout_of(problem)), panels(rounded(p.filters, PANEL) / PANEL),
          starts(static_cast<int64_t*>(p.workspace)),
          input(reinterpret_cast<X*>(static_cast<char*>(p.workspace) + layout.starts_bytes)),
          products(reinterpret_cast<float*>(static_cast<char*>(p.workspace) + layout.starts_bytes +
                                            layout.input_bytes)),
          floats(products + layout.sums_bytes / sizeof(float)),
          loudness(reinterpret_cast<float*>(reinterpret_cast<char*>(floats) + layout.kept_bytes + layout.levels_bytes)),
          table(reinterpret_cast<Row*>(reinterpret_cast<char*>(loudness) + layout.loudness_bytes)) {}

    void operator()() const {
        if (p.form != CONVOLUTION_DIRECT) transformed();
        if constexpr (sizeof(W) != 3)
            if (p.form == CONVOLUTION_DIRECT) direct();
        clear();
    }

  protected:
    // What lies beyond the lengths.
    void clear() const {
        if (!p.output_lengths) return;
        for (int64_t b = 0; b < p.batch; b++)
            for (int64_t s = output_length(b); s < p.outputs; s++)
                memset(p.y + b * p.y_batch_stride + s * p.y_frame_stride, 0, p.filters * sizeof(float));
    }

    int64_t output_length(int64_t b) const {
        return p.output_lengths ? std::min(std::max<int64_t>(p.output_lengths[b], 0), p.outputs) : p.outputs;
    }

    // `count` columns of an input frame, `to` being filled up with zeros to a panel; zeros outside of the input.
    void read(int64_t b, int64_t frame, int64_t column, int64_t count, float* to) const {
        const int64_t valid = frame >= 0 && frame < p.frames ? count : 0;
        const float* from = p.x + b * p.x_batch_stride + (valid ? frame : 0) * p.x_frame_stride + column;
        for (int64_t j = 0; j < PANEL; j += WIDTH) store(to + j, scaled(load(from + j, valid - j), column + j, valid - j));
    }

    // What the weights are multiplied by: values of the input from a channel on.
    Vector scaled(Vector value, int64_t channel, int64_t count) const {
        if (p.input_slope != 1.0f) value = leaky(value, p.input_slope);
        return p.scale ? value * load(p.scale + channel, count) : value;
    }

    // Bias, residual and activation of a row of a panel's sums, to its place. Of sums in several parts the first gets
    // bias and residual, the others are added to what is there, and the last gets the activation.
    void write(int64_t b, int64_t s, int64_t column, const float* sum, bool is_first = true,
               bool is_last = true) const {
        const int64_t count = std::min(PANEL, p.filters - column);
        float* y = p.y + b * p.y_batch_stride + s * p.y_frame_stride + column;
        const float* bias = p.bias && is_first ? p.bias + column : nullptr;
        const float* residual = is_first ? nullptr : y;
        if (p.residual && is_first)
            residual = p.residual + b * p.residual_batch_stride + s * p.residual_frame_stride + column;
        const int32_t activation = is_last ? p.activation : CONVOLUTION_IDENTITY;
        for (int64_t j = 0; j < count; j += WIDTH) {
            Vector value = load(sum + j);
            if (bias) value += load(bias + j, count - j);
            if (residual) value += load(residual + j, count - j);
            store(y + j, activated(value, activation), count - j);
        }
    }

    Vector activated(Vector value, int32_t activation) const {
        const float slope = p.output_slope;
        if (activation == CONVOLUTION_LEAKY_RELU) return leaky(value, slope);
        if (activation == CONVOLUTION_CLIPPED_RELU)
            return value < 0 ? Vector{} : value > slope ? Vector{} + slope : value;
        if (activation == CONVOLUTION_SILU) return silu(value);
        return activation == CONVOLUTION_GELU ? gelu(value) : value;
    }

    static Vector leaky(Vector value, float slope) { return value < 0 ? value * slope : value; }

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
                const int64_t most = copied ? depth() : DEEPEST;
                for (int64_t from = 0; from < depth(); from += most) {
                    const int64_t deep = std::min(most, depth() - from);
#pragma omp for schedule(static)
                    for (int64_t job = 0; job < panels * parts; job++) {
                        const int64_t panel = job / parts, part = job % parts;
                        const int64_t row = part * (rows / parts) + std::min(part, rows % parts);
                        const int64_t count = rows / parts + (part < rows % parts);
                        const W* w = static_cast<const W*>(p.weight) + (panel * p.taps * depth() + from) * PANEL;
                        alignas(64) float sum[ROWS * PANEL];
                        const Factors<X, W> factors{x + row * p.stride * frame + from, p.stride * frame,
                                                    p.dilation * frame, w, p.taps, deep, ahead_of(w), STREAMED};
                        if (std::is_same_v<W, float> && p.filters - panel * PANEL <= WIDTH) {
                            if constexpr (std::is_same_v<W, float>) sum_up<0>(count, Narrow{factors}, sum);
                        } else if (part == 0)
                            sum_up<2>(count, factors, sum);
                        else
                            sum_up<0>(count, factors, sum);
                        for (int64_t r = 0; r < count; r++)
                            write(b, first + row + r, panel * PANEL, sum + r * PANEL, from == 0,
                                  from + deep == depth());
                    }
                }
            }
        }
    }

    // Sums in parts of at most LONGEST_SUM products that are added up in the end: the fewer products in a row, the less is
    // rounded away. F is Narrow where there are no more columns than a vector.
    template <int LINES, class F>
    static void sum_up(int64_t rows, const F& all, float* sum) {
        using V = std::remove_const_t<std::remove_pointer_t<decltype(all.w)>>;
        const int64_t parts = (all.depth + LONGEST_SUM - 1) / LONGEST_SUM, deep = rounded((all.depth + parts - 1) / parts, 4);
        const int64_t segments = std::max<int64_t>(1, parts > 1 ? 1 : LONGEST_SUM / all.depth);
        for (int64_t s = 0; s < all.segments; s += segments)
            for (int64_t i = 0; i < all.depth; i += deep) {
                alignas(64) float part[ROWS * PANEL];
                const bool is_first = s == 0 && i == 0;
                F some = all;
                some.x += s * all.jump + i;
                some.w += (s * all.depth + i) * PANEL;
                some.segments = std::min(segments, all.segments - s);
                some.depth = std::min(deep, all.depth - i);
                some.ahead += i / interleaved_of<V> * all.step;
                if (some.kept) some.kept += i * PANEL;
                sums_of<LINES, ROWS>(rows, some, is_first ? sum : part);
                if (is_first) continue;
                constexpr int64_t STEPS = std::is_same_v<F, Narrow> ? PANEL : WIDTH;
                for (int64_t j = 0; j < rows * PANEL; j += STEPS) store(sum + j, load(sum + j) + load(part + j));
            }
    }
    static constexpr int64_t LONGEST_SUM = 128;

    int64_t depth() const { return depth_of(p.channels, p.weights); }

    void copy(int64_t b, int64_t first, int64_t rows) const {
        const int64_t frames = (rows - 1) * p.stride + (p.taps - 1) * p.dilation + 1;
#pragma omp for schedule(static)
        for (int64_t n = 0; n < frames; n++) {
            const int64_t frame = first * p.stride + n - p.before, stride = layout.input_stride;
            X* to = input + n * stride;
            if constexpr (std::is_same_v<X, float>) {
                const int64_t valid = frame >= 0 && frame < p.frames ? p.channels : 0;
                const float* from = p.x + b * p.x_batch_stride + (valid ? frame : 0) * p.x_frame_stride;
                for (int64_t j = 0; j < stride; j += WIDTH)
                    store(to + j, scaled(load(from + j, valid - j), j, valid - j), stride - j);
            } else {
                for (int64_t column = 0; column < p.channels; column += PANEL) {
                    alignas(64) float values[PANEL];
                    alignas(64) X rounded_values[PANEL];
                    const int64_t count = std::min(PANEL, stride - column);
                    read(b, frame, column, std::min(PANEL, p.channels - column), values);
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

    // Of one phase of one block, as if all frames were as loud.
    Row row_of(int64_t q) const {
        const int64_t b = std::upper_bound(starts, starts + p.batch + 1, q) - starts - 1;
        const int64_t block = (q - starts[b]) / p.dilation, phase = (q - starts[b]) % p.dilation;
        return {b, block * fresh(p) * p.dilation + phase, 0, 0, true, true, true};
    }

    int64_t frame_of(const Row& row, int64_t n) const { return row.t0 + n * p.dilation - p.before; }

    float loudness_of(const Row& row, int64_t n) const {
        const int64_t frame = frame_of(row, n);
        return frame >= 0 && frame < p.frames ? loudness[row.b * p.frames + frame] : 0.0f;
    }

    // Whether a row has its block's frame n.
    bool has(const Row& row, int64_t n) const {
        if (row.is_whole) return true;
        const float loud = loudness_of(row, n);
        return loud > 0 && loud >= row.least && loud <= row.greatest;
    }

    // The greatest value of a frame; infinite where one is not finite.
    float loudest(int64_t frame) const {
        const float* from = p.x + frame / p.frames * p.x_batch_stride + frame % p.frames * p.x_frame_stride;
        Words most{};
        for (int64_t j = 0; j < p.channels; j += WIDTH) {
            const Words size = (Words)scaled(load(from + j, p.channels - j), j, p.channels - j) & 0x7fffffff;
            most = size > most ? size : most;  // as numbers are, and beyond them what is none
        }
        int32_t bits = most[0];
        for (int j = 1; j < WIDTH; j++) bits = std::max(bits, static_cast<int32_t>(most[j]));
        bits = std::min(bits, 0x7f800000);
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }

    // The rows of some blocks; how many they are.
    int64_t tabulate(int64_t first, int64_t count) const {
        int64_t found = 0;
        for (int64_t q = first; q < first + count; q++) {
            Row row = row_of(q);
            float least = INFINITY, greatest = 0;
            for (int64_t n = 0; n < p.block; n++) {
                const float loud = loudness_of(row, n);
                least = std::min(least, loud);
                greatest = std::max(greatest, loud);
            }
            row.is_whole = least > 0 && greatest < INFINITY && greatest / LOUDER <= least;
            for (int64_t part = 1; !row.is_whole; part++) {
                row.greatest = greatest;
                row.least = part < MOST_PARTS ? greatest / LOUDER : 0.0f;
                greatest = 0;
                for (int64_t n = 0; n < p.block; n++) {
                    const float loud = loudness_of(row, n);
                    if (loud < row.least) greatest = std::max(greatest, loud);
                }
                row.is_last = greatest == 0;
                table[found++] = row;
                row.is_first = false;
                if (row.is_last) break;
            }
            if (row.is_whole) table[found++] = row;
        }
        return found;
    }

    // Rows of each utterance, one after the other.
    void place_rows() const {
        const int64_t made = fresh(p) * p.dilation;
        starts[0] = 0;
        for (int64_t b = 0; b < p.batch; b++)
            starts[b + 1] = starts[b] + (output_length(b) + made - 1) / made * p.dilation;
    }

    void transformed() const {
        const int64_t strips = layout.input_stride / PANEL;
        by_blocks(
            strips,
            [&](const Row& row, int64_t place, int64_t strip) {
                transform_input(row, strip * PANEL, layout.input_plane,
                                input + place * layout.input_stride + strip * PANEL);
            },
            [&](int64_t point, int64_t panel, int64_t count) { multiply(point, panel, count); },
            [&](int64_t pair, int64_t panel, int64_t count) { multiply_pair(pair, panel, count); });
    }

    // Calls at_points(row, its place, strip) for the strips of some rows' channels, then times(point, panel, rows) and, of
    // pairs, pair_times(pair, panel, rows), and transforms what these left; until all rows are done.
    template <class AtPoints, class Times, class PairTimes>
    void by_blocks(int64_t strips, const AtPoints& at_points, const Times& times, const PairTimes& pair_times) const {
        place_rows();
        const int64_t rows = starts[p.batch];
        int64_t found = 0;
#pragma omp parallel num_threads(p.threads) if (p.threads > 1)
        for (int64_t first = 0, heard = 0; first < rows; first += layout.chunk) {
            const int64_t count = std::min(layout.chunk, rows - first);
            const Row last = row_of(first + count - 1);
            const int64_t frames = p.frames == 0 ? 0 : last.b * p.frames + std::clamp<int64_t>(
                frame_of(last, p.block - 1) + p.dilation, 0, p.frames);
#pragma omp for schedule(static)
            for (int64_t frame = heard; frame < frames; frame++) loudness[frame] = loudest(frame);
            heard = std::max(heard, frames);
#pragma omp single
            found = tabulate(first, count);
            const int64_t all = found;
            for (int64_t from = 0; from < all; from += layout.room) {
                const int64_t some = std::min(layout.room, all - from);
#pragma omp for schedule(static)
                for (int64_t job = 0; job < some * strips; job++)
                    at_points(table[from + job / strips], job / strips, job % strips);
#pragma omp for schedule(static)
                for (int64_t job = 0; job < multiplied() * panels; job++) {
                    if (p.form == CONVOLUTION_PAIRS && job >= edges() * panels)
                        pair_times(job / panels - edges(), job % panels, some);
                    else
                        times(job / panels, job % panels, some);
                }
#pragma omp for schedule(static)
                for (int64_t job = 0; job < some * panels; job++) {
                    int64_t place = job / panels;
                    if (place > 0 && !table[from + place].is_first) continue;  // whoever does the first does all
                    do transform_output(table[from + place], place, job % panels * PANEL);
                    while (++place < some && !table[from + place].is_first);
                }
            }
        }
    }

    // Points with weights of their own: of pairs the frequencies without an imaginary part, then the others.
    int64_t multiplied() const {
        return p.form == CONVOLUTION_PAIRS ? edges() + sines(p.block) : p.points;
    }
    int64_t edges() const { return p.block % 2 == 0 ? 2 : 1; }

    void multiply(int64_t point, int64_t panel, int64_t rows) const {
        const int64_t size = depth() * PANEL, parts = (rows + ROWS - 1) / ROWS;
        const W* w = static_cast<const W*>(p.weight) + (point * panels + panel) * size;
        const int64_t plane = p.form == CONVOLUTION_PAIRS && point == 1 ? p.block / 2 : point;
        // Weights are read from memory once: while a panel is in use, the first two parts fetch half of the next.
        const int64_t lines = layout.is_streamed ? parts > 1 ? 1 : 2 : 0, per_row = sizeof(W) == 2 ? 2 * PANEL : PANEL;
        for (int64_t part = 0, first = 0; part < parts; part++) {
            const int64_t count = rows / parts + (part < rows % parts);
            const X* x = input + plane * layout.input_plane + first * layout.input_stride;
            const char* next = reinterpret_cast<const char*>(w + size) + part * size * sizeof(W) / 2;
            const int64_t step = lines * per_row * sizeof(W) / 2;
            alignas(64) float sum[ROWS * PANEL];
            in_form(w, part, parts, [&](auto weights, float* kept) {
                const Factors<X, std::remove_const_t<std::remove_pointer_t<decltype(weights)>>> factors{
                    x, layout.input_stride, 0, weights, 1, depth(), next, step, kept};
                if (lines == 0 || part > 1)
                    sum_up<0>(count, factors, sum);
                else if (lines == 1)
                    sum_up<1>(count, factors, sum);
                else
                    sum_up<2>(count, factors, sum);
            });
            scale(point * panels + panel, sum, count);
            put_rows(products + plane * layout.sums_plane + first * panels * PANEL + panel * PANEL, sum, count);
            first += count;
        }
    }

    void multiply_pair(int64_t pair, int64_t panel, int64_t rows) const {
        if constexpr (sizeof(X) == 4) {
            const int64_t size = 2 * depth() * PANEL, parts = (rows + PAIR_ROWS - 1) / PAIR_ROWS;
            const int64_t inner = sines(p.block), even = p.block - inner;
            const int64_t slab = edges() * panels + 2 * (pair * panels + panel);
            const W* w = static_cast<const W*>(p.weight) + slab * size / 2;
            // Lines of the next panel for four of this, which is as many for a row of fixed point, in shorter steps.
            const int64_t fetching = parts == 1 ? 4 : parts < 4 ? 2 : 1, per_row = (sizeof(W) == 2 ? 4 : 2) * PANEL;
            for (int64_t part = 0, first = 0; part < parts; part++) {
                const int64_t count = rows / parts + (part < rows % parts);
                alignas(64) float real[PAIR_ROWS * PANEL], imaginary[PAIR_ROWS * PANEL];
                const float* x = input + first * layout.input_stride;
                const char* next = reinterpret_cast<const char*>(w + size) + part * fetching * size * sizeof(W) / 4;
                const int64_t step = fetching * per_row * sizeof(W) / 4;
                in_form(w, part, parts, [&](auto weights, float* kept) {
                    const Pairs<std::remove_const_t<std::remove_pointer_t<decltype(weights)>>> factors{
                        x + (pair + 1) * layout.input_plane, x + (even + pair) * layout.input_plane,
                        x + (even + inner + pair) * layout.input_plane, layout.input_stride, weights, depth(), next, step,
                        kept};
                    if (!layout.is_streamed || part * fetching >= 4)
                        pairs_of<0, PAIR_ROWS>(count, factors, real, imaginary);
                    else if (fetching == 4)
                        pairs_of<4, PAIR_ROWS>(count, factors, real, imaginary);
                    else if (fetching == 2)
                        pairs_of<2, PAIR_ROWS>(count, factors, real, imaginary);
                    else
                        pairs_of<1, PAIR_ROWS>(count, factors, real, imaginary);
                });
                scale(slab, real, count);
                scale(slab, imaginary, count);
                float* y = products + first * panels * PANEL + panel * PANEL;
                put_rows(y + (pair + 1) * layout.sums_plane, real, count);
                put_rows(y + (even + pair) * layout.sums_plane, imaginary, count);
                first += count;
            }
        }
    }

    // Calls body(weights, kept): of three parts of the rows and more, the first keeps for the others what it makes of fixed
    // point. Of two it would take longer than making it again.
    template <class Body>
    void in_form(const W* w, int64_t part, int64_t parts, const Body& body) const {
        if constexpr (sizeof(W) == 3) {
            float* kept = kept_values();
            if (part == 0 || parts == 2)
                body(w, parts > 2 ? kept : nullptr);
            else
                body(static_cast<const float*>(kept), nullptr);
        } else {
            body(w, nullptr);
        }
    }

    // This thread's.
    float* kept_values() const {
#ifdef _OPENMP
        return floats + omp_get_thread_num() * layout.kept_values;
#else
        return floats;
#endif
    }

    // Sums of weights in fixed point by their units, which lie behind all of them, those of a panel together.
    void scale(int64_t slab, float* sum, int64_t rows) const {
        if constexpr (sizeof(W) == 3) {
            const int64_t slabs = (p.form == CONVOLUTION_PAIRS ? p.block : p.points) * panels;
            const char* weight = static_cast<const char*>(p.weight);
            const float* units = reinterpret_cast<const float*>(weight + slabs * depth() * PANEL * sizeof(W));
            for (int64_t r = 0; r < rows; r++)
                for (int64_t j = 0; j < PANEL; j++) sum[r * PANEL + j] *= units[slab * PANEL + j];
        }
    }

    void put_rows(float* to, const float* from, int64_t rows) const {
        for (int64_t r = 0; r < rows; r++) put(to + r * panels * PANEL, from + r * PANEL);
    }

    // Of a block's frame n what a row has of it.
    void read(const Row& at, int64_t n, int64_t column, int64_t count, float* to) const {
        read(at.b, has(at, n) ? frame_of(at, n) : -1, column, count, to);
    }

    // A panel of a row's channels, to the points from `to` on, which lie `plane` values apart.
    template <bool with_both = true, class T>
    void transform_input(const Row& at, int64_t column, int64_t plane, T* to) const {
        alignas(64) float strip[2 * BLOCKS * PANEL];
        const int64_t columns = std::min(PANEL, p.channels - column);
        alignas(64) float sum[2 * ROWS * PANEL];
        if (p.form == CONVOLUTION_PLAIN) {
            for (int64_t n = 0; n < p.block; n++) read(at, n, column, columns, strip + n * PANEL);
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
            read(at, n, column, columns, even + n * PANEL);
            if (n == 0 || mirrored == n) {
                memset(odd + n * PANEL, 0, PANEL * sizeof(float));
                continue;
            }
            alignas(64) float other[PANEL];
            read(at, mirrored, column, columns, other);
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
                if (!with_both) continue;
                for (int64_t j = 0; j < PANEL; j++) sum[r * PANEL + j] += imaginary[r * PANEL + j];
                put(to + (size + inner + first + r) * plane, sum + r * PANEL);
            }
        });
    }

    void transform_output(const Row& at, int64_t row, int64_t column) const {
        const int64_t outputs = output_length(at.b);
        if (at.t0 >= outputs) return;
        const int64_t wanted = std::min(fresh(p), (outputs - at.t0 + p.dilation - 1) / p.dilation);
        alignas(64) float strip[2 * BLOCKS * PANEL];
        const float* from = products + row * panels * PANEL + column;
        const int64_t plane = layout.sums_plane;
        int64_t size = p.form == CONVOLUTION_PAIRS ? p.block : p.points;
        if (p.form != CONVOLUTION_HALVES) {
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
        int64_t next = -1;  // of the row's frames the first that an output sees
        in_parts(wanted, ROWS, [&](int64_t first, int64_t count) {
            alignas(64) float sum[ROWS * PANEL];
            sums_of<0, ROWS>(count, matrix(p.output + first * size, size, strip), sum);
            for (int64_t r = 0; r < count; r++) {
                for (next = std::max(next, first + r); next < p.block && !has(at, next);) next++;
                if (next >= first + r + p.taps) memset(sum + r * PANEL, 0, PANEL * sizeof(float));
                write(at.b, at.t0 + (first + r) * p.dilation, column, sum + r * PANEL, at.is_first, at.is_last);
            }
        });
    }

    static constexpr int64_t BLOCKS = LONGEST_BLOCK;

    const convolution_problem& p;
    const Layout layout;
    const int64_t panels;
    int64_t* const starts;
    X* const input;
    float* const products;
    float* const floats;  // what each thread keeps
    float* const loudness;  // of every frame
    Row* const table;       // the rows that are worked on
};

#if !defined(BFLOAT16) && !defined(VNNI)
void run_floats(const convolution_problem& problem) {
    if (problem.weights == CONVOLUTION_BFLOAT16)
        Run<float, uint16_t>{problem}();
    else if (problem.weights == CONVOLUTION_FIXED24)
        Run<float, Fixed24>{problem}();
    else
        Run<float, float>{problem}();
}
#endif
}  // namespace
}  // namespace convolution
