// All kernels of transducers, for their compilers: NVRTC, and the emulator's.
#pragma once

#include "cuda_beam.cuh"
#include "cuda_gradient.cuh"
#include "cuda_walk.cuh"
