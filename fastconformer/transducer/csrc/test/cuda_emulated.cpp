// The CUDA side compiled for the processor: a library with the interface of libtransducer_cuda.
#define CTC_EMULATED
#include "../cuda_decode.cu"
#include "../cuda_loss.cu"
