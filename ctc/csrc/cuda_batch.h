// A batch as the kernels of the loss see it, and the workspace that they hand results on in.
//
// prepare    lengths and labels checked, labels as int32, stars taken from between them  a block an utterance
// star sums  with stars: log of the sum of all exponentials                              a warp a frame
// emissions  exp(logit - reference) of every label of the transcript and of blank        a warp a frame
// lattice    alpha and beta in the linear domain, their products, the certificate        a block an utterance
// extended   the same with an exponent for each state, where there is no certificate     a block an utterance
// rows       softmax, its normaliser, the gradient                                       a warp or a block a frame
// finish     the losses and their reduction                                              one block
#pragma once

#include "ctc.h"
#include "cuda_types.h"
#include "recurrence.h"

namespace ctc_cuda {

enum State : int32_t {
    PENDING,       // no products yet
    DONE,          // products of alpha and beta are there
    IMPOSSIBLE,    // no alignment has a probability: infinity, gradient 0
    INVALID,       // lengths or labels do not fit: NaN
    NOT_A_NUMBER,  // a logit that the lattice needs is NaN or infinity: NaN
};

struct Outcome {
    int64_t frames, labels;  // 0 if INVALID; without stars
    double log2_z;           // of emissions that are relative to the references
    double references;       // their sum over all frames
    int32_t state;           // State
    int32_t distinct;        // classes among the labels
    double weight;           // of its loss in the reduction; stars count as labels there
    bool has_stars;
};

struct alignas(16) FrameStatistics {  // of the emissions of a frame
    float blank, reference, sum_of_labels, smallest;
};

// Rows of states and emissions hold so many pairs more than there are that vectors of any kernel fit.
constexpr int64_t PAIR_MULTIPLE = 8;
constexpr int64_t MOST_LINEAR_PAIRS = 2048;  // what fits into the registers of a block
constexpr int MOST_TEAM_WARPS = 8;
constexpr int64_t MOST_CLASSES = INT32_MAX - 65536;

static __host__ __device__ inline int64_t pair_stride(int64_t labels) { return round_up(labels + 1, PAIR_MULTIPLE); }

// An extended row holds a pair of numbers, mantissa and exponent, for each pair of states.
constexpr int64_t EXTENDED_NUMBER_BYTES = 16;
constexpr int64_t EXTENDED_PAIR_BYTES = 2 * EXTENDED_NUMBER_BYTES;

// Frames between two rows of beta that are kept: about the square root, which needs the least memory.
static __host__ __device__ inline int64_t checkpoint_distance(int64_t frames) {
    const int64_t distance = int64_t(ceil(sqrt(double(frames))));
    return distance > 0 ? distance : 1;
}

// Two working rows and two rows of emissions, first; checkpoints and one block between them, behind.
static __host__ __device__ inline int64_t extended_working_bytes(int64_t labels) {
    return (labels + 1) * (2 * EXTENDED_PAIR_BYTES + 2 * EXTENDED_NUMBER_BYTES);
}
static __host__ __device__ inline int64_t extended_bytes(int64_t frames, int64_t labels) {
    const int64_t distance = checkpoint_distance(frames);
    const int64_t rows = distance + (frames + distance - 1) / distance;
    return extended_working_bytes(labels) + rows * (labels + 1) * EXTENDED_PAIR_BYTES;
}

struct Workspace {
    Outcome* outcomes;            // [batch]
    FrameStatistics* statistics;  // [batch, frames]
    float* frame_maxima;          // [batch, frames, MOST_TEAM_WARPS], largest product of each warp of a team
    double* references;           // [batch, frames], of the extended range
    double* normalisers;          // [batch, frames], log of the sum of a frame's exponentials; with stars before the lattice
    double* regularisation;       // [batch, frames]
    int32_t* labels;              // [batch, longest], without stars
    uint8_t* stars;               // [batch, longest + 1]: 1 where a star stood before the label, or behind the last
    int32_t* order;               // [batch, longest], positions sorted by class
    int32_t* class_begin;         // [batch, longest + 1], where a class begins in `order`
    int32_t* class_of;            // [batch, longest]
    char* scratch;                // [batch, scratch_bytes]: emissions [frames, pairs], or what the extended range needs
    char* states;                 // [batch, state_bytes]: [frames, 2, pairs], blanks and labels, in the computed type
    int64_t scratch_bytes, state_bytes;
};

struct Batch {
    ctcProblem problem;
    Workspace workspace;
    const void *logits, *targets, *input_lengths, *target_lengths, *scale;
    void *gradient, *losses, *reduced;
    int64_t* invalid;
};

// Lays a workspace out from `base`, which may be null; returns its size.
static inline size_t lay_out(const ctcProblem& p, char* base, Workspace* w) {
    size_t used = 0;
    const auto take = [&](int64_t count, size_t bytes) {
        char* const piece = base ? base + used : nullptr;
        used += (size_t(count) * bytes + 255) / 256 * 256;
        return piece;
    };
    const bool is_double = p.type == CTC_FLOAT64;
    const int64_t frames = p.batch * p.frames, labels = p.batch * p.longest_target;
    // No transcript longer than its frames is ever computed.
    const int64_t computed = p.longest_target < p.frames ? p.longest_target : p.frames;
    const int64_t linear = is_double ? 0 : p.frames * pair_stride(computed) * int64_t(sizeof(float));
    const int64_t extended = extended_bytes(p.frames, computed);
    w->scratch_bytes = round_up(linear > extended ? linear : extended, 256);
    w->state_bytes = round_up(p.frames * 2 * pair_stride(computed) * (is_double ? 8 : 4), 256);
    w->outcomes = (Outcome*)take(p.batch, sizeof(Outcome));
    w->statistics = (FrameStatistics*)take(is_double ? 0 : frames, sizeof(FrameStatistics));
    w->frame_maxima = (float*)take(is_double ? 0 : frames * MOST_TEAM_WARPS, sizeof(float));
    w->references = (double*)take(frames, sizeof(double));
    w->normalisers = (double*)take(frames, sizeof(double));
    w->regularisation = (double*)take(frames, sizeof(double));
    w->labels = (int32_t*)take(labels, sizeof(int32_t));
    w->stars = (uint8_t*)take(labels + p.batch, sizeof(uint8_t));
    w->order = (int32_t*)take(labels, sizeof(int32_t));
    w->class_begin = (int32_t*)take(labels + p.batch, sizeof(int32_t));
    w->class_of = (int32_t*)take(labels, sizeof(int32_t));
    w->scratch = take(p.batch, size_t(w->scratch_bytes));
    w->states = take(p.batch, size_t(w->state_bytes));
    return used;
}

static __device__ inline int64_t index_at(const void* values, int64_t i, int32_t flags) {
    return flags & CTC_INDEX64 ? ((const int64_t*)values)[i] : int64_t(((const int32_t*)values)[i]);
}

template <typename In> static __device__ inline const In* logits_at(const Batch& b, int64_t n, int64_t t) {
    return (const In*)b.logits + n * b.problem.logits_batch_stride + t * b.problem.logits_frame_stride;
}

template <typename In> static __device__ inline In* gradient_at(const Batch& b, int64_t n, int64_t t) {
    return (In*)b.gradient + n * b.problem.gradient_batch_stride + t * b.problem.gradient_frame_stride;
}

template <typename Real> static __device__ inline Real* states_of(const Batch& b, int64_t n) {
    return (Real*)(b.workspace.states + n * b.workspace.state_bytes);
}

static __device__ inline char* scratch_of(const Batch& b, int64_t n) {
    return b.workspace.scratch + n * b.workspace.scratch_bytes;
}

static __device__ inline const int32_t* labels_of(const Batch& b, int64_t n) {
    return b.workspace.labels + n * b.problem.longest_target;
}

static __device__ inline uint8_t* stars_of(const Batch& b, int64_t n) {
    return b.workspace.stars + n * (b.problem.longest_target + 1);
}

// Whether the linear domain is tried: a matter of the utterance and of what is asked, never of the batch.
static __host__ __device__ inline bool wants_linear(const ctcProblem& p, int64_t labels) {
    return p.type != CTC_FLOAT64 && !(p.flags & CTC_EXTENDED_RANGE) && labels + 1 <= MOST_LINEAR_PAIRS;
}

static __device__ inline double reduction_weight(const ctcProblem& p, int64_t labels) {
    return p.reduction == CTC_MEAN ? 1 / (double(labels > 0 ? labels : 1) * double(p.batch)) : 1;
}

}  // namespace ctc_cuda
