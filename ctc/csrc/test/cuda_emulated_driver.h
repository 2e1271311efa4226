// The emulator behind the interface of CUDA's driver, so that what launches kernels is tested with them: functions of
// libcuda as cuda_driver.h calls them, on memory of the processor. Includes come after those of the kernels; behind it
// stands the table of them: `KERNELS`, by name. It also counts what it is asked for.
#pragma once

#include <string>

#define EMULATED extern "C" __attribute__((visibility("default")))

namespace emulator {

struct Entry {
    const char* name;
    void (*run)(dim3 grid, dim3 block, size_t shared_bytes, void** parameters);
    size_t allowed_shared = FREE_SHARED;
    int64_t launches = 0;
};

extern std::vector<Entry> KERNELS;

struct Counts {
    int64_t launches, copies, waits;
};

inline Counts& counts() {
    static Counts it = {};
    return it;
}

template <typename... Parameters, size_t... I>
void run_with(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, void** given,
              std::index_sequence<I...>) {
    // As CUDA does: what a parameter points to is read at the launch.
    const std::tuple<Parameters...> values(*(Parameters*)given[I]...);
    run_grid(grid, block, shared_bytes, [=] { kernel(std::get<I>(values)...); });
}

template <typename... Parameters> constexpr auto indices(void (*)(Parameters...)) {
    return std::index_sequence_for<Parameters...>();
}

template <auto KERNEL> void run(dim3 grid, dim3 block, size_t shared_bytes, void** parameters) {
    run_with(KERNEL, grid, block, shared_bytes, parameters, indices(KERNEL));
}

// With CTC_EMULATED_SHARED_KB in the environment a block has no more than that; Turing has 64.
inline int most_shared_bytes() {
    const char* const most = getenv("CTC_EMULATED_SHARED_KB");
    return most ? atoi(most) * 1024 : 227 * 1024;
}

}  // namespace emulator

EMULATED int cuInit(unsigned) { return 0; }
EMULATED int cuCtxGetCurrent(void** context) {
    *context = &emulator::machine();
    return 0;
}
EMULATED int cuCtxSetCurrent(void*) { return 0; }
EMULATED int cuCtxGetDevice(int* device) { return *device = 0; }
EMULATED int cuDevicePrimaryCtxRetain(void** context, int) { return cuCtxGetCurrent(context); }
EMULATED int cuDeviceGetAttribute(int* value, int which, int) {
    *value = which == 75 ? 9 : which == 76 ? 0 : emulator::most_shared_bytes();
    return 0;
}
EMULATED int cuModuleLoadData(void** module, const void* image) {
    *module = (void*)image;
    return 0;
}
EMULATED int cuModuleGetFunction(void** function, void*, const char* name) {
    for (emulator::Entry& entry : emulator::KERNELS)
        if (strcmp(entry.name, name) == 0) return (*function = &entry, 0);
    return 500;  // CUDA_ERROR_NOT_FOUND
}
EMULATED int cuFuncSetAttribute(void* function, int, int bytes) {
    if (bytes > emulator::most_shared_bytes()) return 1;
    ((emulator::Entry*)function)->allowed_shared = size_t(bytes);
    return 0;
}
EMULATED int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                            unsigned shared_bytes, void*, void** parameters, void**) {
    emulator::Entry& entry = *(emulator::Entry*)function;
    if (shared_bytes > std::min(std::max(entry.allowed_shared, emulator::FREE_SHARED), emulator::LARGEST_SHARED))
        emulator::fail("more shared memory than a block may have");
    entry.launches++;
    emulator::counts().launches++;
    entry.run(dim3(blocks), dim3(threads), shared_bytes, parameters);
    return 0;
}
EMULATED int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void*) {
    emulator::counts().copies++;
    memcpy((void*)to, from, bytes);
    return 0;
}
EMULATED int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void*) {
    emulator::counts().copies++;
    memcpy(to, (const void*)from, bytes);
    return 0;
}
EMULATED int cuStreamSynchronize(void*) {
    emulator::counts().waits++;
    return 0;
}

// Since the last call.
EMULATED void emulator_counts(emulator::Counts* found) {
    *found = emulator::counts();
    emulator::counts() = {};
}

// In which order threads and blocks run.
EMULATED void emulator_order(uint64_t seed) { emulator::machine().random = seed; }
