// Beam search of transducers. What is kept of an utterance is a cut through all alignments: label sequences, each with
// the frames at which alignments of it go on, and the sum of the probabilities of those (its entries). Every alignment
// goes through one entry, so that entries at different frames can be compared, and sequences by the sum over theirs. A
// step takes the entries of the earliest frame, shorter sequences first, and replaces each by what follows it; of all
// sequences the best `beam` by log-probability and external score survive. The order of equal candidates is fixed.
#include "beam.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "beam_memory.h"
#include "processor.h"

namespace {

using namespace transducer_beam_search;

constexpr int64_t PREDICTED = 48;  // sequences that go through the prediction network at once

// An entry that is replaced in this step.
struct Row {
    Entry entry;
    int32_t index, frame;  // `frame`: counted from the very first
    const float* logits;
    double log_sum, log_durations;
};

struct Candidate {
    double score;
    int32_t member, label, row;  // `label`: kNone for the member itself
};

bool is_better(const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    if ((a.label == kNone) != (b.label == kNone)) return a.label == kNone;
    return a.member != b.member ? a.member < b.member : a.label < b.label;
}

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
    int64_t *counts, *next, *invalid;
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
};

class Search {
  public:
    Search(const Sizes& sizes, const Job* job, void* memory)
        : sizes_(sizes), net_(sizes.net), options_(sizes.options), job_(job) {
        Arena arena(memory);
        const int64_t beam = options_.beam, rows = sizes.rows();
        logits_ = arena.take<float>(rows * sizes.logit_width());
        sums_ = arena.take<float>(rows * sizes.joint());
        inputs_ = arena.take<float>(PREDICTED * 2 * padded(net_.hidden));
        gates_ = arena.take<float>(PREDICTED * std::max(4 * padded(net_.hidden), sizes.joint()));
        start_ = arena.take<float>(sizes.state_floats());
        which_ = arena.take<int32_t>(net_.classes);
        of_frames_ = arena.take<const float*>(rows);
        of_states_ = arena.take<const float*>(rows);
        tokens_ = arena.take<int32_t>(rows);
        before_ = arena.take<const float*>(rows);
        after_ = arena.take<float*>(rows);
        slots_ = arena.take<Slot>(options_.slots);
        for (int64_t i = 0; i < options_.slots; i++) {
            Slot s{};
            s.take(arena, sizes);
            s.moved = arena.take<int32_t>(2 * sizes.marks());
            s.spare_members = arena.take<Member>(beam);
            s.spare_entries = arena.take<Entry>(sizes.entries());
            s.rows = arena.take<Row>(beam);
            s.chosen = arena.take<Candidate>(beam + 1);
            s.place = arena.take<int32_t>(beam);
            s.used = arena.take<int32_t>(2 * beam);
            s.projected = arena.take<float>(PROJECTED_FRAMES * sizes.joint());
            if (memory) new (slots_ + i) Slot(s);
        }
        bytes = arena.used();
    }

    void run() {
        std::memset(start_, 0, size_t(sizes_.state_floats()) * sizeof(float));
        const int32_t blank = blank_label();
        job_->kernels->predict(net_, 1, &blank, &start_, &start_, inputs_, gates_);
        for (int64_t active = 0;;) {
            while (active < options_.slots && begin(slots_[active])) active++;
            if (active == 0) return;
            step(active);
            for (int64_t i = 0; i < active;) {
                if (slots_[i].is_over)
                    std::swap(slots_[i], slots_[--active]);
                else
                    i++;
            }
        }
    }

    int64_t bytes;

  private:
    int32_t blank_label() const { return int32_t(net_.classes - 1); }
    float* state(const Slot& s, int32_t which) const { return s.states + which * sizes_.state_floats(); }

    // Takes the next utterance. False where there is none.
    bool begin(Slot& s) {
        const int64_t n = __atomic_fetch_add(job_->next, 1, __ATOMIC_RELAXED);
        if (n >= job_->batch) return false;
        s.utterance = n;
        s.frames = job_->frame_counts[n];
        s.first_projected = -PROJECTED_FRAMES;
        const ctc_scorer* const table = job_->scorers ? job_->scorers[n] : nullptr;
        if (table != s.scored_by) s.scorer = Scorer(table, net_.classes);  // its bounds take time
        s.scored_by = table;
        if (job_->states) {
            Arena own(job_->states[n]);
            s.take(own, sizes_);
        }
        s.members = s.kept_members;
        s.entries = s.kept_entries;
        s.next_members = s.spare_members;
        s.next_entries = s.spare_entries;
        if (!job_->states || !s.restore()) s.begin(s.scorer, start_, sizes_.state_floats());
        s.first_length = s.settled;
        s.written = s.rows_count = 0;
        s.is_over = false;
        return true;
    }

    void step(int64_t active) {
        int64_t rows = 0, predicted = 0;
        for (int64_t i = 0; i < active; i++) gather(slots_[i], rows);
        job_->kernels->score(net_, of_frames_, of_states_, rows, sums_, logits_);
        for (int64_t i = 0; i < active; i++)
            if (!slots_[i].is_over) advance(slots_[i], predicted);
        for (int64_t i = 0; i < predicted; i += PREDICTED) {
            const int64_t count = std::min(PREDICTED, predicted - i);
            job_->kernels->predict(net_, count, tokens_ + i, before_ + i, after_ + i, inputs_, gates_);
        }
    }

    // The entries of the earliest frame become rows; an utterance without any is over.
    void gather(Slot& s, int64_t& rows) {
        int32_t earliest = earliest_of(s);
        s.rows_count = 0;
        if (earliest >= s.frames) return finish(s);
        if (!s.has_room(sizes_)) {
            settle(s);
            if (!job_->states && !s.has_room_to_go_on(sizes_)) return give_up(s, OUT_OF_NODES);
            while (!s.has_room(sizes_)) {
                s.decide();
                settle(s);
            }
            earliest = earliest_of(s);
            if (earliest >= s.frames) return finish(s);
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
            s.rows[i].logits = logits_ + rows * sizes_.logit_width();
            of_frames_[rows] = frame;
            of_states_[rows] = state(s, s.members[s.entries[s.rows[i].index].member].state) +
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
            const float* const from = job_->encoded + s.utterance * job_->batch_stride + frame * job_->frame_stride;
            job_->kernels->project(net_, from, job_->frame_stride, std::min(PROJECTED_FRAMES, s.frames - frame),
                                   s.projected);
        }
        return s.projected + (frame - s.first_projected) * sizes_.joint();
    }

    void advance(Slot& s, int64_t& predicted) {
        for (int32_t i = 0; i < s.rows_count; i++)
            if (!follow(s, s.rows[i])) return give_up(s, NOT_A_NUMBER);
        keep(s, choose(s), predicted);
    }

    // Replaces the entry of a row by those that blank leads to, and by those of longer sequences that are members.
    bool follow(Slot& s, Row& row) {
        Entry& entry = s.entries[row.index];
        if (entry.is_new) {
            s.marks[s.marks_count] = entry.last;
            s.marks[s.marks_count].before = entry.mark;
            entry.mark = s.marks_count++;
            entry.is_new = false;
        }
        row.entry = entry;
        entry.member = kNone;
        row.log_sum = job_->kernels->log_sum(row.logits, sizes_.classes());
        row.log_durations =
            net_.duration_count ? job_->kernels->log_sum(row.logits + sizes_.classes(), padded(net_.duration_count)) : 0;
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
        if (net_.duration_count) log_prob += double(row.logits[sizes_.classes() + d]) - row.log_durations;
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
                job_->entropies ? float(job_->kernels->entropy(row.logits, sizes_.classes(), row.log_sum)) : 0.0f;
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

    // The best of the members and of what their rows make longer, best first.
    int32_t choose(Slot& s) {
        s.sum_masses();
        Choice choice{s.chosen, 0, options_.beam, options_.drop, kMinusInfinity};
        for (int32_t m = 0; m < s.members_count; m++)
            choice.offer({s.members[m].total + s.nodes[s.members[m].node].external, m, kNone, kNone});
        for (int32_t i = 0; i < s.rows_count; i++) offer_longer(s, i, choice);
        std::sort(s.chosen, s.chosen + choice.count, is_better);
        int32_t count = choice.count;
        while (count > 1 && s.chosen[count - 1].score < choice.best + options_.drop) count--;
        return count;
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

    void offer_longer(Slot& s, int32_t which, Choice& choice) {
        const Row& row = s.rows[which];
        const int32_t member = row.entry.member;
        const Node& node = s.nodes[s.members[member].node];
        if (node.length - s.first_length >= job_->capacity) return;
        const double base = row.entry.mass - row.log_sum + node.external;
        const int32_t boundary = s.scorer.boundary();
        const double bound = s.scorer.label_bound(node.state.phrase);
        const double most = boundary == kNone ? bound : std::max(bound, s.scorer.boundary_bound(node.state));
        const double lowest = choice.threshold() - base - most;
        const float cut = float(lowest - 1e-6 * (1 + std::fabs(lowest)));  // a bound rounds down
        const int64_t found = job_->kernels->above(row.logits, net_.classes - 1, cut, which_);
        std::sort(which_, which_ + found, [&row](int32_t a, int32_t b) {
            return row.logits[a] != row.logits[b] ? row.logits[a] > row.logits[b] : a < b;
        });
        for (int64_t i = 0; i < found; i++) {
            const int32_t label = which_[i];
            const double score = base + double(row.logits[label]);
            if (score + most < choice.threshold()) return;
            if (is_member(s, s.members[member].node, label)) continue;
            const double gain = s.scorer.is_trivial() ? 0 : s.scorer.extend(node.state, label).gain;
            choice.offer({score + gain, member, label, which});
        }
    }

    static bool is_member(const Slot& s, int32_t parent, int32_t label) {
        for (int32_t m = 0; m < s.members_count; m++) {
            const Node& node = s.nodes[s.members[m].node];
            if (node.parent == parent && node.label == label) return true;
        }
        return false;
    }

    void keep(Slot& s, int32_t count, int64_t& predicted) {
        std::fill_n(s.place, s.members_count, kNone);
        std::fill_n(s.used, 2 * options_.beam, 0);
        for (int32_t m = 0; m < s.members_count; m++) s.used[s.members[m].state] = 1;
        int32_t free = 0, kept = 0;
        for (int32_t i = 0; i < count; i++) {
            const Candidate& c = s.chosen[i];
            const Member& from = s.members[c.member];
            if (c.label == kNone) {
                s.place[c.member] = i;
                s.next_members[i] = from;
                continue;
            }
            while (s.used[free]) free++;
            s.used[free] = 1;
            s.next_members[i] = {longer(s, from.node, c.label), free, kMinusInfinity};
            tokens_[predicted] = c.label;
            before_[predicted] = state(s, from.state);
            after_[predicted++] = state(s, free);
        }
        for (int32_t i = 0; i < s.entries_count; i++) {
            if (s.entries[i].member == kNone || s.place[s.entries[i].member] == kNone) continue;
            s.next_entries[kept] = s.entries[i];
            s.next_entries[kept++].member = s.place[s.entries[i].member];
        }
        for (int32_t i = 0; i < count; i++)
            for (int64_t d = 0; s.chosen[i].label != kNone && d < durations(); d++)
                add(s.next_entries, kept, after(s.rows[s.chosen[i].row], i, s.chosen[i].label, d));
        std::swap(s.members, s.next_members);
        std::swap(s.entries, s.next_entries);
        s.members_count = count;
        s.entries_count = kept;
        if (count > 0) drop_improbable(s, s.chosen[0].score + options_.drop);
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

    static int32_t longer(Slot& s, int32_t parent, int32_t label) {
        int32_t at = s.nodes[parent].first_child;
        while (at != kNone && s.nodes[at].label != label) at = s.nodes[at].next_sibling;
        if (at != kNone) return at;
        Node& above = s.nodes[parent];
        const ctc_decode::Step step = s.scorer.extend(above.state, label);
        s.nodes[s.nodes_count] = {parent, label, kNone, above.first_child, above.length + 1,
                                  step.state, above.external + step.gain};
        above.first_child = s.nodes_count;
        return s.nodes_count++;
    }

    // Labels that all alignments have in common go to the first row of the results.
    void settle(Slot& s) {
        const int64_t row = s.utterance * options_.n_best * job_->capacity;
        s.settle([&](int32_t label, const Mark& mark) {
            job_->tokens[row + s.written] = label;
            write_mark(mark, row + s.written++);
        });
    }

    enum Reason { NOT_A_NUMBER, OUT_OF_NODES };

    void give_up(Slot& s, Reason reason) {
        s.is_over = true;
        job_->counts[s.utterance] = reason == OUT_OF_NODES ? TRANSDUCER_BEAM_MORE_NODES : 0;
        if (reason == OUT_OF_NODES) return;
        int64_t known = __atomic_load_n(job_->invalid, __ATOMIC_RELAXED);
        while (s.utterance < known && !__atomic_compare_exchange_n(job_->invalid, &known, s.utterance, false,
                                                                   __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        }
    }

    // The frames of this call are over.
    void finish(Slot& s) {
        s.is_over = true;
        if (job_->states) settle(s);
        s.sum_masses();
        for (int32_t m = 0; m < s.members_count; m++) {
            const Node& node = s.nodes[s.members[m].node];
            const double at_end = job_->is_over ? s.scorer.finish(node.state) : 0;
            s.chosen[m] = {s.members[m].total + node.external + at_end, m, kNone, kNone};
        }
        std::sort(s.chosen, s.chosen + s.members_count, is_better);
        int64_t count = 0;
        for (; count < std::min(int64_t(s.members_count), options_.n_best); count++) {
            if (s.chosen[count].score == kMinusInfinity) break;
            write(s, s.chosen[count].member, s.utterance * options_.n_best + count);
        }
        job_->counts[s.utterance] = count;
        if (job_->settled) job_->settled[s.utterance] = s.written;
        if (job_->states) s.save(s.frames);
    }

    void write(const Slot& s, int32_t member, int64_t row) {
        const Node& node = s.nodes[s.members[member].node];
        const int64_t first = row * job_->capacity, settled = s.utterance * options_.n_best * job_->capacity;
        job_->acoustic[row] = s.members[member].total;
        job_->external[row] = node.external + (job_->is_over ? s.scorer.finish(node.state) : 0);
        job_->lengths[row] = node.length - s.first_length;
        for (int64_t i = 0; first != settled && i < s.written; i++) {
            job_->tokens[first + i] = job_->tokens[settled + i];
            write_mark({kNone, job_->frames[settled + i], job_->durations[settled + i], job_->confidences[settled + i],
                        job_->entropies ? job_->entropies[settled + i] : 0},
                       first + i);
        }
        int64_t i = first + job_->lengths[row];
        for (const Node* n = &node; n->parent != kNone; n = s.nodes + n->parent) job_->tokens[--i] = n->label;
        const Entry* best = nullptr;
        for (int32_t e = 0; e < s.entries_count; e++)
            if (s.entries[e].member == member && (!best || s.entries[e].best > best->best)) best = s.entries + e;
        i = first + job_->lengths[row];
        if (best->is_new) write_mark(best->last, --i);
        for (int32_t mark = best->mark; mark != kNone; mark = s.marks[mark].before) write_mark(s.marks[mark], --i);
    }

    void write_mark(const Mark& mark, int64_t at) {
        job_->frames[at] = mark.frame;
        job_->durations[at] = mark.duration;
        job_->confidences[at] = mark.confidence;
        if (job_->entropies) job_->entropies[at] = mark.entropy;
    }

    const Sizes sizes_;
    const transducerNetwork& net_;
    const transducerBeamOptions& options_;
    const Job* job_;
    float *logits_, *sums_, *inputs_, *gates_, *start_;
    int32_t *which_, *tokens_;
    const float **of_frames_, **of_states_, **before_;
    float** after_;
    Slot* slots_;
};

bool is_valid(const transducerNetwork* n, const transducerBeamOptions* o) {
    return is_valid(n) && (n->duration_count == 0 || n->durations[n->duration_count - 1] <= TRANSDUCER_LONGEST_JUMP) && o &&
           o->beam >= 1 && o->beam <= INT32_MAX / 16 && o->n_best >= 1 && o->n_best <= o->beam && o->drop <= 0 &&
           o->nodes > 2 * o->beam && o->nodes <= INT32_MAX / 4 && o->max_symbols >= 1 && o->slots >= 1 &&
           o->threads >= 1 &&
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
    *bytes = size_t(Search(Sizes{*network, *options}, nullptr, nullptr).bytes) * size_t(options->threads);
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
    const int64_t bytes = Search(sizes, nullptr, nullptr).bytes;
#pragma omp parallel num_threads(threads) if (threads > 1)
    Search(sizes, &job, (char*)workspace + bytes * omp_get_thread_num()).run();
#else
    (void)threads;
    Search(sizes, &job, workspace).run();
#endif
    if (with_nan == batch) return TRANSDUCER_SUCCESS;
    if (invalid) *invalid = with_nan;
    return TRANSDUCER_INVALID_VALUE;
}
