// The losses on CUDA: what the C entry points of transducer_loss.h launch. Nothing here allocates,
// waits for the device, or reads its memory on the host, so that everything may be captured in a graph.
#include "cuda_driver.h"
#include "cuda_transducer.h"

using namespace transducer_cuda;

namespace {

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

// A warp a cell.
Grid cells_of(const transducerProblem& p, int64_t frames) {
    return {blocks_for(p.batch * frames * p.positions, CELLS_PER_BLOCK), CELLS_PER_BLOCK * WARP, 0};
}

transducerStatus status_of(bool is_launched) { return is_launched ? TRANSDUCER_SUCCESS : TRANSDUCER_EXECUTION_FAILED; }

}  // namespace

transducerStatus transducer_lattices_bytes_cuda(const transducerProblem* problem, size_t* bytes) {
    if (!is_valid(problem) || !bytes) return TRANSDUCER_INVALID_VALUE;
    Batch unused;
    *bytes = lay_out(*problem, nullptr, &unused);
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_begin_cuda(const transducerProblem* problem, const int64_t* targets,
                                       const int64_t* frame_counts, const int64_t* label_counts, void* lattices,
                                       Stream stream) {
    if (!is_valid(problem)) return TRANSDUCER_INVALID_VALUE;
    if (problem->batch == 0) return TRANSDUCER_SUCCESS;
    if ((!targets && problem->positions > 1) || !frame_counts || !label_counts || !lattices)
        return TRANSDUCER_INVALID_VALUE;
    const Batch b = batch_of(*problem, targets, lattices);
    const Grid utterances = {unsigned(problem->batch), WARP, 0};
    return status_of(launch<begin_kernel<>>(utterances, stream, b, frame_counts, label_counts));
}

transducerStatus transducer_read_frames_cuda(const transducerProblem* problem, const void* logits, int64_t first,
                                             int64_t count, const int64_t* targets, void* lattices,
                                             Stream stream) {
    if (!is_valid(problem) || !are_frames(*problem, first, count)) return TRANSDUCER_INVALID_VALUE;
    if (problem->batch == 0 || count == 0) return TRANSDUCER_SUCCESS;
    if (!logits || (!targets && problem->positions > 1) || !lattices) return TRANSDUCER_INVALID_VALUE;
    const Batch b = batch_of(*problem, targets, lattices);
    return status_of(for_type(problem->type, [&](auto in) {
        return launch<read_kernel<decltype(in)>>(cells_of(*problem, count), stream, b, logits, first, count);
    }));
}

transducerStatus transducer_walk_cuda(const transducerProblem* problem, double* losses, void* lattices,
                                      Stream stream) {
    if (!is_valid(problem)) return TRANSDUCER_INVALID_VALUE;
    if (problem->batch == 0) return TRANSDUCER_SUCCESS;
    if (!losses || !lattices) return TRANSDUCER_INVALID_VALUE;
    const transducerProblem& p = *problem;
    const Batch b = batch_of(p, nullptr, lattices);
    const int64_t wanted = round_up(p.positions < p.frames ? p.positions : p.frames, WARP);
    const int64_t threads = wanted < WARP ? WARP : wanted < MOST_WALK_THREADS ? wanted : MOST_WALK_THREADS;
    const Grid walks = {unsigned(p.loss_only ? p.batch : 2 * p.batch), unsigned(threads), 0};
    const Grid utterances = {unsigned(p.batch), WARP, 0};
    const auto are_launched = [&](auto real) {
        return launch<walk_kernel<decltype(real)>>(walks, stream, b, losses) &&
               (p.loss_only || launch<threshold_kernel<decltype(real)>>(utterances, stream, b));
    };
    return status_of(p.type == TRANSDUCER_FLOAT64 ? are_launched(double()) : are_launched(float()));
}

transducerStatus transducer_loss_cuda(const transducerProblem* problem, const void* logits, const int64_t* targets,
                                      const int64_t* frame_counts, const int64_t* label_counts, double* losses,
                                      void* lattices, Stream stream) {
    transducerStatus found = transducer_begin_cuda(problem, targets, frame_counts, label_counts, lattices, stream);
    if (found == TRANSDUCER_SUCCESS)
        found = transducer_read_frames_cuda(problem, logits, 0, problem->frames, targets, lattices, stream);
    return found == TRANSDUCER_SUCCESS ? transducer_walk_cuda(problem, losses, lattices, stream) : found;
}

transducerStatus transducer_gradient_cuda(const transducerProblem* problem, const void* logits, void* gradient,
                                          int64_t first, int64_t count, const int64_t* targets, const double* scale,
                                          const void* lattices, Stream stream) {
    if (!is_valid(problem) || !are_frames(*problem, first, count) || problem->loss_only) return TRANSDUCER_INVALID_VALUE;
    if (problem->batch == 0 || count == 0) return TRANSDUCER_SUCCESS;
    if (!logits || !gradient || (!targets && problem->positions > 1) || !scale || !lattices)
        return TRANSDUCER_INVALID_VALUE;
    const Batch b = batch_of(*problem, targets, lattices);
    return status_of(for_type(problem->type, [&](auto in) {
        return launch<gradient_kernel<decltype(in)>>(cells_of(*problem, count), stream, b, logits, gradient, first, count,
                                                     scale);
    }));
}

CTC_CUDA_LIBRARY(transducer, TRANSDUCER_API)
