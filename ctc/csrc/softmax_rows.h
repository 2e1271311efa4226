// The pass over whole frames: softmax, its log-normaliser, and the gradient softmax - occupancy.
//
// One read of the logits and one write of the gradient; what lies between stays in the first-level cache. Where one
// class has more than half of the probability its gradient is computed as minus the sum of all others', since the
// difference of two numbers close to 1 would keep few of its digits when training is nearly done.
#pragma once

#include "gradient_row.h"

namespace CTC_ISA {

template <typename In> class SoftmaxRows {
    using Real = typename Computed<In>::type;
    using V = VectorOf<Real>;
    static constexpr int W = LANES<Real>;
    // Sums are taken in double every so many elements, so that 100,000 classes are as exact as 100.
    static constexpr int64_t SUM_BLOCK = 64 * W;

  public:
    SoftmaxRows(const Utterance& utterance, const Scratch& scratch, int64_t slots)
        : utterance(utterance), class_of_slot(scratch.class_of_slot),
          outside_stars(scratch.outside_stars), classes(utterance.classes), slots(slots),
          occupancies((const Real*)scratch.occupancies), row((Real*)scratch.row), output(utterance) {}

    // sum over all frames of log sum_k exp x(k). Writes the gradient where there is one to write.
    double run() {
        double total = 0, product = 1;
        for (int64_t t = 0; t < utterance.frames; t++) {
            const Real largest = load_row(t);
            exponentiate(largest, t);
            total += largest;
            const double sum = sum_row();
            if (utterance.gradient) subtract_occupancies(t, sum);
            if (output.is_regularised) output.regularise(t, sum, row);
            if (utterance.gradient) output.write(t, row, Real(utterance.scale / sum));
            product *= sum;
            if (!(product < 1e250)) {  // one logarithm for many frames
                total += log(product);
                product = 1;
            }
        }
        return total + log(product);
    }

    double regularisation() const { return output.regularisation; }

  private:
    // Copies a row, whole vectors with -inf behind the last class; returns its largest element.
    Real load_row(int64_t t) const {
        const In* const from = output.logits_at(t);
        Real* const to = row;
        V largest = all(-Real(INFINITY));
        for (int64_t k = 0; k < classes; k += W) {
            const V x = output.logits_from(from, k);
            store(to + k, x);
            largest = vmax(largest, x);
        }
        return max_of(largest);
    }

    // The row becomes exp(x - largest). Fetches the next row meanwhile.
    void exponentiate(Real largest, int64_t t) const {
        const char* const next = (const char*)output.logits_at(t + 1 < utterance.frames ? t + 1 : t);
        Real* const to = row;
        const V reference = all(largest);
        for (int64_t k = 0; k < classes; k += W) {
            __builtin_prefetch(next + k * int64_t(sizeof(In)));
            store(to + k, exp_of(load(to + k) - reference));
        }
    }

    // Of exponentials of which one or more are 1. Less than 2: that one is `dominant`, and the sum of all others, which
    // is kept in `rest`, is not 1 less but added up by itself.
    double sum_row() {
        const double sum = sum_where([](V e) { return e; });
        if (!(sum < 2)) return sum;
        rest = sum_where([](V e) { return e < all(Real(1)) ? e : V{}; });
        for (dominant = 0; row[dominant] != 1;) dominant++;
        return 1 + rest;
    }

    template <typename Kept> double sum_where(Kept kept) const {
        const Real* const from = row;
        double sum = 0;
        for (int64_t begin = 0; begin < classes; begin += SUM_BLOCK) {
            const int64_t end = smaller(classes, begin + SUM_BLOCK);
            V even = {}, odd = {};
            int64_t k = begin;
            for (; k + W < end; k += 2 * W) {
                even += kept(load(from + k));
                odd += kept(load(from + k + W));
            }
            if (k < end) even += kept(load(from + k));
            sum += sum_of(even + odd);
        }
        return sum;
    }

    // The row becomes the gradient times `sum`.
    void subtract_occupancies(int64_t t, double sum) const {
        const Real* const occupied = occupancies + t / GROUP * group_stride(slots) + t % GROUP;
        const Real factor = Real(sum) * occupied[GROUP * padded(slots)];
        double others = 0, rest_outside = rest;
        if (utterance.stars) {  // a star takes every class as the softmax has it, which leaves no gradient
            for (int64_t k = 0; k < classes; k += W) store(row + k, load(row + k) * all(Real(outside_stars[t])));
            rest_outside *= outside_stars[t];
        }
        for (int64_t s = 0; s < slots; s++) {
            const Real occupancy = occupied[GROUP * s];
            row[class_of_slot[s]] -= occupancy * factor;
            others += class_of_slot[s] == dominant ? 0 : double(occupancy);
        }
        if (sum < 2) row[dominant] = Real(others) * factor - Real(rest_outside);
    }

    const Utterance& utterance;
    const int32_t* class_of_slot;
    const double* outside_stars;
    int64_t classes, slots;
    const Real* occupancies;
    Real* row;
    GradientRow<In> output;
    int64_t dominant = 0;
    double rest = 0;
};

}  // namespace CTC_ISA
