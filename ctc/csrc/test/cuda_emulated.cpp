// The kernels of the loss, compiled for the processor: a library with the interface of libctc_cuda.
#define CTC_EMULATED
#include "../cuda_loss.cu"
