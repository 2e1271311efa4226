// The loss of one utterance, compiled once for every instruction set.
#include <math.h>

#include "ctc.h"
#include "lattice_extended.h"
#include "lattice_linear.h"
#include "softmax_groups.h"
#include "softmax_rows.h"
#include "utterance.h"

namespace CTC_ISA {

static int64_t label_at(const Utterance& u, int64_t i) {
    return u.labels_are_64_bit ? ((const int64_t*)u.labels)[i] : ((const int32_t*)u.labels)[i];
}

// The utterance with its stars taken from between the labels, and marked. Without any it is an ordinary one.
static Utterance with_stars_marked(const Utterance& u, const Scratch& scratch) {
    Utterance marked = u;
    marked.label_count = 0;
    memset(scratch.stars, 0, size_t(u.label_count + 1));
    for (int64_t i = 0; i < u.label_count; i++) {
        const int64_t label = label_at(u, i);
        if (label == u.star)
            scratch.stars[marked.label_count] = 1;
        else
            scratch.labels[marked.label_count++] = int32_t(label);
    }
    marked.labels = scratch.labels;
    marked.labels_are_64_bit = false;
    marked.stars = marked.label_count < u.label_count ? scratch.stars : nullptr;
    return marked;
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
    double references;  // sum over frames of c_t
    int tilt_bits;
    bool has_tiny, is_finite;
};

template <typename In> static bool read_log_sums(const Utterance& u, const Scratch& scratch, const Slots& slots) {
    return SoftmaxRows<In>(u, scratch, slots.count).read_log_sums(scratch.log_sums);
}

// 1 for slots that no label and not blank has: their emissions must not count as tiny.
static void mark_unused(const Utterance& u, const Scratch& scratch, const Slots& slots) {
    float* unused = (float*)scratch.unused;
    for (int64_t s = 0; s < padded(slots.count); s++) unused[s] = 1;
    for (int64_t i = 0; i < u.label_count; i++) unused[scratch.slot_of_label[i]] = 0;
    unused[slots.blank] = 0;
}

// Rows of one utterance lie a batch apart, too far for the processor to foresee.
constexpr int64_t FRAMES_AHEAD = 10;

// The logits of all slots of a frame, and -inf behind them; returns the largest of each lane.
template <typename In>
static inline Floats read_slots(const Utterance& u, const Scratch& scratch, int64_t slots, int64_t t, float* to) {
    const In* const from = (const In*)u.logits + t * u.logits_stride;
    Floats largest = all(-INFINITY);
    int64_t s = 0;
    if (u.classes <= SMALL_ALPHABET) {
        for (; s < slots; s += WIDTH) {
            const Floats x = s + WIDTH <= slots ? load_elements(from + s) : load_end(from, slots, s);
            store(to + s, x);
            largest = vmax(largest, x);
        }
        for (; s < padded(slots); s += WIDTH) store(to + s, all(-INFINITY));
        return largest;
    }
    // Few of a row, each in a line of memory of its own: all those of a frame to come are fetched at once.
    const In* const ahead = (const In*)u.logits + smaller(t + FRAMES_AHEAD, u.frames - 1) * u.logits_stride;
    const int32_t* const class_of_slot = scratch.class_of_slot;
    for (; s < slots; s++) {
        __builtin_prefetch(ahead + class_of_slot[s]);
        to[s] = to_real(from[class_of_slot[s]]);
    }
    for (; s < padded(slots); s++) to[s] = -INFINITY;
    for (s = 0; s < padded(slots); s += WIDTH) largest = vmax(largest, load(to + s));
    return largest;
}

template <typename In> static void prefetch_row(const Utterance& u, int64_t t) {
    if (u.classes > SMALL_ALPHABET) return;
    const In* const row = (const In*)u.logits + smaller(t, u.frames - 1) * u.logits_stride;
    for (int64_t k = 0; k < u.classes; k += 64 / int64_t(sizeof(In))) __builtin_prefetch(row + k);
    __builtin_prefetch(row + u.classes - 1);
}

// What is gathered over all frames; vectors by slot.
struct EmissionSums {
    double references;
    Floats smallest;
    float* mean;
    float* mean_share;      // with stars: of what all classes emit
    Floats smallest_share;  // with stars: of the best slot
};

// 1 / sum_k exp(x_t(k) - c_t) of a group's frames goes behind nobody's slot, for the stars.
static void read_stars(const Utterance& u, const Scratch& scratch, int64_t lanes, int64_t first, int count,
                       const Floats references[GROUP], EmissionSums* sums) {
    float* const group = (float*)scratch.emissions + first / GROUP * group_stride(lanes);
    float quad[GROUP] = {};
    const Floats of_all = sum_of_quads(GROUP * lanes, [=](int64_t s) { return load(group + s); });
    for (int f = 0; f < count; f++) {
        quad[f] = u.classes <= SMALL_ALPHABET ? 1 / of_all[f]
                                              : float(exp(double(references[f][0]) - scratch.log_sums[first + f]));
        sums->smallest_share = vmin(all(quad[f]), sums->smallest_share);
    }
    memcpy(group + GROUP * (lanes + 1), quad, sizeof quad);
    const Floats by = load_quads([&](int) { return quad; });
    for (int64_t s = 0; s < lanes; s += WIDTH) {
        Floats q[GROUP];
        for (int j = 0; j < 4; j++) q[j] = by * load_quads([&](int k) { return group + GROUP * (s + 4 * k + j); });
        transpose(q);
        store(sums->mean_share + s, load(sums->mean_share + s) + ((q[0] + q[1]) + (q[2] + q[3])));
    }
}

// q_t = exp(x_t - c_t) of every slot, for `count` frames, as quads; c_t is the largest x_t of the slots.
template <typename In>
static inline __attribute__((always_inline)) void read_group(const Utterance& u, const Scratch& scratch, int64_t slots,
                                                             int64_t first, const int count, EmissionSums* sums) {
    const int64_t lanes = padded(slots);
    float* const rows = (float*)scratch.rows;
    float* const group = (float*)scratch.emissions + first / GROUP * group_stride(slots);
    const float* const unused = (const float*)scratch.unused;
    Floats largest[GROUP], references[GROUP];
    for (int f = count; f < GROUP; f++) largest[f] = all(-INFINITY);
    for (int f = 0; f < count; f++) {
        prefetch_row<In>(u, first + f + FRAMES_AHEAD);
        largest[f] = read_slots<In>(u, scratch, slots, first + f, rows + f * lanes);
    }
    transpose(largest);
    const Floats of_frames = max_of_quads(vmax(vmax(largest[0], largest[1]), vmax(largest[2], largest[3])));
    for (int f = 0; f < count; f++) {
        references[f] = all(of_frames[f]);
        sums->references += of_frames[f];
    }
    Floats smallest = sums->smallest;
    for (int64_t s = 0; s < lanes; s += WIDTH) {
        Floats q[GROUP], sum = load(sums->mean + s);
        for (int f = count; f < GROUP; f++) q[f] = Floats{};
        const Floats is_unused = load(unused + s);
        for (int f = 0; f < count; f++) {
            q[f] = exp_of_difference(load(rows + f * lanes + s), references[f]);
            smallest = vmin(q[f] + is_unused, smallest);
            sum += q[f];
        }
        store(sums->mean + s, sum);
        transpose(q);
        for (int j = 0; j < 4; j++)
            for_quads(q[j], [&](int k, Quad quad) { memcpy(group + GROUP * (s + 4 * k + j), &quad, sizeof quad); });
    }
    memset(group + GROUP * lanes, 0, GROUP * sizeof(float));
    sums->smallest = smallest;
    if (u.stars) read_stars(u, scratch, lanes, first, count, references, sums);
}

template <typename In>
static Emissions read_emissions(const Utterance& u, const Scratch& scratch, const Slots& slots) {
    mark_unused(u, scratch, slots);
    EmissionSums sums = {0, all(1.0f), (float*)scratch.mean, (float*)scratch.mean + padded(slots.count), all(1.0f)};
    memset(sums.mean, 0, size_t(2 * padded(slots.count)) * sizeof(float));
    int64_t t = 0;
    for (; t + GROUP <= u.frames; t += GROUP) read_group<In>(u, scratch, slots.count, t, GROUP, &sums);
    if (t < u.frames) read_group<In>(u, scratch, slots.count, t, int(u.frames - t), &sums);
    const float* const mean = u.stars ? sums.mean_share : sums.mean;
    double label = 0;
    for (int64_t i = 0; i < u.label_count; i++) label += mean[scratch.slot_of_label[i]];
    label /= double(larger(u.label_count, 1));
    const double blank = mean[slots.blank];
    const float smallest = -max_of(-(sums.smallest * sums.smallest_share));
    Emissions read = {sums.references, 0, smallest < TINY_EMISSION, bool(isfinite(sums.references))};
    if (u.stars)
        read.tilt_bits = star_tilt_exponent(blank / double(u.frames), label / double(u.frames));
    else if (u.label_count > 0)
        read.tilt_bits = tilt_exponent(u.frames, u.label_count, label / blank);
    return read;
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
    double references;  // sum over frames of c_t
};

// Whether the linear lattice was tried and certified its result.
template <typename In>
static bool run_linear(const Utterance& u, const Scratch& scratch, const Slots& slots, LatticeResult* result) {
    if (u.stars && u.classes > SMALL_ALPHABET && !read_log_sums<In>(u, scratch, slots)) return false;
    const Emissions emissions = read_emissions<In>(u, scratch, slots);
    if (!emissions.is_finite) return false;
    result->references = emissions.references;
    LinearLattice lattice(u, scratch, slots.count, slots.blank, emissions.tilt_bits);
    return u.stars ? lattice.run<true>(emissions.has_tiny, &result->log2_z)
                   : lattice.run<false>(emissions.has_tiny, &result->log2_z);
}

// `normalisers`: sum over frames of log sum_k exp x(k), less c_t. With stars, whose emission is 1, that is c_t.
template <typename In, typename Softmax>
static double loss_of(const Utterance& u, const Softmax& softmax, double normalisers, double log2_z) {
    const double loss = (u.stars ? 0 : normalisers) - log2_z * 0.693147180559945309417;
    if (loss != loss) fill_gradient_with_nan<In>(u);
    const double of_alignments = loss < 0 && !u.stars ? 0 : loss;  // rounding may leave -1e-8
    return (1 - u.label_smoothing) * of_alignments + softmax.regularisation();
}

// Which types may take the linear lattice, which computes in float.
template <typename In> constexpr bool IS_SINGLE = sizeof(typename Computed<In>::type) == sizeof(float);

template <typename In> static double loss_of(const Utterance& u, const Scratch& scratch) {
    if (!has_enough_frames(u)) {
        clear_gradient<In>(u, 0);
        return INFINITY;
    }
    clear_gradient<In>(u, u.frames);
    if (u.frames == 0) return 0;
    const Slots slots = number_slots(u, scratch);
    LatticeResult result = {};
    bool is_linear = false;
    if constexpr (IS_SINGLE<In>) {
        is_linear = !u.force_extended && run_linear<In>(u, scratch, slots, &result);
        if (is_linear && u.classes <= SMALL_ALPHABET) {
            SoftmaxGroups<In> groups(u, scratch);
            const double normalisers = groups.run();
            return loss_of<In>(u, groups, normalisers, result.log2_z);
        }
    }
    if (!is_linear) {
        if (has_nan<In>(u, scratch, slots.count) || (u.stars && !read_log_sums<In>(u, scratch, slots))) {
            fill_gradient_with_nan<In>(u);
            return NAN;
        }
        ExtendedLattice lattice(u, scratch, slots.count, slots.blank);
        if (!lattice.template run<In>(u.gradient != nullptr, &result.log2_z, &result.references)) {
            clear_gradient<In>(u, 0);
            return INFINITY;
        }
    }
    SoftmaxRows<In> rows(u, scratch, slots.count);
    const double normalisers = rows.run() - result.references;
    return loss_of<In>(u, rows, normalisers, result.log2_z);
}

double utterance_loss(const Utterance& given, const Scratch& scratch) {
    const FlushDenormals flushing;
    const Utterance utterance = given.may_have_stars ? with_stars_marked(given, scratch) : given;
    switch (utterance.type) {
        case CTC_FLOAT64: return loss_of<double>(utterance, scratch);
        case CTC_FLOAT16: return loss_of<Half>(utterance, scratch);
        case CTC_BFLOAT16: return loss_of<Bfloat>(utterance, scratch);
        default: return loss_of<float>(utterance, scratch);
    }
}

}  // namespace CTC_ISA
