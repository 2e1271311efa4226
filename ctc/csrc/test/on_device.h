// Memory of a GPU, or of the emulator, for the C++ tests of the kernels; comes behind the sources that are tested.
#ifndef ON_DEVICE_H
#define ON_DEVICE_H

#include <stdio.h>
#include <stdlib.h>

#include <vector>

// Memory of the device, of exactly the size of what it is a copy of.
template <typename T> class OnDevice {
  public:
    explicit OnDevice(const std::vector<T>& values) : count(values.size()) {
        if (count == 0) return;
        must(cudaMalloc((void**)&data, count * sizeof(T)));
        must(cudaMemcpy(data, values.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    }
    OnDevice(const OnDevice&) = delete;
    ~OnDevice() { cudaFree(data); }
    std::vector<T> values() const {
        std::vector<T> copy(count);
        if (count > 0) must(cudaMemcpy(copy.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
        return copy;
    }

    T* data = nullptr;

  private:
    static void must(cudaError_t error) {
        if (error == cudaSuccess) return;
        fprintf(stderr, "CUDA error %d\n", int(error));
        abort();
    }
    size_t count;
};

#endif
