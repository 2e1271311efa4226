// The C interface: checks, sizes, packing, and which kernels run.
#include "convolution.h"

#include <algorithm>

#include "kernels.h"

namespace convolution {
namespace {

constexpr size_t LINE = 64;
// Transformed values of a chunk stay in the second cache, unless weights that are larger are read for every chunk.
constexpr int64_t CACHED_BYTES = 1 << 20;
constexpr int64_t ROWS_PER_READING = 96;
constexpr int64_t COPIED_BYTES = 256 << 10;
constexpr int64_t LEAST_ROWS = 48;

// What can be packed, and so be run.
bool fits(int32_t form, int64_t block, int64_t taps, int64_t stride, int32_t weights, int32_t instructions) {
    if (weights < CONVOLUTION_FLOAT32 || weights > CONVOLUTION_INT8 || taps <= 0 || stride <= 0) return false;
    const bool of_bytes = weights == CONVOLUTION_INT8;
    if (form == CONVOLUTION_DIRECT) return of_bytes ? taps == 1 && stride == 1 : weights != CONVOLUTION_FIXED24;
    if (form < CONVOLUTION_DIRECT || form > CONVOLUTION_PAIRS || (of_bytes && form != CONVOLUTION_PAIRS)) return false;
    const bool is_rounded = weights == CONVOLUTION_BFLOAT16 && instructions == CONVOLUTION_AVX512_BF16;
    return stride == 1 && taps <= block && block <= LONGEST_BLOCK && !(is_rounded && form == CONVOLUTION_PAIRS);
}

bool is_valid(const convolution_problem& p) {
    const bool sizes = p.batch >= 0 && p.frames >= 0 && p.outputs >= 0 && p.channels > 0 && p.filters > 0 &&
                       p.taps > 0 && p.stride > 0 && p.dilation > 0 && p.before >= 0 && p.threads > 0;
    if (!sizes || !p.x || !p.y || !p.weight) return false;
    if (!fits(p.form, p.block, p.taps, p.stride, p.weights, p.instructions)) return false;
    if (p.form == CONVOLUTION_DIRECT) return true;
    if (p.form != CONVOLUTION_PLAIN && p.points != p.block + sines(p.block)) return false;
    return p.input && p.output && p.points > 0;
}

int32_t widest() {
#ifdef NATIVE_HAS_AVX512
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
#ifdef NATIVE_HAS_AVX512BF16
        if (__builtin_cpu_supports("avx512bf16")) return CONVOLUTION_AVX512_BF16;
#endif
#ifdef NATIVE_HAS_AVX512VNNI
        if (__builtin_cpu_supports("avx512vnni")) return CONVOLUTION_AVX512_VNNI;
#endif
        return CONVOLUTION_AVX512;
    }
#endif
#ifdef NATIVE_HAS_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return CONVOLUTION_AVX2;
#endif
    return CONVOLUTION_GENERIC;
}

// The weights as they are, a panel of filters after another.
void pack_directly(const packing& p) {
    const int64_t panels = rounded(p.filters, PANEL) / PANEL, depth = depth_of(p.channels, p.weights);
    for (int64_t panel = 0; panel < panels; panel++)
        for (int64_t k = 0; k < p.taps; k++)
            for (int64_t channel = 0; channel < depth; channel++) {
                const int64_t first = panel * PANEL, row = (panel * p.taps + k) * depth + channel;
                for (int64_t j = 0; j < PANEL; j++) {
                    const bool is_filling = channel >= p.channels || first + j >= p.filters;
                    const float value =
                        is_filling ? 0.0f : p.weight[((first + j) * p.taps + k) * p.channels + channel];
                    if (p.weights == CONVOLUTION_BFLOAT16)
                        static_cast<uint16_t*>(p.packed)[(row - channel % 2) * PANEL + 2 * j + channel % 2] =
                            to_bfloat16(value);
                    else
                        static_cast<float*>(p.packed)[row * PANEL + j] = value;
                }
            }
}

}  // namespace

int32_t floats_of(int32_t instructions) {
    const int32_t widest_floats = std::min<int32_t>(widest(), CONVOLUTION_AVX512);
    return instructions == 0 ? widest_floats : instructions <= widest_floats ? instructions : -1;
}

Layout layout_of(const convolution_problem& p) {
    Layout layout{};
    const bool of_bytes = p.weights == CONVOLUTION_INT8;
    const int64_t value = of_bytes ? 1 : is_rounded(p) ? 2 : 4;
    layout.starts_bytes = rounded((p.batch + 1) * sizeof(int64_t), LINE);
    if (p.form == CONVOLUTION_DIRECT) {
        layout.rows = p.outputs * p.batch;
        layout.input_stride = depth_of(p.channels, p.weights);
        // An odd number of lines, so that frames do not all start in the same set of the first cache.
        if (of_bytes) layout.input_stride = rounded(layout.input_stride, 2 * LINE) + LINE;
        const int64_t frame_bytes = layout.input_stride * value * p.stride;
        const int64_t fitting =
            is_copied(p) ? std::max(LEAST_ROWS, COPIED_BYTES / frame_bytes) : CACHED_BYTES / (4 * DEEPEST);
        layout.chunk = std::min(rounded(fitting, LEAST_ROWS), rounded(p.outputs, 1));
        const int64_t frames = (layout.chunk - 1) * p.stride + (p.taps - 1) * p.dilation + 1;
        // A kernel of fewer rows reads no further, but whole vectors of a row's last values are converted.
        if (is_copied(p)) layout.input_bytes = rounded((frames * layout.input_stride + PANEL) * value, LINE);
        if (of_bytes) {
            layout.levels_bytes = layout.chunk * sizeof(Level);
            layout.kept_values = rounded(p.channels, PANEL);
            layout.kept_bytes = p.threads * layout.kept_values * 4;
        }
        return layout;
    }
    const int64_t columns = rounded(p.filters, PANEL), made = fresh(p) * p.dilation;
    layout.input_stride = rounded(p.channels, PANEL);
    layout.rows = p.batch * ((p.outputs + made - 1) / made) * p.dilation;
    const int64_t sums = p.form == CONVOLUTION_PAIRS ? p.block : p.points;
    const int64_t row_bytes = p.points * layout.input_stride * value + sums * columns * 4;
    const int64_t weight_bytes = sums * p.channels * columns * bytes_of(p.weights);
    layout.is_streamed = weight_bytes > CACHED_BYTES;
    int64_t fitting = std::max<int64_t>(12, CACHED_BYTES / row_bytes / 12 * 12);
    if (layout.is_streamed) fitting = std::max(fitting, ROWS_PER_READING);
    const int64_t chunks = std::max<int64_t>(1, (layout.rows + fitting - 1) / fitting);
    layout.chunk = (layout.rows + chunks - 1) / chunks;
    layout.room = layout.chunk + layout.chunk / 8 + 2;
    layout.loudness_bytes = rounded(p.batch * p.frames * sizeof(float), LINE);
    layout.table_bytes = layout.chunk * MOST_PARTS * sizeof(Row);
    // One panel more than the rows need, so that planes do not all start in the same set of the first cache.
    layout.input_plane = layout.room * layout.input_stride + PANEL * 4 / value;
    layout.sums_plane = layout.room * columns + PANEL;
    layout.input_bytes = rounded(p.points * layout.input_plane * value, LINE);
    layout.sums_bytes = rounded(sums * layout.sums_plane * 4, LINE);
    if (p.weights == CONVOLUTION_FIXED24) layout.kept_values = (p.form == CONVOLUTION_PAIRS ? 2 : 1) * p.channels * PANEL;
    if (of_bytes) {
        layout.kept_values = p.block * layout.input_stride;
        layout.levels_bytes = p.block * layout.room * sizeof(Level);
    }
    layout.kept_bytes = p.threads * layout.kept_values * 4;
    return layout;
}

}  // namespace convolution

using namespace convolution;

int32_t convolution_best_instructions(void) { return widest(); }

size_t convolution_packed_bytes(int64_t points, int64_t channels, int64_t filters, int32_t weights) {
    const int64_t columns = points * rounded(filters, PANEL);
    const int64_t units = weights == CONVOLUTION_FIXED24 ? columns * sizeof(float)
                          : weights == CONVOLUTION_INT8 ? columns * (sizeof(float) + sizeof(int32_t))
                                                        : 0;
    return static_cast<size_t>(columns * depth_of(channels, weights) * bytes_of(weights) + units);
}

int32_t convolution_fits(int32_t form, int64_t block, int64_t taps, int64_t stride, int32_t weights,
                         int32_t instructions) {
    return fits(form, block, taps, stride, weights, instructions);
}

int32_t convolution_pack(const float* weight_OKI, const float* scale, const double* transform, int32_t form,
                         int64_t block, int64_t points, int64_t taps, int64_t channels, int64_t filters,
                         int32_t weights, int32_t threads, void* packed) {
    if (!weight_OKI || !packed || points <= 0 || taps <= 0 || channels <= 0 || filters <= 0 || threads <= 0 ||
        !fits(form, block, taps, 1, weights, CONVOLUTION_AUTOMATIC))
        return CONVOLUTION_INVALID_VALUE;
    packing all{weight_OKI, scale, transform, form, block, points, taps, channels, filters, weights, threads, packed};
    constexpr double AS_IT_IS = 1.0;
    if (form == CONVOLUTION_DIRECT && weights == CONVOLUTION_INT8) {
        if (transform || points != 1) return CONVOLUTION_INVALID_VALUE;
        transform = all.transform = &AS_IT_IS;
    } else if (form == CONVOLUTION_DIRECT) {
        if (transform || scale || points != taps) return CONVOLUTION_INVALID_VALUE;
        pack_directly(all);
        return CONVOLUTION_SUCCESS;
    }
    if (!transform || (form == CONVOLUTION_PAIRS && points != block))
        return CONVOLUTION_INVALID_VALUE;
    switch (widest()) {
#ifdef NATIVE_HAS_AVX512
        case CONVOLUTION_AVX512_BF16:
        case CONVOLUTION_AVX512_VNNI:
        case CONVOLUTION_AVX512: pack_avx512(all); break;
#endif
#ifdef NATIVE_HAS_AVX2
        case CONVOLUTION_AVX2: pack_avx2(all); break;
#endif
        default: pack_generic(all);
    }
    return CONVOLUTION_SUCCESS;
}

size_t convolution_workspace(const convolution_problem* problem) {
    return problem && is_valid(*problem) ? layout_of(*problem).bytes() : 0;
}

int32_t convolution_run(const convolution_problem* problem) {
    if (!problem || !is_valid(*problem)) return CONVOLUTION_INVALID_VALUE;
    if (problem->batch == 0 || problem->outputs == 0) return CONVOLUTION_SUCCESS;
    const Layout layout = layout_of(*problem);
    if (problem->workspace_bytes < layout.bytes()) return CONVOLUTION_WORKSPACE_TOO_SMALL;
    const int32_t best = widest(), widest_floats = std::min<int32_t>(best, CONVOLUTION_AVX512);
#ifdef NATIVE_HAS_AVX512VNNI
    const int32_t widest_bytes = std::min<int32_t>(best, CONVOLUTION_AVX512_VNNI);
#else
    const int32_t widest_bytes = widest_floats;
#endif
    const bool of_bytes = problem->weights == CONVOLUTION_INT8;
    int32_t chosen = problem->instructions ? problem->instructions : of_bytes ? widest_bytes : widest_floats;
    const int32_t most = of_bytes ? widest_bytes : problem->weights == CONVOLUTION_BFLOAT16 ? best : widest_floats;
    if (chosen == CONVOLUTION_AVX512_VNNI && best >= chosen && !of_bytes) chosen = CONVOLUTION_AVX512;
    if (chosen > most) return CONVOLUTION_NO_INSTRUCTIONS;
    switch (chosen) {
        case CONVOLUTION_GENERIC: run_generic(*problem); break;
#ifdef NATIVE_HAS_AVX2
        case CONVOLUTION_AVX2: run_avx2(*problem); break;
#endif
#ifdef NATIVE_HAS_AVX512
        case CONVOLUTION_AVX512: run_avx512(*problem); break;
#endif
#ifdef NATIVE_HAS_AVX512VNNI
        case CONVOLUTION_AVX512_VNNI: run_avx512_vnni(*problem); break;
#endif
#ifdef NATIVE_HAS_AVX512BF16
        case CONVOLUTION_AVX512_BF16: run_avx512_bf16(*problem); break;
#endif
        default: return CONVOLUTION_NO_INSTRUCTIONS;
    }
    return CONVOLUTION_SUCCESS;
}
