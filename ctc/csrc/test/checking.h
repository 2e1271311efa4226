// What the C++ tests share: checks that are counted, random integers, and memory that notices what is written behind it.
#ifndef CHECKING_H
#define CHECKING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <random>

static int failures = 0;

static inline void check(bool holds, const char* what, long which = 0) {
    if (holds) return;
    failures++;
    printf("FAILED: %s (%ld)\n", what, which);
}

using Random = std::mt19937;

static inline int between(Random& random, int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
}

// Memory of some size, aligned to 64 bytes, with guard bytes behind it.
class Guarded {
  public:
    explicit Guarded(size_t bytes) : bytes_(bytes), memory_((char*)aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64)) {
        memset(memory_, 0x5a, bytes + GUARD);
    }
    ~Guarded() {
        for (size_t i = 0; i < GUARD; i++) check(memory_[bytes_ + i] == 0x5a, "wrote behind its memory");
        free(memory_);
    }
    Guarded(const Guarded&) = delete;
    Guarded& operator=(const Guarded&) = delete;
    operator void*() const { return memory_; }
    size_t bytes() const { return bytes_; }

  private:
    static constexpr size_t GUARD = 64;
    size_t bytes_;
    char* memory_;
};

#endif
