// What one call of the decoder works on, as every file sees it.
#pragma once

#include <stdint.h>

#include "fusion.h"
#include "network.h"

// Encoder frames of a slot that are projected at once.
constexpr int64_t PROJECTED_FRAMES = 32;
// Of what is known of a slot beside its numbers, at most.
constexpr int64_t SLOT_BYTES = 96 + FUSION_BYTES;

struct DecodeSizes {
    const transducerNetwork& network;
    const transducerDecodeOptions& options;

    int64_t width_of_logits() const { return ::width_of_logits(network); }
    int64_t state_floats() const { return ::state_floats(network); }
    int64_t rows() const { return options.slots > options.window_rows ? options.slots : options.window_rows; }
    // Of one thread, aligned to 64 bytes.
    int64_t memory_bytes() const {
        const int64_t hidden = padded(network.hidden), joint = padded(network.joint);
        const int64_t of_slot = state_floats() + PROJECTED_FRAMES * joint + SLOT_BYTES / 4 + 2;
        const int64_t of_gates = 4 * hidden > joint ? 4 * hidden : joint;
        const int64_t of_row = joint + width_of_logits() + 2 * hidden + of_gates;
        const int64_t of_internal = joint + 3 * padded(network.classes) + fusion_floats(network.classes);
        return (options.slots * of_slot + rows() * of_row + state_floats() + of_internal + 512) / 16 * 64;
    }
};

struct DecodeJob : DecodeSizes {
    const float* encoded;
    int64_t batch, batch_stride, frame_stride;
    const int64_t* frame_counts;
    int64_t capacity;
    int32_t *tokens, *frames, *durations;
    float *confidences, *entropies;
    int64_t* counts;
    float* states;
    transducerPosition* positions;
    const ctc_scorer* const* scorers;  // or NULL
    int32_t* scorer_states;            // or NULL
    int64_t* next;     // the first utterance that nobody took yet
    int64_t* invalid;  // the first utterance with NaN, or batch
};

namespace generic { void decode(const DecodeJob& job, void* memory); }
namespace avx2 { void decode(const DecodeJob& job, void* memory); }
namespace avx512 { void decode(const DecodeJob& job, void* memory); }
