// The lattice for everything that the linear one may not certify, and for double: each state is a double mantissa in
// [1, 2) with its own exponent, which is an integer in a double. No tilt and no scale are needed.
//
// alpha walks over blocks of frames; beta is kept at the start of every block and computed anew inside it, so that
// memory grows with the square root of the frames. A state is impossible when its exponent is below IMPOSSIBLE / 2,
// which no finite float reaches, and of doubles only those beyond 1e270.
#pragma once

#include "elements.h"
#include "exponential.h"
#include "utterance.h"

namespace CTC_ISA {

constexpr double IMPOSSIBLE = -0x1p900;
constexpr int64_t MANTISSA_BITS = 0xfffffffffffff;
// With CTC_UNDERFLOW: classes that are this many powers of two less likely than the best do not exist.
constexpr double UNDERFLOW_EXPONENT = -0x1p50;

class ExtendedLattice {
  public:
    ExtendedLattice(const Utterance& utterance, const Scratch& scratch, int64_t slots, int64_t blank_slot)
        : utterance(utterance), scratch(scratch), frames(utterance.frames), labels(utterance.label_count),
          slots(slots), blank_slot(blank_slot), slot_stride(padded(slots)), lanes(round_up(labels + 1, W)),
          distance(checkpoint_distance(frames)) {
        double* p = (double*)scratch.lattice;
        const auto take = [&](int64_t n) { return (p += n) - n; };
        slot_mantissa = take(slot_stride);
        slot_exponent = take(slot_stride);
        skip_exponent = take(lanes);
        emission_mantissa = take(lanes);
        emission_exponent = take(lanes);
        star_share = take(lanes);
        occupancy_mantissa = take(2 * lanes);
        occupancy_exponent = take(2 * lanes);
        alpha = take_row(&p);
        block = p;
        checkpoints = block + distance * 4 * lanes;
        for (int64_t i = 0; i < lanes; i++) {
            const bool may_skip = i > 0 && i < labels && scratch.slot_of_label[i] != scratch.slot_of_label[i - 1];
            skip_exponent[i] = may_skip ? 0 : IMPOSSIBLE;
            emission_mantissa[i] = 1;
            emission_exponent[i] = IMPOSSIBLE;
            star_share[i] = utterance.stars && i <= labels && utterance.stars[i];
        }
    }

    // log2 Z, and the sum over frames of the references c_t; false where no alignment has a probability.
    template <typename In> bool run(bool wants_occupancies, double* log2_z, double* references) {
        run_beta<In>();
        return run_alpha<In>(wants_occupancies, log2_z, references);
    }

  private:
    static constexpr int W = LANES<double>;

    struct Number {
        Doubles mantissa, exponent;
    };

    double* take_row(double** p) const { return (*p += 4 * lanes) - 4 * lanes; }

    // A row of states holds four arrays: mantissa and exponent of the blanks, then of the labels.
    Number blank_at(const double* row, int64_t i) const { return {load(row + i), load(row + lanes + i)}; }
    Number label_at(const double* row, int64_t i) const {
        return {load(row + 2 * lanes + i), load(row + 3 * lanes + i)};
    }
    void set(double* row, int64_t i, Number blank, Number label) const {
        store(row + i, blank.mantissa);
        store(row + lanes + i, blank.exponent);
        store(row + 2 * lanes + i, label.mantissa);
        store(row + 3 * lanes + i, label.exponent);
    }
    void clear(double* row) const {
        for (int64_t i = 0; i < 4 * lanes; i++) row[i] = i / lanes % 2 ? IMPOSSIBLE : 1.0;
    }

    static Number nothing() { return {all(1.0), all(IMPOSSIBLE)}; }
    static Number times(Number a, Number b) { return {a.mantissa * b.mantissa, a.exponent + b.exponent}; }
    static Number shifted_up(Number below, Number here) {
        return {shift_up(below.mantissa, here.mantissa), shift_up(below.exponent, here.exponent)};
    }
    static Number shifted_down(Number here, Number above) {
        return {shift_down(here.mantissa, above.mantissa), shift_down(here.exponent, above.exponent)};
    }
    static Number plus(Number a, Number b) {
        const Doubles e = vmax(a.exponent, b.exponent);
        return {a.mantissa * power_of_two(a.exponent - e) + b.mantissa * power_of_two(b.exponent - e), e};
    }
    static Number normalised(Number a) {
        const Longs bits = (Longs)a.mantissa;
        const Doubles exponent = (Doubles)((bits >> 52) | (Longs)all(0x1p52)) - (0x1p52 + 1023);
        const Longs fraction = Longs{} + MANTISSA_BITS;  // as a double it is denormal, which arithmetic would flush
        const Longs mantissa = (bits & fraction) | (Longs)all(1.0);
        return {(Doubles)mantissa, a.exponent + exponent};
    }

    // Emissions of frame t relative to the best of blank and labels, by slot and by label. Returns the reference c_t.
    template <typename In> double read_emissions(int64_t t) {
        const In* frame = (const In*)utterance.logits + t * utterance.logits_stride;
        for (int64_t s = 0; s < slots; s++) slot_mantissa[s] = double(to_real(frame[scratch.class_of_slot[s]]));
        double best = slot_mantissa[blank_slot];
        for (int64_t i = 0; i < labels; i++) {
            const double x = slot_mantissa[scratch.slot_of_label[i]];
            best = x > best ? x : best;
        }
        if (utterance.stars) best = scratch.log_sums[t];
        for (int64_t s = slots; s < slot_stride; s++) slot_mantissa[s] = best;
        const double reference = best == -INFINITY ? 0 : best;
        for (int64_t s = 0; s < slot_stride; s += W) {
            const Doubles log2_q = (load(slot_mantissa + s) - reference) * 0x1.71547652b82fep0;
            const Doubles bounded = vmax(log2_q, all(IMPOSSIBLE));
            const Doubles exponent = round_of(bounded);
            // Beyond 2^51 it is rounded to more than integers, and nothing is left of the rest.
            const Doubles rest = vmax(all(-0.5), -vmax(all(-0.5), exponent - bounded));
            store(slot_mantissa + s, exp_reduced(rest * 0x1.62e42fefa39efp-1));
            store(slot_exponent + s, exponent);
        }
        for (int64_t s = 0; utterance.underflows && s < slots; s++)
            if (slot_exponent[s] <= UNDERFLOW_EXPONENT) slot_exponent[s] = IMPOSSIBLE;
        for (int64_t i = 0; i < labels; i++) {
            emission_mantissa[i] = slot_mantissa[scratch.slot_of_label[i]];
            emission_exponent[i] = slot_exponent[scratch.slot_of_label[i]];
        }
        return reference;
    }

    Number label_emission(int64_t i) const { return {load(emission_mantissa + i), load(emission_exponent + i)}; }
    // Where a star stands for the blanks between labels the emission is that of all classes together, the reference.
    Number blank_emission(int64_t i) const {
        const double mantissa = slot_mantissa[blank_slot], exponent = slot_exponent[blank_slot];
        const Doubles star = load(star_share + i);
        return {all(mantissa) + star * (1 - mantissa), all(exponent) - star * exponent};
    }

    void begin_beta(double* row) const {
        clear(row);
        row[lanes + labels] = 0;
        if (labels > 0) row[3 * lanes + labels - 1] = 0;
    }

    // beta at t from beta at t + 1; the emissions are those of t + 1. The rows may be the same.
    void step_beta(const double* next, double* row) const {
        Number blank_above = nothing(), skipping_above = nothing();
        for (int64_t i = lanes - W; i >= 0; i -= W) {
            const Number blank = times(blank_at(next, i), blank_emission(i));
            const Number label = times(label_at(next, i), label_emission(i));
            const Number skipping = {label.mantissa, label.exponent + load(skip_exponent + i)};
            const Number onward = plus(shifted_down(blank, blank_above), shifted_down(skipping, skipping_above));
            set(row, i, normalised(plus(blank, label)), normalised(plus(label, onward)));
            blank_above = blank;
            skipping_above = skipping;
        }
    }

    void step_alpha() {
        Number label = label_at(alpha, lanes - W);
        for (int64_t i = lanes - W; i >= 0; i -= W) {
            const Number below = i > 0 ? label_at(alpha, i - W) : nothing();
            const Number blank = blank_at(alpha, i);
            const Number entering = shifted_up(below, label);
            const Number skipping = {entering.mantissa, entering.exponent + load(skip_exponent + i)};
            const Number stayed = plus(plus(label, blank), skipping);
            set(alpha, i, normalised(times(plus(blank, entering), blank_emission(i))),
                normalised(times(stayed, label_emission(i))));
            label = below;
        }
    }

    // Leaves beta at the last frame of every block in `checkpoints`.
    template <typename In> void run_beta() {
        double* row = block;
        begin_beta(row);
        for (int64_t t = frames - 1; t >= 0; t--) {
            if (t < frames - 1) {
                read_emissions<In>(t + 1);
                step_beta(row, row);
            }
            const bool is_block_end = t == frames - 1 || t % distance == distance - 1;
            if (is_block_end) memcpy(checkpoint(t / distance), row, size_t(4 * lanes) * sizeof(double));
        }
    }

    double* checkpoint(int64_t number) const { return checkpoints + number * 4 * lanes; }
    double* beta_at(int64_t t) const { return block + t % distance * 4 * lanes; }

    template <typename In> void fill_block(int64_t first, int64_t last) {
        memcpy(beta_at(last), checkpoint(first / distance), size_t(4 * lanes) * sizeof(double));
        for (int64_t t = last - 1; t >= first; t--) {
            read_emissions<In>(t + 1);
            step_beta(beta_at(t + 1), beta_at(t));
        }
    }

    template <typename In> bool run_alpha(bool wants_occupancies, double* log2_z, double* references) {
        clear(alpha);
        alpha[lanes] = 0;  // before the first frame: in blank_0
        *references = 0;
        for (int64_t t = 0; t < frames; t++) {
            if (utterance.stars && scratch.log_sums[t] == -INFINITY) return false;
            if (wants_occupancies && t % distance == 0) fill_block<In>(t, smaller(frames, t + distance) - 1);
            *references += read_emissions<In>(t);
            step_alpha();
            if (wants_occupancies) gather_occupancies<In>(t);
        }
        *log2_z = alpha[lanes + labels] + log2(alpha[labels]);
        if (labels > 0) {
            const double other = alpha[3 * lanes + labels - 1] + log2(alpha[2 * lanes + labels - 1]);
            const double high = *log2_z > other ? *log2_z : other;
            *log2_z = high + log2(exp2(*log2_z - high) + exp2(other - high));
        }
        return *log2_z > IMPOSSIBLE / 2;
    }

    template <typename In> void gather_occupancies(int64_t t) {
        const double* beta = beta_at(t);
        Doubles highest = all(8 * IMPOSSIBLE);
        for (int64_t i = 0; i < lanes; i += W) {
            const Number blank = times(blank_at(alpha, i), blank_at(beta, i));
            const Number label = times(label_at(alpha, i), label_at(beta, i));
            store(occupancy_mantissa + i, blank.mantissa);
            store(occupancy_exponent + i, blank.exponent);
            store(occupancy_mantissa + lanes + i, label.mantissa);
            store(occupancy_exponent + lanes + i, label.exponent);
            highest = vmax(highest, vmax(blank.exponent, label.exponent));
        }
        const Doubles reference = all(max_of(highest));
        Doubles blanks = {}, stars = {}, all_labels = {};
        for (int64_t i = 0; i < 2 * lanes; i += W) {
            const Doubles p = load(occupancy_mantissa + i) * power_of_two(load(occupancy_exponent + i) - reference);
            store(occupancy_mantissa + i, p);
            const Doubles in_star = i < lanes ? Doubles(p * load(star_share + i)) : Doubles{};
            (i < lanes ? blanks : all_labels) += p - in_star;
            stars += in_star;
        }
        const double blank = sum_of(blanks), outside_stars = blank + sum_of(all_labels);
        const double normaliser = 1 / (outside_stars + sum_of(stars));
        // In double until all labels of a slot are together.
        for (int64_t s = 0; s < slots; s++) slot_mantissa[s] = 0;
        for (int64_t i = 0; i < labels; i++)
            slot_mantissa[scratch.slot_of_label[i]] += occupancy_mantissa[lanes + i];
        slot_mantissa[blank_slot] = blank;
        using Real = typename Computed<In>::type;
        Real* const to = (Real*)scratch.occupancies + t / GROUP * group_stride(slots) + t % GROUP;
        for (int64_t s = 0; s < slots; s++) to[GROUP * s] = Real(slot_mantissa[s] * normaliser);
        to[GROUP * padded(slots)] = 1;
        to[GROUP * (padded(slots) + 1)] = Real(outside_stars * normaliser);
    }

    const Utterance& utterance;
    const Scratch& scratch;
    int64_t frames, labels, slots, blank_slot, slot_stride, lanes, distance;
    double *slot_mantissa, *slot_exponent, *skip_exponent, *emission_mantissa, *emission_exponent, *star_share;
    double *occupancy_mantissa, *occupancy_exponent, *alpha, *block, *checkpoints;
};

}  // namespace CTC_ISA
