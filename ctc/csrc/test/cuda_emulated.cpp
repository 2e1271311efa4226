// The CUDA side compiled for the processor: a library with the interface of libctc_cuda.
#define CTC_EMULATED
#include "../cuda_align.cu"
#include "../cuda_greedy.cu"
#include "../cuda_loss.cu"
#include "../cuda_compatible.cu"
