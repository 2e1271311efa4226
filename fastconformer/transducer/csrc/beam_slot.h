// A call of the beam search, and the utterances that a thread has under way.
#pragma once

#include "beam.h"
#include "beam_choice.h"
#include "beam_memory.h"

namespace transducer_beam_search {

// An entry that is replaced in this step.
struct Row {
    Entry entry;
    int32_t index, frame;  // `frame`: counted from the very first
    const float* logits;
    double log_sum, log_durations;
    mutable float entropy;  // NaN until it is asked for
};

struct Job {
    const transducerNetwork& net;
    const transducerBeamOptions& options;
    const float* encoded;
    int64_t batch, batch_stride, frame_stride;
    const int64_t* frame_counts;
    void* const* states;
    bool is_over;
    const ctc_scorer* const* scorers;
    int64_t capacity;
    int32_t *tokens, *frames, *durations;
    float *confidences, *entropies;
    int64_t *lengths, *settled;
    double *acoustic, *external;
    int64_t *counts, *next;
    const BeamKernels* kernels;
};

struct Slot : Memory {
    int64_t utterance, frames, first_projected;
    int64_t first_length, written;  // labels that were settled before this call, and in it
    int32_t rows_count;
    bool is_over;
    const ctc_scorer* scored_by;
    Scorer scorer{nullptr, 0};
    Member *next_members, *spare_members;
    Entry *next_entries, *spare_entries;
    Row* rows;
    Candidate* chosen;
    int32_t *place, *used;
    float* projected;

    // What only a search needs, not what it remembers.
    void take_room(Arena& arena, const Sizes& sizes) {
        moved = arena.take<int32_t>(2 * sizes.marks());
        spare_members = arena.take<Member>(sizes.options.beam);
        spare_entries = arena.take<Entry>(sizes.entries());
        rows = arena.take<Row>(sizes.options.beam);
        chosen = arena.take<Candidate>(sizes.options.beam + 1);
        place = arena.take<int32_t>(sizes.options.beam);
        used = arena.take<int32_t>(sizes.predictions());
    }

    // Begins or, where `goes_on`, goes on. Whether it is before the first frame: the network's state 0 is then to be made.
    bool enter(const Sizes& sizes, bool goes_on) {
        members = kept_members;
        entries = kept_entries;
        next_members = spare_members;
        next_entries = spare_entries;
        const bool is_new = !goes_on || !restore();
        if (is_new) begin(sizes, scorer);
        first_length = settled;
        written = rows_count = 0;
        is_over = false;
        return is_new;
    }
};

}  // namespace transducer_beam_search
