// What all kernels begin with: the language itself, or its emulator on the processor (csrc/test/cuda_emulator.h), and sums
// and maxima over a warp. Nothing is included but C's headers, so that NVRTC needs no other files.
//
// Sums are taken in an order that depends on nothing but what is summed: never on the batch, its padding, or the number
// of threads. NVRTC gets --fmad=false, so that every multiplication and addition is fused exactly where it says fmaf.
#pragma once

#include "cuda_types.h"

#if defined(CTC_EMULATED)
#define CTC_UNROLL
#else
#define CTC_UNROLL _Pragma("unroll")
#define CTC_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

// A barrier for some of the warps of a block; 0 is that of __syncthreads.
static __device__ inline void named_barrier(unsigned id, unsigned threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Copies to shared memory that are waited for by groups, from sm_80 on. Of 16 bytes the first cache is passed by.
template <int BYTES> static __device__ inline void copy_ahead(void* to, const void* from) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "");
#if __CUDA_ARCH__ >= 800
    const unsigned shared = unsigned(__cvta_generic_to_shared(to));
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(from), "n"(BYTES) : "memory");
#else
    for (int i = 0; i < BYTES / 4; i++) ((float*)to)[i] = ((const float*)from)[i];
#endif
}
static __device__ inline void close_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Until all groups but the last `KEPT` have arrived.
template <int KEPT> static __device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(KEPT) : "memory");
#endif
}
#endif

namespace ctc_cuda {

constexpr unsigned ALL_LANES = ~0u;

static __device__ inline float to_real(float x) { return x; }
static __device__ inline double to_real(double x) { return x; }
static __device__ inline float to_real(Bfloat x) { return __uint_as_float(uint32_t(x.bits) << 16); }
static __device__ inline void from_real(float* p, float x) { *p = x; }
static __device__ inline void from_real(double* p, double x) { *p = x; }
static __device__ inline void from_real(Bfloat* p, float x) {  // to nearest, ties to even
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(p->bits) : "f"(x));
#else
    const uint32_t bits = __float_as_uint(x);
    p->bits = x != x ? 0x7fc0 : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
}
#if defined(CTC_EMULATED)
static inline float to_real(Half x) {
    _Float16 half;
    memcpy(&half, &x, 2);
    return float(half);
}
static inline void from_real(Half* p, float x) {
    const _Float16 half = _Float16(x);
    memcpy(p, &half, 2);
}
#else
static __device__ inline float to_real(Half x) {
    float real;
    asm("cvt.f32.f16 %0, %1;" : "=f"(real) : "h"(x.bits));
    return real;
}
static __device__ inline void from_real(Half* p, float x) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(p->bits) : "f"(x));
}
#endif

static __device__ inline int lane_index() { return int(threadIdx.x % WARP); }
static __device__ inline int warp_index() { return int(threadIdx.x / WARP); }

template <typename T> static __device__ inline T larger_of(T a, T b) { return a > b ? a : b; }
template <typename T> static __device__ inline T smaller_of(T a, T b) { return a < b ? a : b; }

// The same for all lanes, whatever their values: every lane adds pairs in the same tree.
template <typename T> static __device__ inline T warp_sum(T x) {
    for (int by = WARP / 2; by > 0; by /= 2) x += __shfl_xor_sync(ALL_LANES, x, by);
    return x;
}

template <typename T> static __device__ inline T warp_max(T x) {
    for (int by = WARP / 2; by > 0; by /= 2) x = larger_of(x, __shfl_xor_sync(ALL_LANES, x, by));
    return x;
}

template <typename T> static __device__ inline T warp_min(T x) {
    for (int by = WARP / 2; by > 0; by /= 2) x = smaller_of(x, __shfl_xor_sync(ALL_LANES, x, by));
    return x;
}

// In one instruction where there is one, from sm_80 on; the emulator compares both ways.
static __device__ inline unsigned warp_max_bits(unsigned x) {
#if defined(CTC_EMULATED)
    const unsigned largest = warp_max(x);
    return largest == __reduce_max_sync(ALL_LANES, x) ? largest : ~0u;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return warp_max(x);
#else
    return __reduce_max_sync(ALL_LANES, x);
#endif
}

}  // namespace ctc_cuda
