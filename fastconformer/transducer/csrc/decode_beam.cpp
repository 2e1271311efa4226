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

#include "beam_steps.h"
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
        const int64_t rows = sizes.rows();
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
            s.take_room(arena, sizes);
            s.projected = arena.take<float>(PROJECTED_FRAMES * sizes.joint());
            if (memory) new (slots + i) Slot(s);
        }
        bytes = arena.used();
    }
};

class Search {
  public:
    Search(const Sizes& sizes, const Job& job, const Work& work)
        : sizes_(sizes), net_(sizes.net), options_(sizes.options), job_(job), work_(work),
          steps_(sizes, job, work.which, work.fused) {}

    void run() {
        std::memset(work_.start, 0, size_t(sizes_.state_floats()) * sizeof(float));
        std::fill_n(work_.fused, sizes_.internal_floats(), -INFINITY);  // kernels read to the end of a vector
        const int32_t blank = int32_t(net_.classes - 1);
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
        if (s.enter(sizes_, job_.states != nullptr)) {
            std::copy_n(work_.start, sizes_.state_floats(), s.states);
            std::copy_n(work_.start_internal, sizes_.internal_floats(), s.internals);
        }
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

    void gather(Slot& s, int64_t& rows) {
        const int32_t earliest = steps_.collect(s);
        if (earliest == kNone) return;
        const float* const frame = projected(s, earliest);
        for (int32_t i = 0; i < s.rows_count; i++, rows++) {
            s.rows[i].logits = work_.logits + rows * sizes_.logit_width();
            work_.of_frames[rows] = frame;
            work_.of_states[rows] = state(s, steps_.state_of(s, s.rows[i])) + 2 * net_.layers * padded(net_.hidden);
        }
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
        for (int32_t i = 0; i < s.rows_count; i++) {
            Row& row = s.rows[i];
            const float* const durations = row.logits + sizes_.classes();
            row.log_sum = job_.kernels->log_sum(row.logits, sizes_.classes());
            row.log_durations = net_.duration_count ? job_.kernels->log_sum(durations, padded(net_.duration_count)) : 0;
        }
        steps_.advance(s, [&](int32_t from, int32_t own, int32_t label) {
            if (!s.predictions[from].has_gates) work_.recurring[recurring_++] = state(s, from);
            s.predictions[from].has_gates = 1;
            work_.internals[predicted_] = internals(s, own);
            work_.tokens[predicted_] = label;
            work_.before[predicted_] = state(s, from);
            work_.after[predicted_++] = state(s, own);
        });
    }

    const Sizes sizes_;
    const transducerNetwork& net_;
    const transducerBeamOptions& options_;
    const Job& job_;
    const Work& work_;
    const Steps steps_;
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
    int64_t next = 0;
    const Job job = {*network, *options, encoded, batch, batch_stride, frame_stride, frame_counts, states, is_over != 0,
                     scorers, capacity, tokens, frames, durations, confidences, entropies, lengths, settled, acoustic,
                     external, counts, &next, kernels_of(options->instruction_set)};
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
    const int64_t with_nan = std::find(counts, counts + batch, int64_t(TRANSDUCER_BEAM_HAS_NAN)) - counts;
    if (with_nan == batch) return TRANSDUCER_SUCCESS;
    if (invalid) *invalid = with_nan;
    return TRANSDUCER_INVALID_VALUE;
}
