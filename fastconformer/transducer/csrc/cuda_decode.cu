// Greedy decoding on CUDA, label after label as decode_kernel.inl does it: the joint for utterances that are not finished,
// the prediction network for those that emitted a label, both without gaps between them. A step is a few kernels:
//
// (encode)  the encoder's projection, once before all steps          a block a panel and up to 8 frames
// score     activation and output layer, of a window of frames       a block a panel and up to 8 rows
// follow    blanks up to a label: its softmax, where it leads        a warp an utterance
// cell      a layer of the LSTM; the new state is pending            a block 32 units and up to 8 utterances
// project   the output of the LSTM; the pending state becomes it     a block a panel and up to 8 utterances
//
// Nothing here allocates, waits for the device, or reads its memory on the host, so that all may be captured in a graph.
#include "cuda_products.cuh"
#include "cuda_status.cuh"

using namespace transducer_cuda;

namespace {

constexpr int32_t NOTHING = -1;
constexpr int SHARES = 8;  // of the columns of a panel, a warp each: whole float4 of widths that are multiples of 32
constexpr int GATES = 4;
constexpr int GATE_SHARES = 4;  // of the columns of a gate's panel
constexpr int FOLLOWERS = 4;  // utterances of a block, a warp each

// Widths are padded.
struct Job {
    transducerDeviceBatch batch;
    int64_t classes, encoder, hidden, joint, layers, logit_width, state_floats, duration_count;
    int32_t durations[TRANSDUCER_MOST_DURATIONS];
    const float *first_gates, *gate_weights[TRANSDUCER_MOST_LAYERS], *gate_biases[TRANSDUCER_MOST_LAYERS];
    const float *encoder_weights, *encoder_bias, *prediction_weights, *output_weights, *output_bias;
    int32_t activation, blank;

    __device__ float* state(int64_t n) const { return batch.states + n * state_floats; }
    __device__ float* cells(int64_t n) const { return state(n) + layers * hidden; }
    __device__ float* prediction(int64_t n) const { return state(n) + 2 * layers * hidden; }
    __device__ float* pending(int64_t n, int64_t layer) const { return batch.pending + (n * layers + layer) * hidden; }
};

__device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

__global__ void start_kernel(const __grid_constant__ Job job) {
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
    at.started = 1;
}

// Products of this warp's share of the columns, for a panel of a matrix of `width` columns.
__device__ void multiply(int count, const float* const* vectors, const float* matrix, int64_t panel, int64_t width,
                         Partial* partial) {
    float sums[VECTORS] = {};
    const int64_t share = width / SHARES, begin = warp_index() * share;
    add_products(count, vectors, matrix + panel * PANEL * width, begin, begin + share, sums);
    keep_sums(sums, partial);
}

__global__ void __launch_bounds__(SHARES* WARP) encode_kernel(const __grid_constant__ Job job) {
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
    multiply(int(smaller_of(count, int64_t(VECTORS))), vectors, job.encoder_weights, panel, job.encoder, partial);
    if (warp_index() >= count) return;
    const int64_t j = panel * PANEL + lane_index();
    b.projected[(n * b.frames + first + warp_index()) * job.joint + j] =
        job.encoder_bias[j] + total(partial, SHARES, warp_index(), lane_index());
}

__global__ void __launch_bounds__(SHARES* WARP) score_kernel(const __grid_constant__ Job job) {
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
        const int64_t frame = b.positions[n].next_frame + row % b.window;
        // Behind the last frame rows are computed too, and not looked at.
        const float x = frame >= b.frames ? 0 : b.projected[(n * b.frames + frame) * job.joint + j] + job.prediction(n)[j];
        inputs[i] = job.activation == TRANSDUCER_RELU ? (x < 0 ? 0 : x)  // NaN stays
                    : job.activation == TRANSDUCER_TANH ? tanhf(x) : sigmoid(x);
    }
    if (threadIdx.x < VECTORS) vectors[threadIdx.x] = inputs + (threadIdx.x < rows ? threadIdx.x : 0) * job.joint;
    __syncthreads();
    multiply(int(rows), vectors, job.output_weights, panel, job.joint, partial);
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
__device__ Best best_of(const float* scores, int64_t count) {
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

__device__ void emit(const transducerDeviceBatch& b, int64_t at, const float* scores, int64_t classes, const Best& label,
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
    b.confidences[at] = 1 / sum;
    b.entropies[at] = float(log(double(sum)) - double(weighted) / double(sum));
}

__global__ void __launch_bounds__(FOLLOWERS* WARP) follow_kernel(const __grid_constant__ Job job) {
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
            emitted = int32_t(label.index);
            emit(b, n * b.capacity + count++, scores, job.classes, label, frame, duration, label.index);
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

// Up to VECTORS of the utterances that emitted a label, those of a block's group: how many.
__device__ int emitters(const Job& job, int64_t group, int64_t* numbers) {
    const int32_t* const emitted = job.batch.emitted;
    return listed(job.batch.batch, group * VECTORS, VECTORS, numbers, [=](int64_t n) { return emitted[n] != NOTHING; });
}

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
    const float* const weights = job.gate_weights[layer] + (gate * panels + panel) * PANEL * width;
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

__global__ void __launch_bounds__(SHARES* WARP) project_kernel(const __grid_constant__ Job job) {
    __shared__ Partial partial[SHARES];
    __shared__ int64_t numbers[VECTORS];
    __shared__ const float* vectors[VECTORS];
    const int64_t panels = job.joint / PANEL, panel = blockIdx.x % panels;
    const int count = emitters(job, blockIdx.x / panels, numbers);
    if (count == 0) return;
    if (threadIdx.x < VECTORS)
        vectors[threadIdx.x] = job.pending(numbers[int(threadIdx.x) < count ? threadIdx.x : 0], job.layers - 1);
    __syncthreads();
    multiply(count, vectors, job.prediction_weights, panel, job.hidden, partial);
    if (warp_index() >= count) return;
    const int64_t n = numbers[warp_index()];
    job.prediction(n)[panel * PANEL + lane_index()] = total(partial, SHARES, warp_index(), lane_index());
    for (int64_t i = panel * WARP + lane_index(); i < job.layers * job.hidden; i += panels * WARP)
        job.state(n)[i] = job.pending(n, 0)[i];
}

bool is_valid(const transducerNetwork* n, const transducerDeviceBatch* b) {
    if (!is_valid(n) || !b || n->encoder % PANEL || n->layers > TRANSDUCER_MOST_LAYERS || padded(n->joint) > TRANSDUCER_MOST_JOINT ||
        n->duration_count > TRANSDUCER_MOST_DURATIONS)
        return false;
    const bool has_window = b->window == 1 || b->window == 2 || b->window == 4 || b->window == 8;
    // More than the blocks of any kernel: of encode_kernel, whose panels are 32 at most, and of the others.
    const double widest = fmax(double(width_of_logits(*n)), double(padded(n->hidden)));
    const double blocks = double(b->batch) * fmax(double(b->frames) * double(PANEL), widest);
    return b->batch >= 0 && b->batch <= INT32_MAX / 4096 && b->frames >= 0 && blocks <= INT32_MAX &&
           b->max_symbols >= 1 && has_window && b->frames <= b->capacity / b->max_symbols;
}

Job job_of(const transducerNetwork& n, const transducerDeviceBatch& b) {
    Job job = {};
    job.batch = b;
    job.classes = padded(n.classes);
    job.encoder = n.encoder;
    job.hidden = padded(n.hidden);
    job.joint = padded(n.joint);
    job.layers = n.layers;
    job.logit_width = width_of_logits(n);
    job.state_floats = state_floats(n);
    job.duration_count = n.duration_count;
    for (int64_t i = 0; i < n.duration_count; i++) job.durations[i] = n.durations[i];
    for (int64_t i = 0; i < n.layers; i++) {
        job.gate_weights[i] = n.gate_weights[i];
        job.gate_biases[i] = n.gate_biases[i];
    }
    job.first_gates = n.first_gates;
    job.encoder_weights = n.encoder_weights;
    job.encoder_bias = n.encoder_bias;
    job.prediction_weights = n.prediction_weights;
    job.output_weights = n.output_weights;
    job.output_bias = n.output_bias;
    job.activation = n.activation;
    job.blank = int32_t(n.classes - 1);
    return job;
}

unsigned blocks(int64_t of_a_group, int64_t count, int64_t in_a_group) {
    return unsigned(of_a_group * ((count + in_a_group - 1) / in_a_group));
}

// The prediction network of those that emitted a label.
void predict(const Job& job, cudaStream_t stream) {
    const int64_t batch = job.batch.batch;
    for (int layer = 0; layer < job.layers; layer++)
        CTC_LAUNCH(cell_kernel, blocks(job.hidden / PANEL, batch, VECTORS), GATES * GATE_SHARES * WARP, 0, stream, job, layer);
    CTC_LAUNCH(project_kernel, blocks(job.joint / PANEL, batch, VECTORS), SHARES * WARP, 0, stream, job);
}

}  // namespace

transducerStatus transducer_decode_begin_cuda(const transducerNetwork* network, const transducerDeviceBatch* batch,
                                              cudaStream_t stream) {
    if (!is_valid(network, batch)) return TRANSDUCER_INVALID_VALUE;
    if (batch->batch == 0) return TRANSDUCER_SUCCESS;
    const Job job = job_of(*network, *batch);
    CTC_LAUNCH(start_kernel, unsigned(batch->batch), WARP, 0, stream, job);
    if (batch->frames > 0) {
        const unsigned encoding = blocks(job.joint / PANEL * batch->batch, batch->frames, VECTORS);
        CTC_LAUNCH(encode_kernel, encoding, SHARES * WARP, 0, stream, job);
    }
    predict(job, stream);
    return status();
}

transducerStatus transducer_decode_steps_cuda(const transducerNetwork* network, const transducerDeviceBatch* batch,
                                              int64_t steps, cudaStream_t stream) {
    if (!is_valid(network, batch) || steps < 0) return TRANSDUCER_INVALID_VALUE;
    if (batch->batch == 0) return TRANSDUCER_SUCCESS;
    const Job job = job_of(*network, *batch);
    const size_t shared = size_t(VECTORS * job.joint) * sizeof(float);
    const unsigned scoring = blocks(job.logit_width / PANEL, batch->batch, VECTORS / batch->window);
    for (int64_t i = 0; i < steps; i++) {
        CTC_LAUNCH(score_kernel, scoring, SHARES * WARP, shared, stream, job);
        CTC_LAUNCH(follow_kernel, blocks(1, batch->batch, FOLLOWERS), FOLLOWERS * WARP, 0, stream, job);
        predict(job, stream);
    }
    return status();
}
