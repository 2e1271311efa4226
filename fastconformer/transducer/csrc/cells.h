// One utterance's lattice as every file sees it: what the kernels are compiled with for each instruction set.
#pragma once

#include <stdint.h>

#include "transducer_loss.h"

// Positions are padded to whole vectors of the widest instruction set, so that the layout is the same for all.
constexpr int64_t POSITION_PADDING = 8;

// Planes of a row of cells. Scores become flows, the probability of going through the cell that way, in the walk.
enum Plane {
    BLANK_PLANE = 0,
    LABEL_PLANE = 1,
    TO_END_PLANE = 2,   // log-probability of what is left, from the cell on
    LARGEST_PLANE = 3,  // of the logits of labels and blank
    SUM_PLANE = 4,      // of their exponentials relative to the largest
    DURATION_PLANE = 5  // the first of the durations'
};

struct LatticeShape {
    int64_t frames, labels, positions, stride, planes, longest_duration;
};

inline LatticeShape shape_of(const transducerProblem& p, int64_t frames, int64_t labels) {
    const int64_t positions = labels + 1;
    const int64_t stride = (positions + POSITION_PADDING - 1) / POSITION_PADDING * POSITION_PADDING;
    const int64_t longest = p.duration_count ? p.durations[p.duration_count - 1] : 1;
    return {frames, labels, positions, stride, DURATION_PLANE + p.duration_count, longest < frames ? longest : frames};
}

// Cells; then the end, three rows of scratch, and rows of occupancies for as many frames as a duration reaches.
inline int64_t lattice_doubles(const LatticeShape& s) {
    return s.stride * (s.frames * s.planes + 4) + (s.longest_duration + 1) * (s.stride + POSITION_PADDING) +
           POSITION_PADDING;
}

struct Cells {
    const transducerProblem& problem;
    const int64_t* labels;
    LatticeShape shape;
    double* memory;

    double* plane(int64_t t, int64_t which) const { return memory + (t * shape.planes + which) * shape.stride; }
    double* scratch(int64_t which) const { return plane(shape.frames, which); }
    double* occupancies(int64_t t) const {
        return scratch(4) + t % (shape.longest_duration + 1) * (shape.stride + POSITION_PADDING);
    }
};

// Which cells of a frame were read: from `first` to `last`, none where that is less. The others have no way out.
struct Band {
    int64_t first, last;
};

// The joint of one utterance.
struct JointRows {
    const float *encoded, *predicted;
    int64_t encoded_stride, predicted_stride, width;
    const float *weights, *bias;  // packed, and padded likewise
    int32_t activation;
    double largest_factor;  // of any output: the sum of its weights' sizes
    double largest_bias;
};

// Scratch of a thread. Rows of the joint are computed so many at a time.
constexpr int64_t JOINT_ROWS = 96;
struct JointScratch {
    Band* bands;             // [frames]
    float *hidden, *logits;  // [JOINT_ROWS], of the joint's width and of all outputs, both padded
    int32_t* positions;      // [JOINT_ROWS]
};

struct Kernels {
    // Reads the cells of the joint that count, and walks. NaN where the loss is.
    double (*walk_joint)(const Cells& cells, const JointRows& joint, const JointScratch& scratch);
    // Reads one row of logits. False where one is NaN or +infinity.
    bool (*read_cell)(const Cells& cells, const void* logits, int64_t t, int64_t u);
    // `bands`: of every frame; NULL where all cells were read.
    double (*walk)(const Cells& cells, bool wants_flows, const Band* bands);
    // `row`: scratch of padded_classes doubles. `streams`: the gradient is to go past the caches.
    void (*write_gradient)(const Cells& cells, const void* logits, void* gradient, int64_t t, int64_t u, double scale,
                           bool has_normaliser, bool streams, void* row);
    void (*fill)(void* gradient, int64_t count, int32_t type, double value, bool streams);
};

// Of the row that a gradient is made in.
inline int64_t padded_classes(const transducerProblem& p) { return (p.classes + 2 * p.duration_count + 63) / 64 * 64 + 64; }

namespace generic { extern const Kernels kernels; }
namespace avx2 { extern const Kernels kernels; }
namespace avx512 { extern const Kernels kernels; }
