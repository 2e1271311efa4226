// The kernels of the losses and of the decoder as who launches them sees them. All are templates, some of nothing: so NVRTC
// compiles the one that it is asked for, and no other.
#pragma once

#include "cuda_types.h"
#include "transducer_beam.h"
#include "transducer_decode.h"
#include "transducer_loss.h"

namespace transducer_cuda {

using namespace ctc_cuda;

// ---- The losses

constexpr int CELLS_PER_BLOCK = 8;  // a warp each
constexpr int MOST_WALK_THREADS = 512;

enum State : int32_t {
    FITTING,
    INVALID,       // lengths or labels do not fit: NaN everywhere
    NOT_A_NUMBER,  // a logit of its own is NaN or +infinity: NaN within its lengths
};

struct Outcome {
    int64_t frames, labels;  // 0 if INVALID
    double log_probability;  // of all paths
    double skip_below;       // of cells with less of it
    int32_t state;           // State
};

// Probabilities of the ways out of a cell, its softmax, and those of reaching it and of what is left from it on.
enum Plane {
    BLANK_PLANE,
    LABEL_PLANE,
    LARGEST_PLANE,  // of the logits of labels and blank
    SUM_PLANE,      // of their exponentials relative to the largest
    ALPHA_PLANE,
    BETA_PLANE,
    DURATION_PLANE  // the first of the durations'
};

struct Batch {
    transducerProblem problem;  // whose `durations` are those of the host
    int32_t durations[TRANSDUCER_MOST_DURATIONS];
    const int64_t* targets;
    Outcome* outcomes;  // [batch]
    void* planes;       // [batch, planes, diagonals, positions]: Scaled<float>, or of double logits <double>
};

static __host__ __device__ inline int64_t plane_size(const transducerProblem& p) {
    return (p.frames + p.positions - 1) * p.positions;
}
static __host__ __device__ inline int64_t plane_count(const transducerProblem& p) { return DURATION_PLANE + p.duration_count; }

// Lays `lattices` out from `base`, which may be null; returns its size.
static inline size_t lay_out(const transducerProblem& p, char* base, Batch* b) {
    const size_t outcomes = size_t(round_up(p.batch * int64_t(sizeof(Outcome)), 256));
    b->outcomes = (Outcome*)base;
    b->planes = base + outcomes;
    const size_t scaled_bytes = p.type == TRANSDUCER_FLOAT64 ? 16 : 12;
    return outcomes + size_t(p.batch * plane_count(p) * plane_size(p)) * scaled_bytes;
}

template <typename = void>
__global__ void begin_kernel(const __grid_constant__ Batch b, const int64_t* frame_counts, const int64_t* label_counts);
template <typename In>
__global__ void read_kernel(const __grid_constant__ Batch b, const void* logits, int64_t first, int64_t count);
template <typename Real> __global__ void walk_kernel(const __grid_constant__ Batch b, double* losses);
template <typename Real> __global__ void threshold_kernel(const __grid_constant__ Batch b);
template <typename In>
__global__ void gradient_kernel(const __grid_constant__ Batch b, const void* logits, void* gradient, int64_t first,
                                int64_t count, const double* scales);

// ---- The greedy decoder

constexpr int VECTORS = 8;  // at most, of a block
constexpr int SHARES = 8;   // of the columns of a panel, a warp each: whole float4 of widths that are multiples of 32
constexpr int GATES = 4;
constexpr int GATE_SHARES = 4;  // of the columns of a gate's panel
constexpr int FOLLOWERS = 4;    // utterances of a block, a warp each

// Widths are padded.
struct Job {
    transducerDeviceBatch batch;
    int64_t classes, encoder, hidden, joint, layers, logit_width, state_floats, duration_count;
    int32_t durations[TRANSDUCER_MOST_DURATIONS];
    const float *first_gates, *gate_biases[TRANSDUCER_MOST_LAYERS], *encoder_bias, *output_bias;
    const void *gate_weights[TRANSDUCER_MOST_LAYERS], *encoder_weights, *prediction_weights, *output_weights;
    int32_t activation, blank;
    // Of rows of a beam search: the frame and the state of each, and how many are an utterance's; else NULL. Without
    // `row_frames` rows are states without a frame.
    int64_t rows_each;
    int32_t *row_frames, *row_states;

    __device__ float* state(int64_t n) const { return batch.states + n * state_floats; }
    __device__ float* cells(int64_t n) const { return state(n) + layers * hidden; }
    __device__ float* prediction(int64_t n) const { return state(n) + 2 * layers * hidden; }
    __device__ float* pending(int64_t n, int64_t layer) const { return batch.pending + (n * layers + layer) * hidden; }
};

// Weight is the type of packed weights: float, Half or Bfloat.
template <typename = void> __global__ void start_kernel(const __grid_constant__ Job job);
template <typename Weight> __global__ void encode_kernel(const __grid_constant__ Job job);
template <typename Weight> __global__ void score_kernel(const __grid_constant__ Job job);
template <typename = void> __global__ void follow_kernel(const __grid_constant__ Job job);
template <typename Weight> __global__ void fused_follow_kernel(const __grid_constant__ Job job);  // with scorers
template <typename Weight> __global__ void cell_kernel(const __grid_constant__ Job job, int layer);
template <typename Weight> __global__ void project_kernel(const __grid_constant__ Job job);

// ---- Beam search

struct BeamJob {
    Job job;  // whose utterances are states of the prediction network, `predictions` for each; active are new ones
    transducerNetwork net;  // whose durations are those of the host
    transducerBeamOptions options;
    transducerDeviceBeam beam;
    int64_t predictions, bytes_each;
    char* memory;         // [batch][bytes_each], what is remembered
    int32_t* which;       // [batch][classes]
    int32_t* before;      // [batch][predictions]: the state that a new one follows
    float* fused;         // [batch][classes], or none
    float* internals;     // [batch][predictions][classes], likewise
    int32_t *row_is_active, *row_frames, *row_states;  // [batch][beam], as `logits`
    float* logits;
};

template <typename = void> __global__ void beam_start_kernel(const __grid_constant__ BeamJob b);
template <typename = void> __global__ void beam_kernel(const __grid_constant__ BeamJob b, bool is_first);
template <typename = void> __global__ void internal_kernel(const __grid_constant__ BeamJob b);

}  // namespace transducer_cuda
