// A language model and phrases beside the labels of one utterance, for the greedy decoder. Compiled once, for every
// processor: kernels call it.
#pragma once

#include <stdint.h>

#include "ctc_decode.h"

constexpr int64_t FUSION_BYTES = 64;

// Scratch of a thread, 0 at first.
int64_t fusion_floats(int64_t vocabulary);
// Bounds of what the scorer adds take time: they are made once, and copied for every utterance.
void make_fusion(void* fusion, const ctc_scorer* scorer, int64_t vocabulary, float* scratch);
// `state`: three numbers where an utterance goes on, or NULL.
void start_fusion(void* fusion, const void* made, const int32_t* state);
void save_fusion(const void* fusion, int32_t* state);

// What the prediction network says of labels without hearing anything, which a language model replaces.
struct Internal {
    float (*logit)(void* of, int64_t label);
    void* of;
    double weight;  // 0: nothing is taken off
    double most;    // by which logits differ, at most, from that of the label that is best by the network
};

// The label whose score with what it adds, less the internal one, is largest, of `labels`; `best` is the one without. Goes
// on after it.
int64_t fused_label(void* fusion, const float* scores, int64_t best, int64_t labels, const Internal& internal);
