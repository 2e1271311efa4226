// How fast this processor multiplies and adds: what the times of kernels are a share of.
#include "convolution.h"

namespace {

constexpr int CHAINS = 12;  // sums that do not wait for each other: latency times units, and fewer than registers

// Vectors of WIDTH floats by the instructions of TARGET; the compiler fuses products and sums where these can.
#define MULTIPLY_ADDS(NAME, TARGET, WIDTH)                                                        \
    TARGET int64_t NAME(int64_t rounds) {                                                         \
        typedef float Vector __attribute__((vector_size(4 * WIDTH)));                             \
        float half = 0.5f;                                                                        \
        asm volatile("" : "+m"(half)); /* not known when this is compiled */                      \
        const Vector factor = Vector{} + half, added = factor + half;                             \
        Vector sums[CHAINS];                                                                      \
        for (int i = 0; i < CHAINS; i++) sums[i] = factor * static_cast<float>(i);                \
        for (int64_t round = 0; round < rounds; round++)                                          \
            _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) sums[i] = sums[i] * factor + added; \
        asm volatile("" : : "m"(sums)); /* used */                                                \
        return CHAINS * WIDTH;                                                                    \
    }

MULTIPLY_ADDS(generic, , 4)
#if defined(__x86_64__)
MULTIPLY_ADDS(avx2, __attribute__((target("avx2,fma"))), 8)
MULTIPLY_ADDS(avx512, __attribute__((target("avx512f,fma"))), 16)
#endif

}  // namespace

int64_t convolution_multiply_adds(int64_t rounds) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return avx512(rounds);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2(rounds);
#endif
    return generic(rounds);
}
