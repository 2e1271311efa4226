// A device for tests that is not the CPU: its tensors lie in host memory, its kernels are the CPU's, and all else is as
// on a GPU. Tensors of other devices are refused with torch's own message, a copy to the host that need not wait arrives
// only when somebody waits for it, and operations, casts, copies and waits are counted. It is torch's PrivateUse1.
//
// Every ATen operation that has a kernel of its own on a CPU gets one here: it takes the memory of its arguments as CPU
// tensors, calls the CPU's kernel, and gives the results' memory to tensors of the device. Nothing is copied, so a
// result is bitwise that of the CPU. Views, factories and copies are torch's own; autocast casts what CUDA's casts.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

namespace {

using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::DispatchKey;
using torch::jit::Stack;

constexpr auto kMirror = c10::DeviceType::PrivateUse1;
constexpr DeviceIndex kDevices = 2;

// What was counted, and what has not arrived yet. Autograd's threads come here too.
struct Arriving {
  Tensor target, value;
};
std::mutex mutex;
std::map<std::string, int64_t> counts;
std::vector<Arriving> arriving;
bool waits_are_errors = false;

void count(const std::string& what) {
  std::lock_guard<std::mutex> lock(mutex);
  ++counts[what];
}

// What a synchronisation of the device does; to be called wherever the host waits for it.
void arrive() {
  std::vector<Arriving> now;
  {
    std::lock_guard<std::mutex> lock(mutex);
    now.swap(arriving);
  }
  for (auto& [target, value] : now) target.copy_(value);
}

void wait(const std::string& why) {
  count("wait: " + why);
  TORCH_CHECK(!waits_are_errors, "mirror: the host waits for the device: ", why);
  arrive();
}

// Memory.

void free_mirror(void* pointer) { c10::GetCPUAllocator()->raw_deallocate(pointer); }

thread_local DeviceIndex current_device = 0;

struct MirrorAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* pointer = bytes ? c10::GetCPUAllocator()->raw_allocate(bytes) : nullptr;
    return {pointer, pointer, pointer ? &free_mirror : &c10::detail::deleteNothing, Device(kMirror, current_device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_mirror; }
  void copy_data(void* target, const void* source, size_t bytes) const override { std::memcpy(target, source, bytes); }
};
MirrorAllocator mirror_allocator;

std::unordered_set<const void*> pinned;

void free_pinned(void* pointer) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    pinned.erase(pointer);
  }
  c10::GetCPUAllocator()->raw_deallocate(pointer);
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* pointer = c10::GetCPUAllocator()->raw_allocate(bytes ? bytes : 1);
    std::lock_guard<std::mutex> lock(mutex);
    pinned.insert(pointer);
    return {pointer, pointer, &free_pinned, Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* target, const void* source, size_t bytes) const override { std::memcpy(target, source, bytes); }
};
PinnedAllocator pinned_allocator;

bool is_pinned(const Tensor& host) {
  std::lock_guard<std::mutex> lock(mutex);
  return pinned.count(host.storage().data()) > 0;
}

// A tensor of the CPU over the memory of one of the device, which it keeps alive.
Tensor on_cpu(const Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cpu()) return tensor;
  auto result = at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), [tensor](void*) {},
      tensor.options().device(c10::DeviceType::CPU).pinned_memory(std::nullopt));
  result._set_conj(tensor.is_conj());
  result._set_neg(tensor.is_neg());
  return result;
}

// And the other way round.
Tensor on_mirror(const Tensor& tensor, Device device) {
  if (!tensor.defined()) return tensor;
  const auto& storage = tensor.storage();
  c10::DataPtr data(
      storage.mutable_data(), new Tensor(tensor), [](void* kept) { delete static_cast<Tensor*>(kept); }, device);
  c10::Storage its(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data), &mirror_allocator, true);
  auto result = at::detail::make_tensor<c10::TensorImpl>(
      std::move(its), c10::DispatchKeySet(DispatchKey::PrivateUse1), tensor.dtype());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  result._set_conj(tensor.is_conj());
  result._set_neg(tensor.is_neg());
  return result;
}

// Devices, streams and events: one stream each, and all work is done at once.

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kMirror; }
  Device exchangeDevice(Device device) const override {
    Device before = getDevice();
    setDevice(device);
    return before;
  }
  Device getDevice() const override { return Device(kMirror, current_device); }
  void setDevice(Device device) const override {
    TORCH_CHECK(device.index() < kDevices, "mirror: there is no ", device);
    if (device.index() >= 0) current_device = device.index();
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.index() >= 0) current_device = device.index();
  }
  c10::Stream getStream(Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, Device(kMirror, device.index() < 0 ? current_device : device.index()));
  }
  c10::Stream getDefaultStream(Device device) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(Device device, bool) const override { return getStream(device); }
  c10::Stream getNewStream(Device device, int) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  DeviceIndex deviceCount() const noexcept override { return kDevices; }
  void record(void** event, const c10::Stream&, const DeviceIndex, const c10::EventFlag) const override {
    static char recorded;
    *event = &recorded;
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override { wait("synchronize"); }
  void synchronizeDevice(const DeviceIndex) const override { wait("synchronize"); }
  void synchronizeEvent(void*) const override {  // of something recorded before: what a late reading may do
    count("event");
    arrive();
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

// A generator of the device is one of the CPU under another name.
struct MirrorGenerator final : c10::GeneratorImpl {
  explicit MirrorGenerator(DeviceIndex index, at::Generator cpu)
      : GeneratorImpl(Device(kMirror, index), c10::DispatchKeySet(DispatchKey::PrivateUse1)), cpu(std::move(cpu)) {}
  void set_current_seed(uint64_t seed) override { cpu.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { cpu.set_offset(offset); }
  uint64_t get_offset() const override { return cpu.get_offset(); }
  uint64_t current_seed() const override { return cpu.current_seed(); }
  uint64_t seed() override { return cpu.seed(); }
  void set_state(const c10::TensorImpl& state) override { cpu.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return cpu.unsafeGetGeneratorImpl()->get_state(); }
  MirrorGenerator* clone_impl() const override { return new MirrorGenerator(device_.index(), cpu.clone()); }

  at::Generator cpu;
};

at::Generator make_generator(DeviceIndex index, const at::Generator& cpu) {
  return at::Generator(c10::make_intrusive<MirrorGenerator>(index < 0 ? current_device : index, cpu));
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(DeviceIndex device) const override { Guard().setDevice(Device(kMirror, device)); }
  DeviceIndex getCurrentDevice() const override { return current_device; }
  DeviceIndex exchangeDevice(DeviceIndex device) const override {
    return Guard().exchangeDevice(Device(kMirror, device)).index();
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override { return exchangeDevice(device); }
  bool isPinnedPtr(const void* data) const override {
    std::lock_guard<std::mutex> lock(mutex);
    return pinned.count(data) > 0;
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
  Device getDeviceFromPtr(void*) const override { return Device(kMirror, current_device); }
  const at::Generator& getDefaultGenerator(DeviceIndex index) const override {
    static const at::Generator defaults[kDevices] = {
        make_generator(0, at::detail::getDefaultCPUGenerator()), make_generator(1, at::detail::getDefaultCPUGenerator())};
    return defaults[index < 0 ? current_device : index];
  }
  at::Generator getNewGenerator(DeviceIndex index) const override {
    return make_generator(index, at::detail::createCPUGenerator());
  }
  void resizePrivateUse1Bytes(const c10::Storage&, size_t) const override {
    TORCH_CHECK(false, "mirror: storages keep their size");
  }
};

// Operations.

// Of these the host must know the result, or how large it is, before it can go on.
const std::unordered_set<std::string> kWaiting = {
    "aten::nonzero", "aten::masked_select", "aten::equal", "aten::bincount", "aten::unique_dim", "aten::_unique",
    "aten::_unique2", "aten::unique_consecutive", "aten::histc", "aten::linalg_svd", "aten::linalg_eigh"};
// Indices may lie on the host, as with CUDA, which copies them.
const std::unordered_set<std::string> kIndexing = {
    "aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index"};

bool is_mask(const Tensor& tensor) {
  return tensor.defined() && (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte);
}

class Call {
 public:
  explicit Call(const c10::OperatorHandle& op) : op_(op), name_(op.schema().name()) {}

  void run(Stack* stack) {
    const auto& arguments = op_.schema().arguments();
    const size_t first = stack->size() - arguments.size();
    given_.assign(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
    for (const auto& value : given_) find_device(value);
    bool waits = kWaiting.count(name_) > 0;
    for (size_t i = 0; i < given_.size(); ++i) {
      if (kIndexing.count(name_) && given_[i].isList()) waits |= has_mask(given_[i]);
      if (name_ == "aten::repeat_interleave") waits |= given_[i].isNone();
      (*stack)[first + i] = lent(given_[i], arguments[i].name());
      const auto* alias = arguments[i].alias_info();
      if (alias != nullptr && alias->isWrite() && given_[i].isTensor() && given_[i].toTensor().numel() == 0)
        (*stack)[first + i] = sized_by_kernel(given_[i].toTensor());
    }
    count("operation: " + name_.substr(name_.find("::") + 2));
    if (name_.rfind("aten::_foreach_", 0) == 0 && !is_fast()) count("slow: " + name_.substr(6));
    if (waits) wait(name_.substr(name_.find("::") + 2));
    op_.callBoxed(stack);
    for (auto& [target, value] : sized_by_kernel_)
      if (value.sizes() != target.sizes()) target.set_(on_mirror(value, target.device()));
    take_back(stack);
  }

 private:
  void find_device(const c10::IValue& value) {
    if (value.isTensor()) {
      const auto& tensor = value.toTensor();
      if (tensor.defined() && tensor.is_privateuseone() && !device_) device_ = tensor.device();
    } else if (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList()) {
      for (const c10::IValue& item : value.toListRef()) find_device(item);
    } else if (value.isGenerator() && value.toGenerator().device().type() == kMirror && !device_) {
      device_ = value.toGenerator().device();
    }
  }

  bool has_mask(const c10::IValue& list) {
    for (const c10::IValue& item : list.toListRef())
      if (item.isTensor() && is_mask(item.toTensor())) return true;
    return false;
  }

  // Whether CUDA would do with one kernel per list: where the n-th tensors of all lists are alike in type and layout.
  bool is_fast() {
    std::vector<std::vector<Tensor>> lists;
    for (const auto& value : given_)
      if (value.isTensorList()) lists.push_back(value.toTensorVector());
    if (lists.empty()) return true;
    const auto& first = lists.front();
    for (const auto& list : lists)
      for (size_t i = 0; i < std::min(list.size(), first.size()); ++i)
        if (list[i].sizes() != first[i].sizes() || list[i].strides() != first[i].strides() ||
            list[i].scalar_type() != first[0].scalar_type() || !list[i].is_non_overlapping_and_dense())
          return false;
    return true;
  }

  Tensor lent(const Tensor& tensor, const std::string& argument) {
    if (!tensor.defined()) return tensor;
    const bool allowed = tensor.is_cpu() && (tensor.dim() == 0 || (kIndexing.count(name_) && argument == "indices"));
    if (tensor.is_cpu() && tensor.dim() > 0 && allowed) wait("indices on the host");
    if (!allowed) {
      std::optional<Device> common = device_;
      c10::impl::check_and_update_common_device(common, tensor, name_.c_str(), argument.c_str());
    }
    return on_cpu(tensor);
  }

  // An empty `out` has memory only when the kernel knows how much.
  Tensor sized_by_kernel(const Tensor& target) {
    if (!target.is_privateuseone()) return target;
    sized_by_kernel_.emplace_back(target, at::empty(target.sizes(), target.options().device(c10::DeviceType::CPU)));
    return sized_by_kernel_.back().second;
  }

  c10::IValue lent(const c10::IValue& value, const std::string& argument) {
    if (value.isTensor()) return lent(value.toTensor(), argument);
    if (value.isTensorList()) {
      c10::List<Tensor> tensors;
      for (const Tensor& tensor : value.toTensorVector()) tensors.push_back(lent(tensor, argument));
      return tensors;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> tensors;
      for (const std::optional<Tensor>& tensor : value.toOptionalTensorList())
        tensors.push_back(tensor ? std::optional<Tensor>(lent(*tensor, argument)) : std::nullopt);
      return tensors;
    }
    if (value.isGenerator() && value.toGenerator().device().type() == kMirror)
      return static_cast<MirrorGenerator*>(value.toGenerator().unsafeGetGeneratorImpl())->cpu;
    return value;
  }

  // What was written into is the caller's tensor again; what is new becomes one of the device.
  void take_back(Stack* stack) {
    const auto& returns = op_.schema().returns();
    const auto& arguments = op_.schema().arguments();
    const size_t first = stack->size() - returns.size();
    for (size_t i = 0; i < returns.size(); ++i) {
      auto& value = (*stack)[first + i];
      const auto* alias = returns[i].alias_info();
      if (alias != nullptr && alias->isWrite()) {
        for (size_t j = 0; j < arguments.size(); ++j)
          if (arguments[j].alias_info() != nullptr && *arguments[j].alias_info() == *alias) value = given_[j];
      } else if (value.isTensor()) {
        value = on_mirror(value.toTensor(), *device_);
      } else if (value.isTensorList()) {
        c10::List<Tensor> tensors;
        for (const Tensor& tensor : value.toTensorVector()) tensors.push_back(on_mirror(tensor, *device_));
        value = tensors;
      }
    }
  }

  const c10::OperatorHandle& op_;
  std::string name_;
  std::vector<c10::IValue> given_;
  std::vector<std::pair<Tensor, Tensor>> sized_by_kernel_;
  std::optional<Device> device_;
};

void by_cpu(const c10::OperatorHandle& op, Stack* stack) { Call(op).run(stack); }

Device picked(std::optional<Device> device) {
  Device chosen = device.value_or(Device(kMirror, current_device));
  return chosen.has_index() ? chosen : Device(kMirror, current_device);
}

Tensor empty(
    c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<Device> device,
    std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::impl::VirtualGuardImpl guard(kMirror);
  const Device before = guard.exchangeDevice(picked(device));
  Tensor result = at::detail::empty_generic(
      size, &mirror_allocator, c10::DispatchKeySet(DispatchKey::PrivateUse1), c10::dtype_or_default(dtype), format);
  guard.setDevice(before);
  return result;
}

Tensor empty_strided(
    c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<Device> device, std::optional<bool>) {
  c10::impl::VirtualGuardImpl guard(kMirror);
  const Device before = guard.exchangeDevice(picked(device));
  Tensor result = at::detail::empty_strided_generic(
      size, stride, &mirror_allocator, c10::DispatchKeySet(DispatchKey::PrivateUse1), c10::dtype_or_default(dtype));
  guard.setDevice(before);
  return result;
}

// All copies between devices, and casts on one.
Tensor copy_from(const Tensor& source, const Tensor& target, bool non_blocking) {
  if (source.is_privateuseone() && target.is_privateuseone()) {
    count(source.scalar_type() == target.scalar_type() ? "copy: on the device" : "cast");
    on_cpu(target).copy_(on_cpu(source));
    return target;
  }
  // Memory that is not pinned is copied twice on its way to a GPU; on its way back somebody has to wait for it.
  const bool to_host = target.is_cpu(), pins = is_pinned(to_host ? target : source);
  const bool late = non_blocking && (pins || !to_host);
  const std::string what = to_host ? "copy: to the host" : "copy: from the host";
  count(!late ? what : pins ? what + ", late" : what + ", not pinned");
  if (!late && target.numel() > 0) wait(what);
  if (late && to_host) {
    Tensor value = on_cpu(source).to(target.scalar_type(), false, true);
    if (target.is_contiguous() && target.scalar_type() != at::kBool)
      std::memset(target.data_ptr(), 0xFF, target.nbytes());  // NaN, or -1: not what the reader hopes for
    std::lock_guard<std::mutex> lock(mutex);
    arriving.push_back({target, value});
  } else {
    on_cpu(target).copy_(on_cpu(source));
  }
  return target;
}

at::Scalar local_scalar(const Tensor& tensor) {
  wait("item");
  return at::_local_scalar_dense(on_cpu(tensor));
}

void record_stream(Tensor&, at::Stream) {}

// As `dropout` of a CPU multiplies; torch would take its fused operation, which rounds otherwise.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  if (!train.value_or(true) || p == 0) return {input.clone(), at::ones_like(input, at::kBool)};
  Tensor noise = p == 1 ? at::zeros_like(input) : at::empty_like(input).bernoulli_(1 - p).div_(1 - p);
  return {input * noise, noise.ne(0)};
}

// A whole LSTM as a CPU computes it, backward too; torch would take the cells of a GPU, which round otherwise.
struct Lstm : torch::autograd::Function<Lstm> {
  static std::vector<Tensor> forward(
      torch::autograd::AutogradContext* context, const Tensor& input, at::TensorList states, at::TensorList weights,
      bool biases, int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first) {
    std::vector<Tensor> given{input};
    given.insert(given.end(), states.begin(), states.end());
    given.insert(given.end(), weights.begin(), weights.end());
    std::vector<Tensor> inside;
    for (const Tensor& tensor : given) {
      TORCH_CHECK(tensor.device() == input.device(), "Expected all tensors to be on the same device, but found ",
                  tensor.device(), " and ", input.device());
      inside.push_back(on_cpu(tensor).requires_grad_(tensor.requires_grad()));
    }
    const auto first_weight = static_cast<std::ptrdiff_t>(1 + states.size());
    const std::vector<Tensor> states_inside(inside.begin() + 1, inside.begin() + first_weight);
    const std::vector<Tensor> weights_inside(inside.begin() + first_weight, inside.end());
    const bool learns = std::any_of(inside.begin(), inside.end(), [](const Tensor& t) { return t.requires_grad(); });
    at::AutoGradMode graph(learns);
    auto [output, hidden, cell] = at::lstm(
        inside[0], states_inside, weights_inside, biases, layers, dropout, train, bidirectional, batch_first);
    count("operation: lstm");
    context->saved_data["inside"] = inside;
    context->saved_data["results"] = std::vector<Tensor>{output, hidden, cell};
    std::vector<Tensor> results;
    for (const Tensor& result : {output, hidden, cell})
      results.push_back(on_mirror(result.detach(), input.device()));
    return results;
  }

  static std::vector<Tensor> backward(torch::autograd::AutogradContext* context, std::vector<Tensor> given) {
    const auto inside = context->saved_data["inside"].toTensorVector();
    const auto results = context->saved_data["results"].toTensorVector();
    std::vector<Tensor> gradients, wanted;
    for (size_t i = 0; i < given.size(); ++i)
      gradients.push_back(given[i].defined() ? on_cpu(given[i]) : at::zeros_like(results[i]));
    for (const Tensor& tensor : inside)
      if (tensor.requires_grad()) wanted.push_back(tensor);
    const auto found = torch::autograd::grad(results, wanted, gradients, true, false, true);
    std::vector<Tensor> all(inside.size() + 6);  // none for the six options
    for (size_t i = 0, next = 0; i < inside.size(); ++i)
      if (inside[i].requires_grad()) {
        const Tensor& gradient = found[next++];
        if (gradient.defined()) all[i] = on_mirror(gradient, Device(kMirror, current_device));
      }
    return all;
  }
};

std::tuple<Tensor, Tensor, Tensor> lstm(
    const Tensor& input, at::TensorList states, at::TensorList weights, bool biases, int64_t layers, double dropout,
    bool train, bool bidirectional, bool batch_first) {
  const auto found =
      Lstm::apply(input, states, weights, biases, layers, dropout, train, bidirectional, batch_first);
  return {found[0], found[1], found[2]};
}

int64_t choose_attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask, double dropout_p,
    bool is_causal, std::optional<double> scale, bool enable_gqa) {
  const auto mask_cpu = mask ? std::optional<Tensor>(on_cpu(*mask)) : std::nullopt;
  return at::_fused_sdp_choice(
      on_cpu(query), on_cpu(key), on_cpu(value), mask_cpu, dropout_p, is_causal, scale, enable_gqa);
}

// Whether an operation gets the CPU's kernel: one that computes from tensors. Not those that torch writes in terms of
// others for every device, nor views, factories with a `device`, and what changes a tensor's shape.
bool computes(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string> others = {
      "aten::copy_", "aten::_copy_from", "aten::_copy_from_and_resize", "aten::_local_scalar_dense", "aten::is_pinned",
      "aten::_pin_memory", "aten::record_stream", "aten::resize_", "aten::resize_as_", "aten::set_", "aten::is_set_to",
      "aten::squeeze_", "aten::unsqueeze_", "aten::transpose_", "aten::t_", "aten::swapdims_", "aten::swapaxes_",
      "aten::as_strided_", "aten::detach_", "aten::rename_", "aten::_resize_output_", "aten::_resize_output",
      "aten::lift", "aten::lift_fresh", "aten::_unsafe_view", "aten::_fused_sdp_choice", "aten::native_dropout"};
  const auto& schema = op.schema();
  if (schema.name().rfind("aten::", 0) != 0 || others.count(schema.name())) return false;
  const bool has_own = op.hasKernelForDispatchKey(DispatchKey::CPU);
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) && !has_own) return false;
  if (!has_own &&
      !op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) &&
      !op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional))
    return false;
  bool has_tensor = false;
  for (const auto& argument : schema.arguments()) {
    const std::string type = argument.type()->str();
    has_tensor |= type.find("Tensor") != std::string::npos;
    if (type.find("Device") != std::string::npos || type.find("Storage") != std::string::npos) return false;
  }
  for (const auto& result : schema.returns())
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return false;
  return has_tensor;
}

void register_operations() {
  static torch::Library library(torch::Library::IMPL, "aten", DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static const std::unordered_set<std::string> here = {"aten::empty.memory_format", "aten::empty_strided"};
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (op && computes(*op) && !op->hasKernelForDispatchKey(DispatchKey::PrivateUse1)) {
      const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
      library.impl(full.c_str() + 6, torch::CppFunction::makeFromBoxedFunction<&by_cpu>());
    }
  }
}

}  // namespace

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &choose_attention)
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("resize_", at::native::resize_);
  m.impl("set_.source_Storage", static_cast<Tensor& (*)(Tensor&, at::Storage)>(&at::native::set_));
  m.impl("set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("_copy_from", copy_from);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("record_stream", record_stream);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("native_dropout", native_dropout);
  m.impl("lstm.input", lstm);
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FLOAT32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

namespace at::autocast {
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FLOAT32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_SET_OPT_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(PROMOTE)
}
}  // namespace at::autocast

namespace {

c10::Dict<std::string, int64_t> read_counts() {
  std::lock_guard<std::mutex> lock(mutex);
  c10::Dict<std::string, int64_t> result;
  for (const auto& [what, times] : counts) result.insert(what, times);
  return result;
}

void reset_counts() {
  std::lock_guard<std::mutex> lock(mutex);
  counts.clear();
}

void forbid_waits(bool forbidden) { waits_are_errors = forbidden; }

}  // namespace

// What Python calls; the device itself comes into being when the library is loaded.
TORCH_LIBRARY(mirror, m) {
  c10::SetAllocator(kMirror, &mirror_allocator);
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  register_operations();
  m.def("counts() -> Dict(str, int)", read_counts);
  m.def("reset_counts() -> ()", reset_counts);
  m.def("forbid_waits(bool forbidden) -> ()", forbid_waits);
}
