// What a beam search knows besides the scores: a back-off language model over words or labels, a lexicon, phrases. A
// prefix carries a State; one more label gives the next State and what it adds to the prefix's score.
#ifndef CTC_DECODE_SCORER_H
#define CTC_DECODE_SCORER_H

#include <algorithm>

#include "decode_scores.h"

namespace ctc_decode {

constexpr int32_t kNone = -1;

struct State {
  int32_t history = 0;     // of the language model
  int32_t word = 0;        // node of the lexicon that the open word has reached; kNone: it is in no known word
  int32_t phrase = 0;      // node of the phrases
};

struct Step {
  State state;
  double gain;  // kMinusInfinity where the label may not follow
};

// A tree numbered level by level has the children of a node side by side, sorted by label.
inline int32_t child(const int32_t *first_child, const int32_t *label, int32_t node, int32_t wanted) {
  const int32_t *end = label + first_child[node + 1];
  const int32_t *found = std::lower_bound(label + first_child[node], end, wanted);
  return found != end && *found == wanted ? static_cast<int32_t>(found - label) : kNone;
}

// log p(word | history); `history` becomes the longest known one that ends in the word.
inline double word_log_prob(const ctc_ngram &model, int32_t word, int32_t &history) {
  double log_prob = 0;
  for (; history != 0; history = model.backoff_state[history]) {
    const int32_t *end = model.arc_word + model.first_arc[history + 1];
    const int32_t *found = std::lower_bound(model.arc_word + model.first_arc[history], end, word);
    if (found != end && *found == word) {
      const int64_t arc = found - model.arc_word;
      history = model.arc_next[arc];
      return log_prob + model.arc_log_prob[arc];
    }
    log_prob += model.backoff[history];
  }
  history = model.arc_next[word];
  return log_prob + model.arc_log_prob[word];
}

class Scorer {
 public:
  explicit Scorer(const ctc_scorer *table) : table_(table) {
    if (!table) return;
    leaving_gain_ = table->is_closed ? kMinusInfinity : table->unknown_penalty;
    if (table->lexicon || table->ngram) largest_bonus_ = std::max(table->word_bonus, 0.0);
    if (const ctc_phrases *phrases = table->phrases) {
      const float promise = *std::max_element(phrases->promise, phrases->promise + phrases->nodes);
      const float reward = *std::max_element(phrases->reward, phrases->reward + phrases->nodes);
      largest_phrase_gain_ = static_cast<double>(promise) + reward;
    }
    largest_label_gain_ = largest_phrase_gain_ + (table->lexicon ? 0.0 : largest_bonus_);
  }

  State start() const {
    State state;
    if (table_ && table_->ngram) state.history = table_->ngram->start_state;
    if (table_ && table_->phrases) state.phrase = table_->phrases->start;
    return state;
  }

  // Bit k % 64 is clear where the open word cannot go on with label k and stay in the lexicon.
  uint64_t continuations(const State &state) const {
    if (!table_ || !table_->lexicon || state.word == kNone) return ~uint64_t{0};
    const ctc_lexicon &lexicon = *table_->lexicon;
    uint64_t bits = 0;
    for (int32_t node = lexicon.first_child[state.word]; node < lexicon.first_child[state.word + 1]; ++node)
      bits |= uint64_t{1} << (lexicon.label[node] % 64);
    return bits;
  }

  // What no label exceeds, and a closer bound for one: cheap to know before lexicon and language model are asked.
  double largest_gain() const { return largest_bonus_ + largest_phrase_gain_; }
  double largest_gain(const State &state, uint64_t continuations, int32_t label) const {
    if (table_ && table_->lexicon && label == table_->boundary)
      return largest_gain() + (is_incomplete(state) ? table_->unknown_penalty : 0.0);
    return largest_label_gain_ + (continuations >> (label % 64) & 1 ? 0.0 : leaving_gain_);
  }

  Step extend(const State &state, int32_t label) const {
    Step step = {state, 0};
    if (!table_) return step;
    if (table_->lexicon)
      extend_word(label, step);
    else if (table_->ngram)
      step.gain = score(table_->label_word[label], step.state);
    if (table_->phrases) step.gain += extend_phrase(label, step.state);
    return step;
  }

  // What the end of the utterance adds: it completes the open word, ends the sentence and takes back open promises.
  double finish(State state) const {
    if (!table_) return 0;
    double gain = 0;
    if (const ctc_phrases *phrases = table_->phrases) {
      if (table_->boundary != kNone) gain += extend_phrase(table_->boundary, state);
      gain -= phrases->promise[state.phrase];
    }
    if (table_->lexicon && state.word != 0) gain += close_word(state);
    if (table_->ngram && table_->ngram->end_word != kNone)
      gain += table_->weight * word_log_prob(*table_->ngram, table_->ngram->end_word, state.history);
    return gain;
  }

 private:
  double score(int32_t word, State &state) const {
    const double log_prob = table_->ngram ? word_log_prob(*table_->ngram, word, state.history) : 0.0;
    return table_->weight * log_prob + table_->word_bonus;
  }

  double close_word(State &state) const {
    const int32_t word = state.word == kNone ? kNone : table_->lexicon->word[state.word];
    if (word == kNone && table_->is_closed) return kMinusInfinity;
    // A word that left the lexicon has paid for it already; one that stops inside pays here.
    const double penalty = is_incomplete(state) ? table_->unknown_penalty : 0.0;
    state.word = 0;
    const int32_t unknown = table_->ngram ? table_->ngram->unknown_word : kNone;
    return penalty + score(word == kNone ? unknown : word, state);
  }

  void extend_word(int32_t label, Step &step) const {
    int32_t &node = step.state.word;
    if (label == table_->boundary) {
      if (node != 0)
        step.gain = close_word(step.state);
      else if (table_->is_closed)
        step.gain = kMinusInfinity;  // a boundary closes a word
      return;
    }
    if (node == kNone) return;
    node = child(table_->lexicon->first_child, table_->lexicon->label, node, label);
    if (node == kNone) step.gain = leaving_gain_;
  }

  double extend_phrase(int32_t label, State &state) const {
    const ctc_phrases &phrases = *table_->phrases;
    const float promised = phrases.promise[state.phrase];
    int32_t node = state.phrase, next;
    while ((next = child(phrases.first_child, phrases.label, node, label)) == kNone && node != 0)
      node = phrases.fail[node];
    state.phrase = next == kNone ? 0 : next;
    return static_cast<double>(phrases.promise[state.phrase]) - promised + phrases.reward[state.phrase];
  }

  // An open word that is still in the lexicon, but is none of its words.
  bool is_incomplete(const State &state) const {
    return state.word > 0 && table_->lexicon->word[state.word] == kNone;
  }

  const ctc_scorer *table_;
  double largest_bonus_ = 0, largest_phrase_gain_ = 0, largest_label_gain_ = 0, leaving_gain_ = 0;
};

}  // namespace ctc_decode
#endif
