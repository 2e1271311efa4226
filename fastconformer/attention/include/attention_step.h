/* A step of an attention decoder for many sequences at once, on a CPU: tokens in, the most probable classes after them out.
 *
 * The library allocates nothing, prints nothing, throws nothing and keeps no state: the caller owns every buffer, and
 * any number of threads may call at once. What a token gets has the same bits whatever the other tokens of a step are.
 * The network is a pre-norm Transformer; its products are those of `convolution.h`, by whatever `multiply` points to.
 */
#ifndef ATTENTION_STEP_H
#define ATTENTION_STEP_H

#include <stddef.h>
#include <stdint.h>

#include "convolution.h"

#if defined(__GNUC__)
#define ATTENTION_API __attribute__((visibility("default")))
#else
#define ATTENTION_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    ATTENTION_SUCCESS = 0,
    ATTENTION_INVALID_VALUE = 1,
    ATTENTION_NO_PRODUCT = 2 /* `multiply` returned an error */
} attention_status;

/* Layer normalisation, [width] each. */
typedef struct {
    const float *scale, *shift;
} attention_norm;

/* Of products only weights, bias and sizes count: layers of one tap, DIRECT, packed. */
typedef struct {
    attention_norm text_norm, sound_norm, norm;
    const convolution_problem *qkv, *text_leave; /* [3 width, width], [width, width] */
    const convolution_problem *query, *sound_leave;
    const convolution_problem *enter, *leave; /* [inner, width], [width, inner] */
} attention_block;

typedef struct {
    int64_t layers, width, heads, inner, classes, positions;
    const attention_block* blocks;       /* [layers] */
    const float* tokens;                 /* [classes, width] embeddings */
    const float* places;                 /* [positions, width] */
    attention_norm embedding_norm, norm; /* in front of the first block and behind the last */
    const convolution_problem* head;     /* [classes, width] */
    int32_t activation;                  /* between `enter` and `leave`, as `convolution_activation` */
    int32_t (*multiply)(const convolution_problem*);      /* convolution_run */
    size_t (*multiply_bytes)(const convolution_problem*); /* convolution_workspace */
} attention_network;

/* Tokens of one sequence stand in their order. Keys and values of a token are written to its own slot of the store, which is
 * the last of those that it sees. */
typedef struct {
    int64_t tokens;
    const int64_t *labels, *at; /* [tokens] classes, and places in their sequences */
    const int64_t* slots;       /* token n sees the slots from slots[first[n]] on, at[n] + 1 of them */
    const int64_t* first;       /* [tokens] */
    float* store;               /* [layers, capacity, 2, width] */
    int64_t capacity;
    const float* const* heard; /* [tokens] keys and values of the recording, [layers, 2, heads, frames, width / heads] */
    const int64_t* frames;     /* [tokens] */

    int64_t asked, best;
    const int64_t* asked_tokens;         /* [asked] numbers of the tokens whose followers are asked for */
    const unsigned char* const* allowed; /* [asked] of every class, whether it may follow */
    int32_t* found;                      /* [asked, best] the most probable ones first, of equal ones the lower number */
    float* log_probs;                    /* [asked, best] among all classes; where fewer may follow, minus infinity */

    int32_t threads;      /* of OpenMP */
    int32_t instructions; /* 0 the widest vectors of this processor, 1 generic ones, 2 AVX2, 3 AVX-512 */
    void* workspace;
    size_t workspace_bytes;
} attention_step;

/* Bytes of workspace that `attention_step_run` needs; 0 for what is invalid. */
ATTENTION_API size_t attention_step_workspace(const attention_network* network, const attention_step* step);

ATTENTION_API int32_t attention_step_run(const attention_network* network, const attention_step* step);

#ifdef __cplusplus
}
#endif
#endif
