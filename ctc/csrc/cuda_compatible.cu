// warp-ctc's functions for CTC_GPU. Their labels, lengths and costs are in host memory, so that, alone in this library,
// they copy to and from the device and wait for the stream before they return.
#include <limits.h>

#include "ctc.h"
#include "cuda_portable.cuh"
#include "status.h"

using ctc_cuda::round_up;

namespace {

constexpr int64_t ALIGNMENT = 256;

// Where in the workspace what lies; all offsets are multiples of ALIGNMENT.
struct Layout {
    ctcProblem problem;
    int64_t labels, label_lengths, input_lengths, costs, loss, bytes;
};

bool lay_out(const int* label_lengths, const int* input_lengths, int classes, int batch, int blank, int32_t type,
             Layout* layout) {
    if (!label_lengths || !input_lengths || classes <= 0 || batch <= 0) return false;
    ctcProblem& p = layout->problem = {};
    for (int n = 0; n < batch; n++) {
        if (input_lengths[n] < 0 || label_lengths[n] < 0) return false;
        if (input_lengths[n] > p.frames) p.frames = input_lengths[n];
        if (label_lengths[n] > p.longest_target) p.longest_target = label_lengths[n];
        p.targets_count += label_lengths[n];
    }
    p.batch = batch;
    p.classes = classes;
    p.blank = blank;
    p.logits_frame_stride = p.gradient_frame_stride = int64_t(batch) * classes;
    p.logits_batch_stride = p.gradient_batch_stride = classes;
    p.type = type;
    size_t loss_bytes = 0;
    if (ctc_loss_cuda_workspace(&p, &loss_bytes) != CTC_STATUS_SUCCESS) return false;
    int64_t used = 0;
    const auto take = [&](int64_t bytes) { return (used += round_up(bytes, ALIGNMENT)) - round_up(bytes, ALIGNMENT); };
    layout->labels = take(p.targets_count * int64_t(sizeof(int)));
    layout->label_lengths = take(batch * int64_t(sizeof(int)));
    layout->input_lengths = take(batch * int64_t(sizeof(int)));
    layout->costs = take(batch * int64_t(sizeof(double)));
    layout->loss = take(int64_t(loss_bytes));
    layout->bytes = used;
    return true;
}

ctcStatus_t workspace_size(const int* label_lengths, const int* input_lengths, int classes, int batch,
                           const ctcOptions& options, int32_t type, size_t* size_bytes) {
    Layout layout;
    if (!size_bytes || !lay_out(label_lengths, input_lengths, classes, batch, options.blank_label, type, &layout))
        return CTC_STATUS_INVALID_VALUE;
    if (options.loc != CTC_GPU) return CTC_STATUS_EXECUTION_FAILED;
    *size_bytes = size_t(layout.bytes + ALIGNMENT);  // the caller's memory may have any alignment
    return CTC_STATUS_SUCCESS;
}

bool are_valid_labels(const int* labels, const ctcProblem& p) {
    for (int64_t i = 0; i < p.targets_count; i++)
        if (labels[i] < 0 || labels[i] >= p.classes || labels[i] == p.blank) return false;
    return true;
}

bool copy_to_device(void* to, const void* from, int64_t bytes, cudaStream_t stream) {
    return bytes == 0 || cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyHostToDevice, stream) == cudaSuccess;
}

template <typename Real>
ctcStatus_t compute(const Real* activations, Real* gradients, const int* labels, const int* label_lengths,
                    const int* input_lengths, int classes, int batch, Real* costs, void* workspace,
                    const ctcOptions& options, int32_t type) {
    Layout layout;
    if (!activations || !labels || !costs || !workspace ||
        !lay_out(label_lengths, input_lengths, classes, batch, options.blank_label, type, &layout) ||
        !are_valid_labels(labels, layout.problem))
        return CTC_STATUS_INVALID_VALUE;
    if (options.loc != CTC_GPU) return CTC_STATUS_EXECUTION_FAILED;
    char* const base = (char*)round_up(int64_t(workspace), ALIGNMENT);
    const cudaStream_t stream = options.stream;
    const int64_t lengths_bytes = batch * int64_t(sizeof(int));
    const bool are_there =
        copy_to_device(base + layout.labels, labels, layout.problem.targets_count * int64_t(sizeof(int)), stream) &&
        copy_to_device(base + layout.label_lengths, label_lengths, lengths_bytes, stream) &&
        copy_to_device(base + layout.input_lengths, input_lengths, lengths_bytes, stream);
    if (!are_there) return CTC_STATUS_MEMOPS_FAILED;
    const ctcStatus_t status = ctc_loss_cuda(
        &layout.problem, activations, gradients, base + layout.labels, base + layout.input_lengths,
        base + layout.label_lengths, nullptr, base + layout.costs, nullptr, base + layout.loss, nullptr, stream);
    if (status != CTC_STATUS_SUCCESS) return status;
    const size_t costs_bytes = size_t(batch) * sizeof(Real);
    const bool is_back =
        cudaMemcpyAsync(costs, base + layout.costs, costs_bytes, cudaMemcpyDeviceToHost, stream) == cudaSuccess;
    if (!is_back) return CTC_STATUS_MEMOPS_FAILED;
    return cudaStreamSynchronize(stream) == cudaSuccess ? CTC_STATUS_SUCCESS : CTC_STATUS_EXECUTION_FAILED;
}

}  // namespace

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
