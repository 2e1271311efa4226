// Beam search of transducers. What is kept of an utterance is a cut through all alignments: label sequences, each with
// the frames at which alignments of it go on, and the sum of the probabilities of those (its entries). Every alignment
// goes through one entry, so that entries at different frames can be compared, and sequences by the sum over theirs. A
// step takes the entries of the earliest frame, shorter sequences first, and replaces each by what follows it; of all
// sequences the best `beam` by log-probability and external score survive. The order of equal candidates is fixed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "beam_alignments.h"
#include "beam_longer.h"
#include "beam_results.h"
#include "processor.h"

namespace {

using namespace transducer_beam_search;

constexpr int64_t PREDICTED = 48;  // sequences that go through the prediction network at once

// The memory of a thread.
struct Work {
    float *logits, *sums, *inputs, *gates, *start, *start_internal, *fused;
    int32_t *which, *tokens;
    const float **of_frames, **of_states, **before;
    float **after, **internals, **recurring;
    Slot* slots;
    int64_t bytes;

    Work(const Sizes& sizes, void* memory) {
        const transducerNetwork& net = sizes.net;
        Arena arena(memory);
        const int64_t beam = sizes.options.beam, rows = sizes.rows();
        logits = arena.take<float>(rows * sizes.logit_width());
        sums = arena.take<float>(rows * sizes.joint());
        inputs = arena.take<float>(PREDICTED * 2 * padded(net.hidden));
        gates = arena.take<float>(PREDICTED * std::max(recurrent_floats(net), sizes.joint()));
        start = arena.take<float>(sizes.state_floats());
        start_internal = arena.take<float>(sizes.internal_floats());
        fused = arena.take<float>(sizes.internal_floats());
        which = arena.take<int32_t>(net.classes);
        of_frames = arena.take<const float*>(rows);
        of_states = arena.take<const float*>(rows);
        tokens = arena.take<int32_t>(rows);
        before = arena.take<const float*>(rows);
        after = arena.take<float*>(rows);
        internals = arena.take<float*>(rows);
        recurring = arena.take<float*>(rows);
        slots = arena.take<Slot>(sizes.options.slots);
        for (int64_t i = 0; i < sizes.options.slots; i++) {
            Slot s{};
            s.take(arena, sizes);
            s.moved = arena.take<int32_t>(2 * sizes.marks());
            s.spare_members = arena.take<Member>(beam);
            s.spare_entries = arena.take<Entry>(sizes.entries());
            s.rows = arena.take<Row>(beam);
            s.chosen = arena.take<Candidate>(beam + 1);
            s.place = arena.take<int32_t>(beam);
            s.used = arena.take<int32_t>(sizes.predictions());
            s.projected = arena.take<float>(PROJECTED_FRAMES * sizes.joint());
            if (memory) new (slots + i) Slot(s);
        }
        bytes = arena.used();
    }
};

class Search {
  public:
    Search(const Sizes& sizes, const Job& job, const Work& work)
        : sizes_(sizes), net_(sizes.net), options_(sizes.options), job_(job), work_(work), alignments_(job),
          longer_(job, work.which, work.fused), results_(job) {}

    void run() {
        std::memset(work_.start, 0, size_t(sizes_.state_floats()) * sizeof(float));
        std::fill_n(work_.fused, sizes_.internal_floats(), -INFINITY);  // kernels read to the end of a vector
        const int32_t blank = alignments_.blank_label();
        job_.kernels->recur(net_, 1, &work_.start, work_.inputs, work_.gates);
        job_.kernels->predict(net_, 1, &blank, &work_.start, &work_.start, work_.inputs, work_.gates);
        work_.after[0] = work_.start;
        work_.internals[0] = work_.start_internal;
        make_internals(1);
        for (int64_t active = 0;;) {
            while (active < options_.slots && begin(work_.slots[active])) active++;
            if (active == 0) return;
            step(active);
            for (int64_t i = 0; i < active;) {
                if (work_.slots[i].is_over)
                    std::swap(work_.slots[i], work_.slots[--active]);
                else
                    i++;
            }
        }
    }

  private:
    float* state(const Slot& s, int32_t which) const { return s.states + which * sizes_.state_floats(); }
    float* internals(const Slot& s, int32_t which) const { return s.internals + which * sizes_.internal_floats(); }

    // What labels gain after the first `count` of the new states, by what these say without a frame. Takes their logits'
    // room, which nothing needs any more.
    void make_internals(int64_t count) const {
        if (sizes_.internal_floats() == 0) return;
        const int64_t labels = net_.classes - 1;
        for (int64_t i = 0; i < count; i++) {
            work_.of_frames[i] = net_.encoder_bias;
            work_.of_states[i] = work_.after[i] + 2 * net_.layers * padded(net_.hidden);
        }
        job_.kernels->score(net_, work_.of_frames, work_.of_states, count, work_.sums, work_.logits);
        for (int64_t i = 0; i < count; i++) {
            float* const logits = work_.logits + i * sizes_.logit_width();
            std::fill(logits + labels, logits + sizes_.classes(), -INFINITY);
            const double log_sum = job_.kernels->log_sum(logits, sizes_.classes());
            for (int64_t k = 0; k < labels; k++)
                work_.internals[i][k] = float(options_.internal_weight * (log_sum - double(logits[k])));
        }
    }

    // Takes the next utterance. False where there is none.
    bool begin(Slot& s) {
        const int64_t n = __atomic_fetch_add(job_.next, 1, __ATOMIC_RELAXED);
        if (n >= job_.batch) return false;
        s.utterance = n;
        s.frames = job_.frame_counts[n];
        s.first_projected = -PROJECTED_FRAMES;
        const ctc_scorer* const table = job_.scorers ? job_.scorers[n] : nullptr;
        if (table != s.scored_by) s.scorer = Scorer(table, net_.classes);  // its bounds take time
        s.scored_by = table;
        if (job_.states) {
            Arena own(job_.states[n]);
            s.take(own, sizes_);
        }
        s.members = s.kept_members;
        s.entries = s.kept_entries;
        s.next_members = s.spare_members;
        s.next_entries = s.spare_entries;
        if (!job_.states || !s.restore())
            s.begin(sizes_, s.scorer, work_.start, work_.start_internal);
        s.first_length = s.settled;
        s.written = s.rows_count = 0;
        s.is_over = false;
        return true;
    }

    void step(int64_t active) {
        int64_t rows = 0;
        predicted_ = recurring_ = 0;
        for (int64_t i = 0; i < active; i++) gather(work_.slots[i], rows);
        job_.kernels->score(net_, work_.of_frames, work_.of_states, rows, work_.sums, work_.logits);
        for (int64_t i = 0; i < active; i++)
            if (!work_.slots[i].is_over) advance(work_.slots[i]);
        for (int64_t i = 0; i < recurring_; i += PREDICTED) {
            const int64_t count = std::min(PREDICTED, recurring_ - i);
            job_.kernels->recur(net_, count, work_.recurring + i, work_.inputs, work_.gates);
        }
        for (int64_t i = 0; i < predicted_; i += PREDICTED) {
            const int64_t count = std::min(PREDICTED, predicted_ - i);
            job_.kernels->predict(net_, count, work_.tokens + i, work_.before + i, work_.after + i, work_.inputs, work_.gates);
        }
        make_internals(predicted_);
    }

    // The entries of the earliest frame become rows; an utterance without any is over.
    void gather(Slot& s, int64_t& rows) {
        int32_t earliest = earliest_of(s);
        s.rows_count = 0;
        if (earliest >= s.frames) return results_.finish(s);
        if (!s.has_room(sizes_)) {
            results_.settle(s);
            if (!job_.states && !s.has_room_to_go_on(sizes_)) return results_.give_up(s, Results::OUT_OF_NODES);
            while (!s.has_room(sizes_)) {
                s.decide();
                results_.settle(s);
            }
            earliest = earliest_of(s);
            if (earliest >= s.frames) return results_.finish(s);
        }
        for (int32_t i = 0; i < s.entries_count; i++)
            if (s.entries[i].frame == earliest) s.rows[s.rows_count++].index = i;
        const auto length = [&s](const Row& row) {
            return s.nodes[s.members[s.entries[row.index].member].node].length;
        };
        std::sort(s.rows, s.rows + s.rows_count, [&](const Row& a, const Row& b) {
            return length(a) != length(b) ? length(a) < length(b) : a.index < b.index;
        });
        const float* const frame = projected(s, earliest);
        for (int32_t i = 0; i < s.rows_count; i++, rows++) {
            s.rows[i].frame = int32_t(s.frames_before + earliest);
            s.rows[i].logits = work_.logits + rows * sizes_.logit_width();
            work_.of_frames[rows] = frame;
            work_.of_states[rows] = state(s, s.state_of(s.members[s.entries[s.rows[i].index].member])) +
                               2 * net_.layers * padded(net_.hidden);
        }
    }

    int32_t earliest_of(const Slot& s) const {
        int32_t earliest = int32_t(s.frames);
        for (int32_t i = 0; i < s.entries_count; i++) earliest = std::min(earliest, s.entries[i].frame);
        return earliest;
    }

    const float* projected(Slot& s, int64_t frame) {
        if (frame >= s.first_projected + PROJECTED_FRAMES) {
            s.first_projected = frame;
            const float* const from = job_.encoded + s.utterance * job_.batch_stride + frame * job_.frame_stride;
            job_.kernels->project(net_, from, job_.frame_stride, std::min(PROJECTED_FRAMES, s.frames - frame),
                                   s.projected);
        }
        return s.projected + (frame - s.first_projected) * sizes_.joint();
    }

    void advance(Slot& s) {
        for (int32_t i = 0; i < s.rows_count; i++)
            if (!alignments_.follow(s, s.rows[i])) return results_.give_up(s, Results::NOT_A_NUMBER);
        keep(s, choose(s));
    }

    // The best of the members and of what their rows make longer, best first.
    int32_t choose(Slot& s) {
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

    void keep(Slot& s, int32_t count) {
        int32_t kept = 0;
        std::fill_n(s.place, s.members_count, kNone);
        for (int32_t i = 0; i < count; i++) {
            const Candidate& c = s.chosen[i];
            const Member& from = s.members[c.member];
            if (c.label == kNone) s.place[c.member] = i;
            s.next_members[i] = c.label == kNone ? from : Member{longer_.node(s, from, c.label), kMinusInfinity};
        }
        predict(s, count);
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

    // Notes which of the chosen sequences the prediction network has to be asked about: those whose state is not
    // remembered.
    void predict(Slot& s, int32_t count) {
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
            if (!s.predictions[from].has_gates) work_.recurring[recurring_++] = state(s, from);
            s.predictions[from].has_gates = 1;
            work_.internals[predicted_] = internals(s, own);
            work_.tokens[predicted_] = s.nodes[node].label;
            work_.before[predicted_] = state(s, from);
            work_.after[predicted_++] = state(s, own);
        }
    }

    const Sizes sizes_;
    const transducerNetwork& net_;
    const transducerBeamOptions& options_;
    const Job& job_;
    const Work& work_;
    const Alignments alignments_;
    const Longer longer_;
    const Results results_;
    int64_t predicted_ = 0, recurring_ = 0;  // sequences and states of this step
};

bool is_valid(const transducerNetwork* n, const transducerBeamOptions* o) {
    return is_valid(n) && (n->duration_count == 0 || n->durations[n->duration_count - 1] <= TRANSDUCER_LONGEST_JUMP) && o &&
           o->beam >= 1 && o->beam <= INT32_MAX / 16 && o->n_best >= 1 && o->n_best <= o->beam && o->drop <= 0 &&
           o->nodes > 2 * o->beam && o->nodes <= INT32_MAX / 4 && o->max_symbols >= 1 && o->slots >= 1 &&
           o->threads >= 1 && o->internal_weight >= 0 &&
           (o->instruction_set == TRANSDUCER_AUTOMATIC || is_supported(InstructionSet(o->instruction_set)));
}

const BeamKernels* kernels_of(int32_t instruction_set) {
    switch (chosen(InstructionSet(instruction_set))) {
#if defined(NATIVE_HAS_AVX512)
        case InstructionSet::AVX512: return &avx512::beam_kernels;
#endif
#if defined(NATIVE_HAS_AVX2)
        case InstructionSet::AVX2: return &avx2::beam_kernels;
#endif
        default: return &generic::beam_kernels;
    }
}

}  // namespace

transducerStatus transducer_beam_workspace(const transducerNetwork* network, const transducerBeamOptions* options,
                                           size_t* bytes) {
    if (!is_valid(network, options) || !bytes) return TRANSDUCER_INVALID_VALUE;
    *bytes = size_t(Work(Sizes{*network, *options}, nullptr).bytes) * size_t(options->threads);
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_beam_state(const transducerNetwork* network, const transducerBeamOptions* options,
                                       size_t* bytes) {
    if (!is_valid(network, options) || !bytes) return TRANSDUCER_INVALID_VALUE;
    Arena none(nullptr);
    Memory{}.take(none, Sizes{*network, *options});
    *bytes = size_t(none.used());
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_beam(const transducerNetwork* network, const transducerBeamOptions* options,
                                 const float* encoded, int64_t batch, int64_t batch_stride, int64_t frame_stride,
                                 const int64_t* frame_counts, void* const* states, int32_t is_over,
                                 const ctc_scorer* const* scorers, int64_t capacity, int32_t* tokens, int32_t* frames,
                                 int32_t* durations, float* confidences, float* entropies, int64_t* lengths,
                                 int64_t* settled, double* acoustic, double* external, int64_t* counts,
                                 void* workspace, int64_t* invalid) {
    if (invalid) *invalid = -1;
    if (!is_valid(network, options) || batch < 0 || capacity < 0 || (!states && !is_over)) return TRANSDUCER_INVALID_VALUE;
    if (batch == 0) return TRANSDUCER_SUCCESS;
    if (!frame_counts || !counts || !lengths || !acoustic || !external || !workspace || (uintptr_t)workspace % 64 != 0)
        return TRANSDUCER_INVALID_VALUE;
    for (int64_t n = 0; n < batch; n++) {
        const bool has_results = tokens && frames && durations && confidences;
        const bool has_buffers = (frame_counts[n] == 0 || encoded) && (has_results || (frame_counts[n] == 0 && !states));
        const bool has_state = !states || (states[n] && (uintptr_t)states[n] % 64 == 0);
        if (frame_counts[n] < 0 || frame_counts[n] > INT32_MAX / 8 || !has_buffers || !has_state) {
            if (invalid) *invalid = n;
            return TRANSDUCER_INVALID_VALUE;
        }
    }
    int64_t next = 0, with_nan = batch;
    const Job job = {*network, *options, encoded, batch, batch_stride, frame_stride, frame_counts, states, is_over != 0,
                     scorers, capacity, tokens, frames, durations, confidences, entropies, lengths, settled, acoustic,
                     external, counts, &next, &with_nan, kernels_of(options->instruction_set)};
    const Sizes sizes{*network, *options};
    const int threads = int(std::min(int64_t(options->threads), batch));
#if defined(_OPENMP)
    const int64_t bytes = Work(sizes, nullptr).bytes;
#pragma omp parallel num_threads(threads) if (threads > 1)
    Search(sizes, job, Work(sizes, (char*)workspace + bytes * omp_get_thread_num())).run();
#else
    (void)threads;
    Search(sizes, job, Work(sizes, workspace)).run();
#endif
    if (with_nan == batch) return TRANSDUCER_SUCCESS;
    if (invalid) *invalid = with_nan;
    return TRANSDUCER_INVALID_VALUE;
}
