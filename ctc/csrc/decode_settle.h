// Labels of a stream that are settled: every path that is kept has them, with the same frames, so that whatever follows,
// they are the first of every hypothesis. They are handed out and given up, and with them the nodes and marks before.
#ifndef CTC_DECODE_SETTLE_H
#define CTC_DECODE_SETTLE_H

#include <utility>

#include "decode_prefixes.h"

namespace ctc_decode {

// Labels in their order, with the frames of each and the sums over these; arrays may be NULL.
struct Settled {
  int32_t *labels, *start, *end;
  float *log_probs, *entropies;
  int64_t capacity, count;
  int32_t until;  // frame behind the last

  void add(int32_t label, int32_t first, int32_t behind, const Frames &sums) {
    until = behind;
    if (count < capacity) {
      labels[count] = label;
      start[count] = first;
      end[count] = behind;
      if (log_probs) log_probs[count] = sums.log_prob;
      if (entropies) entropies[count] = sums.entropy;
    }
    ++count;
  }
};

// `with(prefix, path)` for every path that is kept.
template <typename With>
void each_path(const Beam &beam, With with) {
  for (int32_t slot = 0; slot < beam.size; ++slot)
    for (Path *path : {&beam.prefixes[slot].best_blank, &beam.prefixes[slot].best_nonblank})
      if (path->exists()) with(beam.prefixes[slot], *path);
}

// A label's last frame is known once the next label has begun: that one's mark is what paths must have in common.
inline void settle(const Workspace &work, Beam *beam, Settled *settled) {
  int32_t *const seen = work.moved;
  int32_t paths = 0, depth = 0, last = kNone;
  std::fill_n(seen, beam->marks, 0);
  each_path(*beam, [&](const Prefix &, const Path &path) {
    ++paths;
    for (int32_t at = path.mark; at != kNone; at = work.marks[at].before) ++seen[at];
  });
  for (int32_t slot = 0; slot < beam->size && last == kNone; ++slot) {
    const Prefix &prefix = beam->prefixes[slot];
    if (!prefix.better().exists()) continue;
    for (last = prefix.better().mark; last != kNone && seen[last] < paths; last = work.marks[last].before) ++depth;
    if (last == kNone) break;
    int32_t root = prefix.node;
    for (; depth >= 0; --depth) root = work.nodes[root].parent;
    int32_t count = 0;  // of the labels before, last first
    for (int32_t at = work.marks[last].before; at != kNone; at = work.marks[at].before) ++count;
    int32_t *const marks = work.moved, *const nodes = work.moved + count;  // nobody needs `seen` any more
    for (int32_t i = 0, at = work.marks[last].before, node = root; i < count; ++i) {
      marks[i] = at;
      nodes[i] = node;
      at = work.marks[at].before;
      node = work.nodes[node].parent;
    }
    for (int32_t i = count - 1; i >= 0; --i) {
      const Mark &next = work.marks[i > 0 ? marks[i - 1] : last];
      settled->add(work.nodes[nodes[i]].label, work.marks[marks[i]].start, next.end_before, next.before_it);
    }
    work.nodes[root].parent = kNone;
    work.marks[last].before = kNone;
  }
  drop_unused(work, beam);
}

// Gives up the paths that do not begin with the same two labels, at the same places, as the most probable one.
inline void decide(const Workspace &work, Beam *beam) {
  const auto oldest = [&work](const Path &path) {
    int32_t first = kNone, second = kNone;
    for (int32_t at = path.mark; at != kNone; at = work.marks[at].before) {
      second = first;
      first = at;
    }
    return std::make_pair(first, second);
  };
  const Prefix *best = beam->prefixes;
  for (int32_t slot = 1; slot < beam->size; ++slot)
    if (beam->prefixes[slot].score() > best->score()) best = beam->prefixes + slot;
  const auto wanted = oldest(best->better());
  int32_t *const place = work.moved;
  int32_t kept = 0;
  for (int32_t slot = 0; slot < beam->size; ++slot) {
    Prefix prefix = beam->prefixes[slot];
    for (Path *path : {&prefix.best_blank, &prefix.best_nonblank})
      if (path->exists() && oldest(*path) != wanted) *path = kNoPath;
    const bool stays = prefix.best_blank.exists() || prefix.best_nonblank.exists();
    place[slot] = stays ? kept : kNone;
    if (stays) beam->prefixes[kept++] = prefix;
  }
  beam->size = kept;
  for (int32_t slot = 0; slot < kept; ++slot)
    if (beam->prefixes[slot].shorter != kNone) beam->prefixes[slot].shorter = place[beam->prefixes[slot].shorter];
}

}  // namespace ctc_decode
#endif
