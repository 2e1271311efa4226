// What a frame of a beam search chooses from: the best `width` of all that is offered, best first. Scores are counted
// in buckets as they come, so that a threshold below which nothing can survive rises with every offer, and so that
// the survivors need sorting only within buckets. The buckets decide what is worth looking at, never what is chosen:
// results do not depend on where they lie.
#ifndef CTC_DECODE_CANDIDATES_H
#define CTC_DECODE_CANDIDATES_H

#include <algorithm>

#include "decode_scores.h"

namespace ctc_decode {

struct Candidate {
  double score;
  int32_t slot;   // of the prefix it continues
  int32_t label;  // added to it; kNone: the prefix itself
};

class Candidates {
  // Equal ones come in the order of their prefixes, continued before extended, and then in that of their labels.
  auto order() const {
    const double *label_scores = label_scores_;
    return [label_scores](const Candidate &a, const Candidate &b) {
      if (a.score != b.score) return a.score > b.score;
      if ((a.label == kNone) != (b.label == kNone)) return a.label == kNone;
      if (a.slot != b.slot) return a.slot < b.slot;
      const double left = label_scores[a.label], right = label_scores[b.label];
      return left != right ? left > right : a.label < b.label;
    };
  }

 public:
  // How many candidates `storage` has to hold.
  static int64_t storage(int64_t width) { return 2 * kRoom * width; }

  // `label_scores`: log-probability of every label in the frame.
  Candidates(Candidate *storage, int32_t width, double drop, const double *label_scores)
      : items_(storage), sorted_(storage + kRoom * width), width_(width), drop_(drop), label_scores_(label_scores) {}

  // Forgets the last frame's. `highest`: about the best score to come; `spread`: how far below it about `width` lie.
  void start(double highest, double spread) {
    size_ = inside_ = 0;
    limit_ = kBuckets;
    best_ = threshold_ = kMinusInfinity;
    highest_ = highest;
    // A power of two, so that the edges of buckets have no rounding.
    const int exponent = spread > 0 ? std::clamp(std::ilogb(kBuckets / 3 / spread), -10, 20) : 4;
    per_unit_ = std::ldexp(1.0, exponent);
    std::fill_n(counts_, kBuckets, 0);
  }

  // What a score must reach to be among the best so far.
  double threshold() const { return threshold_; }

  void offer(const Candidate &candidate) {
    if (candidate.score >= threshold_ && candidate.score != kMinusInfinity) take(candidate);
  }

  // The survivors, best first.
  const Candidate *choose(int32_t *count) {
    int32_t start = 0;
    for (int32_t bucket = 0; bucket < limit_; ++bucket) {
      starts_[bucket] = start;
      start += counts_[bucket];
    }
    const int32_t n = start;
    for (int32_t i = 0; i < size_; ++i) {
      const int32_t bucket = bucket_of(items_[i].score);
      if (bucket < limit_) sorted_[starts_[bucket]++] = items_[i];
    }
    const auto is_better = order();
    for (int32_t bucket = 0; bucket < limit_; ++bucket) {
      Candidate *end = sorted_ + starts_[bucket];
      if (counts_[bucket] > 1) std::sort(end - counts_[bucket], end, is_better);
    }
    *count = std::min(n, width_);
    while (*count > 0 && sorted_[*count - 1].score < best_ + drop_) --*count;
    return sorted_;
  }

 private:
  static constexpr int32_t kBuckets = 512, kRoom = 6;

  void take(const Candidate &candidate) {
    if (size_ == kRoom * width_) cut();
    items_[size_++] = candidate;
    const int32_t bucket = bucket_of(candidate.score);
    ++counts_[bucket];
    inside_ += bucket < limit_;
    if (inside_ - counts_[limit_ - 1] >= width_) lower_limit();
    if (candidate.score <= best_) return;
    best_ = candidate.score;
    threshold_ = std::max(threshold_, best_ + drop_);
  }

  int32_t bucket_of(double score) const {
    const double below = (highest_ - score) * per_unit_;
    return static_cast<int32_t>(std::min(std::max(below, 0.0), kBuckets - 1.0));
  }

  // Enough are better than the last bucket that counted.
  void lower_limit() {
    do
      inside_ -= counts_[--limit_];
    while (inside_ - counts_[limit_ - 1] >= width_);
    const double below = limit_ / per_unit_;
    const double rounding = 1e-12 * (std::fabs(highest_) + below);
    threshold_ = std::max(threshold_, highest_ - below - rounding);
  }

  // There is no more room, for the buckets are too coarse here.
  void cut() {
    std::nth_element(items_, items_ + width_ - 1, items_ + size_, order());
    size_ = width_;
    threshold_ = std::max(threshold_, items_[width_ - 1].score);
    std::fill_n(counts_, kBuckets, 0);
    inside_ = 0;
    for (int32_t i = 0; i < size_; ++i) {
      const int32_t bucket = bucket_of(items_[i].score);
      ++counts_[bucket];
      inside_ += bucket < limit_;
    }
  }

  Candidate *items_, *sorted_;
  const int32_t width_;
  const double drop_;
  const double *label_scores_;
  int32_t size_ = 0, inside_ = 0, limit_ = kBuckets;  // `inside_`: how many lie in the buckets before `limit_`
  double best_ = kMinusInfinity, threshold_ = kMinusInfinity, highest_ = 0, per_unit_ = 1;
  int32_t counts_[kBuckets], starts_[kBuckets];
};

}  // namespace ctc_decode
#endif
