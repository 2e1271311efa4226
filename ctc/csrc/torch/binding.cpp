// The loss as a node of torch's autograd graph: what a training step calls, without Python between torch and kernel.
//
// It takes what is ordinary: float32, float64 or bfloat16 on the CPU whose classes are adjacent, lengths as tensors,
// arguments that fit. For all else it answers None, and Python, which knows every case and every message, takes over.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/Parallel.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "ctc.h"

namespace {

using at::Tensor;
using torch::autograd::variable_list;

constexpr size_t LEAST_ADVISED_BYTES = size_t(8) << 20;

// Older versions of torch hold nodes by std::shared_ptr, newer ones by c10::intrusive_ptr.
template <typename T, typename... Arguments> auto make_node(Arguments&&... arguments) {
    using Held = decltype(torch::autograd::Edge::function);
    if constexpr (std::is_same_v<Held, std::shared_ptr<torch::autograd::Node>>)
        return std::make_shared<T>(std::forward<Arguments>(arguments)...);
    else
        return c10::make_intrusive<T>(std::forward<Arguments>(arguments)...);
}

bool is_one(const Tensor& x) {
    if (x.dim() == 0 && x.is_cpu() && x.scalar_type() == at::kFloat) return *x.const_data_ptr<float>() == 1;
    return x.eq(1).all().item<bool>();
}

struct CtcLossBackward : torch::autograd::Node {
    torch::autograd::SavedVariable gradient;
    int64_t batch_dimension = 1;
    bool is_last_use = false;   // nobody will ask for the saved gradient again
    bool is_handed_out = false;  // somebody else may hold it

    void release_variables() override { gradient.reset_data(); }
    void will_release_variables() override { is_last_use = true; }

    variable_list apply(variable_list&& incoming) override {
        const Tensor saved = gradient.unpack();
        if (!incoming[0].defined()) return {Tensor()};
        const bool wants_graph = at::GradMode::is_enabled();
        Tensor result;
        {
            const at::NoGradGuard no_graph;
            result = scaled(saved, incoming[0], wants_graph);
        }
        if (wants_graph) {  // a second derivative is an error, not silently 0
            const auto error = make_node<torch::autograd::Error>(
                "ctc_loss has a first derivative only, but its gradient is being differentiated",
                torch::autograd::edge_list{next_edge(0)});
            torch::autograd::set_history(result, error);
        }
        return {result};
    }

  private:
    // The gradient times a number, or one for every utterance; the saved tensor itself where they are 1.
    Tensor scaled(const Tensor& saved, const Tensor& by, bool wants_graph) {
        if (is_one(by)) {
            is_handed_out |= !wants_graph;
            return wants_graph ? saved.clone() : saved;
        }
        const Tensor factor = by.dim() == 0 ? by : batch_dimension == 0 ? by.view({-1, 1, 1}) : by.view({-1, 1});
        // What comes back for an infinite loss must not spoil its gradient of 0.
        const bool is_finite = by.isfinite().all().item<bool>();
        const Tensor nothing = is_finite ? Tensor() : saved.eq(0);
        const bool in_place = is_last_use && !is_handed_out && !wants_graph;
        Tensor result = in_place ? saved.mul_(factor.to(saved.scalar_type())) : saved.mul(factor.to(saved.scalar_type()));
        if (!is_finite) result.masked_fill_(nothing, 0);
        return result;
    }
};

bool is_plain(const Tensor& x) {
    return x.is_cpu() && x.layout() == at::kStrided && !x.is_neg() && !at::isTensorSubclassLike(x);
}

bool is_integers(const Tensor& x) { return x.scalar_type() == at::kLong || x.scalar_type() == at::kInt; }

bool is_lengths(const Tensor& x, int64_t batch) {
    return is_plain(x) && is_integers(x) && x.dim() == 1 && x.size(0) == batch;
}

// Of large memory that is fresh most of the time goes into page faults; larger pages have fewer.
Tensor fresh_like(const Tensor& logits) {
    Tensor fresh = at::empty_like(logits);
#if defined(MADV_HUGEPAGE)
    constexpr uintptr_t page = uintptr_t(2) << 20;
    const uintptr_t begin = ((uintptr_t)fresh.mutable_data_ptr() + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)fresh.mutable_data_ptr() + fresh.nbytes()) / page * page;
    if (fresh.nbytes() >= LEAST_ADVISED_BYTES && begin < end) madvise((void*)begin, end - begin, MADV_HUGEPAGE);
#endif
    return fresh;
}

Tensor as_indices(const Tensor& x, at::ScalarType type) {
    return x.scalar_type() == type ? x.contiguous() : x.to(type).contiguous();
}

std::optional<int32_t> type_of(const Tensor& logits, bool wants_gradient) {
    switch (logits.scalar_type()) {
        case at::kFloat: return CTC_FLOAT32;
        case at::kDouble: return CTC_FLOAT64;
        case at::kBFloat16: return CTC_BFLOAT16;
        // Its gradient must be scaled before it is rounded, so it is computed in backward.
        case at::kHalf: return wants_gradient ? std::nullopt : std::optional<int32_t>(CTC_FLOAT16);
        default: return std::nullopt;
    }
}

std::optional<Tensor> loss(const Tensor& logits, const Tensor& targets, const Tensor& input_lengths,
                           const Tensor& target_lengths, int64_t blank, int64_t reduction, bool zero_infinity,
                           bool batch_first, double label_smoothing, double entropy_weight,
                           const std::optional<Tensor>& memory) {
    const bool wants_gradient = at::GradMode::is_enabled() && logits.requires_grad();
    const auto type = type_of(logits, wants_gradient);
    if (!type || !is_plain(logits) || logits.dim() != 3 || (logits.stride(2) != 1 && logits.size(2) != 1)) return {};
    const int64_t time_dimension = batch_first ? 1 : 0, batch_dimension = 1 - time_dimension;
    const int64_t batch = logits.size(batch_dimension);
    if (!is_plain(targets) || !is_integers(targets) || targets.dim() < 1 || targets.dim() > 2) return {};
    if (targets.dim() == 2 && targets.size(0) != batch) return {};
    if (!is_lengths(input_lengths, batch) || !is_lengths(target_lengths, batch)) return {};

    const at::AutoDispatchBelowADInplaceOrView without_autograd;
    const Tensor labels = targets.contiguous();
    const Tensor frames = as_indices(input_lengths, labels.scalar_type());
    const Tensor counts = as_indices(target_lengths, labels.scalar_type());
    Tensor gradient;
    if (wants_gradient) gradient = memory ? *memory : fresh_like(logits);

    ctcProblem problem = {};
    problem.frames = logits.size(time_dimension);
    problem.batch = batch;
    problem.classes = logits.size(2);
    problem.blank = blank;
    problem.logits_frame_stride = logits.stride(time_dimension);
    problem.logits_batch_stride = logits.stride(batch_dimension);
    problem.gradient_frame_stride = wants_gradient ? gradient.stride(time_dimension) : 0;
    problem.gradient_batch_stride = wants_gradient ? gradient.stride(batch_dimension) : 0;
    problem.longest_target = labels.size(-1);
    problem.targets_stride = labels.dim() == 2 ? labels.size(1) : 0;
    problem.targets_count = labels.numel();
    problem.type = *type;
    problem.flags = (labels.scalar_type() == at::kLong ? CTC_INDEX64 : 0) | (zero_infinity ? CTC_ZERO_INFINITY : 0);
    problem.threads = at::get_num_threads();
    problem.reduction = int32_t(reduction);
    problem.label_smoothing = label_smoothing;
    problem.entropy_weight = entropy_weight;

    size_t bytes = 0;
    if (ctc_loss_workspace(&problem, &bytes) != CTC_STATUS_SUCCESS) return {};
    const at::DataPtr workspace = c10::GetAllocator(at::kCPU)->allocate(bytes);
    const auto real = *type == CTC_FLOAT64 ? at::kDouble : at::kFloat;
    const Tensor losses = at::detail::empty_cpu({batch}, real);
    Tensor result = losses;
    if (reduction != CTC_NONE) result = at::detail::empty_cpu({}, real);
    const ctcStatus_t status = ctc_loss(
        &problem, logits.const_data_ptr(), wants_gradient ? gradient.mutable_data_ptr() : nullptr,
        labels.const_data_ptr(), frames.const_data_ptr(), counts.const_data_ptr(), nullptr, losses.mutable_data_ptr(),
        reduction == CTC_NONE ? nullptr : result.mutable_data_ptr(), workspace.get(), nullptr);
    if (status != CTC_STATUS_SUCCESS) return {};
    if (wants_gradient) {
        const auto node = make_node<CtcLossBackward>();
        node->set_next_edges(torch::autograd::collect_next_edges(logits));
        node->gradient = torch::autograd::SavedVariable(gradient, /*is_output=*/false);
        node->batch_dimension = batch_dimension;
        torch::autograd::set_history(result, node);
    }
    return result;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(ctc, library) {
    library.def(
        "eager_loss(Tensor logits, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, "
        "int reduction, bool zero_infinity, bool batch_first, float label_smoothing, float entropy_weight, "
        "Tensor? memory) -> Tensor?",
        &loss);
}
