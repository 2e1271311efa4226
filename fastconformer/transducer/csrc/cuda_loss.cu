// The losses on CUDA: their gradient, and what the C entry points of transducer_loss.h launch. Nothing here allocates,
// waits for the device, or reads its memory on the host, so that everything may be captured in a graph.
#include "cuda_status.cuh"
#include "cuda_walk.cuh"

using namespace transducer_cuda;

namespace {

// Probability of going through a cell by each of its ways.
struct Flows {
    double blank, label;
};

// Called by a warp, whose lanes have a duration each.
__device__ Flows flows_of(const Lattice& lattice, double log_probability, int64_t t, int64_t u) {
    const double here = lattice.at(ALPHA_PLANE, t, u);
    double blank = 0, label = 0;
    for (int i = lane_index(); i < lattice.durations(); i += WARP) {
        blank += exp(here + lattice.blank_to_end(t, u, i) - log_probability);
        label += exp(here + lattice.label_to_end(t, u, i) - log_probability);
    }
    return {warp_sum(blank), warp_sum(label)};
}

// Calls value(k, logit) for the elements of a row, HELD of a lane at once, and writes what it returns.
template <typename In, typename Value> __device__ void map_row(const In* from, In* to, int64_t count, Value value) {
    for (int64_t begin = 0; begin < count; begin += HELD * WARP) {
        typename Computed<In>::type x[HELD];
CTC_UNROLL
        for (int j = 0; j < HELD; j++) {
            const int64_t k = begin + j * WARP + lane_index();
            if (k < count) x[j] = to_real(from[k]);
        }
CTC_UNROLL
        for (int j = 0; j < HELD; j++) {
            const int64_t k = begin + j * WARP + lane_index();
            if (k < count) from_real(to + k, value(k, x[j]));
        }
    }
}

template <typename In> __device__ void fill_row(In* to, int64_t count, float value) {
    for (int64_t k = lane_index(); k < count; k += WARP) from_real(to + k, typename Computed<In>::type(value));
}

template <typename In>
__global__ void __launch_bounds__(CELLS_PER_BLOCK* WARP)
    gradient_kernel(const __grid_constant__ Batch b, const void* logits, void* gradient, int64_t first, int64_t count,
                    const double* scales) {
    using Real = typename Computed<In>::type;
    const transducerProblem& p = b.problem;
    const int64_t index = int64_t(blockIdx.x) * CELLS_PER_BLOCK + warp_index();
    if (index >= p.batch * count * p.positions) return;
    const Cell c = cell_of(p, first, count, index);
    const Outcome outcome = b.outcomes[c.utterance];
    const int64_t outputs = p.classes + p.duration_count;
    In* const to = gradient_at<In>(p, gradient, first, c);
    const bool is_own = c.frame < outcome.frames && c.position <= outcome.labels;
    if (outcome.state == INVALID || (is_own && outcome.state == NOT_A_NUMBER)) return fill_row(to, outputs, NAN);
    if (!is_own || outcome.log_probability == -double(INFINITY)) return fill_row(to, outputs, 0);

    const Lattice lattice(b, c.utterance);
    const Flows flows = flows_of(lattice, outcome.log_probability, c.frame, c.position);
    const double of_label = flows.label * (1 + p.fastemit), occupancy = flows.blank + of_label;
    if (!(occupancy > 0 && occupancy >= outcome.skip_below)) return fill_row(to, outputs, 0);

    const double scale = scales[c.utterance];
    const Real largest = Real(lattice.at(LARGEST_PLANE, c.frame, c.position));
    const Real factor = Real(scale * occupancy / lattice.at(SUM_PLANE, c.frame, c.position));
    const Real less_blank = Real(scale * flows.blank), less_label = Real(scale * of_label);
    const bool has_label = c.position < outcome.labels;
    const int64_t label = has_label ? b.targets[c.utterance * p.targets_stride + c.position] : -1;
    const In* const from = logits_at<In>(p, logits, first, c);
    map_row(from, to, p.classes, [=](int64_t k, Real x) {
        const Real expected = exp(x - largest) * factor;
        return k == p.blank ? expected - less_blank : k == label ? expected - less_label : expected;
    });
    const double of_durations = flows.blank + flows.label, here = lattice.at(ALPHA_PLANE, c.frame, c.position);
    for (int i = lane_index(); i < p.duration_count; i += WARP) {
        const double by_blank = exp(here + lattice.blank_to_end(c.frame, c.position, i) - outcome.log_probability);
        const double by_label = exp(here + lattice.label_to_end(c.frame, c.position, i) - outcome.log_probability);
        const double softmax = exp(lattice.at(DURATION_PLANE + i, c.frame, c.position));
        from_real(to + p.classes + i, Real(scale * (of_durations * softmax - (by_blank + by_label))));
    }
}

bool has_durations(const transducerProblem& p) {
    if (p.duration_count == 0) return true;
    if (p.duration_count < 0 || p.duration_count > TRANSDUCER_MOST_DURATIONS || !p.durations) return false;
    for (int64_t i = 0; i < p.duration_count; i++)
        if (p.durations[i] < 0 || (i > 0 && p.durations[i] <= p.durations[i - 1])) return false;
    return p.durations[p.duration_count - 1] > 0;
}

bool is_valid(const transducerProblem* problem) {
    if (!problem) return false;
    const transducerProblem& p = *problem;
    const double cells = double(p.batch) * double(p.frames) * double(p.positions);
    const bool has_sizes = p.batch >= 0 && p.frames >= 0 && p.positions >= 1 && p.targets_stride >= 0 &&
                           cells <= double(INT32_MAX) && p.batch <= INT32_MAX / 2;
    const bool has_classes = p.classes >= 1 && p.classes <= INT32_MAX && p.blank >= 0 && p.blank < p.classes;
    const bool has_numbers = isfinite(p.sigma) && isfinite(p.fastemit) && p.fastemit >= 0 && p.skip_below >= 0;
    return has_sizes && has_classes && has_numbers && p.type >= TRANSDUCER_FLOAT32 && p.type <= TRANSDUCER_BFLOAT16 &&
           has_durations(p);
}

bool are_frames(const transducerProblem& p, int64_t first, int64_t count) {
    return first >= 0 && count >= 0 && first <= p.frames && count <= p.frames - first;
}

Batch batch_of(const transducerProblem& p, const int64_t* targets, const void* lattices) {
    Batch b = {p, {}, targets, nullptr, nullptr};
    for (int64_t i = 0; i < p.duration_count; i++) b.durations[i] = p.durations[i];
    lay_out(p, (char*)lattices, &b);
    return b;
}

unsigned blocks_of(const transducerProblem& p, int64_t frames) {
    return unsigned((p.batch * frames * p.positions + CELLS_PER_BLOCK - 1) / CELLS_PER_BLOCK);
}

template <typename In>
transducerStatus read_frames(const Batch& b, const void* logits, int64_t first, int64_t count, cudaStream_t stream) {
    CTC_LAUNCH(read_kernel<In>, blocks_of(b.problem, count), CELLS_PER_BLOCK * WARP, 0, stream, b, logits, first, count);
    return status();
}

template <typename In>
transducerStatus write_gradient(const Batch& b, const void* logits, void* gradient, int64_t first, int64_t count,
                                const double* scale, cudaStream_t stream) {
    CTC_LAUNCH(gradient_kernel<In>, blocks_of(b.problem, count), CELLS_PER_BLOCK * WARP, 0, stream, b, logits, gradient,
               first, count, scale);
    return status();
}

}  // namespace

transducerStatus transducer_lattices_bytes_cuda(const transducerProblem* problem, size_t* bytes) {
    if (!is_valid(problem) || !bytes) return TRANSDUCER_INVALID_VALUE;
    Batch unused;
    *bytes = lay_out(*problem, nullptr, &unused);
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_begin_cuda(const transducerProblem* problem, const int64_t* targets,
                                       const int64_t* frame_counts, const int64_t* label_counts, void* lattices,
                                       cudaStream_t stream) {
    if (!is_valid(problem)) return TRANSDUCER_INVALID_VALUE;
    if (problem->batch == 0) return TRANSDUCER_SUCCESS;
    if ((!targets && problem->positions > 1) || !frame_counts || !label_counts || !lattices)
        return TRANSDUCER_INVALID_VALUE;
    const Batch b = batch_of(*problem, targets, lattices);
    CTC_LAUNCH(begin_kernel, unsigned(problem->batch), WARP, 0, stream, b, frame_counts, label_counts);
    return status();
}

transducerStatus transducer_read_frames_cuda(const transducerProblem* problem, const void* logits, int64_t first,
                                             int64_t count, const int64_t* targets, void* lattices,
                                             cudaStream_t stream) {
    if (!is_valid(problem) || !are_frames(*problem, first, count)) return TRANSDUCER_INVALID_VALUE;
    if (problem->batch == 0 || count == 0) return TRANSDUCER_SUCCESS;
    if (!logits || (!targets && problem->positions > 1) || !lattices) return TRANSDUCER_INVALID_VALUE;
    const Batch b = batch_of(*problem, targets, lattices);
    switch (problem->type) {
        case TRANSDUCER_FLOAT64: return read_frames<double>(b, logits, first, count, stream);
        case TRANSDUCER_FLOAT16: return read_frames<Half>(b, logits, first, count, stream);
        case TRANSDUCER_BFLOAT16: return read_frames<Bfloat>(b, logits, first, count, stream);
        default: return read_frames<float>(b, logits, first, count, stream);
    }
}

transducerStatus transducer_walk_cuda(const transducerProblem* problem, double* losses, void* lattices,
                                      cudaStream_t stream) {
    if (!is_valid(problem)) return TRANSDUCER_INVALID_VALUE;
    if (problem->batch == 0) return TRANSDUCER_SUCCESS;
    if (!losses || !lattices) return TRANSDUCER_INVALID_VALUE;
    const transducerProblem& p = *problem;
    const Batch b = batch_of(p, nullptr, lattices);
    const int64_t wanted = round_up(p.positions < p.frames ? p.positions : p.frames, WARP);
    const int64_t threads = wanted < WARP ? WARP : wanted < MOST_WALK_THREADS ? wanted : MOST_WALK_THREADS;
    CTC_LAUNCH(walk_kernel, unsigned(p.loss_only ? p.batch : 2 * p.batch), unsigned(threads), 0, stream, b, losses);
    if (!p.loss_only) CTC_LAUNCH(threshold_kernel, unsigned(p.batch), WARP, 0, stream, b);
    return status();
}

transducerStatus transducer_loss_cuda(const transducerProblem* problem, const void* logits, const int64_t* targets,
                                      const int64_t* frame_counts, const int64_t* label_counts, double* losses,
                                      void* lattices, cudaStream_t stream) {
    transducerStatus found = transducer_begin_cuda(problem, targets, frame_counts, label_counts, lattices, stream);
    if (found == TRANSDUCER_SUCCESS)
        found = transducer_read_frames_cuda(problem, logits, 0, problem->frames, targets, lattices, stream);
    return found == TRANSDUCER_SUCCESS ? transducer_walk_cuda(problem, losses, lattices, stream) : found;
}

transducerStatus transducer_gradient_cuda(const transducerProblem* problem, const void* logits, void* gradient,
                                          int64_t first, int64_t count, const int64_t* targets, const double* scale,
                                          const void* lattices, cudaStream_t stream) {
    if (!is_valid(problem) || !are_frames(*problem, first, count) || problem->loss_only) return TRANSDUCER_INVALID_VALUE;
    if (problem->batch == 0 || count == 0) return TRANSDUCER_SUCCESS;
    if (!logits || !gradient || (!targets && problem->positions > 1) || !scale || !lattices)
        return TRANSDUCER_INVALID_VALUE;
    const Batch b = batch_of(*problem, targets, lattices);
    switch (problem->type) {
        case TRANSDUCER_FLOAT64: return write_gradient<double>(b, logits, gradient, first, count, scale, stream);
        case TRANSDUCER_FLOAT16: return write_gradient<Half>(b, logits, gradient, first, count, scale, stream);
        case TRANSDUCER_BFLOAT16: return write_gradient<Bfloat>(b, logits, gradient, first, count, scale, stream);
        default: return write_gradient<float>(b, logits, gradient, first, count, scale, stream);
    }
}
