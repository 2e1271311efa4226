// Tables of a beam search that come from outside, looked at once, so that the search need not.
#include <cmath>

#include "decode_candidates.h"
#include "decode_packed.h"

using namespace ctc_decode;

namespace {

// What any table may hold: sums of a million of them are finite, as floats are.
constexpr double kLargestNumber = 1e31;

bool is_number(double x) { return std::fabs(x) <= kLargestNumber; }
bool is_index(int64_t i, int64_t size) { return i >= 0 && i < size; }

bool is_packed(const ctc_packed &numbers) {
  return numbers.bits && numbers.width >= 1 && numbers.width <= kWidestPacked;
}

bool is_valid_ngram(const ctc_ngram &m) {
  if (m.states < 1 || m.words < 1 || m.arcs < m.words || !m.arc_log_prob || !m.backoff || !m.word_bound) return false;
  for (const ctc_packed *numbers : {&m.first_arc, &m.arc_word, &m.arc_next, &m.backoff_state})
    if (!is_packed(*numbers)) return false;
  if (!is_index(m.start_state, m.states) || !is_index(m.unknown_word, m.words)) return false;
  if (m.end_word != kNone && !is_index(m.end_word, m.words)) return false;
  if (packed_at(m.first_arc, 0) != 0 || packed_at(m.first_arc, 1) != m.words) return false;
  if (packed_at(m.first_arc, m.states) != m.arcs) return false;
  for (int32_t state = 0; state < m.states; ++state) {
    const int64_t first = packed_at(m.first_arc, state), end = packed_at(m.first_arc, state + 1);
    if (end < first || end > m.arcs) return false;
    // Leaving for a shorter history must end.
    const int64_t shorter = packed_at(m.backoff_state, state);
    if (!is_number(m.backoff[state]) || shorter >= (state > 0 ? state : m.states)) return false;
    for (int64_t arc = first, before = -1; arc < end; ++arc) {
      const int64_t word = packed_at(m.arc_word, arc);
      if (word <= before || word >= m.words || packed_at(m.arc_next, arc) >= m.states) return false;
      if (!is_number(m.arc_log_prob[arc])) return false;
      before = word;
    }
  }
  for (int32_t word = 0; word < m.words; ++word)
    if (!is_number(m.word_bound[word])) return false;
  return true;
}

// A tree numbered level by level: the children of its nodes come one after the other, behind them.
bool is_valid_tree(int32_t nodes, const int32_t *first_child, const int32_t *label, int64_t vocabulary) {
  if (nodes < 1 || !first_child || !label || first_child[0] != 1 || first_child[nodes] != nodes) return false;
  for (int32_t node = 0; node < nodes; ++node) {
    if (first_child[node + 1] < first_child[node] || first_child[node] <= node) return false;
    if (first_child[node + 1] > nodes) return false;
    for (int32_t child = first_child[node]; child < first_child[node + 1]; ++child) {
      if (!is_index(label[child], vocabulary)) return false;
      if (child > first_child[node] && label[child] <= label[child - 1]) return false;
    }
  }
  return true;
}

bool is_valid_lexicon(const ctc_lexicon &l, int32_t words, int64_t vocabulary) {
  if (!l.word || !is_valid_tree(l.nodes, l.first_child, l.label, vocabulary)) return false;
  for (int32_t node = 0; node < l.nodes; ++node)
    if (l.word[node] < kNone || (words > 0 && l.word[node] >= words)) return false;
  return true;
}

bool is_valid_phrases(const ctc_phrases &p, int64_t vocabulary) {
  if (!p.fail || !p.promise || !p.reward || !p.bound || !is_index(p.start, p.nodes)) return false;
  if (!is_valid_tree(p.nodes, p.first_child, p.label, vocabulary)) return false;
  for (int32_t node = 0; node < p.nodes; ++node) {
    if (!is_number(p.promise[node]) || !is_number(p.reward[node]) || !is_number(p.bound[node])) return false;
    if (p.fail[node] < 0 || (node > 0 && p.fail[node] >= node)) return false;
  }
  return true;
}

bool is_valid_spelling(const ctc_spelling &s, int64_t vocabulary) {
  if (s.unit_count < 0 || !s.first_unit || s.first_unit[0] != 0) return false;
  for (int64_t label = 0; label < vocabulary; ++label)
    if (s.first_unit[label + 1] < s.first_unit[label]) return false;
  if (!s.units) return s.first_unit[vocabulary] == 0;
  for (int32_t i = 0; i < s.first_unit[vocabulary]; ++i)
    if (!is_index(s.units[i], s.unit_count)) return false;
  return true;
}

}  // namespace

extern "C" int ctc_decode_version(void) { return CTC_DECODE_VERSION; }

extern "C" int ctc_scorer_check(const ctc_scorer *scorer, int64_t vocabulary) {
  if (!scorer || vocabulary < 1) return CTC_DECODE_INVALID;
  const ctc_scorer &s = *scorer;
  if (s.spelling && !is_valid_spelling(*s.spelling, vocabulary)) return CTC_DECODE_INVALID;
  const int64_t units = s.spelling ? s.spelling->unit_count : vocabulary;
  bool is_valid = s.boundary >= kNone && s.boundary < units && s.weight >= 0 && is_number(s.weight) &&
                  is_number(s.word_bonus) && is_number(s.unknown_penalty) && (!s.is_closed || s.lexicon);
  is_valid = is_valid && (!s.ngram || is_valid_ngram(*s.ngram));
  is_valid = is_valid && (!s.lexicon || is_valid_lexicon(*s.lexicon, s.ngram ? s.ngram->words : 0, units));
  is_valid = is_valid && (!s.phrases || is_valid_phrases(*s.phrases, units));
  if (is_valid && s.ngram && !s.lexicon) {
    is_valid = s.label_word != nullptr;
    for (int64_t label = 0; is_valid && label < vocabulary; ++label)
      is_valid = is_index(s.label_word[label], s.ngram->words);
  }
  return is_valid ? CTC_DECODE_SUCCESS : CTC_DECODE_INVALID;
}
