// The C entry points of the losses from logits.
#include "loss_problem.h"

namespace {

// A gradient of more bytes than this would only push others out of the caches.
constexpr double PAST_CACHES_BYTES = 8e6;
// Of an utterance in a batch: its log-probability, its lattice.
size_t utterance_bytes(const transducerProblem& p) { return ALIGNMENT + lattice_bytes(p, p.frames, p.positions - 1); }

bool is_valid_call(const transducerProblem* p, const void* logits, const int64_t* targets, const int64_t* frame_counts,
                   const int64_t* label_counts, const double* numbers, const void* lattices) {
    if (!p || !is_valid_batch(*p)) return false;
    const bool has_labels = targets || p->positions == 1, has_logits = logits || p->frames == 0;
    return p->batch == 0 || (has_labels && has_logits && frame_counts && label_counts && numbers && is_aligned(lattices));
}

struct Batch {
    const transducerProblem& problem;
    const char* logits;
    const int64_t *targets, *frame_counts, *label_counts;
    char* lattices;
};

// One utterance of a batch. Its log-probability stands in front of its lattice, and what its cells are skipped below.
class Utterance {
  public:
    Utterance(const Batch& b, int64_t n)
        : p(b.problem), kernels(kernels_of(p)), shape(shape_of(p, b.frame_counts[n], b.label_counts[n])),
          log_probability((double*)(b.lattices + utterance_bytes(p) * size_t(n))),
          cells{p, b.targets + n * p.targets_stride, shape, log_probability + ALIGNMENT / sizeof(double)},
          bytes(element_bytes(p.type)), logits(b.logits + n * p.logits_batch_stride * bytes) {}

    double loss() const {
        *log_probability = read() ? kernels.walk(cells, !p.loss_only, nullptr) : NAN;
        if (!p.loss_only) log_probability[1] = skipped_below(cells, *log_probability, nullptr);
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
        return occupancy > 0 && occupancy >= log_probability[1];
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
    const double log_probability = is_finite ? kernels_of(*problem).walk(cells, kept_count != nullptr, nullptr) : NAN;
    *loss = loss_of(*problem, log_probability);
    if (kept_count) *kept_count = keep_cells(cells, log_probability, nullptr, kept);
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
