// The loss on CUDA: what the C entry points of ctc.h launch. Nothing here allocates, waits for the device, or reads its
// memory on the host, so that everything may be captured in a graph.
#include "cuda_ctc.h"
#include "cuda_driver.h"

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

// A warp a frame.
Grid frames_of(const ctcProblem& p) { return {blocks_for(p.batch * p.frames, FRAMES_PER_BLOCK), FRAMES_PER_BLOCK * WARP, 0}; }

template <int K, int W> bool launch_lattice(const Batch& b, Stream stream) {
    using S = Shape<K, W>;
    const Grid grid = {unsigned(b.problem.batch), S::THREADS, S::SHARED_BYTES};
    return b.problem.flags & CTC_STARS ? launch<lattice_kernel<K, W, true>>(grid, stream, b)
                                       : launch<lattice_kernel<K, W, false>>(grid, stream, b);
}

// The smallest shape that holds every transcript which can be computed; which it is does not change the result. On
// Turing, whose blocks have too little memory for more than 255 labels, the extended range takes a batch of such.
bool launch_lattice(const Batch& given, Stream stream) {
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

template <typename In> bool launch_emissions(const Batch& b, Stream stream) {
    if constexpr (sizeof(In) == sizeof(double)) return true;  // goes to the extended range
    else return launch<emissions_kernel<In>>(frames_of(b.problem), stream, b);
}

template <typename In> bool launch_extended(const Batch& b, Stream stream) {
    const ctcProblem& p = b.problem;
    const size_t wanted = size_t(extended_working_bytes(p.longest_target < p.frames ? p.longest_target : p.frames));
    const size_t bytes = wanted < EXTENDED_SHARED_BYTES ? wanted : EXTENDED_SHARED_BYTES;
    const Grid grid = {unsigned(p.batch), EXTENDED_THREADS, bytes};
    return launch<extended_kernel<In>>(grid, stream, b);
}

template <typename In> bool launch_rows(const Batch& b, Stream stream) {
    const Grid a_block_each = {unsigned(b.problem.batch * b.problem.frames), ROW_THREADS, 0};
    if (b.problem.classes <= WARP_CLASSES) return launch<warp_rows_kernel<In>>(frames_of(b.problem), stream, b);
    if (b.problem.classes <= HELD_CLASSES<In>) return launch<block_rows_kernel<In, true>>(a_block_each, stream, b);
    return launch<block_rows_kernel<In, false>>(a_block_each, stream, b);
}

template <typename In> bool launch_all(const Batch& b, Stream stream) {
    const ctcProblem& p = b.problem;
    const Grid utterances = {unsigned(p.batch), PREPARE_THREADS, 0}, one_block = {1, FINISH_THREADS, 0};
    if (p.batch > 0 && !launch<prepare_kernel<>>(utterances, stream, b)) return false;
    if (p.batch * p.frames > 0) {
        if (p.flags & CTC_STARS && !launch<star_sums_kernel<In>>(frames_of(p), stream, b)) return false;
        if (!launch_emissions<In>(b, stream) || !launch_lattice(b, stream) || !launch_extended<In>(b, stream) ||
            !launch_rows<In>(b, stream))
            return false;
    }
    return launch<finish_kernel<In>>(one_block, stream, b);
}

ctcStatus_t status_of(bool is_launched) { return is_launched ? CTC_STATUS_SUCCESS : CTC_STATUS_EXECUTION_FAILED; }

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
    return status_of(for_type(p.type, [&](auto in) { return launch_all<decltype(in)>(b, stream); }));
}

ctcStatus_t ctc_scale_gradient_cuda(const ctcProblem* problem, void* gradient, const void* by, int64_t by_stride,
                                    CUstream stream) {
    if (!problem || !is_valid(*problem)) return CTC_STATUS_INVALID_VALUE;
    if (problem->batch * problem->frames == 0) return CTC_STATUS_SUCCESS;
    if (!gradient || !by) return CTC_STATUS_INVALID_VALUE;
    const int64_t frames = problem->batch * problem->frames;
    const Grid grid = {unsigned(frames < 2048 ? frames : 2048), SCALE_THREADS, 0};
    return status_of(for_type(problem->type, [&](auto in) {
        return launch<scale_kernel<decltype(in)>>(grid, stream, *problem, gradient, by, by_stride);
    }));
}

CTC_CUDA_LIBRARY(ctc, CTC_API)
