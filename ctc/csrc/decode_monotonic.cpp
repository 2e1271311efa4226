// Monotonic alignment: every frame belongs to the token of the frame before, or to the next one. With s the scores,
//   best(t, i) = s(t, i) + max(best(t-1, i), best(t-1, i-1))
// and one byte per frame and token that says which of the two it was. Only tokens that can be reached from the first,
// and from which the last can be reached, are visited. Threads take utterances.
#include "ctc_monotonic.h"

#include <algorithm>

#include "decode_scores.h"

using namespace ctc_decode;

namespace {

struct Workspace {
  double *best[2];  // [tokens + 1]; index 0 stands for token -1, which is impossible
  uint8_t *moved;   // [frames][tokens]
  size_t bytes;

  Workspace(void *base, int64_t frames, int64_t tokens) {
    Arena arena(base);
    for (double *&row : best) row = arena.take<double>(tokens + 1);
    moved = arena.take<uint8_t>(frames * tokens);
    bytes = arena.used();
  }
};

struct Job {
  const ctc_scores &scores;
  const Workspace &work;
  int64_t item, frames, tokens;
  int64_t *durations;
};

template <typename T>
CTC_INLINE void advance(int64_t low, int64_t high, const T *score, const double *best, double *__restrict next,
                        uint8_t *__restrict moved) {
  for (int64_t i = low; i < high; ++i) {
    const double stay = best[i + 1], move = best[i];
    const bool moves = move >= stay;
    next[i + 1] = score[i] + (moves ? move : stay);
    moved[i] = moves;
  }
}

template <typename T>
CTC_INLINE void search(const Job &job) {
  const Workspace &w = job.work;
  double *best = w.best[0], *next = w.best[1];
  std::fill_n(best, job.tokens + 1, kMinusInfinity);
  std::fill_n(next, job.tokens + 1, kMinusInfinity);
  best[0] = 0;  // before the first frame: a step into token 0
  for (int64_t t = 0; t < job.frames; ++t) {
    const int64_t low = std::max<int64_t>(0, job.tokens - (job.frames - t)), high = std::min(t + 1, job.tokens);
    advance(low, high, row_of<T>(job.scores, job.item, t), best, next, w.moved + t * job.tokens);
    next[low] = kMinusInfinity;  // nothing to the left of what is visited may be entered from
    std::swap(best, next);
  }
  int64_t i = job.tokens - 1;
  for (int64_t t = job.frames - 1; t >= 0; --t) {
    ++job.durations[i];
    i -= i > 0 && w.moved[t * job.tokens + i];
  }
}

CTC_INLINE void search(const Job &job) { job.scores.is_double ? search<double>(job) : search<float>(job); }
void search_any(const Job &job) { search(job); }
CTC_AVX2 void search_avx2(const Job &job) { search(job); }

}  // namespace

extern "C" size_t ctc_monotonic_workspace(int64_t frames, int64_t tokens, int32_t threads) {
  if (frames < 0 || tokens < 0) return 0;
  return Workspace(nullptr, frames, tokens).bytes * std::max(threads, 1);
}

extern "C" int ctc_monotonic(const ctc_scores *scores, const int64_t *frames, const int64_t *lengths, int32_t threads,
                             int64_t *durations, void *workspace, size_t workspace_bytes) {
  if (!is_valid(scores, frames, 0) || (scores->batch > 0 && (!lengths || !durations))) return CTC_DECODE_INVALID;
  for (int64_t item = 0; item < scores->batch; ++item)
    if (lengths[item] < 0 || lengths[item] > scores->vocabulary) return CTC_DECODE_INVALID;
  threads = std::max(threads, 1);
  const size_t share = Workspace(nullptr, scores->frames, scores->vocabulary).bytes;
  if (scores->batch > 0 && (!workspace || workspace_bytes < share * threads)) return CTC_DECODE_WORKSPACE;
  std::fill_n(durations, scores->batch * scores->vocabulary, 0);
  const auto search = has_avx2() ? search_avx2 : search_any;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
  for (int64_t item = 0; item < scores->batch; ++item) {
    if (lengths[item] == 0 || lengths[item] > frames[item]) continue;
    const Workspace work(static_cast<char *>(workspace) + share * thread_id(), scores->frames, scores->vocabulary);
    search({*scores, work, item, frames[item], lengths[item], durations + item * scores->vocabulary});
  }
  return CTC_DECODE_SUCCESS;
}
