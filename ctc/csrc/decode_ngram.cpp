// An n-gram model made into the automaton of ctc_decode.h. The n-grams and their beginnings are the nodes of a tree; a
// node's link is its longest ending that is a node too (Aho and Corasick 1975). Histories that some n-gram continues, and
// those with a back-off weight, are states; a word leads to the longest ending of what was said that is one.
#include <algorithm>
#include <cmath>

#include "decode_packed.h"
#include "decode_scores.h"
#include "ctc_ngram.h"

using namespace ctc_decode;

namespace {

constexpr double kLn10 = 2.302585092994045684;

enum : uint8_t { kListed = 1, kContinued = 2, kWeighted = 4 };

struct Counts {
  int32_t nodes, states;
  int64_t arcs;
};

// Node 0 is the root. Arrays are zero where there is no node yet.
struct Tree {
  Counts *counts;
  int32_t *parent, *word, *link, *state, *order;  // [nodes]; `order`: nodes by depth
  float *log_prob, *backoff;
  uint8_t *flags, *depth;
  int32_t *table;  // [slots] of nodes by parent and word; 0 is free
  int64_t slots;
  size_t bytes;

  Tree(void *base, int64_t nodes) {
    slots = 64;
    while (slots < 2 * nodes) slots *= 2;
    Arena arena(base);
    counts = arena.take<Counts>(1);
    parent = arena.take<int32_t>(nodes);
    word = arena.take<int32_t>(nodes);
    link = arena.take<int32_t>(nodes);
    state = arena.take<int32_t>(nodes);
    order = arena.take<int32_t>(nodes);
    log_prob = arena.take<float>(nodes);
    backoff = arena.take<float>(nodes);
    flags = arena.take<uint8_t>(nodes);
    depth = arena.take<uint8_t>(nodes);
    table = arena.take<int32_t>(slots);
    bytes = arena.used();
  }

  int32_t *slot_of(int32_t above, int32_t next) const {
    uint64_t hash = (static_cast<uint64_t>(static_cast<uint32_t>(above)) << 32 | static_cast<uint32_t>(next)) *
                    0x9e3779b97f4a7c15ull;
    const uint64_t mask = static_cast<uint64_t>(slots - 1);
    for (hash ^= hash >> 31;; ++hash) {
      int32_t *const slot = table + (hash & mask);
      if (*slot == 0 || (parent[*slot] == above && word[*slot] == next)) return slot;
    }
  }
  int32_t child(int32_t above, int32_t next) const { return *slot_of(above, next); }

  int32_t add(int32_t above, int32_t next) {
    int32_t *const slot = slot_of(above, next);
    if (*slot == 0) {
      *slot = counts->nodes++;
      parent[*slot] = above;
      word[*slot] = next;
      depth[*slot] = static_cast<uint8_t>(depth[above] + 1);
    }
    return *slot;
  }

  bool is_state(int32_t node) const { return node == 0 || flags[node] & (kContinued | kWeighted); }
};

bool is_valid(const ctc_ngram_model *model) {
  if (!model || model->orders < 1 || model->orders > 64 || !model->levels || model->words < 1) return false;
  if (model->levels[0].count != model->words) return false;
  for (int32_t n = 0; n < model->orders; ++n) {
    const ctc_ngram_level &level = model->levels[n];
    if (level.count < 0 || (level.count > 0 && (!level.ngrams || !level.log10_prob || !level.log10_backoff)))
      return false;
  }
  return true;
}

// As many as there would be if no two n-grams shared a beginning; negative where that is too many.
int64_t most_nodes(const ctc_ngram_model &model) {
  int64_t nodes = 1;
  for (int32_t n = 0; n < model.orders; ++n) {
    if (model.levels[n].count > (int64_t{INT32_MAX} - nodes) / (n + 1)) return -1;
    nodes += model.levels[n].count * (n + 1);
  }
  return nodes;
}

bool add_level(Tree *tree, const ctc_ngram_model &model, int32_t n, int64_t twice[2]) {
  const ctc_ngram_level &level = model.levels[n];
  for (int64_t row = 0; row < level.count; ++row) {
    const int32_t *const ngram = level.ngrams + row * (n + 1);
    int32_t node = 0, before = 0;
    for (int32_t i = 0; i <= n; ++i) {
      if (ngram[i] < 0 || ngram[i] >= model.words) return false;
      before = node;
      node = tree->add(node, ngram[i]);
    }
    if (tree->flags[node] & kListed) {
      twice[0] = n + 1;
      twice[1] = row;
      return false;
    }
    const double backoff = level.log10_backoff[row];
    tree->flags[node] |= kListed | (backoff != 0 && n + 1 < model.orders ? kWeighted : 0);
    tree->flags[before] |= kContinued;
    tree->log_prob[node] = static_cast<float>(level.log10_prob[row] * kLn10);
    tree->backoff[node] = static_cast<float>(backoff * kLn10);
  }
  return true;
}

// Nodes by depth, so that endings, which are shorter, come first.
void sort_by_depth(Tree *tree) {
  int32_t starts[66] = {};
  for (int32_t node = 0; node < tree->counts->nodes; ++node) ++starts[tree->depth[node] + 1];
  for (int i = 1; i < 66; ++i) starts[i] += starts[i - 1];
  for (int32_t node = 0; node < tree->counts->nodes; ++node) tree->order[starts[tree->depth[node]]++] = node;
}

int32_t longest_state(const Tree &tree, int32_t node) {
  while (!tree.is_state(node)) node = tree.link[node];
  return tree.state[node];
}

void link_nodes(Tree *tree) {
  Counts &counts = *tree->counts;
  counts.states = 1;  // the root
  for (int32_t i = 1; i < counts.nodes; ++i) {
    const int32_t node = tree->order[i];
    int32_t above = tree->parent[node], found = 0;
    while (above != 0 && found == 0) {
      above = tree->link[above];
      found = tree->child(above, tree->word[node]);
    }
    tree->link[node] = found;
    if (tree->is_state(node)) tree->state[node] = counts.states++;
    counts.arcs += tree->flags[node] & kListed;
  }
}

float rounded_up(double x) { return std::nextafter(static_cast<float>(x), INFINITY); }

}  // namespace

extern "C" size_t ctc_ngram_workspace(const ctc_ngram_model *model) {
  if (!is_valid(model)) return 0;
  const int64_t nodes = most_nodes(*model);
  return nodes < 0 ? 0 : Tree(nullptr, nodes).bytes;
}

extern "C" int ctc_ngram_plan(const ctc_ngram_model *model, void *workspace, int32_t *states, int64_t *arcs,
                              int64_t twice[2]) {
  if (ctc_ngram_workspace(model) == 0 || !workspace || !states || !arcs || !twice) return CTC_DECODE_INVALID;
  twice[0] = twice[1] = 0;
  Tree tree(workspace, most_nodes(*model));
  *tree.counts = {1, 0, 0};
  for (int32_t n = 0; n < model->orders; ++n)
    if (!add_level(&tree, *model, n, twice)) return CTC_DECODE_INVALID;
  sort_by_depth(&tree);
  link_nodes(&tree);
  *states = tree.counts->states;
  *arcs = tree.counts->arcs;
  return CTC_DECODE_SUCCESS;
}

extern "C" int ctc_ngram_fill(const ctc_ngram_model *model, void *workspace, int32_t start_word, int64_t *first_arc,
                              int32_t *arc_word, float *arc_log_prob, int32_t *arc_next, float *backoff,
                              int32_t *backoff_state, float *word_bound, int32_t *start_state) {
  if (ctc_ngram_workspace(model) == 0 || !workspace) return CTC_DECODE_INVALID;
  const Tree tree(workspace, most_nodes(*model));
  *start_state = start_word < 0 ? 0 : longest_state(tree, tree.child(0, start_word));
  const int32_t states = tree.counts->states, nodes = tree.counts->nodes;
  std::fill_n(first_arc, states + 1, 0);
  for (int32_t node = 1; node < nodes; ++node)
    if (tree.flags[node] & kListed) ++first_arc[tree.state[tree.parent[node]] + 1];
  for (int32_t state = 0; state < states; ++state) first_arc[state + 1] += first_arc[state];
  backoff[0] = 0;
  backoff_state[0] = 0;
  for (int32_t node = 1; node < nodes; ++node) {
    if (tree.flags[node] & kListed) {  // arcs hold nodes until they are sorted; the starts move up
      const int32_t state = tree.state[tree.parent[node]];
      arc_next[first_arc[state]++] = node;
    }
    if (!tree.is_state(node)) continue;
    backoff[tree.state[node]] = tree.backoff[node];
    backoff_state[tree.state[node]] = longest_state(tree, tree.link[node]);
  }
  for (int32_t state = states; state > 0; --state) first_arc[state] = first_arc[state - 1];
  first_arc[0] = 0;
  for (int32_t state = 0; state < states; ++state)
    std::sort(arc_next + first_arc[state], arc_next + first_arc[state + 1],
              [&](int32_t a, int32_t b) { return tree.word[a] < tree.word[b]; });
  // The most that back-off weights add up to on the way from a longer history to each; longer ones come last.
  float *const bounds = reinterpret_cast<float *>(tree.table);  // which nobody needs any more
  std::fill_n(bounds, states, 0.0f);
  for (int32_t state = states - 1; state > 0; --state)
    bounds[backoff_state[state]] =
        std::max(bounds[backoff_state[state]], rounded_up(double{bounds[state]} + backoff[state]));
  std::fill_n(word_bound, model->words, -INFINITY);
  for (int32_t state = 0; state < states; ++state)
    for (int64_t arc = first_arc[state]; arc < first_arc[state + 1]; ++arc) {
      const int32_t node = arc_next[arc], word = tree.word[node];
      arc_word[arc] = word;
      arc_log_prob[arc] = tree.log_prob[node];
      arc_next[arc] = longest_state(tree, node);
      word_bound[word] = std::max(word_bound[word], rounded_up(double{arc_log_prob[arc]} + bounds[state]));
    }
  return CTC_DECODE_SUCCESS;
}

extern "C" size_t ctc_packed_bytes(int64_t count, int32_t width) {
  if (count < 0 || width < 1 || width > kWidestPacked) return 0;
  return static_cast<size_t>((count * width + 7) / 8 + 8);
}

extern "C" int ctc_pack(const int64_t *values, int64_t count, int32_t width, uint8_t *bits) {
  if (ctc_packed_bytes(count, width) == 0 || !bits || (count > 0 && !values)) return CTC_DECODE_INVALID;
  for (int64_t i = 0; i < count; ++i) {
    if (values[i] < 0 || values[i] >> width != 0) return CTC_DECODE_INVALID;
    const int64_t bit = i * width;
    uint64_t value = static_cast<uint64_t>(values[i]) << (bit & 7);
    for (uint8_t *byte = bits + (bit >> 3); value != 0; value >>= 8) *byte++ |= static_cast<uint8_t>(value);
  }
  return CTC_DECODE_SUCCESS;
}
