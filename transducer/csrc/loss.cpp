// The C entry points of the losses: checks, the choice of the instruction set, one utterance a thread.
#include <math.h>
#if defined(_OPENMP)
#include <omp.h>
#endif

#include "processor.h"
#include "transducer_loss.h"
#include "cells.h"

namespace {

// Below this much work, in logits, starting threads takes longer than they save.
constexpr double LOGITS_PER_THREAD = 1e5;
// A gradient of more bytes than this would only push others out of the caches.
constexpr double PAST_CACHES_BYTES = 8e6;
constexpr size_t ALIGNMENT = 64;

size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }
int64_t element_bytes(int32_t type) { return type == TRANSDUCER_FLOAT64 ? 8 : type == TRANSDUCER_FLOAT32 ? 4 : 2; }

const Kernels& kernels_of(const transducerProblem& p) {
    switch (chosen(InstructionSet(p.instruction_set))) {
#if defined(NATIVE_HAS_AVX512)
        case InstructionSet::AVX512: return avx512::kernels;
#endif
#if defined(NATIVE_HAS_AVX2)
        case InstructionSet::AVX2: return avx2::kernels;
#endif
        default: return generic::kernels;
    }
}

bool has_durations(const transducerProblem& p) {
    if (p.duration_count == 0) return true;
    if (p.duration_count < 0 || !p.durations) return false;
    for (int64_t i = 0; i < p.duration_count; i++)
        if (p.durations[i] < 0 || (i > 0 && p.durations[i] <= p.durations[i - 1])) return false;
    return p.durations[p.duration_count - 1] > 0;
}

bool is_valid(const transducerProblem& p) {
    const bool has_classes = p.classes >= 1 && p.classes <= INT32_MAX && p.blank >= 0 && p.blank < p.classes;
    const bool has_choices = p.type >= TRANSDUCER_FLOAT32 && p.type <= TRANSDUCER_BFLOAT16 && p.threads >= 1 &&
                             (p.instruction_set == TRANSDUCER_AUTOMATIC || is_supported(InstructionSet(p.instruction_set)));
    const bool has_numbers = isfinite(p.sigma) && isfinite(p.fastemit) && p.fastemit >= 0 && p.skip_below >= 0;
    return has_classes && has_choices && has_numbers && has_durations(p);
}

bool is_valid_batch(const transducerProblem& p) {
    return is_valid(p) && p.batch >= 0 && p.frames >= 0 && p.positions >= 1 && p.targets_stride >= 0;
}

bool are_labels(const transducerProblem& p, const int64_t* labels, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (labels[i] < 0 || labels[i] >= p.classes || labels[i] == p.blank) return false;
    return true;
}

// The first utterance whose lengths or labels do not fit, or -1.
int64_t first_invalid(const transducerProblem& p, const int64_t* targets, const int64_t* frame_counts,
                      const int64_t* label_counts) {
    for (int64_t n = 0; n < p.batch; n++) {
        if (frame_counts[n] < 0 || frame_counts[n] > p.frames) return n;
        if (label_counts[n] < 0 || label_counts[n] >= p.positions) return n;
        if (!are_labels(p, targets + n * p.targets_stride, label_counts[n])) return n;
    }
    return -1;
}

size_t lattice_bytes(const transducerProblem& p, int64_t frames, int64_t labels) {
    return aligned(size_t(lattice_doubles(shape_of(p, frames, labels))) * sizeof(double));
}

size_t row_bytes(const transducerProblem& p) { return aligned(size_t(padded_classes(p)) * sizeof(double)); }

int64_t outputs(const transducerProblem& p) { return p.classes + p.duration_count; }

// Of an utterance in a batch: its log-probability, its lattice.
size_t utterance_bytes(const transducerProblem& p) { return ALIGNMENT + lattice_bytes(p, p.frames, p.positions - 1); }

double loss_of(const transducerProblem& p, double log_probability) {
    const double loss = -log_probability * (1 + p.fastemit);
    return loss == 0 ? 0 : loss;  // no minus before 0
}

bool is_aligned(const void* memory) { return memory && (uintptr_t)memory % ALIGNMENT == 0; }

bool is_valid_call(const transducerProblem* p, const void* logits, const int64_t* targets, const int64_t* frame_counts,
                   const int64_t* label_counts, const double* numbers, const void* lattices) {
    if (!p || !is_valid_batch(*p)) return false;
    const bool has_labels = targets || p->positions == 1, has_logits = logits || p->frames == 0;
    return p->batch == 0 || (has_labels && has_logits && frame_counts && label_counts && numbers && is_aligned(lattices));
}

int worthwhile_threads(const transducerProblem& p) {
#if defined(_OPENMP)
    const double logits = double(p.batch) * double(p.frames) * double(p.positions) * double(p.classes + 32);
    return int(fmax(1.0, fmin(double(p.threads), fmin(logits / LOGITS_PER_THREAD, double(p.batch)))));
#else
    return (void)p, 1;
#endif
}

struct Batch {
    const transducerProblem& problem;
    const char* logits;
    const int64_t *targets, *frame_counts, *label_counts;
    char* lattices;
};

// One utterance of a batch. Its log-probability stands in front of its lattice.
class Utterance {
  public:
    Utterance(const Batch& b, int64_t n)
        : p(b.problem), kernels(kernels_of(p)), shape(shape_of(p, b.frame_counts[n], b.label_counts[n])),
          log_probability((double*)(b.lattices + utterance_bytes(p) * size_t(n))),
          cells{p, b.targets + n * p.targets_stride, shape, log_probability + ALIGNMENT / sizeof(double)},
          bytes(element_bytes(p.type)), logits(b.logits + n * p.logits_batch_stride * bytes) {}

    double loss() const {
        *log_probability = read() ? kernels.walk(cells, !p.loss_only) : NAN;
        return loss_of(p, *log_probability);
    }

    void write_gradient(char* gradients, int64_t n, double scale, bool streams, char* row) const {
        char* const gradient = gradients + n * p.gradient_batch_stride * bytes;
        for (int64_t t = 0; t < p.frames; t++) {
            const int64_t own = t < shape.frames ? shape.positions : 0;
            for (int64_t u = 0; u < p.positions; u++) {
                char* const to = gradient + (t * p.gradient_frame_stride + u * p.gradient_position_stride) * bytes;
                if (u < own && *log_probability > -INFINITY && is_kept(t, u))
                    kernels.write_gradient(cells, logits_at(t, u), to, t, u, scale, true, streams, row);
                else
                    kernels.fill(to, outputs(p), p.type, u < own && isnan(*log_probability) ? NAN : 0, streams);
            }
        }
    }

  private:
    const char* logits_at(int64_t t, int64_t u) const {
        return logits + (t * p.logits_frame_stride + u * p.logits_position_stride) * bytes;
    }

    bool is_kept(int64_t t, int64_t u) const {
        const double occupancy = cells.plane(t, BLANK_PLANE)[u] + cells.plane(t, LABEL_PLANE)[u];
        return occupancy > 0 && occupancy >= p.skip_below;
    }

    bool read() const {
        for (int64_t t = 0; t < shape.frames; t++)
            for (int64_t u = 0; u < shape.positions; u++)
                if (!kernels.read_cell(cells, logits_at(t, u), t, u)) return false;
        return true;
    }

    const transducerProblem& p;
    const Kernels& kernels;
    LatticeShape shape;
    double* log_probability;
    Cells cells;
    int64_t bytes;
    const char* logits;
};

// Calls use(n, thread) for every utterance, on as many threads as are worth it.
template <typename Use> void for_utterances(const transducerProblem& p, Use use) {
    const int threads = worthwhile_threads(p);
    if (threads == 1) {  // without entering OpenMP, whose first use starts its machinery
        for (int64_t n = 0; n < p.batch; n++) use(n, 0);
        return;
    }
#if defined(_OPENMP)
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t n = 0; n < p.batch; n++) use(n, omp_get_thread_num());
#endif
}

Cells cells_of(const transducerProblem& p, const int64_t* labels, int64_t frames, int64_t label_count,
               const void* lattice) {
    return {p, labels, shape_of(p, frames, label_count), (double*)lattice};
}

bool is_valid_utterance(const transducerProblem* p, int64_t frames, int64_t labels, const void* lattice) {
    return p && is_valid(*p) && frames >= 0 && labels >= 0 && is_aligned(lattice);
}

}  // namespace

transducerStatus transducer_lattices_bytes(const transducerProblem* problem, size_t* bytes) {
    if (!problem || !bytes || !is_valid_batch(*problem)) return TRANSDUCER_INVALID_VALUE;
    const transducerProblem& p = *problem;
    *bytes = utterance_bytes(p) * size_t(p.batch);
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_workspace_bytes(const transducerProblem* problem, size_t* bytes) {
    if (!problem || !bytes || !is_valid(*problem)) return TRANSDUCER_INVALID_VALUE;
    *bytes = row_bytes(*problem) * size_t(problem->threads);
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_loss(const transducerProblem* problem, const void* logits, const int64_t* targets,
                                 const int64_t* frame_counts, const int64_t* label_counts, double* losses,
                                 void* lattices, int64_t* invalid) {
    if (invalid) *invalid = -1;
    if (!is_valid_call(problem, logits, targets, frame_counts, label_counts, losses, lattices))
        return TRANSDUCER_INVALID_VALUE;
    const int64_t wrong = first_invalid(*problem, targets, frame_counts, label_counts);
    if (wrong >= 0) {
        if (invalid) *invalid = wrong;
        return TRANSDUCER_INVALID_VALUE;
    }
    const Batch batch = {*problem, (const char*)logits, targets, frame_counts, label_counts, (char*)lattices};
    for_utterances(*problem, [&](int64_t n, int) { losses[n] = Utterance(batch, n).loss(); });
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_gradient(const transducerProblem* problem, const void* logits, void* gradient,
                                     const int64_t* targets, const int64_t* frame_counts, const int64_t* label_counts,
                                     const double* scale, const void* lattices, void* workspace) {
    if (!is_valid_call(problem, logits, targets, frame_counts, label_counts, scale, lattices) ||
        (!gradient && logits) || problem->loss_only || !is_aligned(workspace) ||
        first_invalid(*problem, targets, frame_counts, label_counts) >= 0)
        return TRANSDUCER_INVALID_VALUE;
    const transducerProblem& p = *problem;
    const Batch batch = {p, (const char*)logits, targets, frame_counts, label_counts, (char*)lattices};
    const double bytes = double(p.batch * p.frames * p.positions) * double(outputs(p) * element_bytes(p.type));
    const bool streams = gradient != logits && bytes > PAST_CACHES_BYTES;
    for_utterances(p, [&](int64_t n, int thread) {
        char* const row = (char*)workspace + row_bytes(p) * size_t(thread);
        Utterance(batch, n).write_gradient((char*)gradient, n, scale[n], streams, row);
    });
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_lattice_bytes(const transducerProblem* problem, int64_t frame_count, int64_t label_count,
                                          size_t* bytes) {
    if (!problem || !is_valid(*problem) || !bytes || frame_count < 0 || label_count < 0)
        return TRANSDUCER_INVALID_VALUE;
    *bytes = lattice_bytes(*problem, frame_count, label_count);
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_read_cells(const transducerProblem* problem, const void* logits, int64_t first,
                                       int64_t count, const int64_t* labels, int64_t frame_count, int64_t label_count,
                                       void* lattice) {
    if (!is_valid_utterance(problem, frame_count, label_count, lattice) || first < 0 || count < 0 ||
        count > frame_count * (label_count + 1) - first || !are_labels(*problem, labels, label_count))
        return TRANSDUCER_INVALID_VALUE;
    const transducerProblem& p = *problem;
    const Cells cells = cells_of(p, labels, frame_count, label_count, lattice);
    const Kernels& kernels = kernels_of(p);
    const int64_t row = outputs(p) * element_bytes(p.type), positions = label_count + 1;
#pragma omp parallel for num_threads(p.threads) if (p.threads > 1)
    for (int64_t i = 0; i < count; i++) {
        const int64_t t = (first + i) / positions, u = (first + i) % positions;
        if (!kernels.read_cell(cells, (const char*)logits + i * row, t, u)) cells.plane(t, SUM_PLANE)[u] = NAN;
    }
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_walk(const transducerProblem* problem, int64_t frame_count, int64_t label_count,
                                 void* lattice, double* loss, int64_t* kept, int64_t* kept_count) {
    if (!is_valid_utterance(problem, frame_count, label_count, lattice) || !loss || (kept_count && !kept && frame_count > 0))
        return TRANSDUCER_INVALID_VALUE;
    const Cells cells = cells_of(*problem, nullptr, frame_count, label_count, lattice);
    bool is_finite = true;
    for (int64_t t = 0; t < frame_count; t++)
        for (int64_t u = 0; u <= label_count; u++) is_finite &= cells.plane(t, SUM_PLANE)[u] < INFINITY;
    const double log_probability = is_finite ? kernels_of(*problem).walk(cells, kept_count != nullptr) : NAN;
    *loss = loss_of(*problem, log_probability);
    if (!kept_count) return TRANSDUCER_SUCCESS;
    *kept_count = 0;
    for (int64_t t = 0; t < frame_count && !(log_probability == -INFINITY); t++) {
        double *const blanks = cells.plane(t, BLANK_PLANE), *const labels = cells.plane(t, LABEL_PLANE);
        for (int64_t u = 0; u <= label_count; u++) {
            if (!is_finite) blanks[u] = NAN;
            const double occupancy = blanks[u] + labels[u];
            if (occupancy != 0 && !(occupancy < problem->skip_below))
                kept[(*kept_count)++] = t * (label_count + 1) + u;
        }
    }
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_cell_gradients(const transducerProblem* problem, void* rows, const int64_t* numbers,
                                           int64_t count, const int64_t* labels, int64_t frame_count,
                                           int64_t label_count, double scale, const void* lattice,
                                           void* workspace) {
    if (!is_valid_utterance(problem, frame_count, label_count, lattice) || !is_aligned(workspace) || count < 0 ||
        !are_labels(*problem, labels, label_count))
        return TRANSDUCER_INVALID_VALUE;
    const transducerProblem& p = *problem;
    const Cells cells = cells_of(p, labels, frame_count, label_count, lattice);
    const int64_t positions = label_count + 1, all_cells = frame_count * positions;
    for (int64_t i = 0; i < count; i++)
        if (numbers[i] < 0 || numbers[i] >= all_cells) return TRANSDUCER_INVALID_VALUE;
    const Kernels& kernels = kernels_of(p);
    const int64_t bytes = outputs(p) * element_bytes(p.type);
#pragma omp parallel for num_threads(p.threads) if (p.threads > 1)
    for (int64_t i = 0; i < count; i++) {
#if defined(_OPENMP)
        char* const row = (char*)workspace + row_bytes(p) * size_t(omp_get_thread_num());
#else
        char* const row = (char*)workspace;
#endif
        char* const here = (char*)rows + i * bytes;
        kernels.write_gradient(cells, here, here, numbers[i] / positions, numbers[i] % positions, scale, false, false,
                               row);
    }
    return TRANSDUCER_SUCCESS;
}
