// Forced alignment by Viterbi. Label i has two states, the blank before it and itself, and one blank ends the
// transcript. With b for blanks, l for labels, e for the emissions of frame t:
//   b'[i] = max(b[i], l[i-1]) + e_blank
//   l'[i] = max(l[i], b[i], l[i-1] unless labels i-1 and i are equal) + e[label i]
// Where the path came from is one byte per label and frame: bits 0-1 for l (0 stay, 1 from b[i], 2 from l[i-1]), bit 2
// for b (set: from l[i-1]). Threads take utterances. A window bounds the labels followed at a time: bytes are then
// frames x window instead of frames x transcript.
#include <algorithm>

#include "decode_scores.h"

using namespace ctc_decode;

namespace {

constexpr int64_t kFramesBetweenMoves = 8;  // finding the best state costs as much as a frame

struct Workspace {
  double *blank[2], *label[2];  // [length + 2]; index 0 stands for label -1, which is impossible
  double *skip, *emission;      // [length + 1]; skip: 0 where label i may follow label i - 1 directly
  double *norm;                 // [frames] log-sum-exp of the frame
  int64_t *low;                 // [frames] first label of the window
  uint8_t *from;                // [frames][width]
  size_t bytes;

  Workspace(void *base, int64_t frames, int64_t length, int64_t window) {
    Arena arena(base);
    for (int side = 0; side < 2; ++side) {
      blank[side] = arena.take<double>(length + 2);
      label[side] = arena.take<double>(length + 2);
    }
    skip = arena.take<double>(length + 1);
    emission = arena.take<double>(length + 1);
    norm = arena.take<double>(frames);
    low = arena.take<int64_t>(frames);
    from = arena.take<uint8_t>(frames * width(length, window));
    bytes = arena.used();
  }
  static int64_t width(int64_t length, int64_t window) {
    return window > 0 && window < length + 1 ? window : length + 1;
  }
};

// One frame for the states [low, high): reads b, l and writes next_b, next_l.
CTC_INLINE void advance(int64_t low, int64_t high, const double *b, const double *l, const double *skip,
                    const double *emission, double e_blank, double *__restrict next_b, double *__restrict next_l,
                    uint8_t *__restrict from) {
  for (int64_t i = low; i < high; ++i) {
    const double stay = l[i + 1], blank = b[i + 1], before = l[i];
    const double skipped = before + skip[i];
    const bool blank_wins = blank > stay;
    const double best = blank_wins ? blank : stay;
    const bool skip_wins = skipped > best;
    const bool label_ends = before > blank;
    next_l[i + 1] = (skip_wins ? skipped : best) + emission[i];
    next_b[i + 1] = (label_ends ? before : blank) + e_blank;
    from[i - low] = static_cast<uint8_t>((skip_wins ? 2 : blank_wins) | (label_ends << 2));
  }
}

// Where recording outside the transcript may lie, the blank has the better of its own and the gap's emission.
CTC_INLINE void advance_gaps(int64_t low, int64_t high, const double *b, const double *l, const uint8_t *is_gap,
                         double e_gap, double *next_b) {
  for (int64_t i = low; i < high; ++i)
    if (is_gap[i]) next_b[i + 1] = std::max(b[i + 1], l[i]) + e_gap;
}

int64_t best_label(const double *b, const double *l, int64_t low, int64_t high) {
  int64_t best = low;
  for (int64_t i = low; i < high; ++i)
    if (std::max(b[i + 1], l[i + 1]) > std::max(b[best + 1], l[best + 1])) best = i;
  return best;
}

struct Job {
  const ctc_scores &scores;
  const ctc_align_options &options;
  const Workspace &work;
  int64_t item, frames, length;
  const int32_t *targets;
  int64_t *start, *end;
  double *log_probs, *total;
  int32_t *is_clipped;
};

// Reads the path from its end, in label or blank `i`, and adds up what each label got.
template <typename T>
CTC_INLINE void follow_back(const Job &job, int64_t width, bool in_label) {
  int64_t i = in_label ? job.length - 1 : job.length;
  const int64_t margin = width / 16;
  for (int64_t t = job.frames - 1; t >= 0; --t) {
    const int64_t low = job.work.low[t];
    const bool near_low = low > 0 && i < low + margin;
    const bool near_high = low + width <= job.length && i >= low + width - margin;
    *job.is_clipped |= near_low || near_high;
    const uint8_t from = job.work.from[t * width + i - low];
    if (!in_label) {
      in_label = from & 4;
      i -= in_label;
      continue;
    }
    if (job.end[i] == 0) job.end[i] = t + 1;
    job.start[i] = t;
    const T *row = row_of<T>(job.scores, job.item, t);
    job.log_probs[i] += row[job.targets[i]] - job.work.norm[t];
    in_label = (from & 3) != 1;
    i -= (from & 3) == 2;
  }
}

template <typename T>
CTC_INLINE void align(const Job &job) {
  const Workspace &w = job.work;
  const int64_t states = job.length + 1, width = Workspace::width(job.length, job.options.window);
  for (int side = 0; side < 2; ++side) {
    std::fill_n(w.blank[side], states + 1, kMinusInfinity);
    std::fill_n(w.label[side], states + 1, kMinusInfinity);
  }
  std::fill_n(w.skip, states, kMinusInfinity);
  for (int64_t i = 1; i < job.length; ++i)
    if (job.targets[i] != job.targets[i - 1]) w.skip[i] = 0;
  w.emission[job.length] = kMinusInfinity;  // label `length` does not exist, only its blank
  double *b = w.blank[0], *l = w.label[0], *next_b = w.blank[1], *next_l = w.label[1];
  b[1] = 0;  // before the first frame: what follows is a blank, or a step into label 0
  int64_t low = 0;
  for (int64_t t = 0; t < job.frames; ++t) {
    if (width < states && t % kFramesBetweenMoves == 0 && t > 0) {
      const int64_t best = best_label(b, l, low, std::min(low + width, states));
      low = std::max(low, std::min(best - width / 2, states - width));
      l[low] = next_l[low] = kMinusInfinity;  // left of the window
    }
    const int64_t high = std::min({low + width, states, t + 1});
    const T *row = row_of<T>(job.scores, job.item, t);
    const T best = row_max(row, job.scores.vocabulary).value;
    const double norm = log_sum_exp(row, job.scores.vocabulary, best);
    for (int64_t i = low; i < std::min(high, job.length); ++i) w.emission[i] = row[job.targets[i]] - norm;
    const double e_blank = row[job.options.blank] - norm;
    advance(low, high, b, l, w.skip, w.emission, e_blank, next_b, next_l, w.from + t * width);
    const double e_gap = std::max(e_blank, best - norm + job.options.gap_log_prob);
    if (job.options.is_gap) advance_gaps(low, high, b, l, job.options.is_gap, e_gap, next_b);
    w.low[t] = low;
    w.norm[t] = norm;
    std::swap(b, next_b);
    std::swap(l, next_l);
  }
  const bool in_label = job.length > 0 && l[job.length] > b[states];
  *job.total = in_label ? l[job.length] : b[states];
  *job.is_clipped = width < states && !std::isfinite(*job.total);
  std::fill_n(job.start, job.length, 0);
  std::fill_n(job.end, job.length, 0);
  std::fill_n(job.log_probs, job.length, 0.0);
  if (std::isfinite(*job.total)) follow_back<T>(job, width, in_label);
}

CTC_INLINE void align(const Job &job) { job.scores.is_double ? align<double>(job) : align<float>(job); }
void align_any(const Job &job) { align(job); }
CTC_AVX2 void align_avx2(const Job &job) { align(job); }

bool labels_are_valid(const ctc_scores &scores, const int32_t *targets, int64_t length, int32_t blank) {
  for (int64_t i = 0; i < length; ++i)
    if (targets[i] < 0 || targets[i] >= scores.vocabulary || targets[i] == blank) return false;
  return true;
}

}  // namespace

extern "C" size_t ctc_align_workspace(int64_t frames, int64_t length, const ctc_align_options *options) {
  if (!options || frames < 0 || length < 0) return 0;
  return Workspace(nullptr, frames, length, options->window).bytes * std::max(options->threads, 1);
}

extern "C" int ctc_align(const ctc_scores *scores, const int64_t *frames, const int32_t *targets,
                         int64_t target_stride, const int64_t *lengths, const ctc_align_options *options,
                         int64_t *start, int64_t *end, double *log_probs, double *totals, int32_t *is_clipped,
                         void *workspace, size_t workspace_bytes) {
  if (!options || !is_valid(scores, frames, options->blank)) return CTC_DECODE_INVALID;
  if (scores->batch == 0) return CTC_DECODE_SUCCESS;
  if (!lengths || !totals || !is_clipped || (options->is_gap && scores->batch != 1)) return CTC_DECODE_INVALID;
  int64_t longest = 0, most_frames = 0;
  for (int64_t item = 0; item < scores->batch; ++item) {
    if (lengths[item] < 0 || lengths[item] > target_stride) return CTC_DECODE_INVALID;
    if (lengths[item] > 0 && (!targets || !start || !end || !log_probs)) return CTC_DECODE_INVALID;
    if (!labels_are_valid(*scores, targets + item * target_stride, lengths[item], options->blank))
      return CTC_DECODE_INVALID;
    longest = std::max(longest, lengths[item]);
    most_frames = std::max(most_frames, frames[item]);
  }
  const int threads = std::max(options->threads, 1);
  const size_t share = Workspace(nullptr, most_frames, longest, options->window).bytes;
  if (!workspace || workspace_bytes < share * threads) return CTC_DECODE_WORKSPACE;
  const auto align = has_avx2() ? align_avx2 : align_any;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
  for (int64_t item = 0; item < scores->batch; ++item) {
    const Workspace work(static_cast<char *>(workspace) + share * thread_id(), most_frames, longest, options->window);
    const int64_t at = item * target_stride;
    align({*scores, *options, work, item, frames[item], lengths[item], targets + at, start + at, end + at,
           log_probs + at, totals + item, is_clipped + item});
  }
  return CTC_DECODE_SUCCESS;
}
