// What the beam search asks of the kernels of an instruction set. Rows are of padded widths.
#pragma once

#include <stdint.h>

#include "transducer_decode.h"

struct BeamKernels {
    void (*project)(const transducerNetwork& net, const float* frames, int64_t stride, int64_t count, float* projected);
    // Logits of `rows` pairs of a projected frame and a projected output of the prediction network.
    void (*score)(const transducerNetwork& net, const float* const* frames, const float* const* predictions, int64_t rows,
                  float* sums, float* logits);
    // log(sum(exp)): not finite where a score is no number.
    double (*log_sum)(const float* scores, int64_t count);
    double (*entropy)(const float* scores, int64_t count, double log_sum);
    // Numbers, ascending, of the scores that reach `lowest`; how many they are.
    int64_t (*above)(const float* scores, int64_t count, float lowest, int32_t* which);
    // Makes what states say of the gates whatever label comes next; it follows each state. `predict` needs it of the
    // states `before`. `gates`: recurrent_floats a row.
    void (*recur)(const transducerNetwork& net, int64_t count, float* const* states, float* inputs, float* gates);
    void (*predict)(const transducerNetwork& net, int64_t count, const int32_t* tokens, const float* const* before,
                    float* const* after, float* inputs, float* gates);
};

#if !defined(__CUDACC__)
namespace generic { extern const BeamKernels beam_kernels; }
namespace avx2 { extern const BeamKernels beam_kernels; }
namespace avx512 { extern const BeamKernels beam_kernels; }
#endif
