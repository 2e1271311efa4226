// What the C entry points of the losses share: checks, sizes, the choice of the instruction set, one utterance a thread.
#pragma once

#include <math.h>
#if defined(_OPENMP)
#include <omp.h>
#endif

#include "cells.h"
#include "processor.h"
#include "transducer_loss.h"

// Below this much work, in logits, starting threads takes longer than they save.
constexpr double LOGITS_PER_THREAD = 1e5;
constexpr size_t ALIGNMENT = 64;

inline size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }
inline int64_t element_bytes(int32_t type) { return type == TRANSDUCER_FLOAT64 ? 8 : type == TRANSDUCER_FLOAT32 ? 4 : 2; }

inline const Kernels& kernels_of(const transducerProblem& p) {
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

inline bool has_durations(const transducerProblem& p) {
    if (p.duration_count == 0) return true;
    if (p.duration_count < 0 || !p.durations) return false;
    for (int64_t i = 0; i < p.duration_count; i++)
        if (p.durations[i] < 0 || (i > 0 && p.durations[i] <= p.durations[i - 1])) return false;
    return p.durations[p.duration_count - 1] > 0;
}

inline bool is_valid(const transducerProblem& p) {
    const bool has_classes = p.classes >= 1 && p.classes <= INT32_MAX && p.blank >= 0 && p.blank < p.classes;
    const bool has_choices = p.type >= TRANSDUCER_FLOAT32 && p.type <= TRANSDUCER_BFLOAT16 && p.threads >= 1 &&
                             (p.instruction_set == TRANSDUCER_AUTOMATIC || is_supported(InstructionSet(p.instruction_set)));
    const bool has_numbers = isfinite(p.sigma) && isfinite(p.fastemit) && p.fastemit >= 0 && p.skip_below >= 0;
    return has_classes && has_choices && has_numbers && has_durations(p);
}

inline bool is_valid_batch(const transducerProblem& p) {
    return is_valid(p) && p.batch >= 0 && p.frames >= 0 && p.positions >= 1 && p.targets_stride >= 0;
}

inline bool are_labels(const transducerProblem& p, const int64_t* labels, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (labels[i] < 0 || labels[i] >= p.classes || labels[i] == p.blank) return false;
    return true;
}

// The first utterance whose lengths or labels do not fit, or -1.
inline int64_t first_invalid(const transducerProblem& p, const int64_t* targets, const int64_t* frame_counts,
                             const int64_t* label_counts) {
    for (int64_t n = 0; n < p.batch; n++) {
        if (frame_counts[n] < 0 || frame_counts[n] > p.frames) return n;
        if (label_counts[n] < 0 || label_counts[n] >= p.positions) return n;
        if (!are_labels(p, targets + n * p.targets_stride, label_counts[n])) return n;
    }
    return -1;
}

inline size_t lattice_bytes(const transducerProblem& p, int64_t frames, int64_t labels) {
    return aligned(size_t(lattice_doubles(shape_of(p, frames, labels))) * sizeof(double));
}

inline size_t row_bytes(const transducerProblem& p) { return aligned(size_t(padded_classes(p)) * sizeof(double)); }

inline int64_t outputs(const transducerProblem& p) { return p.classes + p.duration_count; }

inline double loss_of(const transducerProblem& p, double log_probability) {
    const double loss = -log_probability * (1 + p.fastemit);
    return loss == 0 ? 0 : loss;  // no minus before 0
}

inline bool is_aligned(const void* memory) { return memory && (uintptr_t)memory % ALIGNMENT == 0; }

inline Cells cells_of(const transducerProblem& p, const int64_t* labels, int64_t frames, int64_t label_count,
                      const void* lattice) {
    return {p, labels, shape_of(p, frames, label_count), (double*)lattice};
}

inline bool is_valid_utterance(const transducerProblem* p, int64_t frames, int64_t labels, const void* lattice) {
    return p && is_valid(*p) && frames >= 0 && labels >= 0 && is_aligned(lattice);
}

// Cells with less of the probability of all paths are skipped. Of a model that is sure of the targets the gradient is as
// small as what is left to other sequences, 1 - p, so the threshold is relative to it. Of a path with n steps sigma has
// taken n times itself off: n counts as its mean over all paths. `bands` as for the walk.
inline double skipped_below(const Cells& cells, double log_probability, const Band* bands) {
    const transducerProblem& p = cells.problem;
    if (!(p.skip_below > 0) || !(log_probability > -INFINITY)) return p.skip_below;
    double steps = 0;
    for (int64_t t = 0; p.sigma != 0 && t < cells.shape.frames; t++) {
        const double *const blanks = cells.plane(t, BLANK_PLANE), *const labels = cells.plane(t, LABEL_PLANE);
        const Band band = bands ? bands[t] : Band{0, cells.shape.labels};
        for (int64_t u = band.first; u <= band.last; u++) steps += blanks[u] + labels[u] / (1 + p.fastemit);
    }
    return p.skip_below * fmax(-expm1(log_probability + p.sigma * steps), TRANSDUCER_SURE);
}

// Writes the numbers of the cells that are not skipped, ascending, and returns how many: none where the loss is
// infinite, all where it is NaN.
inline int64_t keep_cells(const Cells& cells, double log_probability, const Band* bands, int64_t* kept) {
    if (log_probability == -INFINITY) return 0;
    const double threshold = skipped_below(cells, log_probability, bands);
    int64_t count = 0;
    for (int64_t t = 0; t < cells.shape.frames; t++) {
        double *const blanks = cells.plane(t, BLANK_PLANE), *const labels = cells.plane(t, LABEL_PLANE);
        const Band band = bands && !isnan(log_probability) ? bands[t] : Band{0, cells.shape.labels};
        for (int64_t u = band.first; u <= band.last; u++) {
            if (isnan(log_probability)) blanks[u] = NAN;
            const double occupancy = blanks[u] + labels[u];
            if (occupancy != 0 && !(occupancy < threshold)) kept[count++] = t * cells.shape.positions + u;
        }
    }
    return count;
}

inline int worthwhile_threads(const transducerProblem& p) {
#if defined(_OPENMP)
    const double logits = double(p.batch) * double(p.frames) * double(p.positions) * double(p.classes + 32);
    return int(fmax(1.0, fmin(double(p.threads), fmin(logits / LOGITS_PER_THREAD, double(p.batch)))));
#else
    return (void)p, 1;
#endif
}

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
