// warp-ctc's functions. With CTC_GPU labels, lengths and costs are in host memory all the same, so that these functions,
// alone in this library, copy to and from the device and wait for the stream before they return.
#include "ctc.h"

#include "cuda_driver.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

using namespace ctc_cuda;

namespace {

constexpr int64_t ALIGNMENT = 256;  // of all pieces; the caller's memory may have any

ctcProblem problem_of(const int* label_lengths, const int* input_lengths, int classes, int batch,
                      const ctcOptions& options, int32_t type) {
    ctcProblem p = {};
    for (int n = 0; label_lengths && input_lengths && n < batch; n++) {
        if (input_lengths[n] > p.frames) p.frames = input_lengths[n];
        if (label_lengths[n] > p.longest_target) p.longest_target = label_lengths[n];
        p.targets_count += label_lengths[n] > 0 ? label_lengths[n] : 0;
    }
    p.batch = batch;
    p.classes = classes;
    p.blank = options.blank_label;
    p.logits_frame_stride = p.gradient_frame_stride = int64_t(batch) * classes;
    p.logits_batch_stride = p.gradient_batch_stride = classes;
    p.type = type;
    p.flags = CTC_UNDERFLOW;
    p.threads = 1;
#if defined(_OPENMP)
    if (options.loc == CTC_CPU)
        p.threads = options.num_threads ? int32_t(options.num_threads) : omp_get_max_threads();
#endif
    return p;
}

// What a device needs of the host's memory, and where in the workspace it lies.
struct OnDevice {
    int64_t labels, label_lengths, input_lengths, costs, loss, bytes;
};

bool lay_out(const ctcProblem& p, const int* label_lengths, const int* input_lengths, OnDevice* at) {
    for (int64_t n = 0; n < p.batch; n++)
        if (input_lengths[n] < 0 || label_lengths[n] < 0) return false;
    size_t loss_bytes = 0;
    if (ctc_loss_cuda_workspace(&p, &loss_bytes) != CTC_STATUS_SUCCESS) return false;
    int64_t used = 0;
    const auto take = [&](int64_t bytes) { return (used += round_up(bytes, ALIGNMENT)) - round_up(bytes, ALIGNMENT); };
    at->labels = take(p.targets_count * int64_t(sizeof(int)));
    at->label_lengths = take(p.batch * int64_t(sizeof(int)));
    at->input_lengths = take(p.batch * int64_t(sizeof(int)));
    at->costs = take(p.batch * int64_t(sizeof(double)));
    at->loss = take(int64_t(loss_bytes));
    at->bytes = used;
    return true;
}

ctcStatus_t workspace_size(const int* label_lengths, const int* input_lengths, int classes, int batch,
                           const ctcOptions& options, int32_t type, size_t* size_bytes) {
    if (!label_lengths || !input_lengths || !size_bytes || classes <= 0 || batch <= 0) return CTC_STATUS_INVALID_VALUE;
    const ctcProblem p = problem_of(label_lengths, input_lengths, classes, batch, options, type);
    *size_bytes = 0;
    OnDevice at = {};
    if (options.loc == CTC_CPU) {
        const ctcStatus_t status = ctc_loss_workspace(&p, size_bytes);
        if (status != CTC_STATUS_SUCCESS) return status;
    } else if (!lay_out(p, label_lengths, input_lengths, &at)) {
        return CTC_STATUS_INVALID_VALUE;
    }
    *size_bytes += size_t(at.bytes + ALIGNMENT);
    return CTC_STATUS_SUCCESS;
}

bool are_valid_labels(const int* labels, const ctcProblem& p) {
    for (int64_t i = 0; i < p.targets_count; i++)
        if (labels[i] < 0 || labels[i] >= p.classes || labels[i] == p.blank) return false;
    return true;
}

ctcStatus_t compute_on_device(const ctcProblem& p, const void* activations, void* gradients, const int* labels,
                              const int* label_lengths, const int* input_lengths, void* costs, char* workspace,
                              Stream stream) {
    OnDevice at;
    if (!lay_out(p, label_lengths, input_lengths, &at) || !are_valid_labels(labels, p)) return CTC_STATUS_INVALID_VALUE;
    Driver& d = driver();
    {
        const std::lock_guard<std::mutex> alone(d.lock);
        if (!d.context()) return CTC_STATUS_EXECUTION_FAILED;
    }
    const auto copy = [&](int64_t to, const int* from, int64_t count) {
        return count == 0 || d.cuMemcpyHtoDAsync_v2(uint64_t(workspace + to), from, size_t(count) * sizeof(int), stream) == 0;
    };
    if (!copy(at.labels, labels, p.targets_count) || !copy(at.label_lengths, label_lengths, p.batch) ||
        !copy(at.input_lengths, input_lengths, p.batch))
        return CTC_STATUS_MEMOPS_FAILED;
    const ctcStatus_t status = ctc_loss_cuda(
        &p, activations, gradients, workspace + at.labels, workspace + at.input_lengths, workspace + at.label_lengths,
        nullptr, workspace + at.costs, nullptr, workspace + at.loss, nullptr, stream);
    if (status != CTC_STATUS_SUCCESS) return status;
    const size_t bytes = size_t(p.batch) * (p.type == CTC_FLOAT64 ? sizeof(double) : sizeof(float));
    if (d.cuMemcpyDtoHAsync_v2(costs, uint64_t(workspace + at.costs), bytes, stream) != 0) return CTC_STATUS_MEMOPS_FAILED;
    return d.cuStreamSynchronize(stream) == 0 ? CTC_STATUS_SUCCESS : CTC_STATUS_EXECUTION_FAILED;
}

ctcStatus_t compute(const void* activations, void* gradients, const int* labels, const int* label_lengths,
                    const int* input_lengths, int classes, int batch, void* costs, void* workspace,
                    const ctcOptions& options, int32_t type) {
    if (!activations || !labels || !label_lengths || !input_lengths || !costs || !workspace || classes <= 0 || batch <= 0)
        return CTC_STATUS_INVALID_VALUE;
    const ctcProblem p = problem_of(label_lengths, input_lengths, classes, batch, options, type);
    char* const memory = (char*)round_up(int64_t(workspace), ALIGNMENT);
    if (options.loc == CTC_CPU)
        return ctc_loss(&p, activations, gradients, labels, input_lengths, label_lengths, nullptr, costs, nullptr, memory,
                        nullptr);
    return compute_on_device(p, activations, gradients, labels, label_lengths, input_lengths, costs, memory, options.stream);
}

}  // namespace

int get_warpctc_version(void) { return 2; }

const char* ctcGetStatusString(ctcStatus_t status) {
    switch (status) {
        case CTC_STATUS_SUCCESS: return "no error";
        case CTC_STATUS_MEMOPS_FAILED: return "memory copy or set failed";
        case CTC_STATUS_INVALID_VALUE: return "invalid value";
        case CTC_STATUS_EXECUTION_FAILED: return "execution failed";
        default: return "unknown error";
    }
}

ctcStatus_t get_workspace_size(const int* label_lengths, const int* input_lengths, int alphabet_size, int minibatch,
                               ctcOptions options, size_t* size_bytes) {
    return workspace_size(label_lengths, input_lengths, alphabet_size, minibatch, options, CTC_FLOAT32, size_bytes);
}

ctcStatus_t get_workspace_size_double(const int* label_lengths, const int* input_lengths, int alphabet_size,
                                      int minibatch, ctcOptions options, size_t* size_bytes) {
    return workspace_size(label_lengths, input_lengths, alphabet_size, minibatch, options, CTC_FLOAT64, size_bytes);
}

ctcStatus_t compute_ctc_loss(const float* activations, float* gradients, const int* flat_labels,
                             const int* label_lengths, const int* input_lengths, int alphabet_size, int minibatch,
                             float* costs, void* workspace, ctcOptions options) {
    return compute(activations, gradients, flat_labels, label_lengths, input_lengths, alphabet_size, minibatch, costs,
                   workspace, options, CTC_FLOAT32);
}

ctcStatus_t compute_ctc_loss_double(const double* activations, double* gradients, const int* flat_labels,
                                    const int* label_lengths, const int* input_lengths, int alphabet_size,
                                    int minibatch, double* costs, void* workspace, ctcOptions options) {
    return compute(activations, gradients, flat_labels, label_lengths, input_lengths, alphabet_size, minibatch, costs,
                   workspace, options, CTC_FLOAT64);
}
