// What all CUDA sources begin with: the language itself, or its emulator on the processor (csrc/test/cuda_emulator.h),
// the types of the caller, and sums and maxima over a warp.
//
// Sums are taken in an order that depends on nothing but what is summed: never on the batch, its padding, or the number
// of threads. nvcc gets --fmad=false, so that every multiplication and addition is fused exactly where it says fmaf.
#pragma once

#if defined(CTC_EMULATED)
#include "test/cuda_emulator.h"
#define CTC_UNROLL
#else
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

#define CTC_UNROLL _Pragma("unroll")
#define CTC_LAUNCH(kernel, blocks, threads, shared_bytes, stream, ...) \
    kernel<<<blocks, threads, shared_bytes, stream>>>(__VA_ARGS__)
#define CTC_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

// A barrier for some of the warps of a block; 0 is that of __syncthreads.
static __device__ inline void named_barrier(unsigned id, unsigned threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Beyond 48 KB, with what the kernel itself declares, a block's shared memory must be asked for.
template <typename Kernel> static cudaError_t allow_shared(Kernel kernel, size_t bytes) {
    if (bytes <= 40 * 1024) return cudaSuccess;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
}

// Whether a block may ask for so much beside the 2 KB that a kernel may declare itself: Turing has 64 KB, all later
// architectures 99 KB and more.
static inline bool fits_shared(size_t bytes) {
    int device = 0, most = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
           bytes + 2048 <= size_t(most);
}

#endif

namespace ctc_cuda {

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = ~0u;

struct Half { uint16_t bits; };
struct Bfloat { uint16_t bits; };

template <typename In> struct Computed { using type = float; };
template <> struct Computed<double> { using type = double; };

static __device__ inline float to_real(float x) { return x; }
static __device__ inline double to_real(double x) { return x; }
static __device__ inline float to_real(Bfloat x) { return __uint_as_float(uint32_t(x.bits) << 16); }
static __device__ inline void from_real(float* p, float x) { *p = x; }
static __device__ inline void from_real(double* p, double x) { *p = x; }
static __device__ inline void from_real(Bfloat* p, float x) {  // to nearest, ties to even
    const uint32_t bits = __float_as_uint(x);
    p->bits = x != x ? 0x7fc0 : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
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
static __device__ inline float to_real(Half x) { return __half2float(__ushort_as_half(x.bits)); }
static __device__ inline void from_real(Half* p, float x) { p->bits = __half_as_ushort(__float2half_rn(x)); }
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

static __host__ __device__ inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace ctc_cuda
