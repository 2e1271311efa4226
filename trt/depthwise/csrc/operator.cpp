// The operator `DepthwiseConv` of ONNX Runtime: inputs as `INPUT_TYPES` lists them, attributes `dilation` and `padding`.
#include <mutex>
#include <vector>

#include "depthwise.h"
#include "runtime.h"

using runtime::Function;

namespace {
enum Input { X, MASK, X_SCALE, X_ZERO, WEIGHT, WEIGHT_SCALE, Y_SCALE, Y_ZERO, INPUTS };
constexpr int INPUT_TYPES[INPUTS] = {runtime::UINT8, runtime::BOOL,  runtime::FLOAT, runtime::UINT8,
                                     runtime::INT8,  runtime::FLOAT, runtime::FLOAT, runtime::UINT8};

template <class Result, class... Arguments>
Result call(const Function* api, runtime::Place place, Arguments... arguments) {
    return reinterpret_cast<Result (*)(Arguments...)>(api[place])(arguments...);
}

template <class Value>
Value* data(const Function* api, const void* tensor) {
    void* found = nullptr;
    call<runtime::Status>(api, runtime::TENSOR_DATA, tensor, &found);
    return static_cast<Value*>(found);
}

// One node of a graph. Weights and scales are constants there: they are packed at the first call.
class Kernel {
public:
    Kernel(const Function* api, const void* info) : api(api) {
        call<runtime::Status>(api, runtime::WHOLE_ATTRIBUTE, info, "dilation", &dilation);
        call<runtime::Status>(api, runtime::WHOLE_ATTRIBUTE, info, "padding", &padding);
    }

    runtime::Status compute(void* context) {
        const void* tensors[INPUTS];
        for (size_t i = 0; i < INPUTS; i++) {
            const void* const given = context;
            if (auto status = call<runtime::Status>(api, runtime::GET_INPUT, given, i, &tensors[i])) return status;
        }
        std::call_once(is_packed, [&] { pack(tensors); });
        const std::vector<int64_t> shape = shape_of(tensors[X]);
        if (packed.empty() || shape.size() != 3 || shape[2] != static_cast<int64_t>(scale.size()) ||
            shape_of(tensors[MASK]) != std::vector<int64_t>{shape[0], shape[1]})
            return call<runtime::Status>(api, runtime::CREATE_STATUS, runtime::INVALID_ARGUMENT,
                                         "DepthwiseConv: shapes or attributes that do not fit");
        depthwise::Problem problem{};
        problem.batch = shape[0], problem.frames = shape[1], problem.channels = shape[2];
        problem.taps = taps, problem.dilation = dilation, problem.padding = padding;
        problem.x = data<uint8_t>(api, tensors[X]), problem.mask = data<uint8_t>(api, tensors[MASK]);
        problem.x_zero = x_zero, problem.y_zero = y_zero;
        problem.packed = packed.data(), problem.start = start.data(), problem.scale = scale.data();
        void* output = nullptr;
        if (auto status = call<runtime::Status>(api, runtime::GET_OUTPUT, context, size_t{0}, shape.data(), size_t{3},
                                                &output))
            return status;
        problem.y = data<uint8_t>(api, output);
        depthwise::run(problem);
        return nullptr;
    }

private:
    std::vector<int64_t> shape_of(const void* tensor) {
        void* found = nullptr;
        if (call<runtime::Status>(api, runtime::TENSOR_SHAPE, tensor, &found)) return {};
        const void* const known = found;
        size_t count = 0;
        call<runtime::Status>(api, runtime::DIMENSION_COUNT, known, &count);
        std::vector<int64_t> shape(count);
        call<runtime::Status>(api, runtime::DIMENSIONS, known, shape.data(), count);
        call<void>(api, runtime::RELEASE_SHAPE, found);
        return shape;
    }

    // Leaves `packed` empty where the kernels do not compute such a convolution.
    void pack(const void* const* tensors) {
        const std::vector<int64_t> shape = shape_of(tensors[WEIGHT]);
        if (shape.size() != 3 || shape[1] != 1 || shape_of(tensors[WEIGHT_SCALE]) != std::vector<int64_t>{shape[0]})
            return;
        for (Input single : {X_SCALE, X_ZERO, Y_SCALE, Y_ZERO})
            for (int64_t size : shape_of(tensors[single]))
                if (size != 1) return;
        const int64_t channels = shape[0];
        taps = shape[2];
        if (!depthwise::is_taken(channels, taps, dilation, padding)) return;
        const int8_t* weight = data<int8_t>(api, tensors[WEIGHT]);
        const float x_scale = *data<float>(api, tensors[X_SCALE]), y_scale = *data<float>(api, tensors[Y_SCALE]);
        x_zero = *data<uint8_t>(api, tensors[X_ZERO]), y_zero = *data<uint8_t>(api, tensors[Y_ZERO]);
        start.resize(channels), scale.resize(channels);
        for (int64_t c = 0; c < channels; c++) {
            for (int64_t k = 0; k < taps; k++) start[c] -= x_zero * weight[c * taps + k];
            scale[c] = x_scale * data<float>(api, tensors[WEIGHT_SCALE])[c] / y_scale;
        }
        packed.resize(depthwise::packed_bytes(taps, channels));
        depthwise::pack(weight, taps, channels, packed.data());
    }

    const Function* api;
    int64_t dilation = 0, padding = 0, taps = 0;
    std::once_flag is_packed;
    std::vector<int8_t> packed;
    std::vector<int32_t> start;
    std::vector<float> scale;
    uint8_t x_zero = 0, y_zero = 0;
};

runtime::Status create(const runtime::Operator*, const Function* api, const void* info, void** kernel) {
    *kernel = new Kernel(api, info);
    return nullptr;
}

const runtime::Operator OPERATOR = {
    16,
    nullptr,
    [](const runtime::Operator*) { return "DepthwiseConv"; },
    [](const runtime::Operator*) -> const char* { return nullptr; },
    [](const runtime::Operator*, size_t index) { return INPUT_TYPES[index]; },
    [](const runtime::Operator*) -> size_t { return INPUTS; },
    [](const runtime::Operator*, size_t) -> int { return runtime::UINT8; },
    [](const runtime::Operator*) -> size_t { return 1; },
    nullptr,
    [](void* kernel) { delete static_cast<Kernel*>(kernel); },
    [](const runtime::Operator*, size_t) { return 0; },
    [](const runtime::Operator*, size_t) { return 0; },
    [](const runtime::Operator*, size_t) { return 0; },
    {},
    create,
    [](void* kernel, void* context) { return static_cast<Kernel*>(kernel)->compute(context); },
    {},
};
}  // namespace

extern "C" {
__attribute__((visibility("default"))) int32_t depthwise_runs() { return depthwise::runs(); }

// What ONNX Runtime calls when a session's options name this library.
__attribute__((visibility("default"))) runtime::Status RegisterCustomOps(void* options, const runtime::ApiBase* base) {
    const Function* api = base->get(1);
    void* domain = nullptr;
    if (runtime::Status status = call<runtime::Status>(api, runtime::CREATE_DOMAIN, "speech.models", &domain))
        return status;
    if (runtime::Status status =
            call<runtime::Status>(api, runtime::ADD_OPERATOR, domain, static_cast<const void*>(&OPERATOR)))
        return status;
    return call<runtime::Status>(api, runtime::ADD_DOMAIN, options, domain);
}
}
