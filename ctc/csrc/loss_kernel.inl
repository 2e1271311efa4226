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

// Numbers the distinct classes in order of appearance; returns how many there are.
static int64_t number_slots(const Utterance& u, const Scratch& scratch) {
    for (int64_t i = 0; i < u.label_count; i++) scratch.slot_of_class[label_at(u, i)] = -1;
    scratch.slot_of_class[u.blank] = 0;
    scratch.class_of_slot[0] = int32_t(u.blank);
    int64_t slots = 1;
    for (int64_t i = 0; i < u.label_count; i++) {
        const int64_t label = label_at(u, i);
        if (scratch.slot_of_class[label] < 0) {
            scratch.class_of_slot[slots] = int32_t(label);
            scratch.slot_of_class[label] = int32_t(slots++);
        }
        scratch.slot_of_label[i] = scratch.slot_of_class[label];
    }
    return slots;
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

// q_t = exp(x_t - c_t) of every slot; c_t is the largest of them.
template <typename In> static Emissions read_emissions(const Utterance& u, const Scratch& scratch, int64_t slots) {
    const int64_t stride = padded(slots);
    float* mean = (float*)scratch.mean;
    for (int64_t s = 0; s < stride; s++) mean[s] = 0;
    Emissions found = {};
    Floats smallest = all(1.0f);
    for (int64_t t = 0; t < u.frames; t++) {
        const In* from = (const In*)u.logits + t * u.logits_stride;
        float* q = (float*)scratch.emissions + t * stride;
        for (int64_t s = 0; s < slots; s++) q[s] = to_real(from[scratch.class_of_slot[s]]);
        for (int64_t s = slots; s < stride; s++) q[s] = q[0];
        Floats largest = load(q);
        for (int64_t s = WIDTH; s < stride; s += WIDTH) largest = vmax(largest, load(q + s));
        const float reference = max_of<float>(largest);
        for (int64_t s = 0; s < stride; s += WIDTH) {
            const Floats e = exp_of(load(q + s) - reference);
            smallest = e > smallest ? smallest : e;  // keeps NaN
            store(q + s, e);
            store(mean + s, load(mean + s) + e);
        }
        found.references += reference;
    }
    const double least = -double(max_of<float>(-smallest));
    found.has_tiny = !(least >= TINY_EMISSION);
    found.is_finite = isfinite(found.references);
    double labels = 0;
    for (int64_t i = 0; i < u.label_count; i++) labels += mean[scratch.slot_of_label[i]];
    found.label_blank_ratio = u.label_count > 0 ? labels / (double(mean[0]) * double(u.label_count)) : 1;
    return found;
}

// Whether the linear lattice was tried and certified its result.
template <typename In>
static bool run_linear(const Utterance& u, const Scratch& scratch, int64_t slots, double* log2_z, double* references) {
    if (linear_lattice_bytes(u.frames, u.label_count) > LARGEST_LINEAR_LATTICE || u.force_extended) return false;
    const Emissions emissions = read_emissions<In>(u, scratch, slots);
    if (!emissions.is_finite) return false;
    *references = emissions.references;
    LinearLattice lattice(u, scratch, slots, emissions.label_blank_ratio);
    return lattice.run(u.gradient != nullptr, emissions.has_tiny, log2_z);
}

template <> bool run_linear<double>(const Utterance&, const Scratch&, int64_t, double*, double*) { return false; }

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

template <typename In> static double loss_of(const Utterance& u, const Scratch& scratch) {
    if (!has_enough_frames(u)) {
        clear_gradient<In>(u, 0);
        return INFINITY;
    }
    clear_gradient<In>(u, u.frames);
    if (u.frames == 0) return 0;
    const int64_t slots = number_slots(u, scratch);
    double log2_z, references;
    if (!run_linear<In>(u, scratch, slots, &log2_z, &references)) {
        if (has_nan<In>(u, scratch, slots)) {
            fill_gradient_with_nan<In>(u);
            return NAN;
        }
        ExtendedLattice lattice(u, scratch, slots);
        if (!lattice.template run<In>(u.gradient != nullptr, &log2_z, &references)) {
            clear_gradient<In>(u, 0);
            return INFINITY;
        }
    }
    const double normalisers = SoftmaxRows<In>(u, scratch, slots).run();
    const double loss = (normalisers - references) - log2_z * 0.693147180559945309417;
    if (loss != loss) fill_gradient_with_nan<In>(u);
    return loss < 0 ? 0 : loss;  // rounding may leave -1e-8
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
