// Greedy decoding with a language model and phrases: which label, once it is known that it is one.
#include "fusion.h"

#include <new>

#include "decode_scorer.h"

namespace {

struct Fusion {
    ctc_decode::Scorer scorer;
    ctc_decode::State state;
};
static_assert(sizeof(Fusion) <= FUSION_BYTES, "slots have room for it");

}  // namespace

void start_fusion(void* fusion, const ctc_scorer* scorer, int64_t vocabulary, const int32_t* state) {
    Fusion* const f = new (fusion) Fusion{ctc_decode::Scorer(scorer, vocabulary), {}};
    f->state = f->scorer.start();
    if (state) f->state = {state[0], state[1], state[2]};
}

void save_fusion(const void* fusion, int32_t* state) {
    const ctc_decode::State& s = ((const Fusion*)fusion)->state;
    state[0] = s.history;
    state[1] = s.word;
    state[2] = s.phrase;
}

int64_t fused_label(void* fusion, const float* scores, int64_t best, int64_t labels) {
    Fusion& f = *(Fusion*)fusion;
    ctc_decode::Step chosen = f.scorer.extend(f.state, int32_t(best));
    double most = double(scores[best]) + chosen.gain;
    const double bound = f.scorer.label_bound(f.state.phrase), of_boundary = f.scorer.boundary_bound(f.state);
    for (int64_t label = 0; label < labels; label++) {
        if (!(double(scores[label]) + (label == f.scorer.boundary() ? of_boundary : bound) > most)) continue;
        const ctc_decode::Step step = f.scorer.extend(f.state, int32_t(label));
        if (!(double(scores[label]) + step.gain > most)) continue;
        most = double(scores[label]) + step.gain;
        chosen = step;
        best = label;
    }
    f.state = chosen.state;
    return best;
}
