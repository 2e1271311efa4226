// What this library needs of ONNX Runtime's interface for operators of others (onnxruntime_c_api.h, which its wheel
// does not have): functions by their place in OrtApi, whose first version may not change, and OrtCustomOp.
#ifndef RUNTIME_H
#define RUNTIME_H

#include <cstddef>
#include <cstdint>

namespace runtime {
using Function = void (*)();
using Status = void*;  // null where all is well

struct ApiBase {
    const Function* (*get)(uint32_t version);
    const char* (*version)();
};

enum Place {
    CREATE_STATUS = 0,
    CREATE_DOMAIN = 26,
    ADD_OPERATOR = 27,
    ADD_DOMAIN = 28,
    TENSOR_DATA = 51,
    DIMENSION_COUNT = 61,
    DIMENSIONS = 62,
    TENSOR_SHAPE = 65,
    WHOLE_ATTRIBUTE = 86,
    GET_INPUT = 90,
    GET_OUTPUT = 91,
    RELEASE_SHAPE = 99,
};

constexpr int INVALID_ARGUMENT = 2;

enum Type { FLOAT = 1, UINT8 = 2, INT8 = 3, BOOL = 9 };

// As version 16 of the interface has it: what is null is not used.
struct Operator {
    uint32_t version;
    Function create_without_status;
    const char* (*name)(const Operator*);
    const char* (*provider)(const Operator*);
    int (*input_type)(const Operator*, size_t index);
    size_t (*inputs)(const Operator*);
    int (*output_type)(const Operator*, size_t index);
    size_t (*outputs)(const Operator*);
    Function compute_without_status;
    void (*destroy)(void* kernel);
    int (*input_kind)(const Operator*, size_t index);  // 0: required
    int (*output_kind)(const Operator*, size_t index);
    int (*input_memory)(const Operator*, size_t index);  // 0: that of the provider
    Function variadic[4];
    Status (*create)(const Operator*, const Function* api, const void* info, void** kernel);
    Status (*compute)(void* kernel, void* context);
    Function newer[32];
};
}  // namespace runtime
#endif
