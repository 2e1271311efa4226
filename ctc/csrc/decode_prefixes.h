// What a prefix beam search keeps of an utterance: prefixes as nodes of one tree, the paths to those of the beam with their
// marks, one a label, and the memory of all of it.
#ifndef CTC_DECODE_PREFIXES_H
#define CTC_DECODE_PREFIXES_H

#include <algorithm>

#include "decode_exact.h"
#include "decode_followed.h"
#include "decode_scorer.h"

namespace ctc_decode {

inline uint64_t label_bit(int32_t label) { return uint64_t{1} << (label % 64); }

struct Node {
  int32_t parent, label, first_child, next_sibling;
  uint64_t child_labels;  // bit k % 64 is set where one of its children may have label k
  double external;
  State state;
  // What the boundary between words adds after this prefix: kept, for that is where the language model is asked.
  bool knows_boundary;
  double boundary_gain;  // no more than a bound where it is not known
  State after_boundary;
};

// Sums over the frames of a label: of its log-probability, and of the entropy where that is wanted.
struct Frames {
  float log_prob, entropy;
};

struct Mark {
  int32_t before;      // mark of the label before, or kNone
  int32_t end_before;  // frame behind its last
  int32_t start;       // first frame of this label
  Frames before_it;    // of the label before
};

struct Path {
  double log_prob;
  int32_t mark;  // of its last label, or kNone
  int32_t end;   // frame behind the last of that label
  Frames of_label;

  bool exists() const { return log_prob != kMinusInfinity; }
};
constexpr Path kNoPath = {kMinusInfinity, kNone, 0, {0, 0}};

struct Prefix {
  int32_t node, word, phrase;  // of the tree; of the lexicon; of the phrases
  int32_t last;            // label, kNone for the empty prefix
  int32_t shorter;         // slot of the prefix one label shorter, kNone where it is not in the beam
  double blank, nonblank;  // log-probabilities of its paths
  double total;            // of both
  double external;
  double boundary_gain;  // of its node
  bool knows_boundary;
  uint64_t longer_labels;             // bit k % 64 is set where a prefix of the beam may be this one and label k
  int32_t first_longer, next_longer;  // slots of prefixes one label longer, as a list
  Path best_blank, best_nonblank;
  Followed followed;

  double score() const { return total + external; }
  const Path &better() const { return best_nonblank.log_prob > best_blank.log_prob ? best_nonblank : best_blank; }
};

// What is left between two chunks of a stream.
struct Progress {
  int64_t capacity, vocabulary;  // frames that the tree has room for
  int32_t width, size, nodes, marks, frames, settled_end, is_swapped, is_over;  // `settled_end`: frame behind the last
};

// Frames whose prefixes the tree has room for at once; a longer utterance, or a stream, drops some as it goes.
constexpr int64_t kMostFrames = 3000;

inline int64_t frames_of_stream(const ctc_beam_options &options) {
  return options.stream_frames ? options.stream_frames : kMostFrames;
}

// Prefixes that may be in the beam: what each of the rules keeps.
inline int64_t rows_of(const ctc_beam_options &options) {
  return options.beam * int64_t{options.is_thorough ? 1 + kFollowedRules : 1};
}

struct Workspace {
  Progress *progress;
  Node *nodes;
  Mark *marks;
  int32_t *moved;  // [2, room] where a node or a mark goes when some are dropped
  Prefix *beam, *next;
  Candidate *candidates;
  int32_t *next_slot;         // [beam] where a prefix of the beam is after the frame, or kNone
  int32_t *returned;          // [beam] slots of prefixes that were in the beam before, and then were not
  double *blank, *nonblank, *total, *arrival;  // [beam] of what becomes of the prefixes
  double *log_probs, *usable;  // [vocabulary] of the frame; of labels that may be added, -inf for others
  int32_t *labels;            // [vocabulary] that may be added, best first
  FollowedWork followed;
  double *exact;  // [4, room] of the sums over all alignments
  int64_t capacity, room;
  size_t bytes;

  Workspace(void *base, int64_t frames, int64_t vocabulary, const ctc_beam_options &options) {
    Arena arena(base);
    const int64_t width = rows_of(options), rows = width + Vector<double>::lanes;
    capacity = std::min(frames, kMostFrames);
    room = 1 + capacity * width;
    progress = arena.take<Progress>(1);
    nodes = arena.take<Node>(room);
    marks = arena.take<Mark>(room);
    moved = arena.take<int32_t>(2 * room);
    beam = arena.take<Prefix>(width);
    next = arena.take<Prefix>(width);
    candidates = arena.take<Candidate>(Candidates::storage(width));
    next_slot = arena.take<int32_t>(width);
    returned = arena.take<int32_t>(width);
    blank = arena.take<double>(rows);
    nonblank = arena.take<double>(rows);
    total = arena.take<double>(rows);
    arrival = arena.take<double>(rows);
    log_probs = arena.take<double>(vocabulary);
    usable = arena.take<double>(vocabulary);
    labels = arena.take<int32_t>(vocabulary);
    followed.candidates[0] = followed.candidates[1] = candidates;  // unless there are any, nobody uses it
    if (options.is_thorough) followed.take(&arena, options.beam);
    exact = options.is_thorough ? arena.take<double>(kExactNumbers * room) : nullptr;
    bytes = arena.used();
  }
};

// The beam, and how much of the memory is in use.
struct Beam {
  Prefix *prefixes;
  int32_t size, nodes, marks;
};

// Gives up the nodes that no prefix of the beam begins with, and the marks that no path of theirs has.
inline void drop_unused(const Workspace &work, Beam *beam) {
  int32_t *const moved = work.moved;
  std::fill_n(moved, beam->nodes, kNone);
  for (int32_t slot = 0; slot < beam->size; ++slot)
    for (int32_t at = beam->prefixes[slot].node; at != kNone && moved[at] == kNone; at = work.nodes[at].parent)
      moved[at] = 0;
  int32_t kept = 0;
  for (int32_t at = 0; at < beam->nodes; ++at) {  // parents come first
    if (moved[at] == kNone) continue;
    Node node = work.nodes[at];
    moved[at] = kept;
    node.first_child = node.next_sibling = kNone;
    node.child_labels = 0;
    if (node.parent != kNone) {
      node.parent = moved[node.parent];
      Node &above = work.nodes[node.parent];
      node.next_sibling = above.first_child;
      above.first_child = kept;
      above.child_labels |= label_bit(node.label);
    }
    work.nodes[kept++] = node;
  }
  for (int32_t slot = 0; slot < beam->size; ++slot) beam->prefixes[slot].node = moved[beam->prefixes[slot].node];
  beam->nodes = kept;

  std::fill_n(moved, beam->marks, kNone);
  const auto keep = [&](int32_t at) {
    for (; at != kNone && moved[at] == kNone; at = work.marks[at].before) moved[at] = 0;
  };
  for (int32_t slot = 0; slot < beam->size; ++slot) {
    keep(beam->prefixes[slot].best_blank.mark);
    keep(beam->prefixes[slot].best_nonblank.mark);
  }
  kept = 0;
  for (int32_t at = 0; at < beam->marks; ++at) {
    if (moved[at] == kNone) continue;
    Mark mark = work.marks[at];
    moved[at] = kept;
    if (mark.before != kNone) mark.before = moved[mark.before];
    work.marks[kept++] = mark;
  }
  beam->marks = kept;
  for (int32_t slot = 0; slot < beam->size; ++slot)
    for (Path *path : {&beam->prefixes[slot].best_blank, &beam->prefixes[slot].best_nonblank})
      if (path->mark != kNone) path->mark = moved[path->mark];
}

}  // namespace ctc_decode
#endif
