// What the host's side of CUDA code and its kernels share: the words of the language, and the types of the caller.
#pragma once

#include <math.h>
#include <stdint.h>

#if defined(CTC_EMULATED)
#include "test/cuda_emulator.h"
#elif !defined(__CUDACC__)  // a C++ compiler, that only reads declarations
#define __global__
#define __device__
#define __host__
#define __grid_constant__
#endif

namespace ctc_cuda {

constexpr int WARP = 32;

struct Half { uint16_t bits; };
struct Bfloat { uint16_t bits; };

template <typename In> struct Computed { using type = float; };
template <> struct Computed<double> { using type = double; };

static __host__ __device__ inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Blocks, or vectors, that take `size` each.
static __host__ __device__ inline unsigned blocks_for(int64_t count, int64_t size) { return unsigned((count + size - 1) / size); }

}  // namespace ctc_cuda
