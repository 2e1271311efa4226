// Greedy decoding: one pass over the scores. The normaliser is only needed for the confidence of labels, so that frames
// of blank, most of a trained model's, cost one search for the maximum.
#include "decode_scores.h"

using namespace ctc_decode;

namespace {

template <typename T>
CTC_INLINE int64_t first_equal(const T *row, int64_t size, T value) {
  int64_t i = 0;
  while (i < size && row[i] != value) ++i;
  return i;
}

struct Runs {
  int32_t *label, *start, *end;
  float *confidence;
};

struct Job {
  const ctc_scores &scores;
  int64_t item, frames;
  int32_t blank;
  Runs runs;
  int32_t *count, *nan_frames;
};

template <typename T>
CTC_INLINE void decode(const Job &job) {
  const int64_t vocabulary = job.scores.vocabulary;
  const Runs &runs = job.runs;
  int32_t n = 0, nans = 0, previous = job.blank;
  double log_prob = 0;  // of the run that is open
  for (int64_t t = 0; t < job.frames; ++t) {
    const T *row = row_of<T>(job.scores, job.item, t);
    const RowMax<T> best = row_max(row, vocabulary);
    if (best.has_nan) {
      ++nans;
      continue;
    }
    const int64_t label = first_equal(row, vocabulary, best.value);
    if (label != previous) {
      if (previous != job.blank) runs.confidence[n - 1] = std::exp(log_prob / (runs.end[n - 1] - runs.start[n - 1]));
      if (label != job.blank) {
        runs.label[n] = static_cast<int32_t>(label);
        runs.start[n] = static_cast<int32_t>(t);
        ++n;
      }
      log_prob = 0;
      previous = static_cast<int32_t>(label);
    }
    if (label == job.blank) continue;
    runs.end[n - 1] = static_cast<int32_t>(t) + 1;
    const double norm = log_sum_exp(row, vocabulary, best.value);
    nans += norm != norm;  // +infinity, or nothing but -infinity
    log_prob += best.value - norm;
  }
  if (previous != job.blank) runs.confidence[n - 1] = std::exp(log_prob / (runs.end[n - 1] - runs.start[n - 1]));
  *job.count = n;
  *job.nan_frames = nans;
}

CTC_INLINE void decode(const Job &job) { job.scores.is_double ? decode<double>(job) : decode<float>(job); }
void decode_any(const Job &job) { decode(job); }
CTC_AVX2 void decode_avx2(const Job &job) { decode(job); }

}  // namespace

extern "C" int ctc_greedy(const ctc_scores *scores, const int64_t *frames, int32_t blank, int32_t threads,
                          int32_t *runs, float *confidence, int32_t *counts, int32_t *nan_frames) {
  if (!is_valid(scores, frames, blank)) return CTC_DECODE_INVALID;
  const int64_t size = scores->frames;
  if (scores->batch > 0 && (!counts || !nan_frames || (size > 0 && (!runs || !confidence)))) return CTC_DECODE_INVALID;
  const auto decode = has_avx2() ? decode_avx2 : decode_any;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads > 0 ? threads : 1) if (threads > 1)
  for (int64_t item = 0; item < scores->batch; ++item) {
    int32_t *first = runs + item * 3 * size;
    const Runs row = {first, first + size, first + 2 * size, confidence + item * size};
    decode({*scores, item, frames[item], blank, row, counts + item, nan_frames + item});
  }
  return CTC_DECODE_SUCCESS;
}
