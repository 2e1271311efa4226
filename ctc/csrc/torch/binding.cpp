// The loss as a node of torch's autograd graph: what a training step calls, without Python between torch and kernel.
//
// It takes what is ordinary: float32, float64 or bfloat16 on the CPU whose classes are adjacent, lengths as tensors or
// lists, arguments that fit. For all else it answers None, and Python, which knows every case and every message, takes
// over. A function of Python's C interface and no operator of torch: of one utterance, torch's dispatcher alone would
// take as long as a third of the kernel.
#include <Python.h>

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/utils/object_ptr.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "ctc.h"

namespace {

using at::Tensor;
using torch::autograd::variable_list;

constexpr size_t LEAST_ADVISED_BYTES = size_t(8) << 20;
// No pool has anything for a smaller gradient: asking would take as long as a tenth of the loss.
constexpr size_t LEAST_LENT_BYTES = size_t(1) << 20;

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
    bool is_last_use = false;  // nobody will ask for the saved gradient again

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
    // The gradient times a number, or one for every utterance: the caller's own, the saved tensor only at its last use.
    // `_scaled` in loss_operator.py, for what does not come here, is the same.
    Tensor scaled(const Tensor& saved, const Tensor& by, bool wants_graph) {
        Tensor factor = by.to(saved.scalar_type());
        if (by.dim() > 0) factor = factor.unsqueeze(-1);
        if (by.dim() > 0 && batch_dimension == 0) factor = factor.unsqueeze(-1);
        // What comes back for an infinite loss must not spoil its gradient of 0.
        if (at::isTensorSubclassLike(by))  // of vmap among others, whose numbers cannot be looked at
            return at::where(saved.eq(0), at::zeros({}, saved.options()), saved.mul(factor));
        const bool is_owned = is_last_use && !wants_graph;
        if (is_one(by)) return is_owned ? saved : saved.clone();
        const bool is_finite = by.isfinite().all().item<bool>();
        const Tensor nothing = is_finite ? Tensor() : saved.eq(0);
        Tensor result = is_owned ? saved.mul_(factor) : saved.mul(factor);
        if (!is_finite) result.masked_fill_(nothing, 0);
        return result;
    }
};

// A tensor as it is: no subclass, no view that is yet to be negated, no derivative in forward mode; null for all else.
const Tensor* plain_tensor(PyObject* object) {
    if (!THPVariable_CheckExact(object)) return nullptr;
    const Tensor& x = THPVariable_Unpack(object);
    const bool is_plain = x.is_cpu() && x.layout() == at::kStrided && !x.is_neg() && !at::isTensorSubclassLike(x) &&
                          !x._fw_grad(/*level=*/0).defined();
    return is_plain ? &x : nullptr;
}

bool is_integers(const Tensor& x) { return x.scalar_type() == at::kLong || x.scalar_type() == at::kInt; }

Tensor as_indices(const Tensor& x, at::ScalarType type) {
    if (x.scalar_type() == type) return x.contiguous();
    // What is beyond int32 is too large still, and does not wrap around.
    return (type == at::kInt ? x.clamp(INT32_MIN, INT32_MAX) : x).to(type).contiguous();
}

// Lengths of all utterances as the kernel reads them, of the type of the labels.
class Lengths {
  public:
    // Whether they are what is ordinary: a tensor, list or tuple of as many integers as there are utterances.
    bool read(PyObject* object, int64_t batch, at::ScalarType type) {
        if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) return read_numbers(object, batch, type);
        const Tensor* const x = plain_tensor(object);
        if (!x || !is_integers(*x) || x->dim() != 1 || x->size(0) != batch) return false;
        held = as_indices(*x, type);
        data = held.const_data_ptr();
        return true;
    }

    const void* data = nullptr;

  private:
    bool read_numbers(PyObject* object, int64_t batch, at::ScalarType type) {
        if (PySequence_Fast_GET_SIZE(object) != batch) return false;
        numbers.resize(size_t(batch));
        for (int64_t n = 0; n < batch; n++) {
            PyObject* const item = PySequence_Fast_GET_ITEM(object, n);
            int is_out_of_range = 0;
            if (!PyLong_CheckExact(item)) return false;
            const long long number = PyLong_AsLongLongAndOverflow(item, &is_out_of_range);
            if (is_out_of_range || (type == at::kInt && int32_t(number) != number)) return false;
            if (type == at::kInt)
                reinterpret_cast<int32_t*>(numbers.data())[n] = int32_t(number);
            else
                numbers[size_t(n)] = number;
        }
        data = numbers.data();
        return true;
    }

    Tensor held;
    c10::SmallVector<int64_t, 64> numbers;
};

// As `gradient_like` of memory.py. Of large memory that is fresh most of the time goes into page faults; larger pages
// have fewer.
Tensor fresh_like(const Tensor& logits) {
    Tensor fresh = logits.is_non_overlapping_and_dense()
                       ? Tensor(at::detail::empty_strided_cpu(logits.sizes(), logits.strides(), logits.scalar_type()))
                       : Tensor(at::detail::empty_cpu(logits.sizes(), logits.scalar_type()));
#if defined(MADV_HUGEPAGE)
    constexpr uintptr_t page = uintptr_t(2) << 20;
    const uintptr_t begin = ((uintptr_t)fresh.mutable_data_ptr() + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)fresh.mutable_data_ptr() + fresh.nbytes()) / page * page;
    if (fresh.nbytes() >= LEAST_ADVISED_BYTES && begin < end) madvise((void*)begin, end - begin, MADV_HUGEPAGE);
#endif
    return fresh;
}

// What `pool`, a GradientPool or None, has for the gradient, else fresh memory.
Tensor memory_for(PyObject* logits, PyObject* pool) {
    const Tensor& like = THPVariable_Unpack(logits);
    if (pool == Py_None || like.nbytes() < LEAST_LENT_BYTES) return fresh_like(like);
    THPObjectPtr lent(PyObject_CallMethod(pool, "lend", "O", logits));
    if (!lent) throw python_error();
    return THPVariable_Check(lent) ? THPVariable_Unpack(lent) : fresh_like(like);
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

std::optional<int32_t> reduction_of(PyObject* name) {
    if (!PyUnicode_Check(name)) return {};
    if (PyUnicode_CompareWithASCIIString(name, "mean") == 0) return CTC_MEAN;
    if (PyUnicode_CompareWithASCIIString(name, "sum") == 0) return CTC_SUM;
    if (PyUnicode_CompareWithASCIIString(name, "none") == 0) return CTC_NONE;
    return {};
}

// Arguments of `ctc.ctc_loss`, in the order in which `loss` takes them.
enum Argument {
    LOGITS, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS, BLANK, REDUCTION, ZERO_INFINITY, BATCH_FIRST, LABEL_SMOOTHING,
    ENTROPY_WEIGHT, STAR, POOL, ARGUMENTS
};

// What of the problem is numbers; false where one is not, which Python is left to say.
bool read_options(PyObject* const* given, ctcProblem* problem) {
    const auto reduction = reduction_of(given[REDUCTION]);
    if (!reduction || !PyLong_Check(given[BLANK])) return false;
    problem->reduction = *reduction;
    problem->blank = PyLong_AsLongLong(given[BLANK]);
    problem->label_smoothing = PyFloat_AsDouble(given[LABEL_SMOOTHING]);
    problem->entropy_weight = PyFloat_AsDouble(given[ENTROPY_WEIGHT]);
    const int zero_infinity = PyObject_IsTrue(given[ZERO_INFINITY]);
    problem->flags = zero_infinity ? CTC_ZERO_INFINITY : 0;
    if (given[STAR] != Py_None) {
        const long long star = PyLong_AsLongLong(given[STAR]);
        problem->star = int32_t(star);
        problem->flags |= CTC_STARS;
        if (problem->star != star) return false;
    }
    return !PyErr_Occurred();
}

int64_t aligned(size_t bytes) { return int64_t((bytes + 63) / 64 * 64); }

std::optional<Tensor> computed_loss(PyObject* const* given) {
    const Tensor *const logits = plain_tensor(given[LOGITS]), *const targets = plain_tensor(given[TARGETS]);
    ctcProblem problem = {};
    if (!logits || !targets || !read_options(given, &problem)) return {};
    const bool wants_gradient = at::GradMode::is_enabled() && logits->requires_grad();
    const auto type = type_of(*logits, wants_gradient);
    if (!type || logits->dim() != 3 || (logits->stride(2) != 1 && logits->size(2) != 1)) return {};
    const int batch_first = PyObject_IsTrue(given[BATCH_FIRST]);
    if (batch_first < 0) return {};
    const int64_t time_dimension = batch_first, batch_dimension = 1 - time_dimension;
    const int64_t batch = logits->size(batch_dimension);
    if (!is_integers(*targets) || targets->dim() < 1 || targets->dim() > 2) return {};
    if (targets->dim() == 2 && targets->size(0) != batch) return {};
    const at::ScalarType index = targets->scalar_type();
    Lengths frames, counts;
    if (!frames.read(given[INPUT_LENGTHS], batch, index)) return {};
    if (!counts.read(given[TARGET_LENGTHS], batch, index)) return {};

    const Tensor labels = targets->contiguous();
    Tensor gradient;
    if (wants_gradient) gradient = memory_for(given[LOGITS], given[POOL]);
    problem.frames = logits->size(time_dimension);
    problem.batch = batch;
    problem.classes = logits->size(2);
    problem.logits_frame_stride = logits->stride(time_dimension);
    problem.logits_batch_stride = logits->stride(batch_dimension);
    problem.gradient_frame_stride = wants_gradient ? gradient.stride(time_dimension) : 0;
    problem.gradient_batch_stride = wants_gradient ? gradient.stride(batch_dimension) : 0;
    problem.longest_target = labels.size(-1);
    problem.targets_stride = labels.dim() == 2 ? labels.size(1) : 0;
    problem.targets_count = labels.numel();
    problem.type = *type;
    problem.flags |= index == at::kLong ? CTC_INDEX64 : 0;
    problem.threads = at::get_num_threads();

    size_t bytes = 0;
    if (ctc_loss_workspace(&problem, &bytes) != CTC_STATUS_SUCCESS) return {};
    const bool is_reduced = problem.reduction != CTC_NONE;
    const auto real = *type == CTC_FLOAT64 ? at::kDouble : at::kFloat;
    Tensor result = is_reduced ? at::detail::empty_cpu({}, real) : at::detail::empty_cpu({batch}, real);
    // The losses of a reduction are of no use to anybody, and lie behind the workspace.
    const size_t losses_bytes = is_reduced ? size_t(batch) * sizeof(double) : 0;
    const std::unique_ptr<char, decltype(&c10::free_cpu)> workspace(
        (char*)c10::alloc_cpu(size_t(aligned(bytes)) + losses_bytes), &c10::free_cpu);
    void* const numbers = result.mutable_data_ptr();
    ctcStatus_t status;
    Py_BEGIN_ALLOW_THREADS
    status = ctc_loss(&problem, logits->const_data_ptr(), wants_gradient ? gradient.mutable_data_ptr() : nullptr,
                      labels.const_data_ptr(), frames.data, counts.data, nullptr,
                      is_reduced ? workspace.get() + aligned(bytes) : numbers, is_reduced ? numbers : nullptr,
                      workspace.get(), nullptr);
    Py_END_ALLOW_THREADS
    if (status != CTC_STATUS_SUCCESS) return {};
    if (wants_gradient) {
        const auto node = make_node<CtcLossBackward>();
        node->set_next_edges(torch::autograd::collect_next_edges(*logits));
        node->gradient = torch::autograd::SavedVariable(gradient, /*is_output=*/false);
        node->batch_dimension = batch_dimension;
        torch::autograd::set_history(result, node);
    }
    return result;
}

// The loss, or None.
PyObject* loss(PyObject*, PyObject* const* given, Py_ssize_t count) {
    if (count != ARGUMENTS)
        return PyErr_Format(PyExc_TypeError, "loss: expected %d arguments, found %zd", ARGUMENTS, count);
    try {
        if (std::optional<Tensor> result = computed_loss(given)) return THPVariable_Wrap(std::move(*result));
    } catch (const python_error&) {  // which is set
        return nullptr;
    } catch (const std::exception& error) {
        return PyErr_Format(PyExc_RuntimeError, "ctc_loss: %s", error.what());
    }
    PyErr_Clear();
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"loss", (PyCFunction)(void (*)())loss, METH_FASTCALL, nullptr},
                           {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "ctc_torch", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_ctc_torch() { return PyModule_Create(&module); }
