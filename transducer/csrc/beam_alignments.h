// How the alignments of label sequences go on: from an entry by blank and by labels, with durations.
#pragma once

#include "beam_slot.h"

namespace transducer_beam_search {

class Alignments {
  public:
    explicit Alignments(const Job& job)
        : net_(job.net), options_(job.options), job_(job), classes_(padded(job.net.classes)) {}

    // Replaces the entry of a row by those that blank leads to, and by those of longer sequences that are members.
    bool follow(Slot& s, Row& row) const {
        Entry& entry = s.entries[row.index];
        if (entry.is_new) {
            s.marks[s.marks_count] = entry.last;
            s.marks[s.marks_count].before = entry.mark;
            entry.mark = s.marks_count++;
            entry.is_new = false;
        }
        row.entry = entry;
        entry.member = kNone;
        row.log_sum = job_.kernels->log_sum(row.logits, classes_);
        row.log_durations =
            net_.duration_count ? job_.kernels->log_sum(row.logits + classes_, padded(net_.duration_count)) : 0;
        if (!std::isfinite(row.log_sum) || !std::isfinite(row.log_durations)) return false;
        for (int64_t d = 0; d < durations(); d++)
            add(s.entries, s.entries_count, after(row, row.entry.member, blank_label(), d));
        const int32_t node = s.members[row.entry.member].node;
        for (int32_t m = 0; m < s.members_count; m++) {
            const Node& longer = s.nodes[s.members[m].node];
            for (int64_t d = 0; longer.parent == node && d < durations(); d++)
                add(s.entries, s.entries_count, after(row, m, longer.label, d));
        }
        return true;
    }

    int64_t durations() const { return std::max(net_.duration_count, int64_t(1)); }

    // What follows a row by `label` and the duration number `d`: an entry of `member`.
    Entry after(const Row& row, int32_t member, int32_t label, int64_t d) const {
        const bool is_blank = label == blank_label();
        const int32_t duration = net_.duration_count ? net_.durations[d] : 0;
        double log_prob = double(row.logits[label]) - row.log_sum;
        const double of_label = log_prob;
        if (net_.duration_count) log_prob += double(row.logits[classes_ + d]) - row.log_durations;
        Entry next = row.entry;
        next.symbols += !is_blank;
        const bool must_move = is_blank || next.symbols >= options_.max_symbols;
        const int32_t step = must_move ? std::max(duration, 1) : duration;
        if (step > 0) next.symbols = 0;
        next.member = member;
        next.frame += step;
        next.mass += log_prob;
        next.best += log_prob;
        if (!is_blank) {
            const float entropy =
                job_.entropies ? float(job_.kernels->entropy(row.logits, classes_, row.log_sum)) : 0.0f;
            next.is_new = true;
            next.last = {kNone, row.frame, duration, float(std::exp(of_label)), entropy};
        }
        return next;
    }

    static void add(Entry* entries, int32_t& count, const Entry& entry) {
        if (entry.mass == kMinusInfinity) return;
        for (int32_t i = 0; i < count; i++) {
            Entry& other = entries[i];
            if (other.member != entry.member || other.frame != entry.frame) continue;
            const double mass = Memory::log_add(other.mass, entry.mass);
            if (entry.best > other.best) other = entry;
            other.mass = mass;
            return;
        }
        for (int32_t i = 0; i < count; i++) {
            if (entries[i].member != kNone) continue;
            entries[i] = entry;
            return;
        }
        entries[count++] = entry;
    }

    // The entries that are far below the best sequence; every sequence keeps its best.
    void drop_improbable(Slot& s, double lowest) const {
        for (int32_t m = 0; m < s.members_count; m++) s.members[m].total = kMinusInfinity;
        for (int32_t i = 0; i < s.entries_count; i++) {
            double& largest = s.members[s.entries[i].member].total;
            largest = std::max(largest, s.entries[i].mass);
        }
        int32_t kept = 0;
        for (int32_t i = 0; i < s.entries_count; i++) {
            const Entry& entry = s.entries[i];
            const Member& member = s.members[entry.member];
            const bool is_improbable = entry.mass + s.nodes[member.node].external < lowest;
            if (!is_improbable || entry.mass == member.total) s.entries[kept++] = entry;
        }
        s.entries_count = kept;
    }

    int32_t blank_label() const { return int32_t(net_.classes - 1); }

  private:
    const transducerNetwork& net_;
    const transducerBeamOptions& options_;
    const Job& job_;
    const int64_t classes_;  // padded
};

}  // namespace transducer_beam_search
