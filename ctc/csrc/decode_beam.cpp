// Prefix beam search (Graves 2012, Hannun et al. 2014). Every prefix y of the beam has the log-probability of its paths
// that end in blank, b, and in its last label, n, with t = log(e^b + e^n). A frame with log-probabilities e makes
//   b'(y)  = t(y) + e[blank]
//   n'(y)  = log(exp(n(y) + e[last of y]) + exp(x + e[last of y]))    x: b or t of the prefix one label shorter
//   n'(yk) = (b(y) if k is the last of y, else t(y)) + e[k]           where yk is not in the beam
// and the best `beam` of them by t + external score survive. The external score (language model, words, phrases)
// belongs to the prefix, not to its paths, and is worked out when the prefix is first reached.
//
// Prefixes are nodes of one tree per utterance, never freed, so that a prefix which leaves the beam and comes back is the
// same node, and longer ones find it. Scores are doubles, so that no frame needs rescaling. Threads take utterances.
// The order of equal candidates is that in which they were made: results do not depend on anything else.
#include <algorithm>

#include "decode_scorer.h"

using namespace ctc_decode;

namespace {

struct Node {
  int32_t parent, label, first_child, next_sibling;
  int32_t slot;  // where in the beam, or kNone
  State state;
  uint64_t continuations;  // of the state
  double external;
  // What the boundary between words adds after this prefix: kept, for that is where the language model is asked.
  State after_boundary;
  double boundary_gain;
  bool knows_boundary;
};

struct Prefix {
  int32_t node;
  int32_t last;            // label, kNone for the empty prefix
  double blank, nonblank;  // log-probabilities of its paths
  double total;            // of both
  double score;            // total + external
  int32_t first_longer, next_longer;  // slots of prefixes one label longer, as a list
};

struct Candidate {
  double score, total, external;
  int32_t slot;   // of the prefix it continues
  int32_t label;  // added to it; kNone: the prefix itself
  int32_t order;
  int32_t node;   // of the prefix it becomes, once it has survived
};

inline bool is_better(const Candidate &a, const Candidate &b) {
  return a.score != b.score ? a.score > b.score : a.order < b.order;
}

inline double log_add(double a, double b) {
  const double high = a > b ? a : b, low = a > b ? b : a;
  if (low == kMinusInfinity) return high;
  return high + std::log1p(std::exp(low - high));
}

struct Workspace {
  Node *nodes;
  Prefix *beam, *next;
  Candidate *candidates;  // [2 * beam + beam]
  double *log_probs;      // [vocabulary]
  int32_t *labels;        // [vocabulary] that may start a prefix, best first
  size_t bytes;

  Workspace(void *base, int64_t frames, int64_t vocabulary, int64_t width) {
    Arena arena(base);
    nodes = arena.take<Node>(1 + frames * width);
    beam = arena.take<Prefix>(width);
    next = arena.take<Prefix>(width);
    candidates = arena.take<Candidate>(3 * width);
    log_probs = arena.take<double>(vocabulary);
    labels = arena.take<int32_t>(vocabulary);
    bytes = arena.used();
  }
};

struct Output {
  int32_t *labels, *lengths;
  double *acoustic, *external;
  int32_t *count;
};

class Search {
 public:
  Search(const Workspace &work, const Scorer &scorer, const ctc_beam_options &options, const ctc_scorer *table)
      : work_(work), scorer_(scorer), options_(options), largest_gain_(scorer.largest_gain()),
        boundary_(table && table->lexicon ? table->boundary : kNone), beam_(work.beam), next_(work.next) {
    work_.nodes[0] = {kNone, kNone, kNone, kNone, 0, scorer.start(), scorer.continuations(scorer.start()), 0, State(),
                       0,     false};
    beam_[0] = {0, kNone, 0, kMinusInfinity, 0, 0, kNone, kNone};
  }

  // One frame; false where its scores are not numbers, or nothing has a finite score.
  template <typename T>
  bool advance(const T *row, int64_t vocabulary) {
    if (!read_row(row, vocabulary)) return false;
    continue_prefixes();
    extend_prefixes();
    keep_best();
    return size_ > 0;
  }

  void write(int64_t stride, const Output &out) {
    for (int32_t slot = 0; slot < size_; ++slot) {
      const Node &node = work_.nodes[beam_[slot].node];
      const double external = node.external + scorer_.finish(node.state);
      work_.candidates[slot] = {beam_[slot].total + external, beam_[slot].total, external, slot, kNone, slot, kNone};
    }
    std::sort(work_.candidates, work_.candidates + size_, is_better);
    *out.count = 0;
    for (int32_t n = 0; n < std::min(size_, options_.n_best); ++n) {
      const Candidate &best = work_.candidates[n];
      if (best.score == kMinusInfinity) break;
      out.acoustic[n] = best.total;
      out.external[n] = best.external;
      out.lengths[n] = write_labels(beam_[best.slot].node, out.labels + n * stride);
      ++*out.count;
    }
  }

 private:
  template <typename T>
  bool read_row(const T *row, int64_t vocabulary) {
    const RowMax<T> best = row_max(row, vocabulary);
    const double norm = log_sum_exp(row, vocabulary, best.value);
    if (!std::isfinite(norm)) return false;
    double *log_probs = work_.log_probs;
    const double lowest = best.value - norm + options_.token_log_prob;
    n_labels_ = 0;
    for (int32_t k = 0; k < vocabulary; ++k) {
      log_probs[k] = row[k] - norm;
      if (log_probs[k] >= lowest && log_probs[k] != kMinusInfinity && k != options_.blank) work_.labels[n_labels_++] = k;
    }
    std::sort(work_.labels, work_.labels + n_labels_, [log_probs](int32_t a, int32_t b) {
      return log_probs[a] != log_probs[b] ? log_probs[a] > log_probs[b] : a < b;
    });
    return true;
  }

  void continue_prefixes() {
    for (int32_t slot = 0; slot < size_; ++slot) beam_[slot].first_longer = kNone;
    for (int32_t slot = 0; slot < size_; ++slot) {
      const int32_t parent = work_.nodes[beam_[slot].node].parent;
      const int32_t shorter = parent == kNone ? kNone : work_.nodes[parent].slot;
      if (shorter == kNone) continue;
      beam_[slot].next_longer = beam_[shorter].first_longer;
      beam_[shorter].first_longer = slot;
    }
    n_candidates_ = order_ = 0;
    best_ = threshold_ = kMinusInfinity;
    for (int32_t slot = 0; slot < size_; ++slot) {
      const Prefix &prefix = beam_[slot];
      Prefix &same = next_[slot];
      same = prefix;
      same.blank = prefix.total + work_.log_probs[options_.blank];
      same.nonblank = kMinusInfinity;
      if (prefix.last != kNone) {
        const int32_t shorter = work_.nodes[work_.nodes[prefix.node].parent].slot;
        const double arrival = shorter == kNone ? kMinusInfinity : before(beam_[shorter], prefix.last);
        const double emission = work_.log_probs[prefix.last];
        same.nonblank = log_add(prefix.nonblank, arrival) + emission;
      }
      same.total = log_add(same.blank, same.nonblank);
      const double external = work_.nodes[prefix.node].external;
      offer({same.total + external, same.total, external, slot, kNone, order_++, kNone});
    }
  }

  // Log-probability of the paths of `prefix` after which `label` is one more label, not the last one held on.
  static double before(const Prefix &prefix, int32_t label) {
    return label == prefix.last ? prefix.blank : prefix.total;
  }

  void extend_prefixes() {
    for (int32_t slot = 0; slot < size_; ++slot) {
      const Prefix &prefix = beam_[slot];
      for (int32_t i = 0; i < n_labels_; ++i) {
        const int32_t label = work_.labels[i];
        const double highest = prefix.score + work_.log_probs[label] + largest_gain_;
        if (highest < threshold_) break;  // labels come best first
        if (is_in_beam(prefix, label)) continue;
        const double total = before(prefix, label) + work_.log_probs[label];
        Node &node = work_.nodes[prefix.node];
        if (total + node.external + scorer_.largest_gain(node.state, node.continuations, label) < threshold_) continue;
        const double with_label = node.external + gain(node, label);
        offer({total + with_label, total, with_label, slot, label, order_++, kNone});
      }
    }
  }

  bool is_in_beam(const Prefix &prefix, int32_t label) const {
    int32_t longer = prefix.first_longer;
    while (longer != kNone && beam_[longer].last != label) longer = beam_[longer].next_longer;
    return longer != kNone;
  }

  double gain(Node &node, int32_t label) {
    if (label != boundary_) return scorer_.extend(node.state, label).gain;
    return extend_by_boundary(node).gain;
  }

  Step extend_by_boundary(Node &node) {
    if (!node.knows_boundary) {
      const Step step = scorer_.extend(node.state, boundary_);
      node.after_boundary = step.state;
      node.boundary_gain = step.gain;
      node.knows_boundary = true;
    }
    return {node.after_boundary, node.boundary_gain};
  }

  // Takes a candidate unless `beam` better ones are known. The threshold rises whenever twice as many have come.
  void offer(const Candidate &candidate) {
    if (candidate.score < threshold_ || candidate.score == kMinusInfinity) return;
    work_.candidates[n_candidates_++] = candidate;
    if (candidate.score > best_) {
      best_ = candidate.score;
      threshold_ = std::max(threshold_, best_ + options_.beam_log_prob);
    }
    if (n_candidates_ == 3 * options_.beam) cut();
  }

  void cut() {
    Candidate *first = work_.candidates;
    if (n_candidates_ <= options_.beam) return;
    std::nth_element(first, first + options_.beam - 1, first + n_candidates_, is_better);
    n_candidates_ = options_.beam;
    threshold_ = std::max(threshold_, first[options_.beam - 1].score);
  }

  void keep_best() {
    cut();
    Candidate *candidates = work_.candidates;
    const double lowest = best_ + options_.beam_log_prob;
    n_candidates_ = static_cast<int32_t>(std::remove_if(candidates, candidates + n_candidates_, [lowest](const Candidate &c) {
      return c.score < lowest;
    }) - candidates);
    std::sort(candidates, candidates + n_candidates_, is_better);
    for (int32_t slot = 0; slot < size_; ++slot) work_.nodes[beam_[slot].node].slot = kNone;
    // `next_` holds what prefixes of the beam became, `beam_` what they were: the survivors go where the old ones are,
    // which only the candidates' nodes are still needed of.
    for (int32_t i = 0; i < n_candidates_; ++i) candidates[i].node = node_of(candidates[i]);
    for (int32_t i = 0; i < n_candidates_; ++i) beam_[i] = prefix_of(candidates[i]);
    size_ = n_candidates_;
    for (int32_t slot = 0; slot < size_; ++slot) work_.nodes[beam_[slot].node].slot = slot;
  }

  int32_t node_of(const Candidate &candidate) {
    const int32_t node = beam_[candidate.slot].node;
    return candidate.label == kNone ? node : find_or_add(node, candidate);
  }

  Prefix prefix_of(const Candidate &candidate) const {
    if (candidate.label != kNone)
      return {candidate.node, candidate.label, kMinusInfinity, candidate.total, candidate.total, candidate.score,
              kNone,           kNone};
    Prefix prefix = next_[candidate.slot];
    prefix.score = candidate.score;
    return prefix;
  }

  int32_t find_or_add(int32_t parent, const Candidate &candidate) {
    Node &above = work_.nodes[parent];
    for (int32_t node = above.first_child; node != kNone; node = work_.nodes[node].next_sibling)
      if (work_.nodes[node].label == candidate.label) return node;
    const bool is_boundary = candidate.label == boundary_ && above.knows_boundary;
    const State state = is_boundary ? above.after_boundary : scorer_.extend(above.state, candidate.label).state;
    work_.nodes[n_nodes_] = {parent, candidate.label, kNone, above.first_child, kNone, state,
                             scorer_.continuations(state), candidate.external, State(), 0, false};
    above.first_child = n_nodes_;
    return n_nodes_++;
  }

  int32_t write_labels(int32_t node, int32_t *labels) const {
    int32_t length = 0;
    for (int32_t at = node; work_.nodes[at].parent != kNone; at = work_.nodes[at].parent) ++length;
    for (int32_t i = length - 1; i >= 0; --i, node = work_.nodes[node].parent) labels[i] = work_.nodes[node].label;
    return length;
  }

  const Workspace &work_;
  const Scorer &scorer_;
  const ctc_beam_options &options_;
  const double largest_gain_;
  const int32_t boundary_;
  Prefix *beam_, *next_;
  int32_t size_ = 1, n_nodes_ = 1, n_labels_ = 0, n_candidates_ = 0, order_ = 0;
  double best_ = kMinusInfinity, threshold_ = kMinusInfinity;
};

template <typename T>
void decode(const ctc_scores &scores, int64_t item, int64_t frames, Search &search, const Output &out) {
  *out.count = 0;
  for (int64_t t = 0; t < frames; ++t)
    if (!search.advance(row_of<T>(scores, item, t), scores.vocabulary)) return;
  search.write(scores.frames, out);
}

bool is_valid_options(const ctc_beam_options *options) {
  return options && options->beam > 0 && options->n_best > 0 && options->n_best <= options->beam &&
         options->token_log_prob <= 0 && options->beam_log_prob <= 0;
}

bool is_valid_scorer(const ctc_scorer *scorer, int64_t vocabulary) {
  if (!scorer) return true;
  if (scorer->boundary < kNone || scorer->boundary >= vocabulary || !(scorer->weight >= 0)) return false;
  if (scorer->ngram && !scorer->lexicon && !scorer->label_word) return false;
  return !scorer->is_closed || scorer->lexicon;
}

}  // namespace

extern "C" size_t ctc_beam_workspace(int64_t frames, int64_t vocabulary, const ctc_beam_options *options) {
  if (!is_valid_options(options) || frames < 0 || vocabulary < 1) return 0;
  return Workspace(nullptr, frames, vocabulary, options->beam).bytes * std::max(options->threads, 1);
}

extern "C" int ctc_beam_search(const ctc_scores *scores, const int64_t *frames, const ctc_scorer *scorer,
                               const ctc_beam_options *options, int32_t *labels, int32_t *lengths, double *acoustic,
                               double *external, int32_t *counts, void *workspace, size_t workspace_bytes) {
  if (!is_valid_options(options) || !is_valid(scores, frames, options->blank)) return CTC_DECODE_INVALID;
  if (!is_valid_scorer(scorer, scores->vocabulary)) return CTC_DECODE_INVALID;
  if (scores->batch == 0) return CTC_DECODE_SUCCESS;
  if ((!labels && scores->frames > 0) || !lengths || !acoustic || !external || !counts) return CTC_DECODE_INVALID;
  const int64_t most_frames = *std::max_element(frames, frames + scores->batch);
  const int threads = std::max(options->threads, 1);
  const size_t share = Workspace(nullptr, most_frames, scores->vocabulary, options->beam).bytes;
  if (!workspace || workspace_bytes < share * threads) return CTC_DECODE_WORKSPACE;
  const Scorer external_scorer(scorer);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
  for (int64_t item = 0; item < scores->batch; ++item) {
    char *mine = static_cast<char *>(workspace) + share * thread_id();
    const Workspace work(mine, most_frames, scores->vocabulary, options->beam);
    Search search(work, external_scorer, *options, scorer);
    const int64_t at = item * options->n_best;
    const Output out = {labels + at * scores->frames, lengths + at, acoustic + at, external + at, counts + item};
    if (scores->is_double)
      decode<double>(*scores, item, frames[item], search, out);
    else
      decode<float>(*scores, item, frames[item], search, out);
  }
  return CTC_DECODE_SUCCESS;
}
