// All kernels of ctc, for their compilers: NVRTC, and the emulator's.
#pragma once

#include "cuda_align.cuh"
#include "cuda_extended.cuh"
#include "cuda_finish.cuh"
#include "cuda_greedy.cuh"
#include "cuda_lattice.cuh"
#include "cuda_rows.cuh"
