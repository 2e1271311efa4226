// The loss on CUDA: what the C entry points of ctc.h launch. Nothing here allocates, waits for the device, or reads its
// memory on the host, so that everything may be captured in a graph.
#include "cuda_extended.cuh"
#include "cuda_finish.cuh"
#include "cuda_lattice.cuh"
#include "cuda_prepare.cuh"
#include "cuda_rows.cuh"

using namespace ctc_cuda;

namespace {

constexpr int32_t KNOWN_FLAGS = CTC_INDEX64 | CTC_ZERO_INFINITY | CTC_EXTENDED_RANGE | CTC_STARS | CTC_UNDERFLOW;

bool is_valid(const ctcProblem& p) {
    const bool has_sizes = p.frames >= 0 && p.batch >= 0 && p.classes >= 1 && p.classes <= MOST_CLASSES &&
                           p.longest_target >= 0 && p.longest_target <= INT32_MAX && p.targets_count >= 0 &&
                           p.targets_stride >= 0 && double(p.batch) * double(p.frames) <= double(INT32_MAX) &&
                           p.batch <= INT32_MAX;
    const bool has_choices = p.type >= CTC_FLOAT32 && p.type <= CTC_BFLOAT16 && p.reduction >= CTC_NONE &&
                             p.reduction <= CTC_MEAN;
    const bool has_star = !(p.flags & CTC_STARS) || p.star < 0 || p.star >= p.classes;
    return has_sizes && has_choices && has_star && (p.flags & ~KNOWN_FLAGS) == 0 && p.blank >= 0 && p.blank < p.classes &&
           isfinite(p.label_smoothing) && p.label_smoothing >= 0 && p.label_smoothing < 1 &&
           isfinite(p.entropy_weight);
}

unsigned blocks_for(int64_t frames) { return unsigned((frames + FRAMES_PER_BLOCK - 1) / FRAMES_PER_BLOCK); }

template <int K, int W> cudaError_t launch_lattice(const Batch& b, cudaStream_t stream) {
    using S = Shape<K, W>;
    const auto kernel = b.problem.flags & CTC_STARS ? lattice_kernel<K, W, true> : lattice_kernel<K, W, false>;
    const cudaError_t error = allow_shared(kernel, S::SHARED_BYTES);
    if (error != cudaSuccess) return error;
    CTC_LAUNCH(kernel, unsigned(b.problem.batch), S::THREADS, S::SHARED_BYTES, stream, b);
    return cudaGetLastError();
}

// The smallest shape that holds every transcript which can be computed; which it is does not change the result. On
// Turing, whose blocks have too little memory for more than 255 labels, the extended range takes a batch of such.
cudaError_t launch_lattice(const Batch& given, cudaStream_t stream) {
    Batch b = given;
    const ctcProblem& p = b.problem;
    const int64_t pairs = (p.longest_target < p.frames ? p.longest_target : p.frames) + 1;
    if (pairs <= Shape<2, 1>::PAIRS || p.type == CTC_FLOAT64) return launch_lattice<2, 1>(b, stream);
    if (pairs <= Shape<4, 1>::PAIRS) return launch_lattice<4, 1>(b, stream);
    if (pairs <= Shape<8, 1>::PAIRS) return launch_lattice<8, 1>(b, stream);
    if (!fits_shared(Shape<8, 2>::SHARED_BYTES)) {
        b.problem.flags |= CTC_EXTENDED_RANGE;
        return launch_lattice<2, 1>(b, stream);
    }
    if (pairs <= Shape<8, 2>::PAIRS) return launch_lattice<8, 2>(b, stream);
    if (pairs <= Shape<8, 4>::PAIRS) return launch_lattice<8, 4>(b, stream);
    static_assert(Shape<8, 8>::PAIRS == MOST_LINEAR_PAIRS, "");
    return launch_lattice<8, 8>(b, stream);
}

template <typename In> cudaError_t launch_star_sums(const Batch& b, cudaStream_t stream) {
    if (!(b.problem.flags & CTC_STARS)) return cudaSuccess;
    CTC_LAUNCH(star_sums_kernel<In>, blocks_for(b.problem.batch * b.problem.frames), FRAMES_PER_BLOCK * WARP, 0, stream,
               b);
    return cudaGetLastError();
}

template <typename In> cudaError_t launch_emissions(const Batch& b, cudaStream_t stream) {
    CTC_LAUNCH(emissions_kernel<In>, blocks_for(b.problem.batch * b.problem.frames), FRAMES_PER_BLOCK * WARP, 0, stream,
               b);
    return cudaGetLastError();
}

template <> cudaError_t launch_emissions<double>(const Batch&, cudaStream_t) { return cudaSuccess; }

template <typename In> cudaError_t launch_extended(const Batch& b, cudaStream_t stream) {
    const ctcProblem& p = b.problem;
    const size_t wanted = size_t(extended_working_bytes(p.longest_target < p.frames ? p.longest_target : p.frames));
    const size_t bytes = wanted < EXTENDED_SHARED_BYTES ? wanted : EXTENDED_SHARED_BYTES;
    CTC_LAUNCH(extended_kernel<In>, unsigned(p.batch), EXTENDED_THREADS, bytes, stream, b);
    return cudaGetLastError();
}

template <typename In> cudaError_t launch_rows(const Batch& b, cudaStream_t stream) {
    const int64_t frames = b.problem.batch * b.problem.frames;
    if (b.problem.classes <= WARP_CLASSES)
        CTC_LAUNCH(warp_rows_kernel<In>, blocks_for(frames), FRAMES_PER_BLOCK * WARP, 0, stream, b);
    else if (b.problem.classes <= HELD_CLASSES<In>)
        CTC_LAUNCH((block_rows_kernel<In, true>), unsigned(frames), ROW_THREADS, 0, stream, b);
    else
        CTC_LAUNCH((block_rows_kernel<In, false>), unsigned(frames), ROW_THREADS, 0, stream, b);
    return cudaGetLastError();
}

template <typename In> cudaError_t launch_all(const Batch& b, cudaStream_t stream) {
    const bool has_frames = b.problem.batch * b.problem.frames > 0;
    cudaError_t error = cudaSuccess;
    if (b.problem.batch > 0) {
        CTC_LAUNCH(prepare_kernel, unsigned(b.problem.batch), PREPARE_THREADS, 0, stream, b);
        error = cudaGetLastError();
    }
    if (error == cudaSuccess && has_frames) error = launch_star_sums<In>(b, stream);
    if (error == cudaSuccess && has_frames) error = launch_emissions<In>(b, stream);
    if (error == cudaSuccess && has_frames) error = launch_lattice(b, stream);
    if (error == cudaSuccess && has_frames) error = launch_extended<In>(b, stream);
    if (error == cudaSuccess && has_frames) error = launch_rows<In>(b, stream);
    if (error != cudaSuccess) return error;
    CTC_LAUNCH(finish_kernel<In>, 1, FINISH_THREADS, 0, stream, b);
    return cudaGetLastError();
}

template <typename In>
cudaError_t launch_scale(const ctcProblem& p, void* gradient, const void* by, int64_t by_stride, cudaStream_t stream) {
    const int64_t frames = p.batch * p.frames;
    const unsigned blocks = unsigned(frames < 2048 ? frames : 2048);
    CTC_LAUNCH(scale_kernel<In>, blocks, SCALE_THREADS, 0, stream, p, gradient, by, by_stride);
    return cudaGetLastError();
}

ctcStatus_t status_of(cudaError_t error) {
    return error == cudaSuccess ? CTC_STATUS_SUCCESS : CTC_STATUS_EXECUTION_FAILED;
}

}  // namespace

ctcStatus_t ctc_loss_cuda_workspace(const ctcProblem* problem, size_t* bytes) {
    if (!problem || !bytes || !is_valid(*problem)) return CTC_STATUS_INVALID_VALUE;
    Workspace unused;
    *bytes = lay_out(*problem, nullptr, &unused);
    return CTC_STATUS_SUCCESS;
}

ctcStatus_t ctc_loss_cuda(const ctcProblem* problem, const void* logits, void* gradient, const void* targets,
                          const void* input_lengths, const void* target_lengths, const void* scale, void* losses,
                          void* reduced, void* workspace, int64_t* invalid, CUstream stream) {
    if (!problem || !is_valid(*problem)) return CTC_STATUS_INVALID_VALUE;
    const ctcProblem& p = *problem;
    const bool has_logits = logits || p.frames == 0;
    const bool has_targets = targets || p.targets_count == 0;
    if (p.batch > 0 && (!has_logits || !has_targets || !input_lengths || !target_lengths || !losses || !workspace))
        return CTC_STATUS_INVALID_VALUE;
    Batch b = {p,     {},       logits, targets, input_lengths, target_lengths, scale, gradient,
               losses, reduced, invalid};
    lay_out(p, (char*)workspace, &b.workspace);
    switch (p.type) {
        case CTC_FLOAT64: return status_of(launch_all<double>(b, stream));
        case CTC_FLOAT16: return status_of(launch_all<Half>(b, stream));
        case CTC_BFLOAT16: return status_of(launch_all<Bfloat>(b, stream));
        default: return status_of(launch_all<float>(b, stream));
    }
}

ctcStatus_t ctc_scale_gradient_cuda(const ctcProblem* problem, void* gradient, const void* by, int64_t by_stride,
                                    CUstream stream) {
    if (!problem || !is_valid(*problem)) return CTC_STATUS_INVALID_VALUE;
    if (problem->batch * problem->frames == 0) return CTC_STATUS_SUCCESS;
    if (!gradient || !by) return CTC_STATUS_INVALID_VALUE;
    switch (problem->type) {
        case CTC_FLOAT64: return status_of(launch_scale<double>(*problem, gradient, by, by_stride, stream));
        case CTC_FLOAT16: return status_of(launch_scale<Half>(*problem, gradient, by, by_stride, stream));
        case CTC_BFLOAT16: return status_of(launch_scale<Bfloat>(*problem, gradient, by, by_stride, stream));
        default: return status_of(launch_scale<float>(*problem, gradient, by, by_stride, stream));
    }
}
