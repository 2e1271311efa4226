// Greedy decoding: one pass over the scores. The normaliser is only needed for the confidence of labels, so that frames
// of blank, most of a trained model's, cost one search for the maximum.
#include "decode_scores.h"

using namespace ctc_decode;

namespace {

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

// 1 / probability of a label, multiplied up over its frames.
class Mass {
 public:
  void multiply(double factor) {
    product_ *= factor;
    if (product_ > 1e200) *this = Mass(log_ + std::log(product_));
  }
  float geometric_mean(int64_t count) const {
    return static_cast<float>(count == 1 ? 1 / product_ : std::exp(-(log_ + std::log(product_)) / count));
  }
  Mass() = default;

 private:
  explicit Mass(double log) : log_(log) {}
  double log_ = 0, product_ = 1;
};

template <typename T>
CTC_INLINE void decode(const Job &job) {
  const int64_t vocabulary = job.scores.vocabulary;
  const Runs &runs = job.runs;
  int32_t n = 0, nans = 0, previous = job.blank;
  Mass mass;
  const auto close_run = [&] {
    if (previous != job.blank) runs.confidence[n - 1] = mass.geometric_mean(runs.end[n - 1] - runs.start[n - 1]);
  };
  for (int64_t t = 0; t < job.frames; ++t) {
    const T *row = row_of<T>(job.scores, job.item, t);
    const RowMax<T> best = row_max(row, vocabulary);
    if (best.has_nan || !std::isfinite(best.value)) {
      ++nans;
      continue;
    }
    const int32_t label = static_cast<int32_t>(best.index);
    if (label != previous) {
      close_run();
      if (label != job.blank) {
        runs.label[n] = label;
        runs.start[n] = static_cast<int32_t>(t);
        mass = Mass();
        ++n;
      }
      previous = label;
    }
    if (label == job.blank) continue;
    runs.end[n - 1] = static_cast<int32_t>(t) + 1;
    mass.multiply(exp_sum(row, vocabulary, best.value));
  }
  close_run();
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
