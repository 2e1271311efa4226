// What a beam search remembers of an utterance from frame to frame, in memory of constant size: the label sequences as
// one tree, so that equal ones are one; where alignments of them go on (entries); and the labels of these (marks), in
// chains.
//
// A label is settled when all alignments that are kept have it at the same place. Settled labels are handed out, and
// what only they needed is given up. Where the memory is full of others, the most probable alignment decides.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "decode_scorer.h"
#include "job.h"
#include "transducer_beam.h"

namespace transducer_beam_search {

using ctc_decode::kNone;
using ctc_decode::Scorer;
using ctc_decode::State;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

struct Node {
    int32_t parent, label, first_child, next_sibling, length;
    int32_t prediction;  // which of the states of the prediction network; kNone where it is not remembered
    State state;
    double external;
};

struct Mark {
    int32_t before, frame, duration;
    float confidence, entropy;
};

struct Entry {
    int32_t member, frame, symbols;  // labels on the frame already, on the best alignment
    int32_t mark;                    // of the best alignment; with `is_new`, of the label before its last
    bool is_new;
    Mark last;
    double mass, best;  // log-probabilities of all alignments, and of the best
};

// Whose a state of the prediction network is. Sequences often come back soon after they have left the beam.
struct Prediction {
    int32_t node;       // or kNone
    int32_t has_gates;  // whether `recur` was there
};

struct Member {
    int32_t node;
    double total;
};

// All 0 before the first frame.
struct Progress {
    int64_t frames_before;  // of this call
    int64_t settled;        // labels
    int32_t has_begun, members_count, entries_count, nodes_count, marks_count, last_prediction;
};

// Parts of a piece of memory, aligned to 64 bytes; of none, only their size.
class Arena {
  public:
    explicit Arena(void* base) : base_((char*)base) {}
    template <typename T> T* take(int64_t count) {
        T* const taken = base_ ? (T*)(base_ + used_) : nullptr;
        used_ += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
        return taken;
    }
    int64_t used() const { return used_; }

  private:
    char* base_;
    int64_t used_ = 0;
};

// States of the prediction network that are remembered beside those in use.
constexpr int64_t LEFT_PREDICTIONS = 8;

struct Sizes {
    const transducerNetwork& net;
    const transducerBeamOptions& options;

    int64_t joint() const { return padded(net.joint); }
    int64_t classes() const { return padded(net.classes); }
    int64_t logit_width() const { return classes() + padded(net.duration_count); }
    // With what `recur` makes of it.
    int64_t state_floats() const { return ::state_floats(net) + recurrent_floats(net); }
    // Those of all sequences before and after a step, and some that have left the beam.
    int64_t predictions() const { return 2 * options.beam + LEFT_PREDICTIONS; }
    int64_t longest_jump() const { return net.duration_count ? net.durations[net.duration_count - 1] : 1; }
    // Entries of a sequence have different frames, no further apart than a jump.
    int64_t entries() const { return options.beam * (std::max(longest_jump(), int64_t(1)) + 2); }
    // The entries that wait become marks, even where there is no room for longer sequences.
    int64_t marks() const { return options.nodes + entries(); }
    int64_t rows() const { return options.slots * options.beam; }
    // Of a state: what it says of the labels without hearing anything, where that is taken off.
    int64_t internal_floats() const { return options.internal_weight > 0 ? classes() : 0; }
};

// The memory of one utterance. It is valid between two steps.
struct Memory : Progress {
    Node* nodes;
    Mark* marks;
    Member* members;
    Entry* entries;
    Prediction* predictions;
    float *states, *internals;  // `internals`: what each label gains by taking off what the state alone says
    int32_t* moved;  // for numbers of a moment, twice as many as there are marks

    // Takes its parts from a piece of memory. `progress` is the piece's own.
    void take(Arena& arena, const Sizes& sizes) {
        take_tables(arena, sizes);
        states = arena.take<float>(sizes.predictions() * sizes.state_floats());
        internals = arena.take<float>(sizes.predictions() * sizes.internal_floats());
    }

    // All but what the network says.
    void take_tables(Arena& arena, const Sizes& sizes) {
        progress = arena.take<Progress>(1);
        nodes = arena.take<Node>(sizes.options.nodes);
        marks = arena.take<Mark>(sizes.marks());
        members = kept_members = arena.take<Member>(sizes.options.beam);
        entries = kept_entries = arena.take<Entry>(sizes.entries());
        predictions = arena.take<Prediction>(sizes.predictions());
    }

    // Goes on where the piece of memory says. False before the first frame.
    bool restore() {
        static_cast<Progress&>(*this) = *progress;
        return has_begun;
    }

    void begin(const Sizes& sizes, const Scorer& scorer) {
        static_cast<Progress&>(*this) = {0, 0, 1, 1, 1, 1, 0, 0};
        nodes[0] = {kNone, kNone, kNone, kNone, 0, 0, scorer.start(), 0};
        members[0] = {0, 0};
        entries[0] = {0, 0, 0, kNone, false, {}, 0, 0};
        std::fill_n(predictions, sizes.predictions(), Prediction{kNone, 0});
        predictions[0].node = 0;
    }

    // Which of the states of the prediction network is a member's.
    int32_t state_of(const Member& member) const { return nodes[member.node].prediction; }

    // Gives a node a state: of those that are not in use, the one that was given longest ago.
    int32_t take_prediction(int32_t node, const int32_t* is_used, int64_t count) {
        do last_prediction = int32_t((last_prediction + 1) % count);
        while (is_used[last_prediction]);
        Prediction& taken = predictions[last_prediction];
        if (taken.node != kNone) nodes[taken.node].prediction = kNone;
        taken = {node, 0};
        return nodes[node].prediction = last_prediction;
    }

    // The next frames are numbered from 0 again.
    void save(int64_t frames) {
        for (int32_t i = 0; i < entries_count; i++) entries[i].frame -= int32_t(frames);
        frames_before += frames;
        if (members != kept_members) std::copy_n(members, members_count, kept_members);
        if (entries != kept_entries) std::copy_n(entries, entries_count, kept_entries);
        *progress = *this;
    }

    bool has_room(const Sizes& sizes) const {
        return nodes_count + sizes.options.beam <= sizes.options.nodes &&
               marks_count + sizes.options.beam <= sizes.options.nodes;
    }

    // Where little room is left, each step would have to settle and drop some.
    bool has_room_to_go_on(const Sizes& sizes) const {
        return has_room(sizes) && std::max(nodes_count, marks_count) <= sizes.options.nodes - sizes.options.nodes / 8;
    }

    // Calls `with(label, mark)` for every label that is settled now, in order, and gives up what nothing needs.
    template <typename With> void settle(With with) {
        if (entries_count == 0) return;
        std::fill_n(moved, marks_count, 0);
        for (int32_t i = 0; i < entries_count; i++)
            for (int32_t at = entries[i].mark; at != kNone; at = marks[at].before) moved[at]++;
        int32_t last = entries[0].mark;
        while (last != kNone && moved[last] != entries_count) last = marks[last].before;
        if (last != kNone) hand_out(last, with);
        drop_unused_nodes();
        drop_unused_marks();
    }

    // Gives up what has another oldest label than the most probable alignment, for settle.
    void decide() {
        int32_t best = 0;
        sum_masses();
        const auto score = [this](int32_t i) {
            const Member& member = members[entries[i].member];
            return member.total + nodes[member.node].external;
        };
        for (int32_t i = 1; i < entries_count; i++)
            if (score(i) > score(best) ||
                (entries[i].member == entries[best].member && entries[i].best > entries[best].best))
                best = i;
        const int32_t wanted = oldest(entries[best]);
        int32_t kept = 0, kept_members_count = 0;
        for (int32_t i = 0; i < entries_count; i++)
            if (oldest(entries[i]) == wanted) entries[kept++] = entries[i];
        entries_count = kept;
        for (int32_t m = 0; m < members_count; m++) {
            bool is_used = false;
            for (int32_t i = 0; i < entries_count; i++) {
                if (entries[i].member != m) continue;
                entries[i].member = kept_members_count;
                is_used = true;
            }
            if (is_used) members[kept_members_count++] = members[m];
        }
        members_count = kept_members_count;
    }

    // The total of every member over its entries.
    void sum_masses() {
        for (int32_t m = 0; m < members_count; m++) members[m].total = kMinusInfinity;
        for (int32_t i = 0; i < entries_count; i++) {
            if (entries[i].member == kNone) continue;
            double& total = members[entries[i].member].total;
            total = log_add(total, entries[i].mass);
        }
    }

    static double log_add(double a, double b) {
        const double high = std::max(a, b), low = std::min(a, b);
        return low == kMinusInfinity ? high : high + std::log1p(std::exp(low - high));
    }

    Member* kept_members;  // where `members` and `entries` are between two calls
    Entry* kept_entries;

  private:
    // The labels up to the mark `last`, which all alignments have in common.
    template <typename With> void hand_out(int32_t last, With with) {
        int32_t count = 0;
        for (int32_t at = last; at != kNone; at = marks[at].before) moved[count++] = at;
        int32_t root = members[entries[0].member].node;
        while (nodes[root].length > settled + count) root = nodes[root].parent;
        int32_t* const labels = moved + count;
        for (int32_t node = root, i = 0; i < count; i++, node = nodes[node].parent) labels[i] = nodes[node].label;
        for (int32_t i = count; i-- > 0;) with(labels[i], marks[moved[i]]);
        nodes[root].parent = kNone;
        settled += count;
        for (int32_t i = 0; i < entries_count; i++)
            if (entries[i].mark == last) entries[i].mark = kNone;
        for (int32_t i = 0; i < marks_count; i++)
            if (marks[i].before == last) marks[i].before = kNone;
    }

    int32_t oldest(const Entry& entry) const {
        int32_t at = entry.mark;
        while (at != kNone && marks[at].before != kNone) at = marks[at].before;
        return at;
    }

    // Those that no member begins with.
    void drop_unused_nodes() {
        std::fill_n(moved, nodes_count, kNone);
        for (int32_t m = 0; m < members_count; m++)
            for (int32_t at = members[m].node; at != kNone && moved[at] == kNone; at = nodes[at].parent) moved[at] = 0;
        int32_t kept = 0;
        for (int32_t at = 0; at < nodes_count; at++) {  // parents come first
            Node node = nodes[at];
            if (node.prediction != kNone) predictions[node.prediction].node = moved[at] == kNone ? kNone : kept;
            if (moved[at] == kNone) continue;
            moved[at] = kept;
            node.first_child = node.next_sibling = kNone;
            if (node.parent != kNone) {
                node.parent = moved[node.parent];
                node.next_sibling = nodes[node.parent].first_child;
                nodes[node.parent].first_child = kept;
            }
            nodes[kept++] = node;
        }
        nodes_count = kept;
        for (int32_t m = 0; m < members_count; m++) members[m].node = moved[members[m].node];
    }

    // Those of no alignment that is kept.
    void drop_unused_marks() {
        std::fill_n(moved, marks_count, kNone);
        for (int32_t i = 0; i < entries_count; i++)
            for (int32_t at = entries[i].mark; at != kNone && moved[at] == kNone; at = marks[at].before) moved[at] = 0;
        int32_t kept = 0;
        for (int32_t at = 0; at < marks_count; at++) {
            if (moved[at] == kNone) continue;
            Mark mark = marks[at];
            moved[at] = kept;
            if (mark.before != kNone) mark.before = moved[mark.before];
            marks[kept++] = mark;
        }
        marks_count = kept;
        for (int32_t i = 0; i < entries_count; i++)
            if (entries[i].mark != kNone) entries[i].mark = moved[entries[i].mark];
    }

    Progress* progress;
};

}  // namespace transducer_beam_search
