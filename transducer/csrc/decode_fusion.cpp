// Greedy decoding with a language model and phrases: which label, once it is known that it is one.
#include "fusion.h"

#include <math.h>

#include <new>

#include "decode_scorer.h"

namespace {

struct Fusion {
    ctc_decode::Scorer scorer;
    ctc_decode::State state;
};
static_assert(sizeof(Fusion) <= FUSION_BYTES, "slots have room for it");

constexpr int64_t BLOCK = 32;

// Whether any of BLOCK scores is larger: without branches, which compilers make vectors of.
bool any_above(const float* scores, float bound) {
    int32_t found = 0;
    for (int64_t i = 0; i < BLOCK; i++) found |= scores[i] > bound;
    return found;
}

// A float that is not larger, by more than adding and rounding can be wrong.
float at_most(double x) { return float(x - 1e-6 * (1 + fabs(x))); }

}  // namespace

void make_fusion(void* fusion, const ctc_scorer* scorer, int64_t vocabulary) {
    new (fusion) Fusion{ctc_decode::Scorer(scorer, vocabulary), {}};
}

void start_fusion(void* fusion, const void* made, const int32_t* state) {
    Fusion* const f = new (fusion) Fusion(*(const Fusion*)made);
    f->state = state ? ctc_decode::State{state[0], state[1], state[2]} : f->scorer.start();
}

void save_fusion(const void* fusion, int32_t* state) {
    const ctc_decode::State& s = ((const Fusion*)fusion)->state;
    state[0] = s.history;
    state[1] = s.word;
    state[2] = s.phrase;
}

int64_t fused_label(void* fusion, const float* scores, int64_t best, int64_t labels, const Internal& internal) {
    Fusion& f = *(Fusion*)fusion;
    const int64_t heard = best;
    const double by_internal = internal.weight * internal.most;
    const double of_label = f.scorer.label_bound(f.state.phrase), of_boundary = f.scorer.boundary_bound(f.state);
    const int32_t boundary = f.scorer.boundary();
    ctc_decode::Step chosen = f.scorer.extend(f.state, int32_t(best));
    double most = double(scores[best]) + chosen.gain;
    // Of all labels whose score, what the scorer adds and at most `room` reach `most`, those that do with `own(label)`.
    const auto look = [&](double room, const auto& own) {
        const auto consider = [&](int64_t label, double bound) {
            const double score = double(scores[label]);
            if (!(score + bound + room > most)) return;
            const ctc_decode::Step step = f.scorer.extend(f.state, int32_t(label), most - room - score);
            if (!(score + step.gain + room > most)) return;
            const double fused = score + step.gain + own(label);
            if (!(fused > most)) return;
            most = fused;
            chosen = step;
            best = label;
        };
        for (int64_t first = 0; first < labels; first += BLOCK) {
            const int64_t end = first + BLOCK < labels ? first + BLOCK : labels;
            const bool has_boundary = first <= boundary && boundary < end;
            if (end - first == BLOCK && !has_boundary && !any_above(scores + first, at_most(most - of_label - room)))
                continue;
            for (int64_t label = first; label < end; label++)
                consider(label, label == boundary ? of_boundary : of_label);
        }
    };
    look(0, [](int64_t) { return 0.0; });
    if (by_internal > 0) {
        const auto gain = [&](int64_t label) {
            if (label == heard) return 0.0;  // and where no other competes, no internal logit is made
            const double less = double(internal.logit(internal.of, heard)) - double(internal.logit(internal.of, label));
            return internal.weight * fmax(-internal.most, fmin(internal.most, less));
        };
        // The label that is best so far is a good beginning: few others can be better.
        most += gain(best);
        look(by_internal, gain);
    }
    f.state = chosen.state;
    return best;
}
