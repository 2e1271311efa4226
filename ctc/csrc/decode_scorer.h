// What a beam search knows besides the scores: a back-off language model over words or labels, a lexicon, phrases. A
// prefix carries a State; one more label gives the next State and what it adds to the prefix's score. Kernels use it too.
#ifndef CTC_DECODE_SCORER_H
#define CTC_DECODE_SCORER_H

#include "decode_packed.h"

namespace ctc_decode {

constexpr int32_t kBeforeWords = -2;

struct State {
  int32_t history = 0;     // of the language model
  int32_t word = 0;        // node of the lexicon that the open word has reached; kNone: in no known word; kBeforeWords
  int32_t phrase = 0;      // node of the phrases
};

struct Step {
  State state;
  double gain;  // -INFINITY where the label may not follow
};

inline double larger(double a, double b) { return a < b ? b : a; }

// A tree numbered level by level has the children of a node side by side, sorted by label.
inline int32_t child(const int32_t *first_child, const int32_t *label, int32_t node, int32_t wanted) {
  int32_t low = first_child[node];
  const int32_t end = first_child[node + 1];
  for (int32_t count = end - low; count > 0;) {
    const int32_t half = count / 2;
    const bool is_below = label[low + half] < wanted;
    low = is_below ? low + half + 1 : low;
    count = is_below ? count - half - 1 : half;
  }
  return low < end && label[low] == wanted ? low : kNone;
}

// log p(word | history); `history` becomes the longest known one that ends in the word. -infinity as soon as it is known
// to be below `least`; `history` is then any.
inline double word_log_prob(const ctc_ngram &model, int32_t word, int32_t &history, double least = -INFINITY) {
  double log_prob = 0;
  while (history != 0) {
    if (log_prob + model.word_bound[word] < least) return -INFINITY;
    const int64_t end = packed_at(model.first_arc, history + 1);
    const int64_t arc = packed_find(model.arc_word, packed_at(model.first_arc, history), end, word);
    if (arc != end) {
      history = static_cast<int32_t>(packed_at(model.arc_next, arc));
      return log_prob + model.arc_log_prob[arc];
    }
    log_prob += model.backoff[history];
    history = static_cast<int32_t>(packed_at(model.backoff_state, history));
  }
  history = static_cast<int32_t>(packed_at(model.arc_next, word));
  return log_prob + model.arc_log_prob[word];
}

class Scorer {
 public:
  // `vocabulary`: how many labels there are, which counts where they have a spelling.
  Scorer(const ctc_scorer *table, int64_t vocabulary) : table_(table) {
    if (!table) return;
    leaving_gain_ = table->is_closed ? -INFINITY : table->unknown_penalty;
    if (table->spelling)
      bound_spelled(vocabulary);
    else if (!table->lexicon && table->ngram)
      label_bound_ = largest_word_bound();
    for (int32_t node = 0; table->phrases && node < table->phrases->nodes; ++node)
      largest_phrase_bound_ = larger(largest_phrase_bound_, phrase_bound(node));
  }

  // The same, over a copy of the table elsewhere.
  Scorer on(const ctc_scorer *table) const {
    Scorer moved = *this;
    moved.table_ = table;
    return moved;
  }

  // The words of the lexicon are spelled label by label, and boundaries close them.
  bool has_words() const { return table_ && table_->lexicon && !table_->spelling; }
  const ctc_lexicon &lexicon() const { return *table_->lexicon; }
  int32_t boundary() const { return has_words() ? table_->boundary : kNone; }
  bool has_phrases() const { return table_ && table_->phrases; }
  bool is_trivial() const { return !table_; }
  // NULL where labels are not the words of a language model.
  const ctc_scorer *of_labels() const {
    return table_ && table_->ngram && !table_->lexicon && !table_->spelling ? table_ : nullptr;
  }

  State start() const {
    State state;
    if (table_ && table_->ngram) state.history = table_->ngram->start_state;
    if (table_ && table_->phrases) state.phrase = table_->phrases->start;
    // Pieces may begin with a boundary that closes no word.
    if (table_ && table_->lexicon && table_->spelling) state.word = kBeforeWords;
    return state;
  }

  // What a label that is no boundary adds at most, and one that takes the open word out of the lexicon: cheap to know
  // before `extend` is asked.
  double label_bound(int32_t phrase) const { return label_bound_ + phrase_bound(phrase); }
  double phrases_bound(const State &state) const { return phrase_bound(state.phrase); }
  double leaving_bound(int32_t phrase) const { return leaving_gain_ + phrase_bound(phrase); }
  double largest_label_bound() const { return label_bound_ + largest_phrase_bound_; }
  // The same of a boundary after `state`.
  double boundary_bound(const State &state) const {
    if (!has_words()) return 0;
    if (state.word == 0) return -INFINITY;
    const int32_t word = state.word == kNone ? kNone : table_->lexicon->word[state.word];
    return (is_incomplete(state) ? table_->unknown_penalty : 0.0) + word_bound(word) +
           phrase_bound(state.phrase);
  }

  // One more label. A gain below `least` may be given as -infinity, which is known sooner.
  Step extend(const State &state, int32_t label, double least = -INFINITY) const {
    Step step = {state, 0};
    if (!table_) return step;
    if (!table_->lexicon && table_->ngram) {
      const double of_phrases = phrase_bound(state.phrase);
      step.gain = score(table_->label_word[label], step.state, least - of_phrases - kSlack * (1 + of_phrases));
      if (!table_->phrases || step.gain == -INFINITY) return step;
    }
    if (!table_->spelling) {
      extend_unit(label, step);
      return step;
    }
    const ctc_spelling &spelling = *table_->spelling;
    for (int32_t i = spelling.first_unit[label]; i < spelling.first_unit[label + 1]; ++i)
      extend_unit(spelling.units[i], step);
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
    if (table_->lexicon && state.word != 0 && state.word != kBeforeWords) gain += close_word(state);
    if (table_->ngram && table_->ngram->end_word != kNone)
      gain += table_->weight * word_log_prob(*table_->ngram, table_->ngram->end_word, state.history);
    return gain;
  }

 private:
  double score(int32_t word, State &state, double least = -INFINITY) const {
    if (table_->weight > 0 && least > -INFINITY)
      least = (least - table_->word_bonus) / table_->weight - kSlack * (1 + fabs(least) / table_->weight);
    else
      least = -INFINITY;
    const double log_prob = table_->ngram ? word_log_prob(*table_->ngram, word, state.history, least) : 0.0;
    if (log_prob == -INFINITY) return -INFINITY;
    return table_->weight * log_prob + table_->word_bonus;
  }

  double phrase_bound(int32_t node) const {
    if (!table_ || !table_->phrases) return 0.0;
    return table_->spelling ? most_by_phrases_ - table_->phrases->promise[node] : table_->phrases->bound[node];
  }

  double largest_word_bound() const {
    double largest = -INFINITY;
    const int32_t words = table_->ngram ? table_->ngram->words : 1;
    for (int32_t word = 0; word < words; ++word) largest = larger(largest, word_bound(word));
    return largest;
  }

  // A label of several units may close words, and end phrases, as often as it has boundaries; phrases that need none
  // around them, as often as it has units.
  void bound_spelled(int64_t vocabulary) {
    const ctc_spelling &spelling = *table_->spelling;
    int32_t most_units = 0, most_boundaries = 0;
    for (int64_t label = 0; label < vocabulary; ++label) {
      const int32_t *first = spelling.units + spelling.first_unit[label];
      const int32_t *end = spelling.units + spelling.first_unit[label + 1];
      const int32_t units = static_cast<int32_t>(end - first);
      int32_t boundaries = 0;
      for (; first < end; ++first) boundaries += *first == table_->boundary;
      most_units = units > most_units ? units : most_units;
      most_boundaries = boundaries > most_boundaries ? boundaries : most_boundaries;
    }
    if (table_->lexicon)
      label_bound_ = kRoundedUp * most_boundaries * larger(0.0, largest_word_bound());
    else if (table_->ngram)
      label_bound_ = largest_word_bound();
    double reward = 0, promise = 0;
    for (int32_t node = 0; table_->phrases && node < table_->phrases->nodes; ++node) {
      reward = larger(reward, table_->phrases->reward[node]);
      promise = larger(promise, table_->phrases->promise[node]);
    }
    most_by_phrases_ = kRoundedUp * (promise + reward * (table_->boundary == kNone ? most_units : most_boundaries));
  }

  // What `score` never exceeds; kNone: of an unknown word.
  double word_bound(int32_t word) const {
    const ctc_ngram *model = table_->ngram;
    const double log_prob = model ? model->word_bound[word == kNone ? model->unknown_word : word] : 0.0;
    return table_->weight * log_prob + table_->word_bonus;
  }

  double close_word(State &state) const {
    const int32_t word = state.word == kNone ? kNone : table_->lexicon->word[state.word];
    if (word == kNone && table_->is_closed) return -INFINITY;
    // A word that left the lexicon has paid for it already; one that stops inside pays here.
    const double penalty = is_incomplete(state) ? table_->unknown_penalty * depth(state.word) : 0.0;
    state.word = 0;
    const int32_t unknown = table_->ngram ? table_->ngram->unknown_word : kNone;
    return penalty + score(word == kNone ? unknown : word, state);
  }

  void extend_unit(int32_t unit, Step &step) const {
    if (table_->lexicon) extend_word(unit, step);
    if (table_->phrases) step.gain += extend_phrase(unit, step.state);
  }

  void extend_word(int32_t unit, Step &step) const {
    int32_t &node = step.state.word;
    if (unit == table_->boundary) {
      if (node == kBeforeWords)
        node = 0;
      else
        step.gain += node == 0 ? -INFINITY : close_word(step.state);  // a word is never empty
      return;
    }
    if (node == kNone) {
      step.gain += leaving_gain_;
      return;
    }
    const int32_t before = node > 0 ? node : 0;
    node = child(table_->lexicon->first_child, table_->lexicon->label, before, unit);
    if (node == kNone) step.gain += leaving_gain_ * (depth(before) + 1);
  }

  // How many units lead to a node of the lexicon.
  int32_t depth(int32_t node) const {
    int32_t depth = 0, first = 0;  // of the nodes that so many lead to
    for (; table_->lexicon->first_child[first] <= node; ++depth) first = table_->lexicon->first_child[first];
    return depth;
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

  static constexpr double kSlack = 1e-9;  // likewise, of what is left of a difference
  static constexpr double kRoundedUp = 1 + 1e-9;  // sums of several gains are not in the order of their bound

  const ctc_scorer *table_;
  double label_bound_ = 0, leaving_gain_ = 0, largest_phrase_bound_ = 0, most_by_phrases_ = 0;
};

}  // namespace ctc_decode
#endif
