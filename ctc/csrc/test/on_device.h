// Memory of a device, for the C++ tests of the kernels: the emulator's is the processor's. Of exactly the size of what it
// is a copy of, so that a sanitizer finds one byte too far.
#ifndef ON_DEVICE_H
#define ON_DEVICE_H

#include <stdlib.h>
#include <string.h>

#include <vector>

template <typename T> class OnDevice {
  public:
    explicit OnDevice(const std::vector<T>& values) : count(values.size()) {
        if (count == 0) return;
        if (posix_memalign((void**)&data, 256, count * sizeof(T)) != 0) abort();
        memcpy((void*)data, values.data(), count * sizeof(T));
    }
    OnDevice(const OnDevice&) = delete;
    ~OnDevice() { free(data); }
    std::vector<T> values() const { return std::vector<T>(data, data + count); }

    T* data = nullptr;

  private:
    size_t count;
};

#endif
