// Activations of vectors: of the joint, and of the gates of an LSTM.
#pragma once

#include "exponential.h"
#include "transducer_loss.h"

namespace CTC_ISA {

static inline Floats sigmoid(Floats x) {
    const Floats e = exp_of(x < Floats{} ? x : -x);
    const Floats small = e / (1.0f + e);
    return x < Floats{} ? small : 1.0f - small;
}

static inline Floats tanh_of(Floats x) {
    const Floats e = exp_of(2.0f * (x < Floats{} ? x : -x));
    const Floats size = (1.0f - e) / (1.0f + e);
    return x < Floats{} ? -size : size;
}

// `activation`: a transducerActivation.
static inline Floats activated(Floats x, int32_t activation) {
    return activation == TRANSDUCER_RELU   ? vmax(Floats{}, x)  // NaN stays
           : activation == TRANSDUCER_TANH ? tanh_of(x)
                                           : sigmoid(x);
}

}  // namespace CTC_ISA
