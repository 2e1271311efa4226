// Which label sequences survive a step of a beam search: the best of all that are offered.
#pragma once

#include <algorithm>

#include "beam_memory.h"

namespace transducer_beam_search {

struct Candidate {
    double score;
    int32_t member, label, row;  // `label`: kNone for the member itself
};

inline bool is_better(const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    if ((a.label == kNone) != (b.label == kNone)) return a.label == kNone;
    return a.member != b.member ? a.member < b.member : a.label < b.label;
}

struct Choice {
    Candidate* heap;  // the worst first
    int32_t count;
    int64_t width;
    double drop, best;

    double threshold() const {
        const double worst = count == width ? heap[0].score : kMinusInfinity;
        return std::max(worst, best + drop);
    }
    void offer(const Candidate& candidate) {
        if (!(candidate.score > kMinusInfinity) || candidate.score < threshold()) return;
        if (count == width && !is_better(candidate, heap[0])) return;
        best = std::max(best, candidate.score);
        heap[count++] = candidate;
        std::push_heap(heap, heap + count, is_better);
        if (count <= width) return;
        std::pop_heap(heap, heap + count, is_better);
        count--;
    }
};

}  // namespace transducer_beam_search
