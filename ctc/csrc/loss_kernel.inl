// The loss of one utterance, compiled once for every instruction set.
#include <math.h>

#include "ctc.h"
#include "lattice_extended.h"
#include "lattice_linear.h"
#include "softmax_rows.h"
#include "utterance.h"

namespace CTC_ISA {

static int64_t label_at(const Utterance& u, int64_t i) {
    return u.labels_are_64_bit ? ((const int64_t*)u.labels)[i] : ((const int32_t*)u.labels)[i];
}

struct Slots {
    int64_t count, blank;
};

static Slots number_slots(const Utterance& u, const Scratch& scratch) {
    if (u.classes <= SMALL_ALPHABET) {
        for (int64_t k = 0; k < u.classes; k++) scratch.class_of_slot[k] = int32_t(k);
        for (int64_t i = 0; i < u.label_count; i++) scratch.slot_of_label[i] = int32_t(label_at(u, i));
        return {u.classes, u.blank};
    }
    for (int64_t i = 0; i < u.label_count; i++) scratch.slot_of_class[label_at(u, i)] = -1;
    int64_t count = 0;
    scratch.class_of_slot[count++] = int32_t(u.blank);
    for (int64_t i = 0; i < u.label_count; i++) {
        const int64_t label = label_at(u, i);
        if (scratch.slot_of_class[label] < 0) {
            scratch.class_of_slot[count] = int32_t(label);
            scratch.slot_of_class[label] = int32_t(count++);
        }
        scratch.slot_of_label[i] = scratch.slot_of_class[label];
    }
    return {count, 0};
}

static bool has_enough_frames(const Utterance& u) {
    int64_t needed = u.label_count;
    for (int64_t i = 1; i < u.label_count; i++) needed += label_at(u, i) == label_at(u, i - 1);
    return needed <= u.frames;
}

template <typename In> static void clear_gradient(const Utterance& u, int64_t first) {
    if (!u.gradient) return;
    for (int64_t t = first; t < u.padded_frames; t++)
        memset((In*)u.gradient + t * u.gradient_stride, 0, size_t(u.classes) * sizeof(In));
}

struct Emissions {
    double references;         // sum over frames of c_t
    double label_blank_ratio;  // of the mean emissions
    bool has_tiny, is_finite;
};

// 1 for slots that no label and not blank has: their emissions must not count as tiny.
static void mark_unused(const Utterance& u, const Scratch& scratch, const Slots& slots) {
    float* unused = (float*)scratch.unused;
    for (int64_t s = 0; s < padded(slots.count); s++) unused[s] = 1;
    for (int64_t i = 0; i < u.label_count; i++) unused[scratch.slot_of_label[i]] = 0;
    unused[slots.blank] = 0;
}

// The logits of all slots of a frame, and -inf behind them; returns the largest.
template <typename In> static float read_slots(const In* from, const Scratch& scratch, int64_t slots, float* to) {
    const int64_t stride = padded(slots);
    if (stride > WIDTH) store(to + stride - WIDTH, all(-INFINITY));
    int64_t s = 0;
    if (scratch.occupancies != scratch.emissions) {
        for (; s + WIDTH <= slots; s += WIDTH) store(to + s, load_elements(from + s));
        if (s < slots) store(to + s, load_last(from + s, slots - s));
        s = round_up(slots, WIDTH);
    } else {
        const int32_t* const class_of_slot = scratch.class_of_slot;
        for (; s < slots; s++) to[s] = to_real(from[class_of_slot[s]]);
    }
    for (; s < stride; s++) to[s] = -INFINITY;
    Floats largest = load(to);
    for (s = WIDTH; s < stride; s += WIDTH) largest = vmax(largest, load(to + s));
    return max_of(largest);
}

// Rows of one utterance lie a batch apart, too far for the processor to foresee.
constexpr int64_t FRAMES_AHEAD = 10;
template <typename In> static void prefetch_row(const In* row, int64_t classes) {
    if (classes > SMALL_ALPHABET) return;
    for (int64_t k = 0; k < classes; k += 64 / int64_t(sizeof(In))) __builtin_prefetch(row + k);
    __builtin_prefetch(row + classes - 1);
}

// q_t = exp(x_t - c_t) of every slot; c_t is the largest of them.
template <typename In>
static Emissions read_emissions(const Utterance& u, const Scratch& scratch, const Slots& slots) {
    const int64_t stride = padded(slots.count);
    float* const mean = (float*)scratch.mean;
    const float* const unused = (const float*)scratch.unused;
    mark_unused(u, scratch, slots);
    for (int64_t s = 0; s < stride; s++) mean[s] = 0;
    Emissions found = {};
    Floats smallest = all(1.0f);
    for (int64_t t = 0; t < u.frames; t++) {
        float* const q = (float*)scratch.emissions + t * stride;
        prefetch_row((const In*)u.logits + smaller(t + FRAMES_AHEAD, u.frames - 1) * u.logits_stride, u.classes);
        const float reference = read_slots((const In*)u.logits + t * u.logits_stride, scratch, slots.count, q);
        for (int64_t s = 0; s < stride; s += WIDTH) {
            const Floats e = exp_of_difference(load(q + s), all(reference));
            const Floats counted = e + load(unused + s);
            smallest = counted > smallest ? smallest : counted;  // keeps NaN
            store(q + s, e);
            store(mean + s, load(mean + s) + e);
        }
        found.references += reference;
    }
    found.has_tiny = !(-max_of(-smallest) >= TINY_EMISSION);
    found.is_finite = isfinite(found.references);
    double labels = 0;
    for (int64_t i = 0; i < u.label_count; i++) labels += mean[scratch.slot_of_label[i]];
    found.label_blank_ratio = u.label_count > 0 ? labels / (double(mean[slots.blank]) * double(u.label_count)) : 1;
    return found;
}

template <typename In> static bool has_nan(const Utterance& u, const Scratch& scratch, int64_t slots) {
    for (int64_t t = 0; t < u.frames; t++)
        for (int64_t s = 0; s < slots; s++) {
            const auto x = to_real(((const In*)u.logits)[t * u.logits_stride + scratch.class_of_slot[s]]);
            if (!(x < INFINITY)) return true;
        }
    return false;
}

template <typename In> static void fill_gradient_with_nan(const Utterance& u) {
    if (!u.gradient) return;
    for (int64_t t = 0; t < u.frames; t++)
        for (int64_t k = 0; k < u.classes; k++)
            from_real((In*)u.gradient + t * u.gradient_stride + k, typename Computed<In>::type(NAN));
}

struct LatticeResult {
    double log2_z;
    double references;      // sum over frames of c_t
    bool has_exponentials;  // the emissions are those of the softmax
};

// Whether the linear lattice was tried and certified its result.
template <typename In>
static bool run_linear(const Utterance& u, const Scratch& scratch, const Slots& slots, LatticeResult* result) {
    const int64_t bytes = linear_lattice_bytes(u.frames, u.label_count, slots.count);
    if (u.force_extended || bytes > LARGEST_LINEAR_LATTICE) return false;
    const Emissions emissions = read_emissions<In>(u, scratch, slots);
    if (!emissions.is_finite) return false;
    result->references = emissions.references;
    result->has_exponentials = u.classes <= SMALL_ALPHABET;
    LinearLattice lattice(u, scratch, slots.count, slots.blank, emissions.label_blank_ratio);
    return lattice.run(u.gradient != nullptr, emissions.has_tiny, &result->log2_z);
}

template <> bool run_linear<double>(const Utterance&, const Scratch&, const Slots&, LatticeResult*) { return false; }

template <typename In> static double loss_of(const Utterance& u, const Scratch& scratch) {
    if (!has_enough_frames(u)) {
        clear_gradient<In>(u, 0);
        return INFINITY;
    }
    clear_gradient<In>(u, u.frames);
    if (u.frames == 0) return 0;
    const Slots slots = number_slots(u, scratch);
    LatticeResult result = {};
    if (!run_linear<In>(u, scratch, slots, &result)) {
        result.has_exponentials = false;
        if (has_nan<In>(u, scratch, slots.count)) {
            fill_gradient_with_nan<In>(u);
            return NAN;
        }
        ExtendedLattice lattice(u, scratch, slots.count, slots.blank);
        if (!lattice.template run<In>(u.gradient != nullptr, &result.log2_z, &result.references)) {
            clear_gradient<In>(u, 0);
            return INFINITY;
        }
    }
    SoftmaxRows<In> rows(u, scratch, slots.count, result.has_exponentials);
    const double normalisers = rows.run();
    const double references = result.has_exponentials ? 0 : result.references;
    const double loss = (normalisers - references) - result.log2_z * 0.693147180559945309417;
    if (loss != loss) fill_gradient_with_nan<In>(u);
    const double of_alignments = loss < 0 ? 0 : loss;  // rounding may leave -1e-8
    return (1 - u.label_smoothing) * of_alignments + rows.regularisation;
}

double utterance_loss(const Utterance& utterance, const Scratch& scratch) {
    const FlushDenormals flushing;
    switch (utterance.type) {
        case CTC_FLOAT64: return loss_of<double>(utterance, scratch);
        case CTC_FLOAT16: return loss_of<Half>(utterance, scratch);
        case CTC_BFLOAT16: return loss_of<Bfloat>(utterance, scratch);
        default: return loss_of<float>(utterance, scratch);
    }
}

}  // namespace CTC_ISA
