// The kernels of ctc as who launches them sees them. Their order stands in cuda_batch.h, what they do where they are
// defined. All are templates, some of nothing: so NVRTC compiles the one that it is asked for, and no other.
#pragma once

#include "ctc_decode.h"
#include "cuda_batch.h"

namespace ctc_cuda {

// ---- The loss

constexpr int PREPARE_THREADS = 128;
constexpr int FRAMES_PER_BLOCK = 8;  // a warp each
constexpr int EXTENDED_THREADS = 256;
constexpr size_t EXTENDED_SHARED_BYTES = 40 * 1024;
constexpr int FINISH_THREADS = 1024;
constexpr int SCALE_THREADS = 256;

// Of a block of the fast lattice, which walks with K pairs a thread and W warps a direction.
template <int K, int W> struct Shape {
    static constexpr int TEAM = W * WARP;  // threads of a direction
    static constexpr int HELPERS = W < 8 ? 4 * WARP : 0;  // where they would take registers that the others need: all
    static constexpr int THREADS = 2 * TEAM + HELPERS;
    static constexpr int DEPTH = W <= 2 ? 8 : 16 / W;
    static constexpr int VECTOR = K < 4 ? K : 4;  // floats a copy
    static constexpr int PARTS = K / VECTOR;
    static constexpr int RING = DEPTH * 3 * K * TEAM;  // floats: emissions, blanks and labels of the other team
    static constexpr size_t SHARED_BYTES = 2 * RING * sizeof(float);
    static constexpr int64_t PAIRS = int64_t(K) * TEAM;
    static_assert(PAIR_MULTIPLE % K == 0 && W <= MOST_TEAM_WARPS && THREADS <= 1024, "");
};

// Of the pass over whole frames.
constexpr int CHUNKS = 6;            // a thread holds so many,
constexpr int CHUNK_BYTES = 16;      // in a block each of so many bytes, as computed, of neighbouring classes
constexpr int ROW_THREADS = 256;     // of a block that takes one frame
constexpr int64_t WARP_CLASSES = WARP * CHUNKS;
template <typename In>
constexpr int64_t HELD_CLASSES = ROW_THREADS * CHUNKS * CHUNK_BYTES / int64_t(sizeof(typename Computed<In>::type));

template <typename = void> __global__ void prepare_kernel(const __grid_constant__ Batch b);
template <typename In> __global__ void star_sums_kernel(const __grid_constant__ Batch b);
template <typename In> __global__ void emissions_kernel(const __grid_constant__ Batch b);
template <int K, int W, bool STARS> __global__ void lattice_kernel(const __grid_constant__ Batch b);
template <typename In> __global__ void extended_kernel(const __grid_constant__ Batch b);
template <typename In> __global__ void warp_rows_kernel(const __grid_constant__ Batch b);
template <typename In, bool IS_HELD> __global__ void block_rows_kernel(const __grid_constant__ Batch b);
template <typename In> __global__ void finish_kernel(const __grid_constant__ Batch b);
template <typename In>
__global__ void scale_kernel(const __grid_constant__ ctcProblem p, void* gradient, const void* by, int64_t by_stride);

// ---- Decoding

constexpr int ROWS_PER_BLOCK = 8;  // a warp a row
constexpr int COLLAPSE_THREADS = 256;
constexpr int ALIGN_THREADS = 256;
constexpr size_t ALIGN_SHARED_BYTES = 40 * 1024;

struct FrameBest {
    int32_t label;
    float log_prob;  // of labels; blank's is not needed
};

struct AlignmentWork {
    double* emissions;  // [batch, frames, width + 1], blank's behind those of the labels
    double* rows;       // [batch, 4, width + 2], where shared memory is too small: blanks and labels, twice
    uint8_t* origins;   // [batch, frames, width + 1]
};

struct Alignment {
    ctc_scores scores;
    const int64_t* frames;
    const int32_t* targets;
    int64_t width;  // of a row of targets
    const int64_t* lengths;
    int32_t blank;
    int64_t *start, *end;
    double *log_probs, *totals;
    AlignmentWork work;
};

template <typename In>
__global__ void best_kernel(const __grid_constant__ ctc_scores scores, const int64_t* frames, int32_t blank,
                            FrameBest* found);
template <typename = void>
__global__ void collapse_kernel(const __grid_constant__ ctc_scores scores, const int64_t* frames, int32_t blank,
                                const FrameBest* found, int32_t* packed);
template <typename In> __global__ void gather_kernel(const __grid_constant__ Alignment a);
template <typename = void> __global__ void align_kernel(const __grid_constant__ Alignment a, bool is_shared);

}  // namespace ctc_cuda
