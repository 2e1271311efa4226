// Greedy decoding on CUDA, label after label as decode_kernel.inl does it: the joint for utterances that are not finished,
// the prediction network for those that emitted a label, both without gaps between them. A step is a few kernels:
//
// (encode)  the encoder's projection, once before all steps          a block a panel and up to 8 frames
// score     activation and output layer, of a window of frames       a block a panel and up to 8 rows
// follow    blanks up to a label: which, where it leads              a warp an utterance
// cell      a layer of the LSTM; the new state is pending            a block 32 units and up to 8 utterances
// project   the output of the LSTM; the pending state becomes it     a block a panel and up to 8 utterances
//
// Nothing here allocates, waits for the device, or reads its memory on the host, so that all may be captured in a graph.
#pragma once

#include "cuda_fusion.cuh"

namespace transducer_cuda {

constexpr int32_t NOTHING = -1;

template <typename> __global__ void start_kernel(const __grid_constant__ Job job) {
    const transducerDeviceBatch& b = job.batch;
    const int64_t n = blockIdx.x, count = b.frame_counts[n];
    transducerPosition& at = b.positions[n];
    if (!at.started)
        for (int64_t i = threadIdx.x; i < 2 * job.layers * job.hidden; i += blockDim.x) job.state(n)[i] = 0;
    __syncwarp();
    if (threadIdx.x > 0) return;
    const bool fits = count >= 0 && count <= b.frames && at.next_frame >= 0 && at.symbols >= 0;
    b.emitted[n] = at.started ? NOTHING : job.blank;
    b.is_active[n] = fits && at.next_frame < count;
    b.counts[n] = fits ? 0 : TRANSDUCER_HAS_WRONG_LENGTH;
    if (!at.started && scorer_of(job, n)) keep(scorer_of(job, n)->start(), b.scorer_states + 3 * n);
    at.started = 1;
}

// Products of this warp's share of the columns, for a panel of a matrix of `width` columns.
template <typename Weight>
__device__ void multiply(int count, const float* const* vectors, const void* matrix, int64_t panel, int64_t width,
                         Partial* partial) {
    float sums[VECTORS] = {};
    const int64_t share = width / SHARES, begin = warp_index() * share;
    add_products(count, vectors, (const Weight*)matrix + panel * PANEL * width, begin, begin + share, sums);
    keep_sums(sums, partial);
}

template <typename Weight> __global__ void __launch_bounds__(SHARES* WARP) encode_kernel(const __grid_constant__ Job job) {
    __shared__ Partial partial[SHARES];
    __shared__ const float* vectors[VECTORS];
    const transducerDeviceBatch& b = job.batch;
    const int64_t panels = job.joint / PANEL, panel = blockIdx.x % panels;
    const int64_t groups = (b.frames + VECTORS - 1) / VECTORS, n = blockIdx.x / panels / groups;
    const int64_t first = blockIdx.x / panels % groups * VECTORS, count = b.counts[n] < 0 ? 0 : b.frame_counts[n] - first;
    if (count <= 0) return;
    if (threadIdx.x < VECTORS) {
        const int64_t frame = first + (int(threadIdx.x) < count ? threadIdx.x : 0);
        vectors[threadIdx.x] = b.encoded + (n * b.frames + frame) * job.encoder;
    }
    __syncthreads();
    multiply<Weight>(int(smaller_of(count, int64_t(VECTORS))), vectors, job.encoder_weights, panel, job.encoder, partial);
    if (warp_index() >= count) return;
    const int64_t j = panel * PANEL + lane_index();
    b.projected[(n * b.frames + first + warp_index()) * job.joint + j] =
        job.encoder_bias[j] + total(partial, SHARES, warp_index(), lane_index());
}

// Component j of what joins frame and sequence of utterance or row n; `ahead`: a frame of its window.
static __device__ inline float joined(const Job& job, int64_t n, int64_t ahead, int64_t j) {
    const transducerDeviceBatch& b = job.batch;
    if (!job.rows_each) {
        const int64_t frame = b.positions[n].next_frame + ahead;
        // Behind the last frame rows are computed too, and not looked at.
        return frame >= b.frames ? 0 : b.projected[(n * b.frames + frame) * job.joint + j] + job.prediction(n)[j];
    }
    if (!job.row_frames) return job.encoder_bias[j] + job.prediction(n)[j];
    const float* const frame = b.projected + (n / job.rows_each * b.frames + job.row_frames[n]) * job.joint;
    return frame[j] + job.prediction(job.row_states[n])[j];
}

template <typename Weight> __global__ void __launch_bounds__(SHARES* WARP) score_kernel(const __grid_constant__ Job job) {
    CTC_DYNAMIC_SHARED(memory);
    __shared__ Partial partial[SHARES];
    __shared__ int64_t active[VECTORS];
    __shared__ const float* vectors[VECTORS];
    const transducerDeviceBatch& b = job.batch;
    const int64_t panels = job.logit_width / PANEL, panel = blockIdx.x % panels, group = blockIdx.x / panels;
    const int64_t utterances = VECTORS / b.window;
    const int64_t rows = b.window * listed(b.batch, group * utterances, int(utterances), active,
                                           [&](int64_t n) { return b.is_active[n] != 0; });
    if (rows == 0) return;
    float* const inputs = (float*)memory;  // [rows][J]
    for (int64_t i = threadIdx.x; i < rows * job.joint; i += blockDim.x) {
        const int64_t row = i / job.joint, j = i % job.joint, n = active[row / b.window];
        inputs[i] = activated(job, joined(job, n, row % b.window, j));
    }
    if (threadIdx.x < VECTORS) vectors[threadIdx.x] = inputs + (threadIdx.x < rows ? threadIdx.x : 0) * job.joint;
    __syncthreads();
    multiply<Weight>(int(rows), vectors, job.output_weights, panel, job.joint, partial);
    const int64_t row = warp_index(), output = panel * PANEL + lane_index();
    if (row >= rows) return;
    float* const to = b.logits + (active[row / b.window] * b.window + row % b.window) * job.logit_width;
    to[output] = job.output_bias[output] + total(partial, SHARES, int(row), lane_index());
}

struct Best {
    float score;
    int64_t index;
    bool has_nan;
};

// The first of the largest of `count` scores. Called by a warp, as the next.
static __device__ inline Best best_of(const float* scores, int64_t count) {
    Best best = {-INFINITY, count, false};
    for (int64_t k = lane_index(); k < count; k += WARP) {
        const float x = scores[k];
        best.has_nan |= x != x;
        if (x > best.score || best.index == count) best = {x, k, best.has_nan};
    }
    best.has_nan = __ballot_sync(ALL_LANES, best.has_nan) != 0;
    const float largest = warp_max(best.score);
    return {largest, warp_min(best.score == largest ? best.index : count), best.has_nan};
}

// `label`: the best one by the network; `token`: what is emitted.
static __device__ inline void emit(const transducerDeviceBatch& b, int64_t at, const float* scores, int64_t classes, const Best& label,
                     int64_t frame, int64_t duration, int64_t token) {
    float sum = 0, weighted = 0;
    for (int64_t k = lane_index(); k < classes; k += WARP) {
        const float x = scores[k] - label.score, e = expf(x);
        sum += e;
        weighted += e > 0 ? x * e : 0;
    }
    sum = warp_sum(sum);
    weighted = warp_sum(weighted);
    if (lane_index() > 0) return;
    b.tokens[at] = int32_t(token);
    b.found_frames[at] = int32_t(frame);
    b.durations[at] = int32_t(duration);
    b.confidences[at] = expf(scores[token] - label.score) / sum;
    b.entropies[at] = float(log(double(sum)) - double(weighted) / double(sum));
}

template <typename Fuse> __device__ void follow(const Job& job, Fuse fused_label) {
    const transducerDeviceBatch& b = job.batch;
    const int64_t n = int64_t(blockIdx.x) * FOLLOWERS + warp_index();
    if (n >= b.batch) return;
    int32_t emitted = NOTHING;
    if (b.is_active[n]) {
        const int64_t first = b.positions[n].next_frame, frames = b.frame_counts[n];
        int64_t frame = first, symbols = b.positions[n].symbols, count = b.counts[n];
        while (emitted == NOTHING && frame < frames && frame < first + b.window) {
            const float* const scores = b.logits + (n * b.window + frame - first) * job.logit_width;
            const Best label = best_of(scores, job.classes);
            const Best length = best_of(scores + job.classes, job.duration_count);
            if (label.has_nan || length.has_nan) {
                count = TRANSDUCER_HAS_NAN;
                frame = frames;
                break;
            }
            int64_t duration = job.duration_count ? job.durations[length.index] : 0;
            if (label.index == job.blank) {
                symbols = 0;
                frame += larger_of(duration, int64_t(1));
                continue;
            }
            emitted = int32_t(fused_label(n, scores, label.index));
            emit(b, n * b.capacity + count++, scores, job.classes, label, frame, duration, emitted);
            if (duration == 0 && ++symbols == b.max_symbols) duration = 1;
            if (duration > 0) symbols = 0;
            frame += duration;
        }
        __syncwarp();  // all lanes have read what lane 0 now writes
        if (lane_index() == 0) {
            b.positions[n].next_frame = frame;
            b.positions[n].symbols = symbols;
            b.counts[n] = count;
            b.is_active[n] = frame < frames;
        }
    }
    if (lane_index() == 0) b.emitted[n] = emitted;
}

template <typename> __global__ void __launch_bounds__(FOLLOWERS* WARP) follow_kernel(const __grid_constant__ Job job) {
    follow(job, [](int64_t, const float*, int64_t label) { return label; });
}

template <typename Weight>
__global__ void __launch_bounds__(FOLLOWERS* WARP) fused_follow_kernel(const __grid_constant__ Job job) {
    follow(job, [&](int64_t n, const float* scores, int64_t label) { return fused_label<Weight>(job, n, scores, label); });
}

// Up to VECTORS of the utterances that emitted a label, those of a block's group: how many.
static __device__ inline int emitters(const Job& job, int64_t group, int64_t* numbers) {
    const int32_t* const emitted = job.batch.emitted;
    return listed(job.batch.batch, group * VECTORS, VECTORS, numbers, [=](int64_t n) { return emitted[n] != NOTHING; });
}

template <typename Weight>
__global__ void __launch_bounds__(GATES* GATE_SHARES* WARP) cell_kernel(const __grid_constant__ Job job, int layer) {
    __shared__ Partial partial[GATES * GATE_SHARES];
    __shared__ int64_t numbers[VECTORS];
    __shared__ const float *before[VECTORS], *below[VECTORS];
    const int64_t panels = job.hidden / PANEL, panel = blockIdx.x % panels;
    const int count = emitters(job, blockIdx.x / panels, numbers);
    if (count == 0) return;
    if (threadIdx.x < VECTORS) {
        const int64_t n = numbers[int(threadIdx.x) < count ? threadIdx.x : 0];
        before[threadIdx.x] = job.state(n) + layer * job.hidden;
        below[threadIdx.x] = layer ? job.pending(n, layer - 1) : nullptr;
    }
    __syncthreads();
    const int64_t gate = warp_index() / GATE_SHARES, share = job.hidden / GATE_SHARES, begin = warp_index() % GATE_SHARES * share;
    const int64_t width = layer ? 2 * job.hidden : job.hidden;
    const Weight* const weights = (const Weight*)job.gate_weights[layer] + (gate * panels + panel) * PANEL * width;
    float sums[VECTORS] = {};
    if (layer) add_products(count, below, weights, begin, begin + share, sums);
    add_products(count, before, weights + (width - job.hidden) * PANEL, begin, begin + share, sums);
    keep_sums(sums, partial);
    if (warp_index() >= count) return;
    const int64_t n = numbers[warp_index()], unit = panel * PANEL + lane_index();
    const float* const added =
        layer ? job.gate_biases[layer] : job.first_gates + job.batch.emitted[n] * GATES * job.hidden;
    float x[GATES];
    for (int i = 0; i < GATES; i++)
        x[i] = added[i * job.hidden + unit] + total(partial + i * GATE_SHARES, GATE_SHARES, warp_index(), lane_index());
    float& cell = job.cells(n)[layer * job.hidden + unit];
    cell = sigmoid(x[1]) * cell + sigmoid(x[0]) * tanhf(x[2]);
    job.pending(n, layer)[unit] = sigmoid(x[3]) * tanhf(cell);
}

template <typename Weight> __global__ void __launch_bounds__(SHARES* WARP) project_kernel(const __grid_constant__ Job job) {
    __shared__ Partial partial[SHARES];
    __shared__ int64_t numbers[VECTORS];
    __shared__ const float* vectors[VECTORS];
    const int64_t panels = job.joint / PANEL, panel = blockIdx.x % panels;
    const int count = emitters(job, blockIdx.x / panels, numbers);
    if (count == 0) return;
    if (threadIdx.x < VECTORS)
        vectors[threadIdx.x] = job.pending(numbers[int(threadIdx.x) < count ? threadIdx.x : 0], job.layers - 1);
    __syncthreads();
    multiply<Weight>(count, vectors, job.prediction_weights, panel, job.hidden, partial);
    if (warp_index() >= count) return;
    const int64_t n = numbers[warp_index()];
    job.prediction(n)[panel * PANEL + lane_index()] = total(partial, SHARES, warp_index(), lane_index());
    for (int64_t i = panel * WARP + lane_index(); i < job.layers * job.hidden; i += panels * WARP)
        job.state(n)[i] = job.pending(n, 0)[i];
}

}  // namespace transducer_cuda
