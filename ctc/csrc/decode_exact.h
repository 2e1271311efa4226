// Prefixes summed over all of their alignments: the forward recursion over their common tree, so that what they share is
// computed once. In the linear domain, relative to the best label of each frame, and scaled now and then.
//
// Most of the tree is a trunk, whose nodes have the numbers behind their parents': these are taken whole vectors at once.
#ifndef CTC_DECODE_EXACT_H
#define CTC_DECODE_EXACT_H

#include <algorithm>

#include "decode_candidates.h"

namespace ctc_decode {

constexpr int64_t kExactNumbers = 4;  // for every node

class ExactSums {
 public:
  // `numbers`: [kExactNumbers, room]; `places`: [2, room].
  ExactSums(double *numbers, int64_t room, int32_t *places)
      : blank_(numbers), label_(numbers + room), onward_(numbers + 2 * room),
        tree_(reinterpret_cast<Entry *>(numbers + 3 * room)), place_(places), run_(places + room), room_(room) {
    std::fill_n(place_, room_, kNone);
  }

  // A prefix that is to be summed, and with it all that it begins with. All before the first frame.
  template <typename Node>
  void add(const Node *nodes, int32_t node) {
    int32_t first = size_;  // what is new is numbered in a row, from the shortest prefix to the longest
    for (int32_t at = node; at != kNone && place_[at] == kNone; at = nodes[at].parent) ++size_;
    for (int32_t place = size_ - 1, at = node; place >= first; --place, at = nodes[at].parent) {
      const int32_t parent = nodes[at].parent;
      place_[at] = place;
      tree_[place] = {place > first ? place - 1 : parent == kNone ? kNone : place_[parent], nodes[at].label};
      onward_[place] = parent != kNone && nodes[parent].label == nodes[at].label ? 0 : 1;
      blank_[place] = parent == kNone;
      label_[place] = 0;
    }
    for (; first < size_; ++first) run_[first] = first > 0 && tree_[first].parent == first - 1 ? run_[first - 1] + 1 : 0;
  }

  // Inlined into a function for each processor.
  CTC_INLINE void advance(double *log_probs, int64_t vocabulary, int32_t blank) {
    const double best = *std::max_element(log_probs, log_probs + vocabulary);
    for (int64_t k = 0; k < vocabulary; ++k) log_probs[k] = std::exp(log_probs[k] - best);
    const double *const probs = log_probs, of_blank = probs[blank];
    log_scale_ += best;
    double *const blanks = blank_, *const labels = label_;  // copies, which no store can change
    const double *const onward = onward_;
    const Entry *const tree = tree_;
    const int32_t *const run = run_, first = first_;
    for (int32_t at = size_ - 1; at >= first;) {  // longer ones first: they need what shorter ones were before the frame
      if (run[at] >= V::lanes) {
        at -= V::lanes;
        advance_run(blanks + at, labels + at, onward + at, tree + at, probs, of_blank);
        continue;
      }
      const auto [parent, label] = tree[at];
      const double total = blanks[at] + labels[at];
      const double arriving = blanks[parent] + onward[at] * labels[parent];
      labels[at] = (labels[at] + arriving) * probs[label];
      blanks[at] = total * of_blank;
      --at;
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
  using V = Vector<double>;

  static CTC_INLINE void read(const double *from, V::type *x) { std::memcpy(x, from, sizeof *x); }

  // Of a vector of nodes, each of which is the parent of the next; the first's parent comes first in the arrays.
  static CTC_INLINE void advance_run(double *blanks, double *labels, const double *onward, const Entry *nodes,
                                     const double *probs, double of_blank) {
    static_assert(V::lanes == 4, "a label each");
    const V::type of_label = {probs[nodes[1].label], probs[nodes[2].label], probs[nodes[3].label],
                              probs[nodes[4].label]};
    V::type blank, label, goes_on, blank_before, label_before;
    read(blanks + 1, &blank);
    read(labels + 1, &label);
    read(onward + 1, &goes_on);
    read(blanks, &blank_before);
    read(labels, &label_before);
    const V::type next_label = (label + (blank_before + goes_on * label_before)) * of_label;
    const V::type next_blank = (blank + label) * of_blank;
    std::memcpy(labels + 1, &next_label, sizeof next_label);
    std::memcpy(blanks + 1, &next_blank, sizeof next_blank);
  }

  CTC_INLINE void scale() {
    V::type most = {};
    double largest = blank_[0];
    for (const double *const sums : {blank_, label_}) {
      int32_t at = first_;
      for (; at + V::lanes <= size_; at += V::lanes) {
        V::type x;
        read(sums + at, &x);
        most = x > most ? x : most;
      }
      for (; at < size_; ++at) largest = std::max(largest, sums[at]);
    }
    for (int i = 0; i < V::lanes; ++i) largest = std::max(largest, most[i]);
    if (!(largest > 0)) return;
    int exponent;
    std::frexp(largest, &exponent);
    // Far from both ends of a double, and nothing may stay where numbers are denormal and slow.
    const double by = std::ldexp(1.0, std::clamp(600 - exponent, -1000, 1000));
    log_scale_ -= std::log(by);
    blank_[0] = blank_[0] * by < 1e-280 ? 0 : blank_[0] * by;
    for (double *const sums : {blank_, label_}) {
      int32_t at = first_;
      for (; at + V::lanes <= size_; at += V::lanes) {
        V::type x;
        read(sums + at, &x);
        x *= by;
        x = x < 1e-280 ? V::type{} : x;
        std::memcpy(sums + at, &x, sizeof x);
      }
      for (; at < size_; ++at) sums[at] = sums[at] * by < 1e-280 ? 0 : sums[at] * by;
    }
    while (blank_[0] == 0 && first_ < size_ && blank_[first_] == 0 && label_[first_] == 0) ++first_;
  }

  double *blank_, *label_, *onward_;  // `onward_`: 0 where the parent's last label goes on in silence alone, else 1
  Entry *tree_;
  int32_t *place_, *run_;  // `run_`: how many nodes up to this one have the number behind their parents'
  int64_t room_, frames_ = 0;
  int32_t size_ = 0, first_ = 1;  // nodes before `first_` are out of reach for good; 0, the empty prefix, counts apart
  double log_scale_ = 0;
};

}  // namespace ctc_decode
#endif
