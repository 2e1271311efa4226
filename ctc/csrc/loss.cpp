// The C entry points: checks, the choice of the instruction set, one utterance a thread.
#include "ctc.h"

#include "processor.h"
#include "utterance.h"

#include <math.h>
#if defined(_OPENMP)
#include <omp.h>
#endif

namespace {

#if defined(_OPENMP)
constexpr bool HAS_THREADS = true;
#else
constexpr bool HAS_THREADS = false;
#endif

// Below this much work, in cells of lattice and softmax, starting threads takes longer than they save.
constexpr double CELLS_PER_THREAD = 1e5;
// A gradient of more bytes than this would only push others out of the caches.
constexpr double PAST_CACHES_BYTES = 8e6;

int64_t element_bytes(int32_t type) { return type == CTC_FLOAT64 ? 8 : type == CTC_FLOAT32 ? 4 : 2; }
int64_t real_bytes(int32_t type) { return type == CTC_FLOAT64 ? 8 : 4; }

int64_t index_at(const void* values, int64_t i, int32_t flags) {
    return flags & CTC_INDEX64 ? ((const int64_t*)values)[i] : ((const int32_t*)values)[i];
}

double real_at(const void* values, int64_t i, int32_t type) {
    return type == CTC_FLOAT64 ? ((const double*)values)[i] : ((const float*)values)[i];
}

void set_real(void* values, int64_t i, int32_t type, double value) {
    if (type == CTC_FLOAT64)
        ((double*)values)[i] = value;
    else
        ((float*)values)[i] = float(value);
}

double reduction_weight(const ctcProblem& p, int64_t labels) {
    return p.reduction == CTC_MEAN ? 1 / (double(labels > 0 ? labels : 1) * double(p.batch)) : 1;
}

bool is_known(int32_t instruction_set) {
    return instruction_set >= CTC_AUTOMATIC && instruction_set <= CTC_AVX512 &&
           (instruction_set == CTC_AUTOMATIC || is_supported(InstructionSet(instruction_set)));
}

UtteranceLoss kernel_of(InstructionSet set) {
#if defined(__x86_64__)
    if (set == InstructionSet::AVX512) return avx512::utterance_loss;
    if (set == InstructionSet::AVX2) return avx2::utterance_loss;
#else
    (void)set;
#endif
    return generic::utterance_loss;
}

bool is_valid(const ctcProblem& p) {
    const bool has_sizes = p.frames >= 0 && p.batch >= 0 && p.classes >= 1 && p.classes <= INT32_MAX &&
                           p.longest_target >= 0 && p.targets_count >= 0 && p.targets_stride >= 0;
    const bool has_choices = p.type >= CTC_FLOAT32 && p.type <= CTC_BFLOAT16 && p.threads >= 1 &&
                             p.reduction >= CTC_NONE && p.reduction <= CTC_MEAN &&
                             is_known(p.instruction_set);
    const bool has_star = !(p.flags & CTC_STARS) || p.star < 0 || p.star >= p.classes;
    return has_sizes && has_choices && has_star && p.blank >= 0 && p.blank < p.classes && isfinite(p.label_smoothing) &&
           p.label_smoothing >= 0 && p.label_smoothing < 1 && isfinite(p.entropy_weight);
}

// The first utterance whose lengths or labels do not fit; the batch where concatenated targets are left over; or -1.
int64_t first_invalid(const ctcProblem& p, const void* targets, const void* input_lengths,
                      const void* target_lengths) {
    int64_t start = 0;
    for (int64_t n = 0; n < p.batch; n++) {
        const int64_t frames = index_at(input_lengths, n, p.flags);
        const int64_t labels = index_at(target_lengths, n, p.flags);
        if (p.targets_stride) start = n * p.targets_stride;
        if (frames < 0 || frames > p.frames || labels < 0 || labels > p.longest_target) return n;
        if (labels > p.targets_count - start) return n;
        for (int64_t i = 0; i < labels; i++) {
            const int64_t label = index_at(targets, start + i, p.flags);
            if ((p.flags & CTC_STARS) && label == p.star) continue;
            if (label < 0 || label >= p.classes || label == p.blank) return n;
        }
        start += labels;
    }
    return p.targets_stride == 0 && start != p.targets_count ? p.batch : -1;
}

int64_t scratch_bytes(const ctcProblem& p) {
    Scratch unused;
    return lay_out(&unused, nullptr, p.frames, p.classes, p.longest_target, real_bytes(p.type));
}

int worthwhile_threads(const ctcProblem& p) {
    const double cells = double(p.batch) * double(p.frames) * double(4 * p.longest_target + p.classes);
    const double useful = fmin(cells / CELLS_PER_THREAD, double(p.batch));
    return HAS_THREADS ? int(fmax(1.0, fmin(double(p.threads), useful))) : 1;
}

struct Batch {
    const ctcProblem& problem;
    const char* logits;
    char* gradient;
    const char* targets;
    const void* input_lengths;
    const void* target_lengths;
    const void* scale;
    void* losses;
};

Utterance utterance_at(const Batch& b, int64_t n, int64_t first_label) {
    const ctcProblem& p = b.problem;
    const int64_t bytes = element_bytes(p.type);
    Utterance u = {};
    u.logits = b.logits + n * p.logits_batch_stride * bytes;
    u.gradient = b.gradient ? b.gradient + n * p.gradient_batch_stride * bytes : nullptr;
    u.labels = b.targets + first_label * (p.flags & CTC_INDEX64 ? 8 : 4);
    u.logits_stride = p.logits_frame_stride;
    u.gradient_stride = p.gradient_frame_stride;
    u.frames = index_at(b.input_lengths, n, p.flags);
    u.padded_frames = p.frames;
    u.classes = p.classes;
    u.blank = p.blank;
    u.label_count = index_at(b.target_lengths, n, p.flags);
    u.type = p.type;
    u.labels_are_64_bit = p.flags & CTC_INDEX64;
    u.past_caches = double(p.batch) * double(p.frames) * double(p.classes * bytes) > PAST_CACHES_BYTES;
    u.force_extended = p.flags & CTC_EXTENDED_RANGE;
    u.may_have_stars = p.flags & CTC_STARS;
    u.underflows = p.flags & CTC_UNDERFLOW;
    u.star = p.star;
    u.scale = reduction_weight(p, u.label_count) * (b.scale ? real_at(b.scale, n, p.type) : 1);
    u.label_smoothing = p.label_smoothing;
    u.entropy_weight = p.entropy_weight;
    return u;
}

int64_t first_label_of(const Batch& b, int64_t n) {
    if (b.problem.targets_stride) return n * b.problem.targets_stride;
    int64_t start = 0;
    for (int64_t i = 0; i < n; i++) start += index_at(b.target_lengths, i, b.problem.flags);
    return start;
}

void compute_one(const Batch& b, int64_t n, UtteranceLoss kernel, char* memory) {
    const ctcProblem& p = b.problem;
    const Utterance u = utterance_at(b, n, first_label_of(b, n));
    Scratch scratch;
    lay_out(&scratch, memory, p.frames, p.classes, p.longest_target, real_bytes(p.type));
    double loss = kernel(u, scratch);
    if (loss == HUGE_VAL && (p.flags & CTC_ZERO_INFINITY)) loss = 0;
    set_real(b.losses, n, p.type, loss);
}

void reduce(const Batch& b, void* reduced) {
    const ctcProblem& p = b.problem;
    double sum = 0;
    for (int64_t n = 0; n < p.batch; n++)
        sum += real_at(b.losses, n, p.type) * reduction_weight(p, index_at(b.target_lengths, n, p.flags));
    set_real(reduced, 0, p.type, sum);
}

void compute_all(const Batch& b, UtteranceLoss kernel, char* memory) {
    const int threads = worthwhile_threads(b.problem);
    if (threads == 1) {  // without entering OpenMP, whose first use starts its machinery
        for (int64_t n = 0; n < b.problem.batch; n++) compute_one(b, n, kernel, memory);
        return;
    }
#if defined(_OPENMP)
    const int64_t bytes = scratch_bytes(b.problem);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t n = 0; n < b.problem.batch; n++)
        compute_one(b, n, kernel, memory + bytes * omp_get_thread_num());
#endif
}

}  // namespace

ctcStatus_t ctc_loss_workspace(const ctcProblem* problem, size_t* bytes) {
    if (!problem || !bytes || !is_valid(*problem)) return CTC_STATUS_INVALID_VALUE;
    *bytes = size_t(scratch_bytes(*problem)) * size_t(worthwhile_threads(*problem));
    return CTC_STATUS_SUCCESS;
}

ctcStatus_t ctc_loss(const ctcProblem* problem, const void* logits, void* gradient, const void* targets,
                     const void* input_lengths, const void* target_lengths, const void* scale, void* losses,
                     void* reduced, void* workspace, int64_t* invalid) {
    if (invalid) *invalid = -1;
    if (!problem || !is_valid(*problem)) return CTC_STATUS_INVALID_VALUE;
    const ctcProblem& p = *problem;
    if (p.batch == 0) {
        if (reduced) set_real(reduced, 0, p.type, 0);
        return CTC_STATUS_SUCCESS;
    }
    const bool has_logits = logits || p.frames == 0;
    const bool has_targets = targets || p.targets_count == 0;
    if (!has_logits || !has_targets || !input_lengths || !target_lengths || !losses || !workspace)
        return CTC_STATUS_INVALID_VALUE;
    const int64_t wrong = first_invalid(p, targets, input_lengths, target_lengths);
    if (wrong >= 0) {
        if (invalid) *invalid = wrong < p.batch ? wrong : -1;
        return CTC_STATUS_INVALID_VALUE;
    }
    const Batch batch = {p,  (const char*)logits, (char*)gradient, (const char*)targets, input_lengths, target_lengths,
                         scale, losses};
    const UtteranceLoss kernel =
        kernel_of(chosen(InstructionSet(p.instruction_set)));
    compute_all(batch, kernel, (char*)workspace);
    if (reduced) reduce(batch, reduced);
    return CTC_STATUS_SUCCESS;
}
