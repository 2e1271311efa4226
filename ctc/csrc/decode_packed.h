// Numbers of as many bits as the largest of them needs (ctc_packed): half of the memory of a language model, and more of
// it in a processor's caches. What is read is little-endian, as the processors are that this is built for. Kernels of GPUs
// include this and decode_scorer.h too, so that they know C's headers and nothing else.
#ifndef CTC_DECODE_PACKED_H
#define CTC_DECODE_PACKED_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "ctc_decode.h"

namespace ctc_decode {

constexpr int32_t kNone = -1;
constexpr int32_t kWidestPacked = 57;

inline int64_t packed_at(const ctc_packed &numbers, int64_t i) {
  const int64_t bit = i * numbers.width;
  uint64_t bytes;
  memcpy(&bytes, numbers.bits + (bit >> 3), sizeof bytes);
  return static_cast<int64_t>(bytes >> (bit & 7) & ((uint64_t{1} << numbers.width) - 1));
}

// The place of `wanted` among ascending numbers from place `first` on, before `end`; `end` where it is none of them.
inline int64_t packed_find(const ctc_packed &numbers, int64_t first, int64_t end, int64_t wanted) {
  int64_t low = first;
  for (int64_t count = end - first; count > 0;) {
    const int64_t half = count / 2;
    const bool is_below = packed_at(numbers, low + half) < wanted;
    low = is_below ? low + half + 1 : low;
    count = is_below ? count - half - 1 : half;
  }
  return low < end && packed_at(numbers, low) == wanted ? low : end;
}

}  // namespace ctc_decode
#endif
