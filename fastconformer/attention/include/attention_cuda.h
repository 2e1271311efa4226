/* Attention of one token each of many sequences to keys of their own, however many: a launch on a CUDA device.
 *
 * What a token gets has the same bits whatever the other tokens of a call are. Nothing waits for the device, and all that
 * differs from step to step is memory of the device, so that a graph may hold calls.
 */
#ifndef ATTENTION_CUDA_H
#define ATTENTION_CUDA_H

#include "attention_step.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ATTENTION_MOST_WIDTH 256

struct CUstream_st;

/* Pointers are to the device's memory. */
typedef struct {
    int64_t tokens, heads, width; /* of a head: up to ATTENTION_MOST_WIDTH */
    int32_t type;                 /* as ctcType: 0 float32, 2 float16, 3 bfloat16; of queries, keys, values and `found` */
    const void* queries;          /* token n's at n * query_stride, [heads][width] */
    int64_t query_stride;
    void* found;                  /* [tokens][heads][width] */
    const int64_t* counts;        /* token n sees counts[n * count_stride] keys, at least 1 */
    int64_t count_stride;
    /* Either of slots: key i of token n is [0][heads][width] of what begins at store + slots[n * slot_stride + i] * 2 x heads x
     * width, its value [1][heads][width]. */
    const void* store;
    const int64_t* slots;
    int64_t slot_stride;
    /* Or, where `store` is NULL, of [layers][2][heads][keys][width] at the address places[n * place_stride]. */
    const int64_t* places;
    int64_t place_stride, layer;
} attention_problem;

ATTENTION_API attention_status attention_attend_cuda(const attention_problem* problem, struct CUstream_st* stream);

/* Where kernels are, as ctc_cuda_use of ctc.h says it; and the name of a kernel, NULL where there are not so many. */
ATTENTION_API void attention_cuda_use(const char* folder,
                                      int (*make)(const char* kernel, int32_t architecture, const char* file),
                                      const char* libcuda);
ATTENTION_API const char* attention_cuda_kernel(int32_t index);

#ifdef __cplusplus
}
#endif
#endif
