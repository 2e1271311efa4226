// Prefixes summed over all of their alignments: the forward recursion over their common tree, so that what they share is
// computed once. In the linear domain, relative to the best label of each frame, and scaled now and then.
#ifndef CTC_DECODE_EXACT_H
#define CTC_DECODE_EXACT_H

#include <algorithm>

#include "decode_candidates.h"

namespace ctc_decode {

constexpr int64_t kExactNumbers = 3;  // for every node

class ExactSums {
 public:
  // `numbers`: [kExactNumbers, room]; `place`: [room].
  ExactSums(double *numbers, int64_t room, int32_t *place)
      : blank_(numbers), label_(numbers + room), tree_(reinterpret_cast<Entry *>(numbers + 2 * room)), place_(place),
        room_(room) {
    std::fill_n(place_, room_, kNone);
  }

  // A prefix that is to be summed, and with it all that it begins with.
  template <typename Node>
  void mark(const Node *nodes, int32_t node) {
    for (; node != kNone && place_[node] == kNone; node = nodes[node].parent) place_[node] = 0;
  }

  // Once all are marked, before the first frame. Of `nodes`, parents come first.
  template <typename Node>
  void number(const Node *nodes, int32_t count) {
    size_ = 0;
    for (int32_t at = 0; at < count; ++at) {
      if (place_[at] == kNone) continue;
      const int32_t parent = nodes[at].parent;
      tree_[size_] = {parent == kNone ? kNone : place_[parent], nodes[at].label};
      blank_[size_] = parent == kNone;
      label_[size_] = 0;
      place_[at] = size_++;
    }
  }

  void advance(double *log_probs, int64_t vocabulary, int32_t blank) {
    const double best = *std::max_element(log_probs, log_probs + vocabulary);
    for (int64_t k = 0; k < vocabulary; ++k) log_probs[k] = std::exp(log_probs[k] - best);
    const double *const probs = log_probs, of_blank = probs[blank];
    log_scale_ += best;
    for (int32_t at = size_ - 1; at > 0; --at) {  // longer ones first: they need what shorter ones were before the frame
      const auto [parent, label] = tree_[at];
      const double total = blank_[at] + label_[at];
      const double arriving = blank_[parent] + (tree_[parent].label == label ? 0 : label_[parent]);
      label_[at] = (label_[at] + arriving) * probs[label];
      blank_[at] = total * of_blank;
    }
    blank_[0] *= of_blank;
    if (++frames_ % kFramesPerScale == 0) scale();
  }

  double of(int32_t node) const {
    const double sum = blank_[place_[node]] + label_[place_[node]];
    return sum > 0 ? std::log(sum) + log_scale_ : kMinusInfinity;
  }

 private:
  struct Entry {
    int32_t parent, label;
  };
  static_assert(sizeof(Entry) == sizeof(double), "they share memory");
  static constexpr int64_t kFramesPerScale = 4;

  void scale() {
    const double largest =
        std::max(*std::max_element(blank_, blank_ + size_), *std::max_element(label_, label_ + size_));
    if (!(largest > 0)) return;
    int exponent;
    std::frexp(largest, &exponent);
    // Far from both ends of a double, and nothing may stay where numbers are denormal and slow.
    const double by = std::ldexp(1.0, std::clamp(600 - exponent, -1000, 1000));
    log_scale_ -= std::log(by);
    for (double *const sums : {blank_, label_})
      for (int32_t at = 0; at < size_; ++at) sums[at] = sums[at] * by < 1e-280 ? 0 : sums[at] * by;
  }

  double *blank_, *label_;
  Entry *tree_;
  int32_t *place_;
  int64_t room_, frames_ = 0;
  int32_t size_ = 0;
  double log_scale_ = 0;
};

}  // namespace ctc_decode
#endif
