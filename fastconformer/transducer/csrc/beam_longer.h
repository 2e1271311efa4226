// Label sequences that a step makes longer: by which labels, with what a language model and phrases add.
#pragma once

#include "beam_slot.h"

namespace transducer_beam_search {

class Longer {
  public:
    // `which`, `fused`: room for as many numbers as there are classes.
    Longer(const Job& job, int32_t* which, float* fused) : job_(job), which_(which), fused_(fused) {}

    // Those of the row number `which`, by labels that are no members yet.
    void offer(Slot& s, int32_t which, Choice& choice) const {
        const Row& row = s.rows[which];
        const int32_t member = row.entry.member;
        const Node& node = s.nodes[s.members[member].node];
        if (node.length - s.first_length >= job_.capacity) return;
        const double base = row.entry.mass - row.log_sum + node.external;
        const int32_t boundary = s.scorer.boundary();
        const double bound = s.scorer.label_bound(node.state.phrase);
        const double most = boundary == kNone ? bound : std::max(bound, s.scorer.boundary_bound(node.state));
        const double lowest = choice.threshold() - base - most;
        const double slack = 1e-6 * (1 + std::fabs(lowest));
        const float cut = float(lowest - slack);  // a bound rounds down
        const float* const scores = less_internal(s, row.logits, s.members[member]);
        const int64_t found = job_.kernels->above(scores, job_.net.classes - 1, cut, which_);
        const auto is_worse = [scores](int32_t a, int32_t b) {
            return scores[a] != scores[b] ? scores[a] < scores[b] : a > b;
        };
        int32_t* last = which_ + found;  // few of a heap are ever taken
        std::make_heap(which_, last, is_worse);
        while (last != which_) {
            std::pop_heap(which_, last--, is_worse);
            const int32_t label = *last;
            const double score = base + double(scores[label]);
            if (score + most < choice.threshold() - slack) return;
            if (is_member(s, s.members[member].node, label)) continue;
            const double gain = s.scorer.is_trivial() ? 0 : s.scorer.extend(node.state, label).gain;
            const double internal = internal_gain(s, s.members[member], label);
            choice.offer({base + double(row.logits[label]) + (gain + internal), member, label, which});
        }
    }

    // The node of a sequence and one more label.
    int32_t node(Slot& s, const Member& member, int32_t label) const {
        const int32_t parent = member.node;
        int32_t at = s.nodes[parent].first_child;
        while (at != kNone && s.nodes[at].label != label) at = s.nodes[at].next_sibling;
        if (at != kNone) return at;
        Node& above = s.nodes[parent];
        const ctc_decode::Step step = s.scorer.extend(above.state, label);
        s.nodes[s.nodes_count] = {parent, label, kNone, above.first_child, above.length + 1, kNone,
                                  step.state, above.external + (step.gain + internal_gain(s, member, label))};
        above.first_child = s.nodes_count;
        return s.nodes_count++;
    }

  private:
    bool has_internal(const Slot& s) const { return job_.options.internal_weight > 0 && !s.scorer.is_trivial(); }

    double internal_gain(const Slot& s, const Member& member, int32_t label) const {
        return has_internal(s) ? double(s.internals[s.state_of(member) * padded(job_.net.classes) + label]) : 0;
    }

    // The logits with what labels gain by the internal language model.
    const float* less_internal(const Slot& s, const float* logits, const Member& member) const {
        if (!has_internal(s)) return logits;
        const float* const gains = s.internals + s.state_of(member) * padded(job_.net.classes);
        for (int64_t k = 0; k < job_.net.classes - 1; k++) fused_[k] = logits[k] + gains[k];
        return fused_;
    }

    static bool is_member(const Slot& s, int32_t parent, int32_t label) {
        for (int32_t m = 0; m < s.members_count; m++) {
            const Node& node = s.nodes[s.members[m].node];
            if (node.parent == parent && node.label == label) return true;
        }
        return false;
    }

    const Job& job_;
    int32_t* which_;
    float* fused_;
};

}  // namespace transducer_beam_search
