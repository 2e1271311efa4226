// Sizes of the arrays of a transducerNetwork, and whether it can be one.
#pragma once

#include "transducer_decode.h"

// Columns of a packed panel; widths are padded to it.
constexpr int64_t PANEL = 32;

inline int64_t padded(int64_t width) { return (width + PANEL - 1) / PANEL * PANEL; }

inline int64_t width_of_logits(const transducerNetwork& network) {
    return padded(network.classes) + padded(network.duration_count);
}

// Floats of the state of an utterance.
inline int64_t state_floats(const transducerNetwork& network) {
    return 2 * network.layers * padded(network.hidden) + padded(network.joint);
}

// Floats of what a state says of the gates.
inline int64_t recurrent_floats(const transducerNetwork& network) { return network.layers * 4 * padded(network.hidden); }

inline bool is_valid(const transducerNetwork* n) {
    if (!n || n->classes < 1 || n->classes > INT32_MAX || n->encoder < 1 || n->hidden < 1 || n->joint < 1 ||
        n->layers < 1 || n->duration_count < 0 || n->activation < TRANSDUCER_RELU ||
        n->activation > TRANSDUCER_SIGMOID || (n->duration_count && !n->durations))
        return false;
    for (int64_t i = 0; i < n->duration_count; i++)
        if (n->durations[i] < 0 || (i > 0 && n->durations[i] <= n->durations[i - 1])) return false;
    return true;
}
