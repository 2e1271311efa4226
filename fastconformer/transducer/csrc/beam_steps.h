// A step of the search of one utterance, but for what the network computes: the same on a processor and on a GPU.
#pragma once

#include "beam_alignments.h"
#include "beam_longer.h"
#include "beam_results.h"

namespace transducer_beam_search {

class Steps {
  public:
    // `which`, `fused`: as for Longer.
    Steps(const Sizes& sizes, const Job& job, int32_t* which, float* fused)
        : sizes_(sizes), options_(sizes.options), job_(job), alignments_(job), longer_(job, which, fused), results_(job) {}

    // The entries of the earliest frame become rows, shorter sequences first: that frame, or kNone for an utterance without
    // any, which is over.
    int32_t collect(Slot& s) const {
        int32_t earliest = earliest_of(s);
        s.rows_count = 0;
        if (earliest < s.frames && !s.has_room(sizes_)) {
            results_.settle(s);
            if (!job_.states && !s.has_room_to_go_on(sizes_)) {
                results_.give_up(s, TRANSDUCER_BEAM_MORE_NODES);
                return kNone;
            }
            while (!s.has_room(sizes_)) {
                s.decide();
                results_.settle(s);
            }
            earliest = earliest_of(s);
        }
        if (earliest >= s.frames) {
            results_.finish(s);
            return kNone;
        }
        for (int32_t i = 0; i < s.entries_count; i++)
            if (s.entries[i].frame == earliest) s.rows[s.rows_count++].index = i;
        const auto length = [&s](const Row& row) {
            return s.nodes[s.members[s.entries[row.index].member].node].length;
        };
        std::sort(s.rows, s.rows + s.rows_count, [&](const Row& a, const Row& b) {
            return length(a) != length(b) ? length(a) < length(b) : a.index < b.index;
        });
        for (int32_t i = 0; i < s.rows_count; i++) {
            s.rows[i].frame = int32_t(s.frames_before + earliest);
            s.rows[i].entropy = NAN;
        }
        return earliest;
    }

    // The state of the prediction network that a row goes on from.
    int32_t state_of(const Slot& s, const Row& row) const { return s.state_of(s.members[s.entries[row.index].member]); }

    // Replaces the rows, whose log_sum and log_durations are known, by what follows them. `ask(from, own, label)`: for
    // every sequence that has no state of the prediction network yet, and shall have `own`.
    template <typename Ask> void advance(Slot& s, Ask ask) const {
        for (int32_t i = 0; i < s.rows_count; i++)
            if (!alignments_.follow(s, s.rows[i])) return results_.give_up(s, TRANSDUCER_BEAM_HAS_NAN);
        keep(s, choose(s), ask);
    }

  private:
    int32_t earliest_of(const Slot& s) const {
        int32_t earliest = int32_t(s.frames);
        for (int32_t i = 0; i < s.entries_count; i++) earliest = std::min(earliest, s.entries[i].frame);
        return earliest;
    }

    // The best of the members and of what their rows make longer, best first.
    int32_t choose(Slot& s) const {
        s.sum_masses();
        Choice choice{s.chosen, 0, options_.beam, options_.drop, kMinusInfinity};
        for (int32_t m = 0; m < s.members_count; m++)
            choice.offer({s.members[m].total + s.nodes[s.members[m].node].external, m, kNone, kNone});
        for (int32_t i = 0; i < s.rows_count; i++) longer_.offer(s, i, choice);
        std::sort(s.chosen, s.chosen + choice.count, is_better);
        int32_t count = choice.count;
        while (count > 1 && s.chosen[count - 1].score < choice.best + options_.drop) count--;
        return count;
    }

    template <typename Ask> void keep(Slot& s, int32_t count, Ask ask) const {
        int32_t kept = 0;
        std::fill_n(s.place, s.members_count, kNone);
        for (int32_t i = 0; i < count; i++) {
            const Candidate& c = s.chosen[i];
            const Member& from = s.members[c.member];
            if (c.label == kNone) s.place[c.member] = i;
            s.next_members[i] = c.label == kNone ? from : Member{longer_.node(s, from, c.label), kMinusInfinity};
        }
        predict(s, count, ask);
        for (int32_t i = 0; i < s.entries_count; i++) {
            if (s.entries[i].member == kNone || s.place[s.entries[i].member] == kNone) continue;
            s.next_entries[kept] = s.entries[i];
            s.next_entries[kept++].member = s.place[s.entries[i].member];
        }
        for (int32_t i = 0; i < count; i++)
            if (const Candidate& c = s.chosen[i]; c.label != kNone)
                alignments_.follow_by(s.rows[c.row], i, c.label, s.next_entries, kept);
        std::swap(s.members, s.next_members);
        std::swap(s.entries, s.next_entries);
        s.members_count = count;
        s.entries_count = kept;
        if (count > 0) alignments_.drop_improbable(s, s.chosen[0].score + options_.drop);
    }

    // Asks the prediction network about those of the chosen sequences whose state is not remembered.
    template <typename Ask> void predict(Slot& s, int32_t count, Ask ask) const {
        std::fill_n(s.used, sizes_.predictions(), 0);
        for (int32_t m = 0; m < s.members_count; m++) s.used[s.state_of(s.members[m])] = 1;
        for (int32_t i = 0; i < count; i++)
            if (s.state_of(s.next_members[i]) != kNone) s.used[s.state_of(s.next_members[i])] = 1;
        for (int32_t i = 0; i < count; i++) {
            const int32_t node = s.next_members[i].node;
            if (s.nodes[node].prediction != kNone) continue;
            const int32_t from = s.state_of(s.members[s.chosen[i].member]);
            const int32_t own = s.take_prediction(node, s.used, sizes_.predictions());
            s.used[own] = 1;
            ask(from, own, s.nodes[node].label);
        }
    }

    const Sizes sizes_;
    const transducerBeamOptions& options_;
    const Job& job_;
    const Alignments alignments_;
    const Longer longer_;
    const Results results_;
};

}  // namespace transducer_beam_search
