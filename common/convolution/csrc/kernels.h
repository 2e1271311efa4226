// What the kernels of every instruction set have in common: what they are called with, and where they are.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>

#include "convolution.h"
#include "normalization.h"
#include "product.h"

namespace convolution {

// Columns (output channels, or channels of a transform) that a kernel works on; every instruction set has a divisor.
constexpr int64_t PANEL = 32;

// Channels of an input that is not copied at once, so that its frames stay in the second cache for all filters; even.
constexpr int64_t DEEPEST = 512;

constexpr int64_t LONGEST_BLOCK = 256;  // frames of a block, and so its taps

inline int64_t rounded(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// A whole number of 24 bits, the lowest first.
struct Fixed24 {
    uint8_t bytes[3];
};
constexpr float LARGEST_FIXED24 = 8388600.0f;  // less than 2^23 by more than rounding adds
constexpr float FIXED24_STEP = 256.0f;          // what is made of it has it in the upper three quarters of a word

constexpr float LARGEST_INT8 = 127.0f;

inline int64_t bytes_of(int32_t weights) {
    constexpr int64_t BYTES[] = {4, 2, 3, 1};
    return BYTES[weights];
}

// Rows of a panel of weights that are interleaved: as many as a register block multiplies at once.
inline int64_t interleaved(int32_t weights) {
    return weights == CONVOLUTION_BFLOAT16 ? 2 : weights == CONVOLUTION_INT8 ? 4 : 1;
}

// Rows of a panel of weights: channels, and what fills them up.
inline int64_t depth_of(int64_t channels, int32_t weights) { return rounded(channels, interleaved(weights)); }

// How a row of the input is rounded to bytes: a value is `step` times what its byte has more than `zero`.
struct Level {
    float step;
    int32_t zero;
};

inline int64_t sines(int64_t block) { return (block - 1) / 2; }

// The loud frames of a block and the quiet ones are transformed as rows of their own: those of a row lie within a factor of
// LOUDER, but for the last row of MOST_PARTS, which has the rest. So it is where the loudest rounds away as much of the
// quietest as a direct sum of as many products does.
constexpr float LOUDER = 16.0f;
constexpr int64_t MOST_PARTS = 8;

// A row of the products: of one phase of one block, dilated frames t0, t0 + dilation, ..., those with such loudness.
struct Row {
    int64_t b, t0;
    float least, greatest;
    bool is_first, is_last;  // of the block's
    bool is_whole;           // all frames
};

// Frames, or blocks of frames, that are worked on at once, and where their intermediate values are.
struct Layout {
    int64_t rows;          // of all utterances, if none is shorter than the longest
    int64_t chunk;         // of them at once
    int64_t room;          // for them, and for a few that loud frames add
    int64_t input_stride;  // values of the input between rows: of transformed rows, or of frames of the copy
    int64_t input_plane;   // values of the transformed input between points
    int64_t sums_plane;    // values of the products between points
    bool is_streamed;      // weights are too many to stay in the second cache
    int64_t kept_values;   // for each thread: of a panel in fixed point, or of a row before it is rounded
    size_t starts_bytes, input_bytes, sums_bytes, kept_bytes, levels_bytes, loudness_bytes, table_bytes;
    size_t bytes() const {
        return starts_bytes + input_bytes + sums_bytes + kept_bytes + levels_bytes + loudness_bytes + table_bytes;
    }
};

Layout layout_of(const convolution_problem& problem);

// The frames of a block that are new, and so its outputs.
inline int64_t fresh(const convolution_problem& problem) { return problem.block - problem.taps + 1; }

// Products of bfloat16 with bfloat16; otherwise weights are widened to floats.
inline bool is_rounded(const convolution_problem& problem) {
    return problem.weights == CONVOLUTION_BFLOAT16 && problem.instructions == CONVOLUTION_AVX512_BF16;
}

// Whether the direct sum is over a copy of the input, with zeros around it, and not over the input itself.
inline bool is_copied(const convolution_problem& problem) {
    return problem.taps > 1 || problem.before != 0 || problem.input_slope != 1.0f || problem.scale || is_rounded(problem) ||
           problem.channels % interleaved(problem.weights) != 0 || problem.weights == CONVOLUTION_INT8 ||
           (problem.outputs - 1) * problem.stride >= problem.frames;
}

inline uint16_t to_bfloat16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// What convolution_pack is called with.
struct packing {
    const float *weight, *scale;
    const double* transform;
    int64_t form, block, points, taps, channels, filters;
    int32_t weights, threads;
    void* packed;
};

void pack_generic(const packing& problem);
void pack_avx2(const packing& problem);
void pack_avx512(const packing& problem);

void run_generic(const convolution_problem& problem);
void run_avx2(const convolution_problem& problem);
void run_avx512(const convolution_problem& problem);
void run_avx512_vnni(const convolution_problem& problem);
void run_avx512_bf16(const convolution_problem& problem);

// How a product is done: parts of the depth, with so many rows of A at once.
struct ProductPlan {
    int64_t segments, depth, rows;
    bool keeps;  // all panels of B; otherwise one at a time
    int64_t b_values, a_values;
    size_t bytes() const { return static_cast<size_t>(b_values + a_values) * sizeof(float); }
};

ProductPlan plan_of(const product_problem& problem);

constexpr int64_t MOST_ROWS = 12;  // of a register block, of all instruction sets

constexpr int64_t TILE_VALUES = 5 << 15;  // of weights at the points that are made at once: most of the second cache

// The depth of a tile of weights at the points, of a panel's columns.
inline int64_t deep_of(const points_problem& p) {
    const int64_t most = std::max<int64_t>(16, TILE_VALUES / (p.points * PANEL) / 16 * 16);
    const int64_t parts = (p.depth + most - 1) / most;
    return (p.depth + parts - 1) / parts;
}
inline int64_t tile_values(const points_problem& p) { return p.points * (deep_of(p) + 1) * PANEL; }

inline size_t points_bytes(const points_problem& p) {
    const int64_t filled = p.columns % PANEL ? p.rows * PANEL : 0;
    return (tile_values(p) + p.taps * p.points + filled) * sizeof(float);
}

// Instructions for products of floats: those that are asked for, the widest for 0; -1 where this processor lacks them.
int32_t floats_of(int32_t instructions);

#ifdef NATIVE_HAS_AVX2
#define FOR_AVX2(kernel) kernel
#else
#define FOR_AVX2(kernel) nullptr
#endif
#ifdef NATIVE_HAS_AVX512
#define FOR_AVX512(kernel) kernel
#else
#define FOR_AVX512(kernel) nullptr
#endif

// Runs the kernel of the problem's instructions, of generic ones, AVX2 and AVX-512; a null one was not compiled.
template <class Problem>
int32_t dispatched(const Problem& problem, void (*const (&kernels)[3])(const Problem&)) {
    const int32_t instructions = floats_of(problem.instructions);
    if (instructions < CONVOLUTION_GENERIC) return CONVOLUTION_NO_INSTRUCTIONS;
    const auto kernel = kernels[instructions - CONVOLUTION_GENERIC];
    if (!kernel) return CONVOLUTION_NO_INSTRUCTIONS;
    kernel(problem);
    return CONVOLUTION_SUCCESS;
}

void product_generic(const product_problem& problem);
void product_avx2(const product_problem& problem);
void product_avx512(const product_problem& problem);

void points_multiply_generic(const points_problem& problem);
void points_multiply_avx2(const points_problem& problem);
void points_multiply_avx512(const points_problem& problem);
void points_gradient_generic(const points_problem& problem);
void points_gradient_avx2(const points_problem& problem);
void points_gradient_avx512(const points_problem& problem);

void normalize_generic(const normalization_problem& problem);
void normalize_avx2(const normalization_problem& problem);
void normalize_avx512(const normalization_problem& problem);
void normalize_back_generic(const normalization_problem& problem);
void normalize_back_avx2(const normalization_problem& problem);
void normalize_back_avx512(const normalization_problem& problem);

void gelu_backward_generic(int64_t values, const float* x, const float* grad_y, float* grad_x, int32_t threads);
void gelu_backward_avx2(int64_t values, const float* x, const float* grad_y, float* grad_x, int32_t threads);
void gelu_backward_avx512(int64_t values, const float* x, const float* grad_y, float* grad_x, int32_t threads);

}  // namespace convolution
