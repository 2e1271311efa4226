// Greedy decoding with a language model and phrases: which label, once it is known that it is one.
#include "fusion.h"

#include <math.h>

#include <new>

#include "decode_scorer.h"

namespace {

constexpr int64_t BLOCK = 32;
constexpr int64_t KNOWN_FLOATS = 16;
constexpr int MOST_HISTORIES = 16;  // of a language model of more, all labels have the same bound

// What a thread knows of the language model that was last used: made again where another one is.
struct Known {
    const ctc_ngram* ngram;
    const int32_t* label_word;
    double weight, word_bonus;
    int64_t words;
};
static_assert(sizeof(Known) <= KNOWN_FLOATS * sizeof(float), "it has room");

// Scratch of fusion_floats.
struct Tables {
    Known* known;
    float* bounds;           // of every label: its score with what is added, at most
    float* plain;            // what is added without a history
    int32_t *first, *next;   // labels of a word, -1 behind the last

    Tables(float* scratch, int64_t vocabulary)
        : known((Known*)scratch), bounds(scratch + KNOWN_FLOATS), plain(bounds + vocabulary),
          first((int32_t*)(plain + vocabulary)), next(first + most_words(vocabulary)) {}
    // Those of a model of labels, of sentence ends, and some more.
    static int64_t most_words(int64_t vocabulary) { return vocabulary + 64; }
};

struct Fusion {
    ctc_decode::Scorer scorer;
    ctc_decode::State state;
    float* scratch;
};
static_assert(sizeof(Fusion) <= FUSION_BYTES, "slots have room for it");

// Whether any of BLOCK scores is larger: without branches, which compilers make vectors of.
bool any_above(const float* scores, float bound) {
    int32_t found = 0;
    for (int64_t i = 0; i < BLOCK; i++) found |= scores[i] > bound;
    return found;
}

// A float that is not larger, by more than adding and rounding numbers of about this size can be wrong.
float at_most(double x, double size) { return float(x - 1e-5 * (1 + fabs(x) + fabs(size))); }

void know(const ctc_scorer& scorer, int64_t labels, const Tables& tables) {
    const Known wanted = {scorer.ngram, scorer.label_word, scorer.weight, scorer.word_bonus, scorer.ngram->words};
    const Known& known = *tables.known;
    if (known.ngram == wanted.ngram && known.label_word == wanted.label_word && known.weight == wanted.weight &&
        known.word_bonus == wanted.word_bonus)
        return;
    for (int64_t i = 0; i < wanted.words; i++) tables.first[i] = -1;
    for (int64_t label = labels - 1; label >= 0; label--) {
        const int32_t word = scorer.label_word[label];
        tables.plain[label] = float(scorer.weight * double(scorer.ngram->arc_log_prob[word]) + scorer.word_bonus);
        tables.next[label] = tables.first[word];
        tables.first[word] = int32_t(label);
    }
    *tables.known = wanted;
}

// Every label's score with what a language model of labels adds after `history`, and at most `more`: from the shortest
// history to the longest, the words that follow it. That takes less time than to look some of them up. False
// where there are too many histories.
bool bound_labels(const ctc_scorer& scorer, int32_t history, const float* scores, int64_t labels, double more,
                  const Tables& tables) {
    const ctc_ngram& model = *scorer.ngram;
    int32_t states[MOST_HISTORIES];
    double backoffs[MOST_HISTORIES], backoff = 0;
    int count = 0;
    for (; history != 0 && count < MOST_HISTORIES; count++) {
        states[count] = history;
        backoffs[count] = backoff;
        backoff += model.backoff[history];
        history = int32_t(ctc_decode::packed_at(model.backoff_state, history));
    }
    if (history != 0) return false;
    const float all = float(scorer.weight * backoff + more);
    for (int64_t label = 0; label < labels; label++) tables.bounds[label] = scores[label] + tables.plain[label] + all;
    while (count-- > 0) {
        const int64_t end = ctc_decode::packed_at(model.first_arc, states[count] + 1);
        for (int64_t arc = ctc_decode::packed_at(model.first_arc, states[count]); arc < end; arc++) {
            const int64_t word = ctc_decode::packed_at(model.arc_word, arc);
            const double added =
                scorer.weight * (backoffs[count] + double(model.arc_log_prob[arc])) + scorer.word_bonus + more;
            for (int32_t label = tables.first[word]; label >= 0; label = tables.next[label])
                tables.bounds[label] = scores[label] + float(added);
        }
    }
    return true;
}

}  // namespace

int64_t fusion_floats(int64_t vocabulary) { return KNOWN_FLOATS + 3 * vocabulary + Tables::most_words(vocabulary); }

void make_fusion(void* fusion, const ctc_scorer* scorer, int64_t vocabulary, float* scratch) {
    new (fusion) Fusion{ctc_decode::Scorer(scorer, vocabulary), {}, scratch};
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
    const int64_t vocabulary = labels + 1;
    const Tables tables(f.scratch, vocabulary);
    float* const bounds = tables.bounds;
    const ctc_scorer* const of_labels = f.scorer.of_labels();
    ctc_decode::Step chosen = f.scorer.extend(f.state, int32_t(best));
    double most = double(scores[best]) + chosen.gain;
    // Where the network is sure, nothing that a scorer adds makes up for the difference: no bounds are needed to know it.
    const double of_label = f.scorer.label_bound(f.state.phrase);
    const int32_t boundary = f.scorer.boundary();
    const float least = at_most(most - by_internal - of_label, scores[heard]);
    int64_t competing = 0;
    for (int64_t label = 0; label < labels; label++) competing += scores[label] > least;
    if (competing <= (scores[heard] > least) && boundary < 0) {
        f.state = chosen.state;
        return best;
    }
    bool is_bounded = false;
    if (of_labels && of_labels->ngram->words <= Tables::most_words(vocabulary)) {
        know(*of_labels, labels, tables);
        is_bounded = bound_labels(*of_labels, f.state.history, scores, labels, f.scorer.phrases_bound(f.state), tables);
    }
    if (!is_bounded) {
        const float more = float(of_label);
        for (int64_t label = 0; label < labels; label++) bounds[label] = scores[label] + more;
        if (boundary >= 0) bounds[boundary] = scores[boundary] + float(f.scorer.boundary_bound(f.state));
    }
    // Of all labels whose bound and at most `room` reach `most`, those that do with `own(label)`.
    const auto look = [&](double room, const auto& own) {
        const auto consider = [&](int64_t label) {
            const double score = double(scores[label]);
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
            if (end - first == BLOCK && !any_above(bounds + first, at_most(most - room, scores[heard]))) continue;
            for (int64_t label = first; label < end; label++)
                if (bounds[label] > at_most(most - room, scores[heard])) consider(label);
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
