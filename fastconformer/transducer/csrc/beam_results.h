// What a call of the beam search gives of an utterance.
#pragma once

#include "beam_slot.h"

namespace transducer_beam_search {

class Results {
  public:
    explicit Results(const Job& job) : job_(job) {}

    // Labels that all alignments have in common go to the first row of the results.
    void settle(Slot& s) const {
        const int64_t row = s.utterance * job_.options.n_best * job_.capacity;
        s.settle([&](int32_t label, const Mark& mark) {
            job_.tokens[row + s.written] = label;
            write_mark(mark, row + s.written++);
        });
    }

    void give_up(Slot& s, int64_t why) const {
        s.is_over = true;
        job_.counts[s.utterance] = why;
    }

    // The frames of this call are over.
    void finish(Slot& s) const {
        s.is_over = true;
        if (job_.states) settle(s);
        s.sum_masses();
        for (int32_t m = 0; m < s.members_count; m++) {
            const Node& node = s.nodes[s.members[m].node];
            const double at_end = job_.is_over ? s.scorer.finish(node.state) : 0;
            s.chosen[m] = {s.members[m].total + node.external + at_end, m, kNone, kNone};
        }
        std::sort(s.chosen, s.chosen + s.members_count, is_better);
        int64_t count = 0;
        for (; count < std::min(int64_t(s.members_count), job_.options.n_best); count++) {
            if (s.chosen[count].score == kMinusInfinity) break;
            write(s, s.chosen[count].member, s.utterance * job_.options.n_best + count);
        }
        job_.counts[s.utterance] = count;
        if (job_.settled) job_.settled[s.utterance] = s.written;
        if (job_.states) s.save(s.frames);
    }

  private:
    void write(const Slot& s, int32_t member, int64_t row) const {
        const Node& node = s.nodes[s.members[member].node];
        const int64_t first = row * job_.capacity, settled = s.utterance * job_.options.n_best * job_.capacity;
        job_.acoustic[row] = s.members[member].total;
        job_.external[row] = node.external + (job_.is_over ? s.scorer.finish(node.state) : 0);
        job_.lengths[row] = node.length - s.first_length;
        for (int64_t i = 0; first != settled && i < s.written; i++) {
            job_.tokens[first + i] = job_.tokens[settled + i];
            write_mark({kNone, job_.frames[settled + i], job_.durations[settled + i], job_.confidences[settled + i],
                        job_.entropies ? job_.entropies[settled + i] : 0},
                       first + i);
        }
        int64_t i = first + job_.lengths[row];
        for (const Node* n = &node; n->parent != kNone; n = s.nodes + n->parent) job_.tokens[--i] = n->label;
        const Entry* best = nullptr;
        for (int32_t e = 0; e < s.entries_count; e++)
            if (s.entries[e].member == member && (!best || s.entries[e].best > best->best)) best = s.entries + e;
        i = first + job_.lengths[row];
        if (best->is_new) write_mark(best->last, --i);
        for (int32_t mark = best->mark; mark != kNone; mark = s.marks[mark].before) write_mark(s.marks[mark], --i);
    }

    void write_mark(const Mark& mark, int64_t at) const {
        job_.frames[at] = mark.frame;
        job_.durations[at] = mark.duration;
        job_.confidences[at] = mark.confidence;
        if (job_.entropies) job_.entropies[at] = mark.entropy;
    }

    const Job& job_;
};

}  // namespace transducer_beam_search
