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
        if (!std::isfinite(row.log_sum) || !std::isfinite(row.log_durations)) return false;
        follow_by(row, row.entry.member, blank_label(), s.entries, s.entries_count);
        const int32_t node = s.members[row.entry.member].node;
        for (int32_t m = 0; m < s.members_count; m++) {
            const Node& longer = s.nodes[s.members[m].node];
            if (longer.parent == node) follow_by(row, m, longer.label, s.entries, s.entries_count);
        }
        return true;
    }

    // Adds what follows a row by `label`, with every duration: entries of `member`.
    void follow_by(const Row& row, int32_t member, int32_t label, Entry* entries, int32_t& count) const {
        const bool is_blank = label == blank_label();
        const double of_label = double(row.logits[label]) - row.log_sum;
        Entry next = row.entry;
        next.member = member;
        if (!is_blank) {
            if (row.entropy != row.entropy)
                row.entropy = job_.entropies ? float(job_.kernels->entropy(row.logits, classes_, row.log_sum)) : 0.0f;
            next.is_new = true;
            next.last = {kNone, row.frame, 0, float(std::exp(of_label)), row.entropy};
        }
        const int32_t symbols = row.entry.symbols + !is_blank;
        const bool must_move = is_blank || symbols >= options_.max_symbols;
        for (int64_t d = 0; d < std::max(net_.duration_count, int64_t(1)); d++) {
            const int32_t duration = net_.duration_count ? net_.durations[d] : 0;
            const int32_t step = must_move ? std::max(duration, 1) : duration;
            double log_prob = of_label;
            if (net_.duration_count) log_prob += double(row.logits[classes_ + d]) - row.log_durations;
            next.symbols = step > 0 ? 0 : symbols;
            next.frame = row.entry.frame + step;
            next.mass = row.entry.mass + log_prob;
            next.best = row.entry.best + log_prob;
            if (!is_blank) next.last.duration = duration;
            add(entries, count, next);
        }
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
