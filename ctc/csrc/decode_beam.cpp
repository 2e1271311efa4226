// Prefix beam search (Graves 2012, Hannun et al. 2014). Every prefix y of the beam has the log-probability of its paths
// that end in blank, b, and in its last label, n, with t = log(e^b + e^n). A frame with log-probabilities e makes
//   b'(y)  = t(y) + e[blank]
//   n'(y)  = log(exp(n(y) + e[last of y]) + exp(x + e[last of y]))    x: b or t of the prefix one label shorter
//   n'(yk) = (b(y) if k is the last of y, else t(y)) + e[k]           where yk is not in the beam
// and the best `beam` of them by t + external score survive. The external score (language model, words, phrases)
// belongs to the prefix, not to its paths, and is worked out when the prefix is first reached.
//
// Prefixes are nodes of one tree per utterance, kept while there is room, so that a prefix which leaves the beam and comes
// back is the same node, and longer ones find it; when room runs out, those that no prefix of the beam begins with go.
// Scores are doubles, so that no frame needs rescaling. Threads take utterances.
//
// Beside its sums a prefix carries its best path that ends in blank and the one that ends in its last label, each with a
// chain of marks, one a label, that say where it begins and where the label before it ended.
//
// A thorough search also keeps what searches would keep that rank a prefix's paths that end in blank and those that end in
// its last label apart (decode_followed.h), and at its end sums the prefixes over all alignments, also over those that
// the beam had dropped (decode_exact.h). What only others keep has no share in b, n and t: it would win places from
// prefixes that this search keeps alone.
//
// What makes it fast loses nothing: what a candidate can reach at most is known before lexicon and language model are
// asked, and compared with what enough others have reached already (decode_candidates.h); the labels that are tried are
// those that go on with the open word; the boundary between words, the only one to ask the language model, comes last.
// Prefixes of the beam carry what this needs of their nodes. The order of equal candidates is fixed.
#include <algorithm>

#include "decode_settle.h"

using namespace ctc_decode;

namespace {

struct Output {
  int32_t *labels, *lengths;
  double *acoustic, *external;
  int32_t *count, *start, *end;
  float *log_probs, *entropies;  // sums over the frames of each label, or NULL
};

void log_add_any(double *a, const double *b, int64_t size) { log_add_rows(a, b, size); }
CTC_AVX2 void log_add_avx2(double *a, const double *b, int64_t size) { log_add_rows(a, b, size); }

// log(sum(exp(row))); NaN where the row holds NaN or infinity, or nothing finite.
template <typename T>
CTC_INLINE double normaliser(const T *row, int64_t size) {
  return log_sum_exp(row, size, row_max(row, size).value);
}
double normaliser_any(const float *row, int64_t size) { return normaliser(row, size); }
double normaliser_any(const double *row, int64_t size) { return normaliser(row, size); }
CTC_AVX2 double normaliser_avx2(const float *row, int64_t size) { return normaliser(row, size); }
CTC_AVX2 double normaliser_avx2(const double *row, int64_t size) { return normaliser(row, size); }

using Advance = void(ExactSums *, double *, int64_t, int32_t);
void advance_any(ExactSums *sums, double *row, int64_t size, int32_t blank) { sums->advance(row, size, blank); }
CTC_AVX2 void advance_avx2(ExactSums *sums, double *row, int64_t size, int32_t blank) { sums->advance(row, size, blank); }

class Search {
 public:
  Search(const Workspace &work, const Scorer &scorer, const ctc_beam_options &options)
      : Search(work, scorer, options, Progress{0, 0, 0, 1, 1, 0, 0, 0, 0, 0}) {
    const State start = scorer.start();
    work_.nodes[0] = {kNone, kNone, kNone, kNone, 0, 0, start, false, scorer.boundary_bound(start), State()};
    beam_[0] = prefix_of(0, 0, kMinusInfinity, 0);
    beam_[0].best_blank = {0, kNone, 0, {0, 0}};
    beam_[0].followed.begin();
  }

  // Goes on where `save` was called.
  Search(const Workspace &work, const Scorer &scorer, const ctc_beam_options &options, const Progress &progress)
      : work_(work), scorer_(scorer), options_(options), boundary_(scorer.boundary()), is_avx2_(has_avx2()),
        candidates_(work.candidates, options.beam, options.beam_log_prob, work.log_probs),
        followed_(work.followed, options, work.log_probs),
        beam_(progress.is_swapped ? work.next : work.beam), next_(progress.is_swapped ? work.beam : work.next),
        size_(progress.size), own_(progress.size), n_nodes_(progress.nodes), n_marks_(progress.marks), frame_(progress.frames),
        settled_end_(progress.settled_end) {}

  void save(int64_t vocabulary) const {
    *work_.progress = {work_.capacity, vocabulary, options_.beam, size_, n_nodes_, n_marks_, frame_, settled_end_,
                       beam_ != work_.beam, size_ == 0};
  }

  // From now on labels that are settled go there, and entropies are summed.
  void settle_into(Settled *settled) { settled_ = settled; }

  // Hands out what is settled.
  void settle() {
    with_beam([this](Beam *beam) { ctc_decode::settle(work_, beam, settled_); });
    if (settled_->count > 0) settled_end_ = settled_->until;
  }

  // One frame; false where its scores are not numbers, or nothing has a finite score.
  template <typename T>
  bool advance(const T *row, int64_t vocabulary) {
    if (!has_room()) make_room();
    if (!has_room()) return false;
    const double best_label = read_frame(row, vocabulary);
    if (!std::isfinite(best_label)) return false;
    continue_prefixes(best_label);
    choose_labels(best_label, vocabulary);
    for (int32_t slot = 0; slot < size_; ++slot) extend(slot);
    if (boundary_ != kNone)  // last, for a new one asks the language model: few are still worth it
      for (int32_t slot = 0; slot < size_; ++slot) extend_by_boundary(slot);
    keep_best();
    ++frame_;
    return size_ > 0;
  }

  // Sums the prefixes of the beam over all alignments of the first `frames` frames, which are all there were.
  template <typename T>
  void sum_all_alignments(const ctc_scores &scores, int64_t item, int64_t frames) {
    ExactSums sums(work_.exact, work_.room, work_.moved);
    for (int32_t slot = 0; slot < size_; ++slot) sums.add(work_.nodes, beam_[slot].node);
    Advance *const advance = is_avx2_ ? advance_avx2 : advance_any;
    for (int64_t t = 0; t < frames; ++t) {
      read_frame(row_of<T>(scores, item, t), scores.vocabulary);
      advance(&sums, work_.log_probs, scores.vocabulary, options_.blank);
    }
    for (int32_t slot = 0; slot < size_; ++slot)  // what the beam kept may be more by rounding, or by underflow there
      beam_[slot].total = std::max(beam_[slot].total, sums.of(beam_[slot].node));
  }

  // The hypotheses as if the utterance ended here.
  void write(int64_t stride, const Output &out) const {
    Candidate *ends = work_.candidates;
    for (int32_t slot = 0; slot < size_; ++slot) {
      const Prefix &prefix = beam_[slot];
      const double external = prefix.external + scorer_.finish(work_.nodes[prefix.node].state);
      ends[slot] = {prefix.total + external, slot, kNone};
    }
    std::sort(ends, ends + size_, [](const Candidate &a, const Candidate &b) {
      return a.score != b.score ? a.score > b.score : a.slot < b.slot;
    });
    *out.count = 0;
    for (int32_t n = 0; n < std::min(size_, options_.n_best) && ends[n].score != kMinusInfinity; ++n) {
      const Prefix &best = beam_[ends[n].slot];
      out.acoustic[n] = best.total;
      out.external[n] = best.external + scorer_.finish(work_.nodes[best.node].state);
      out.lengths[n] = write_labels(best.node, out.labels + n * stride);
      if (out.start) write_frames(best.better(), out.lengths[n], n * stride, out);
      ++*out.count;
    }
  }

 private:
  // Its log-probabilities; the highest, NaN where they are none.
  template <typename T>
  double read_frame(const T *row, int64_t vocabulary) {
    const double norm = is_avx2_ ? normaliser_avx2(row, vocabulary) : normaliser_any(row, vocabulary);
    if (!std::isfinite(norm)) return NAN;
    double best_label = kMinusInfinity;
    for (int64_t k = 0; k < vocabulary; ++k) {
      work_.log_probs[k] = row[k] - norm;
      best_label = std::max(best_label, work_.log_probs[k]);
    }
    if (settled_) entropy_ = entropy_of(work_.log_probs, vocabulary);
    return best_label;
  }

  static float entropy_of(const double *log_probs, int64_t vocabulary) {
    double sum = 0;
    for (int64_t k = 0; k < vocabulary; ++k)
      if (log_probs[k] != kMinusInfinity) sum -= std::exp(log_probs[k]) * log_probs[k];
    return float(sum);
  }

  // What every prefix becomes when no label is added.
  void continue_prefixes(double best_label) {
    const double lowest = best_label + options_.token_log_prob;
    for (int32_t slot = 0; slot < size_; ++slot) {
      beam_[slot].longer_labels = 0;
      beam_[slot].first_longer = kNone;
    }
    for (int32_t slot = 0; slot < size_; ++slot) {
      Prefix &prefix = beam_[slot];
      work_.blank[slot] = work_.total[slot] = prefix.total + work_.log_probs[options_.blank];
      work_.nonblank[slot] = prefix.nonblank;
      work_.arrival[slot] = kMinusInfinity;
      if (prefix.shorter == kNone) continue;
      Prefix &shorter = beam_[prefix.shorter];
      // What others keep is as a new prefix to our own rule.
      if (prefix.total != kMinusInfinity || work_.log_probs[prefix.last] >= lowest)
        work_.arrival[slot] = before(shorter, prefix.last);
      prefix.next_longer = shorter.first_longer;
      shorter.first_longer = slot;
      shorter.longer_labels |= label_bit(prefix.last);
    }
    const auto log_add = is_avx2_ ? log_add_avx2 : log_add_any;
    log_add(work_.nonblank, work_.arrival, size_);
    for (int32_t slot = 0; slot < size_; ++slot)
      if (beam_[slot].last != kNone) work_.nonblank[slot] += work_.log_probs[beam_[slot].last];
    log_add(work_.total, work_.nonblank, size_);

    const double best = beam_[0].score(), spread = own_ ? best - beam_[own_ - 1].score() : 0;
    const double highest = std::max(best + best_label, work_.total[0] + beam_[0].external);
    candidates_.start(highest, spread);
    for (int32_t slot = 0; slot < size_; ++slot)
      candidates_.offer({work_.total[slot] + beam_[slot].external, slot, kNone});
    if (options_.is_thorough) followed_.continue_prefixes(beam_, size_, options_.blank, best_label, log_add);
  }

  // Log-probability of the paths of `prefix` after which `label` is one more label, not the last one held on.
  static double before(const Prefix &prefix, int32_t label) {
    return label == prefix.last ? prefix.blank : prefix.total;
  }

  // Those that may be added to a prefix, best first: no other reaches the threshold even on the best prefix.
  void choose_labels(double best_label, int64_t vocabulary) {
    const Prefix &best = beam_[0];
    const double rounding = own_ ? 1e-9 * (1 + std::fabs(best.total) + std::fabs(best.external)) : 1;
    double missing = own_ ? candidates_.threshold() - (best.score() + scorer_.largest_label_bound()) : INFINITY;
    if (options_.is_thorough) missing = std::min(missing, followed_.missing(scorer_.largest_label_bound()));
    missing -= rounding;
    const double lowest = best_label + options_.token_log_prob;
    n_labels_ = 0;
    const double *log_probs = work_.log_probs;
    for (int32_t k = 0; k < vocabulary; ++k) {
      const bool is_usable = log_probs[k] >= lowest && log_probs[k] != kMinusInfinity && k != options_.blank;
      work_.usable[k] = is_usable ? log_probs[k] : kMinusInfinity;
      if (is_usable && log_probs[k] >= missing) work_.labels[n_labels_++] = k;
    }
    std::sort(work_.labels, work_.labels + n_labels_, [log_probs](int32_t a, int32_t b) {
      return log_probs[a] != log_probs[b] ? log_probs[a] > log_probs[b] : a < b;
    });
  }

  // Sums are in the same order wherever a bound is compared with what it bounds: rounding cannot turn them round.
  bool is_hopeless(int32_t slot, double total, double log_prob, double external) const {
    return total + log_prob + external < candidates_.threshold() &&
           (!options_.is_thorough || followed_.is_hopeless(slot, log_prob, external));
  }

  void extend(int32_t slot) {
    if (n_labels_ == 0) return;
    const Prefix &prefix = beam_[slot];
    const double highest = work_.log_probs[work_.labels[0]];
    if (is_hopeless(slot, prefix.total, highest, prefix.external + scorer_.label_bound(prefix.phrase))) return;
    const bool is_in_word = scorer_.has_words() && prefix.word != kNone;
    if (is_in_word && is_hopeless(slot, prefix.total, highest, prefix.external + scorer_.leaving_bound(prefix.phrase)))
      extend_within_word(slot);
    else
      extend_by_any(slot);
  }

  void extend_within_word(int32_t slot) {
    const Prefix &prefix = beam_[slot];
    const ctc_lexicon &lexicon = scorer_.lexicon();
    const double external = prefix.external + scorer_.label_bound(prefix.phrase);
    for (int32_t i = lexicon.first_child[prefix.word]; i < lexicon.first_child[prefix.word + 1]; ++i) {
      const int32_t label = lexicon.label[i];
      if (is_hopeless(slot, before(prefix, label), work_.usable[label], external)) continue;
      if (label != boundary_) offer(slot, label, !scorer_.has_phrases());
    }
  }

  void extend_by_any(int32_t slot) {
    const Prefix &prefix = beam_[slot];
    const double external = prefix.external + scorer_.label_bound(prefix.phrase);
    for (int32_t i = 0; i < n_labels_; ++i) {
      const int32_t label = work_.labels[i];
      if (is_hopeless(slot, prefix.total, work_.log_probs[label], external)) break;  // the others are worse
      if (label != boundary_) offer(slot, label, scorer_.is_trivial());
    }
  }

  void offer(int32_t slot, int32_t label, bool is_free) {
    const Prefix &prefix = beam_[slot];
    if (is_in_beam(prefix, label)) return;
    const double gain = is_free ? 0 : scorer_.extend(work_.nodes[prefix.node].state, label).gain;
    offer_longer(slot, label, prefix.external + gain);
  }

  void offer_longer(int32_t slot, int32_t label, double external) {
    const Prefix &prefix = beam_[slot];
    candidates_.offer({before(prefix, label) + work_.log_probs[label] + external, slot, label});
    if (options_.is_thorough) followed_.offer(prefix, slot, label, external);
  }

  void extend_by_boundary(int32_t slot) {
    Prefix &prefix = beam_[slot];
    const double log_prob = work_.usable[boundary_];
    if (is_hopeless(slot, before(prefix, boundary_), log_prob, prefix.external + prefix.boundary_gain) || is_in_beam(prefix, boundary_)) return;
    if (!prefix.knows_boundary) {
      Node &node = work_.nodes[prefix.node];
      const Step step = scorer_.extend(node.state, boundary_);
      node.after_boundary = step.state;
      prefix.boundary_gain = node.boundary_gain = step.gain;
      prefix.knows_boundary = node.knows_boundary = true;
    }
    offer_longer(slot, boundary_, prefix.external + prefix.boundary_gain);
  }

  bool is_in_beam(const Prefix &prefix, int32_t label) const {
    if (!(prefix.longer_labels & label_bit(label))) return false;
    int32_t longer = prefix.first_longer;
    while (longer != kNone && beam_[longer].last != label) longer = beam_[longer].next_longer;
    return longer != kNone;
  }

  void keep_best() {
    int32_t count;
    const Candidate *best = candidates_.choose(&count);
    std::fill_n(work_.next_slot, size_, kNone);
    own_ = count;
    if (options_.is_thorough) best = followed_.join(best, size_, &count);
    for (int32_t i = 0; i < count; ++i)
      if (best[i].label == kNone) work_.next_slot[best[i].slot] = i;
    n_returned_ = 0;
    for (int32_t i = 0; i < count; ++i) next_[i] = best[i].label == kNone ? continued(best[i]) : extended(best[i], i);
    for (int32_t i = own_; i < count; ++i) next_[i].blank = next_[i].nonblank = next_[i].total = kMinusInfinity;
    if (options_.is_thorough) followed_.hand_on(beam_, next_, count);
    std::swap(beam_, next_);
    size_ = count;
    for (int32_t i = 0; i < n_returned_; ++i) adopt_longer(work_.returned[i]);
  }

  bool has_room() const {
    const int64_t needed = rows_of(options_);
    return n_nodes_ + needed <= work_.room && n_marks_ + needed <= work_.room;
  }

  void make_room() {
    if (!settled_) return with_beam([this](Beam *beam) { drop_unused(work_, beam); });
    settle();
    while (!has_room() && size_ > 0) {
      with_beam([this](Beam *beam) { decide(work_, beam); });
      settle();
    }
  }

  template <typename Act>
  void with_beam(Act act) {
    Beam beam = {beam_, size_, n_nodes_, n_marks_};
    act(&beam);
    size_ = beam.size;
    n_nodes_ = beam.nodes;
    n_marks_ = beam.marks;
  }

  // The best path of `shorter` after which `label` is one more label, and that label in this frame. Where such a path was
  // given up for want of room (`decide`), though its sum was not, its other one: every prefix is to have one.
  Path arrived(const Prefix &shorter, int32_t label) const {
    Path path = label == shorter.last && shorter.best_blank.exists() ? shorter.best_blank : shorter.better();
    path.log_prob += work_.log_probs[label];
    return path;
  }

  Path marked(const Path &arrived, int32_t label) {
    work_.marks[n_marks_] = {arrived.mark, arrived.end, frame_, arrived.of_label};
    return {arrived.log_prob, n_marks_++, frame_ + 1, {float(work_.log_probs[label]), entropy_}};
  }

  void continue_paths(const Prefix &before, Prefix *prefix) {
    prefix->best_blank = before.better();
    prefix->best_blank.log_prob += work_.log_probs[options_.blank];
    if (before.last == kNone) return;
    prefix->best_nonblank.log_prob += work_.log_probs[before.last];
    prefix->best_nonblank.end = frame_ + 1;
    prefix->best_nonblank.of_label.log_prob += float(work_.log_probs[before.last]);
    prefix->best_nonblank.of_label.entropy += entropy_;
    if (before.shorter == kNone) return;
    const Path path = arrived(beam_[before.shorter], before.last);
    if (path.log_prob > prefix->best_nonblank.log_prob) prefix->best_nonblank = marked(path, before.last);
  }

  Prefix continued(const Candidate &candidate) {
    Prefix prefix = beam_[candidate.slot];
    continue_paths(beam_[candidate.slot], &prefix);
    prefix.blank = work_.blank[candidate.slot];
    prefix.nonblank = work_.nonblank[candidate.slot];
    prefix.total = work_.total[candidate.slot];
    if (prefix.shorter != kNone) prefix.shorter = work_.next_slot[prefix.shorter];
    return prefix;
  }

  Prefix extended(const Candidate &candidate, int32_t slot) {
    const Prefix &shorter = beam_[candidate.slot];
    const double total = before(shorter, candidate.label) + work_.log_probs[candidate.label];
    int32_t node = find(shorter.node, candidate.label);
    if (node == kNone)
      node = add(shorter.node, candidate.label);
    else
      work_.returned[n_returned_++] = slot;
    Prefix prefix = prefix_of(node, kMinusInfinity, total, total);
    prefix.shorter = work_.next_slot[candidate.slot];
    prefix.best_nonblank = marked(arrived(shorter, candidate.label), candidate.label);
    return prefix;
  }

  Prefix prefix_of(int32_t node, double blank, double nonblank, double total) const {
    const Node &n = work_.nodes[node];
    return {node,  n.state.word, n.state.phrase, n.label,          kNone, blank, nonblank, total, n.external,
            n.boundary_gain, n.knows_boundary, 0,     kNone, kNone, kNoPath, kNoPath, Followed()};
  }

  // A prefix that comes back may find longer ones that have stayed.
  void adopt_longer(int32_t slot) {
    for (int32_t i = 0; i < size_; ++i)
      if (beam_[i].shorter == kNone && work_.nodes[beam_[i].node].parent == beam_[slot].node) beam_[i].shorter = slot;
  }

  int32_t find(int32_t parent, int32_t label) const {
    if (!(work_.nodes[parent].child_labels & label_bit(label))) return kNone;
    int32_t node = work_.nodes[parent].first_child;
    while (node != kNone && work_.nodes[node].label != label) node = work_.nodes[node].next_sibling;
    return node;
  }

  int32_t add(int32_t parent, int32_t label) {
    Node &above = work_.nodes[parent];
    const bool is_boundary = label == boundary_ && boundary_ != kNone;
    const Step step =
        is_boundary ? Step{above.after_boundary, above.boundary_gain} : scorer_.extend(above.state, label);
    work_.nodes[n_nodes_] = {parent, label, kNone, above.first_child, 0, above.external + step.gain,
                             step.state, false, scorer_.boundary_bound(step.state), State()};
    above.first_child = n_nodes_;
    above.child_labels |= label_bit(label);
    return n_nodes_++;
  }

  int32_t write_labels(int32_t node, int32_t *labels) const {
    int32_t length = 0;
    for (int32_t at = node; work_.nodes[at].parent != kNone; at = work_.nodes[at].parent) ++length;
    for (int32_t i = length - 1; i >= 0; --i, node = work_.nodes[node].parent) labels[i] = work_.nodes[node].label;
    return length;
  }

  void write_frames(const Path &path, int32_t length, int64_t first, const Output &out) const {
    int32_t mark = path.mark, behind = path.end;
    Frames sums = path.of_label;
    for (int64_t i = first + length - 1; i >= first && mark != kNone; --i) {
      out.start[i] = work_.marks[mark].start;
      out.end[i] = behind;
      if (out.log_probs) out.log_probs[i] = sums.log_prob;
      if (out.entropies) out.entropies[i] = sums.entropy;
      behind = work_.marks[mark].end_before;
      sums = work_.marks[mark].before_it;
      mark = work_.marks[mark].before;
    }
  }

  const Workspace &work_;
  const Scorer &scorer_;
  const ctc_beam_options &options_;
  const int32_t boundary_;
  const bool is_avx2_;
  Candidates candidates_;
  FollowedStates followed_;
  Prefix *beam_, *next_;
  // `own_`: how many prefixes, the first of the beam, are there for our own rule.
  int32_t size_, own_, n_nodes_, n_marks_, frame_, settled_end_, n_labels_ = 0, n_returned_ = 0;
  Settled *settled_ = nullptr;
  float entropy_ = 0;  // of the frame
};

template <typename T>
void decode(const ctc_scores &scores, int64_t item, int64_t frames, bool is_thorough, Search &search,
            const Output &out) {
  *out.count = 0;
  for (int64_t t = 0; t < frames; ++t)
    if (!search.advance(row_of<T>(scores, item, t), scores.vocabulary)) return;
  if (is_thorough) search.template sum_all_alignments<T>(scores, item, frames);
  search.write(scores.frames, out);
}

bool is_valid_options(const ctc_beam_options *options) {
  return options && options->beam > 0 && options->n_best > 0 && options->n_best <= options->beam &&
         options->token_log_prob <= 0 && options->beam_log_prob <= 0 &&
         (options->stream_frames == 0 || (options->stream_frames >= 8 && options->stream_frames <= kMostFrames));
}

bool is_valid_scorer(const ctc_scorer *scorer, int64_t vocabulary) {
  if (!scorer) return true;
  const int64_t units = scorer->spelling ? scorer->spelling->unit_count : vocabulary;
  if (scorer->boundary < kNone || scorer->boundary >= units || !(scorer->weight >= 0)) return false;
  if (scorer->ngram && !scorer->lexicon && !scorer->label_word) return false;
  return !scorer->is_closed || scorer->lexicon;
}

}  // namespace

extern "C" size_t ctc_beam_workspace(int64_t frames, int64_t vocabulary, const ctc_beam_options *options) {
  if (!is_valid_options(options) || frames < 0 || vocabulary < 1) return 0;
  return Workspace(nullptr, frames, vocabulary, *options).bytes * std::max(options->threads, 1);
}

extern "C" int ctc_beam_search(const ctc_scores *scores, const int64_t *frames, const ctc_scorer *scorer,
                               const ctc_beam_options *options, int32_t *labels, int32_t *lengths, double *acoustic,
                               double *external, int32_t *counts, int32_t *start, int32_t *end, void *workspace,
                               size_t workspace_bytes) {
  if (!is_valid_options(options) || !is_valid(scores, frames, options->blank)) return CTC_DECODE_INVALID;
  if (!is_valid_scorer(scorer, scores->vocabulary)) return CTC_DECODE_INVALID;
  if (scores->batch == 0) return CTC_DECODE_SUCCESS;
  if ((!labels && scores->frames > 0) || !lengths || !acoustic || !external || !counts) return CTC_DECODE_INVALID;
  if (!start != !end) return CTC_DECODE_INVALID;
  const int64_t most_frames = *std::max_element(frames, frames + scores->batch);
  const int threads = std::max(options->threads, 1);
  const size_t share = Workspace(nullptr, most_frames, scores->vocabulary, *options).bytes;
  if (!workspace || workspace_bytes < share * threads) return CTC_DECODE_WORKSPACE;
  const Scorer external_scorer(scorer, scores->vocabulary);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
  for (int64_t item = 0; item < scores->batch; ++item) {
    char *mine = static_cast<char *>(workspace) + share * thread_id();
    const Workspace work(mine, most_frames, scores->vocabulary, *options);
    Search search(work, external_scorer, *options);
    const int64_t at = item * options->n_best;
    const int64_t first = at * scores->frames;
    const Output out = {labels + first,  lengths + at,          acoustic + at,      external + at,
                        counts + item, start ? start + first : nullptr, end ? end + first : nullptr,
                        nullptr,         nullptr};
    if (scores->is_double)
      decode<double>(*scores, item, frames[item], options->is_thorough, search, out);
    else
      decode<float>(*scores, item, frames[item], options->is_thorough, search, out);
  }
  return CTC_DECODE_SUCCESS;
}

extern "C" size_t ctc_beam_stream_bytes(int64_t vocabulary, const ctc_beam_options *options) {
  if (!is_valid_options(options) || options->is_thorough || vocabulary < 1) return 0;
  return Workspace(nullptr, frames_of_stream(*options), vocabulary, *options).bytes;
}

extern "C" int ctc_beam_stream_start(int64_t vocabulary, const ctc_scorer *scorer, const ctc_beam_options *options,
                                     void *state, size_t state_bytes) {
  if (!is_valid_options(options) || vocabulary < 1 || !is_valid_scorer(scorer, vocabulary)) return CTC_DECODE_INVALID;
  if (options->is_thorough) return CTC_DECODE_INVALID;
  if (!state || state_bytes < ctc_beam_stream_bytes(vocabulary, options)) return CTC_DECODE_WORKSPACE;
  const Workspace work(state, frames_of_stream(*options), vocabulary, *options);
  const Scorer external_scorer(scorer, vocabulary);
  Search(work, external_scorer, *options).save(vocabulary);
  return CTC_DECODE_SUCCESS;
}

namespace {

// The frames of `scores` behind those before; labels that are settled go to `settled`, unless it is NULL.
int push(const ctc_scores *scores, const ctc_scorer *scorer, const ctc_beam_options *options, void *state,
         Settled *settled, int32_t *is_over) {
  if (!is_valid_options(options) || !state || !is_over || !scores) return CTC_DECODE_INVALID;
  const int64_t frames = scores->frames;
  if (scores->batch != 1 || !is_valid(scores, &frames, options->blank)) return CTC_DECODE_INVALID;
  const Workspace work(state, frames_of_stream(*options), scores->vocabulary, *options);
  const Progress before = *work.progress;
  if (before.vocabulary != scores->vocabulary || before.width != options->beam || before.capacity != work.capacity)
    return CTC_DECODE_INVALID;
  *is_over = before.is_over;
  if (*is_over) return CTC_DECODE_SUCCESS;
  const Scorer external_scorer(scorer, scores->vocabulary);
  Search search(work, external_scorer, *options, before);
  search.settle_into(settled);
  for (int64_t t = 0; t < frames && !*is_over; ++t)
    *is_over = scores->is_double ? !search.advance(row_of<double>(*scores, 0, t), scores->vocabulary)
                                 : !search.advance(row_of<float>(*scores, 0, t), scores->vocabulary);
  if (settled && !*is_over) search.settle();
  search.save(scores->vocabulary);
  work.progress->is_over = *is_over;
  return CTC_DECODE_SUCCESS;
}

}  // namespace

extern "C" int ctc_beam_stream_push(const ctc_scores *scores, const ctc_scorer *scorer, const ctc_beam_options *options,
                                    void *state, int32_t *is_over) {
  return push(scores, scorer, options, state, nullptr, is_over);
}

extern "C" int ctc_beam_stream_settle(const ctc_scores *scores, const ctc_scorer *scorer,
                                      const ctc_beam_options *options, void *state, int64_t capacity, int32_t *labels,
                                      int32_t *start, int32_t *end, float *log_probs, float *entropies, int64_t *count,
                                      int32_t *is_over) {
  if (capacity < 0 || !count || (capacity > 0 && (!labels || !start || !end))) return CTC_DECODE_INVALID;
  Settled settled = {labels, start, end, log_probs, entropies, capacity, 0, 0};
  const int status = push(scores, scorer, options, state, &settled, is_over);
  *count = settled.count;
  return status == CTC_DECODE_SUCCESS && settled.count > capacity ? CTC_DECODE_INVALID : status;
}

extern "C" int ctc_beam_stream_result(int64_t vocabulary, const ctc_scorer *scorer, const ctc_beam_options *options,
                                      void *state, int64_t stride, int32_t *labels, int32_t *lengths, double *acoustic,
                                      double *external, int32_t *count, int32_t *start, int32_t *end, float *log_probs,
                                      float *entropies) {
  if (!is_valid_options(options) || !state || !lengths || !acoustic || !external || !count) return CTC_DECODE_INVALID;
  const Workspace work(state, frames_of_stream(*options), vocabulary, *options);
  const Progress &progress = *work.progress;
  *count = 0;
  if (progress.vocabulary != vocabulary || progress.width != options->beam || progress.capacity != work.capacity ||
      stride < std::min(progress.frames - progress.settled_end, progress.nodes))
    return CTC_DECODE_INVALID;
  if (progress.is_over) return CTC_DECODE_SUCCESS;
  if (stride > 0 && (!labels || !start || !end)) return CTC_DECODE_INVALID;
  const Scorer external_scorer(scorer, vocabulary);
  Search(work, external_scorer, *options, progress)
      .write(stride, {labels, lengths, acoustic, external, count, start, end, log_probs, entropies});
  return CTC_DECODE_SUCCESS;
}
