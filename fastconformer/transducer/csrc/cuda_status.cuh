// What a function that has launched kernels answers.
#pragma once

#include "cuda_portable.cuh"
#include "transducer_loss.h"

namespace transducer_cuda {

static inline transducerStatus status() {
    return cudaGetLastError() == cudaSuccess ? TRANSDUCER_SUCCESS : TRANSDUCER_EXECUTION_FAILED;
}

}  // namespace transducer_cuda
