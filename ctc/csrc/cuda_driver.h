// Launches kernels through the CUDA driver's own interface: a C++ compiler builds what includes this, and no CUDA toolkit
// is needed. libcuda is loaded at the first launch. A kernel is a file of machine code (a cubin) in the folder of its
// architecture; where it is missing, the function that `use` was given makes it (ctc/native/kernels.py, with NVRTC).
#pragma once

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cuda_types.h"

struct CUstream_st;

namespace ctc_cuda {

typedef CUstream_st* Stream;
typedef struct CUctx_st* Context;
typedef struct CUmod_st* Module;
typedef struct CUfunc_st* Function;

// What is called of libcuda. All return 0 where nothing went wrong.
#define CTC_DRIVER_FUNCTIONS(X)                                                                                     \
    X(cuInit, (unsigned))                                                                                           \
    X(cuCtxGetCurrent, (Context*))                                                                                  \
    X(cuCtxSetCurrent, (Context))                                                                                   \
    X(cuCtxGetDevice, (int*))                                                                                       \
    X(cuDevicePrimaryCtxRetain, (Context*, int))                                                                    \
    X(cuDeviceGetAttribute, (int*, int, int))                                                                       \
    X(cuModuleLoadData, (Module*, const void*))                                                                     \
    X(cuModuleGetFunction, (Function*, Module, const char*))                                                        \
    X(cuFuncSetAttribute, (Function, int, int))                                                                     \
    X(cuLaunchKernel, (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**)) \
    X(cuMemcpyHtoDAsync_v2, (uint64_t, const void*, size_t, Stream))                                                \
    X(cuMemcpyDtoHAsync_v2, (void*, uint64_t, size_t, Stream))                                                      \
    X(cuStreamSynchronize, (Stream))

enum DeviceAttribute { MAJOR = 75, MINOR = 76, MOST_SHARED_BYTES = 97 };  // as cuda.h numbers them
constexpr int DYNAMIC_SHARED_BYTES = 8;                                    // of a function

struct Kernel;

// Of one library. Calls take turns only while a kernel is being looked for.
struct Driver {
#define CTC_DECLARE(name, parameters) int(*name) parameters = nullptr;
    CTC_DRIVER_FUNCTIONS(CTC_DECLARE)
#undef CTC_DECLARE
    std::mutex lock;
    std::string library = "libcuda.so.1", folder;
    int (*make)(const char* kernel, int32_t architecture, const char* file) = nullptr;
    bool is_loaded = false;
    const Kernel* kernels = nullptr;  // of all launches that this library was compiled with

    bool load() {
        if (is_loaded) return true;
        void* const found = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!found) return false;
#define CTC_LOAD(name, parameters) \
    if (!(name = (int(*) parameters)dlsym(found, #name))) return false;
        CTC_DRIVER_FUNCTIONS(CTC_LOAD)
#undef CTC_LOAD
        return is_loaded = cuInit(0) == 0;
    }

    // As CUDA's runtime has it: a thread that has chosen none works on device 0.
    Context context() {
        Context current = nullptr;
        if (!load() || cuCtxGetCurrent(&current) != 0) return nullptr;
        if (!current && (cuDevicePrimaryCtxRetain(&current, 0) != 0 || cuCtxSetCurrent(current) != 0)) return nullptr;
        return current;
    }

    int attribute(DeviceAttribute which) {
        int device = 0, value = 0;
        return cuCtxGetDevice(&device) == 0 && cuDeviceGetAttribute(&value, which, device) == 0 ? value : 0;
    }
};

inline Driver& driver() {
    static Driver it;
    return it;
}

// A kernel that is launched somewhere, and what it became in each context.
struct Kernel {
    explicit Kernel(const char* description) : next(driver().kernels) {
        // "… [with auto KERNEL = ctc_cuda::prepare_kernel<void>]", or "[KERNEL = &…]"
        const std::string text = description;
        const size_t begin = text.find_first_not_of("(& ", text.find("KERNEL = ") + 9);
        name = text.substr(begin, text.find_last_not_of(")] ") + 1 - begin);
        driver().kernels = this;
    }

    // Null where it cannot be had.
    Function in(Context context) const {
        for (const auto& one : functions)
            if (one.first == context) return one.second;
        Driver& d = driver();
        const int architecture = 10 * d.attribute(MAJOR) + d.attribute(MINOR);
        std::string file = name;
        for (char& c : file)
            if (!isalnum((unsigned char)c)) c = '_';
        file = d.folder + "/sm_" + std::to_string(architecture) + "/" + file + ".cubin";
        std::string code = content(file);
        if (code.empty() && d.make && d.make(name.c_str(), architecture, file.c_str()) == 0) code = content(file);
        if (code.empty()) return nullptr;
        Module module = nullptr;
        Function function = nullptr;
        int status = d.cuModuleLoadData(&module, code.data());
        if (status == 0) status = d.cuModuleGetFunction(&function, module, code.c_str() + code.rfind('\n') + 1);
        if (status != 0) {
            fprintf(stderr, "%s: libcuda answers with %d to %s\n", name.c_str(), status, file.c_str());
            return nullptr;
        }
        functions.emplace_back(context, function);
        return function;
    }

    std::string name;
    const Kernel* next;

  private:
    // Code, and its symbol in a line behind it; empty where it is not there or, because the code does not name that
    // symbol, not whole: a computer that stops may leave a part.
    static std::string content(const std::string& path) {
        std::string all;
        FILE* const file = fopen(path.c_str(), "rb");
        if (!file) return all;
        char part[1 << 16];
        for (size_t count; (count = fread(part, 1, sizeof part, file)) > 0;) all.append(part, count);
        fclose(file);
        const size_t end = all.rfind('\n'), symbol = end + 1;
        const bool is_whole = end != std::string::npos && symbol < all.size() && all.find(all.substr(symbol)) < end;
        return is_whole ? all : std::string();
    }

    mutable std::vector<std::pair<Context, Function>> functions;
};

template <auto KERNEL> const char* description_of() { return __PRETTY_FUNCTION__; }
template <auto KERNEL> struct Known {
    static const Kernel kernel;
};
template <auto KERNEL> const Kernel Known<KERNEL>::kernel(description_of<KERNEL>());

template <typename T> struct Same {
    using type = T;
};

struct Grid {
    unsigned blocks, threads;
    size_t shared_bytes;  // beside what the kernel declares; beyond 48 KB with that they have to be asked for
};

template <typename... Parameters>
bool launch_as(const Kernel& kernel, void (*)(Parameters...), Grid grid, Stream stream, typename Same<Parameters>::type... values) {
    Driver& d = driver();
    Function function = nullptr;
    {
        const std::lock_guard<std::mutex> alone(d.lock);
        const Context context = d.context();
        if (context) function = kernel.in(context);
    }
    if (!function) return false;
    if (grid.shared_bytes > 40 * 1024 &&
        d.cuFuncSetAttribute(function, DYNAMIC_SHARED_BYTES, int(grid.shared_bytes)) != 0)
        return false;
    void* parameters[] = {(void*)&values...};
    return d.cuLaunchKernel(function, grid.blocks, 1, 1, grid.threads, 1, 1, unsigned(grid.shared_bytes), stream,
                            parameters, nullptr) == 0;
}

// launch<kernel<In>>(grid, stream, arguments...): whether it was launched.
template <auto KERNEL, typename... Arguments> bool launch(Grid grid, Stream stream, const Arguments&... arguments) {
    return launch_as(Known<KERNEL>::kernel, decltype(KERNEL)(nullptr), grid, stream, arguments...);
}

// Whether a block may ask for so much beside the 2 KB that a kernel may declare itself: Turing has 64 KB, all later
// architectures 99 KB and more.
inline bool fits_shared(size_t bytes) {
    Driver& d = driver();
    const std::lock_guard<std::mutex> alone(d.lock);
    return d.context() && bytes + 2048 <= size_t(d.attribute(MOST_SHARED_BYTES));
}

// use(In()) for the type of numbers: ctcType and transducerType have the same values.
template <typename Use> auto for_type(int32_t type, Use use) {
    switch (type) {
        case 1: return use(double());
        case 2: return use(Half());
        case 3: return use(Bfloat());
        default: return use(float());
    }
}

}  // namespace ctc_cuda

// The functions by which whoever loads the library NAME says where its kernels are; see NAME's header.
#define CTC_CUDA_LIBRARY(NAME, API)                                                                                    \
    API const char* NAME##_cuda_kernel(int32_t index) {                                                     \
        const ctc_cuda::Kernel* kernel = ctc_cuda::driver().kernels;                                                   \
        while (kernel && index-- > 0) kernel = kernel->next;                                                           \
        return kernel ? kernel->name.c_str() : nullptr;                                                                \
    }                                                                                                                  \
    API void NAME##_cuda_use(const char* folder, int (*make)(const char*, int32_t, const char*),            \
                                        const char* libcuda) {                                                         \
        ctc_cuda::Driver& driver = ctc_cuda::driver();                                                                 \
        const std::lock_guard<std::mutex> alone(driver.lock);                                                          \
        driver.folder = folder;                                                                                        \
        driver.make = make;                                                                                            \
        if (libcuda) driver.library = libcuda;                                                                         \
    }
