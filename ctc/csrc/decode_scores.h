// What all decoders do with a row of scores: its normaliser, and sums of log-probabilities.
#ifndef CTC_DECODE_SCORES_H
#define CTC_DECODE_SCORES_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "decode_packed.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace ctc_decode {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
// The hot loops are inlined into one function for any processor and one for AVX2, between which `has_avx2` chooses.
#define CTC_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__)
#define CTC_AVX2 __attribute__((target("avx2,fma")))
inline bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
#define CTC_AVX2
inline bool has_avx2() { return false; }
#endif

// 32 bytes at a time, in the compiler's own vector types: two registers where AVX2 is missing.
template <typename T>
struct Vector;
template <>
struct Vector<float> {
  typedef float type __attribute__((vector_size(32)));
  typedef int32_t integer;
  typedef integer mask __attribute__((vector_size(32)));
  typedef float half __attribute__((vector_size(16)));
  typedef integer half_mask __attribute__((vector_size(16)));
  static constexpr int lanes = 8;
  static constexpr mask lane = {0, 1, 2, 3, 4, 5, 6, 7};
};
template <>
struct Vector<double> {
  typedef double type __attribute__((vector_size(32)));
  typedef int64_t integer;
  typedef integer mask __attribute__((vector_size(32)));
  typedef double half __attribute__((vector_size(16)));
  typedef integer half_mask __attribute__((vector_size(16)));
  static constexpr int lanes = 4;
  static constexpr mask lane = {0, 1, 2, 3};
};

// The largest element, the first place it is at, and whether the row holds NaN (which is then ignored).
template <typename T>
struct RowMax {
  T value;
  int64_t index;
  bool has_nan;
};

template <typename T>
CTC_INLINE RowMax<T> row_max(const T *row, int64_t size) {
  using V = Vector<T>;
  RowMax<T> best = {static_cast<T>(kMinusInfinity), 0, false};
  if (size < V::lanes) {
    for (int64_t i = 0; i < size; ++i) {
      best.has_nan |= row[i] != row[i];
      if (row[i] > best.value) best = {row[i], i, best.has_nan};
    }
    return best;
  }
  typename V::type highest = typename V::type{} + best.value, x;
  typename V::mask index = {}, nan = {};
  for (int64_t i = 0; i < size; i += V::lanes) {
    const int64_t at = i + V::lanes <= size ? i : size - V::lanes;  // the last block overlaps the one before
    std::memcpy(&x, row + at, sizeof x);
    const typename V::mask is_higher = x > highest;
    highest = is_higher ? x : highest;
    index = is_higher ? V::lane + static_cast<typename V::integer>(at) : index;
    nan |= x != x;
  }
  uint64_t nan_bits[4];
  std::memcpy(nan_bits, &nan, sizeof nan);
  // The two halves against each other and then lane by lane, without branches: which wins cannot be foreseen.
  typename V::half values[2];
  typename V::half_mask places[2];
  std::memcpy(values, &highest, sizeof highest);
  std::memcpy(places, &index, sizeof index);
  const auto is_second = (values[1] > values[0]) | ((values[1] == values[0]) & (places[1] < places[0]));
  const typename V::half value = is_second ? values[1] : values[0];
  const typename V::half_mask place = is_second ? places[1] : places[0];
  best = {value[0], place[0], (nan_bits[0] | nan_bits[1] | nan_bits[2] | nan_bits[3]) != 0};
  for (int lane = 1; lane < V::lanes / 2; ++lane) {
    const bool is_better = (value[lane] > best.value) | ((value[lane] == best.value) & (place[lane] < best.index));
    best.value = is_better ? value[lane] : best.value;
    best.index = is_better ? place[lane] : best.index;
  }
  return best;
}

// x = exp(x) for x <= 0, with a relative error below 3e-7: 2^n times a polynomial (Taylor, degree 6) on
// [-ln 2 / 2, ln 2 / 2].
CTC_INLINE void exp_nonpositive(Vector<float>::type &x) {
  using V = Vector<float>;
  const V::type lowest = V::type{} - 87.0f;
  x = x < lowest ? lowest : x;
  const float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const V::type n = (x * 1.44269504f + shift) - shift;
  const V::type r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  V::type p = r * (1.0f / 720) + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const V::mask power = (__builtin_convertvector(n, V::mask) + 127) << 23;
  std::memcpy(&x, &power, sizeof x);
  x *= p;
}

// sum(exp(row - best)) where `best` is the row's maximum: NaN where the row holds NaN or infinity, or nothing finite.
CTC_INLINE double exp_sum(const float *row, int64_t size, float best) {
  using V = Vector<float>;
  V::type sum = {}, x;
  double total = 0;
  if (size < V::lanes) {
    for (int64_t i = 0; i < size; ++i) total += std::exp(row[i] - best);
    return total;
  }
  for (int64_t i = 0; i < size; i += V::lanes) {
    const int64_t at = i + V::lanes <= size ? i : size - V::lanes;
    std::memcpy(&x, row + at, sizeof x);
    x -= best;
    const V::mask is_counted = V::lane < static_cast<V::integer>(i - at);  // where the last block overlaps
    x = is_counted ? V::type{} - INFINITY : x;
    exp_nonpositive(x);
    sum += x;
  }
  for (int lane = 0; lane < V::lanes; ++lane) total += sum[lane];
  return total;
}

inline double exp_sum(const double *row, int64_t size, double best) {
  double total = 0;
  for (int64_t i = 0; i < size; ++i) total += std::exp(row[i] - best);
  return total;
}

template <typename T>
CTC_INLINE double log_sum_exp(const T *row, int64_t size, T best) {
  return static_cast<double>(best) + std::log(exp_sum(row, size, best));
}

// x = exp(x) for x <= 0, to the last bit or two of a double: as above, with degree 12.
CTC_INLINE void exp_nonpositive(Vector<double>::type &x) {
  using V = Vector<double>;
  const V::type lowest = V::type{} - 708.0;
  x = x < lowest ? lowest : x;
  const double shift = 6755399441055744.0;  // 1.5 * 2^52
  const V::type shifted = x * 1.4426950408889634 + shift, n = shifted - shift;
  const V::type r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;  // ln 2 in two parts
  V::type p = r * (1.0 / 479001600) + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  V::mask power;
  std::memcpy(&power, &shifted, sizeof power);
  power = (power + 1023) << 52;  // the lowest bits of `shifted` are n
  std::memcpy(&x, &power, sizeof x);
  x *= p;
}

// x = log(1 + x) for 0 <= x <= 1: 2 artanh(x / (2 + x)), or with half of 1 + x where that is nearer to 1.
CTC_INLINE void log1p_unit(Vector<double>::type &x) {
  using V = Vector<double>;
  const V::mask is_large = x > 0.41421356237309503;
  const V::type s = (is_large ? x - 1.0 : x) / (is_large ? x + 3.0 : x + 2.0), s2 = s * s;
  V::type p = s2 * (2.0 / 21) + 2.0 / 19;
  p = p * s2 + 2.0 / 17;
  p = p * s2 + 2.0 / 15;
  p = p * s2 + 2.0 / 13;
  p = p * s2 + 2.0 / 11;
  p = p * s2 + 2.0 / 9;
  p = p * s2 + 2.0 / 7;
  p = p * s2 + 2.0 / 5;
  p = p * s2 + 2.0 / 3;
  p = p * s2 + 2.0;
  x = p * s + (is_large ? V::type{} + 0.6931471805599453 : V::type{});
}

// a = log(exp(a) + exp(b)) for every row; arrays have room for whole vectors.
CTC_INLINE void log_add_rows(double *a, const double *b, int64_t size) {
  using V = Vector<double>;
  for (int64_t i = 0; i < size; i += V::lanes) {
    V::type left, right;
    std::memcpy(&left, a + i, sizeof left);
    std::memcpy(&right, b + i, sizeof right);
    const V::mask is_left = left > right;
    const V::type high = is_left ? left : right, low = is_left ? right : left;
    const V::mask is_nothing = low == V::type{} + kMinusInfinity;
    V::type x = low - high;
    x = is_nothing ? V::type{} : x;
    exp_nonpositive(x);
    log1p_unit(x);
    x = is_nothing ? high : high + x;
    std::memcpy(a + i, &x, sizeof x);
  }
}

template <typename T>
inline const T *row_of(const ctc_scores &scores, int64_t item, int64_t frame) {
  return static_cast<const T *>(scores.data) + item * scores.batch_stride + frame * scores.frame_stride;
}

inline bool is_valid(const ctc_scores *scores, const int64_t *frames, int32_t blank) {
  if (!scores || scores->batch < 0 || scores->frames < 0 || scores->vocabulary < 1) return false;
  if (!frames && scores->batch > 0) return false;
  if (!scores->data && scores->batch * scores->frames > 0) return false;
  if (blank < 0 || blank >= scores->vocabulary) return false;
  for (int64_t item = 0; item < scores->batch; ++item)
    if (frames[item] < 0 || frames[item] > scores->frames) return false;
  return true;
}

inline int thread_id() {
#if defined(_OPENMP)
  return omp_get_thread_num();
#else
  return 0;
#endif
}

// Hands out pieces of a workspace; with a null base it only counts, so that size and layout cannot disagree.
class Arena {
 public:
  explicit Arena(void *base) : base_(static_cast<char *>(base)) {}
  template <typename T>
  T *take(int64_t count) {
    T *piece = base_ ? reinterpret_cast<T *>(base_ + used_) : nullptr;
    used_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  size_t used() const { return used_; }

 private:
  char *base_;
  size_t used_ = 0;
};

}  // namespace ctc_decode
#endif
