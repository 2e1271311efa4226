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
          classes(utterance.classes), slots(slots),
          occupancies((const Real*)scratch.occupancies), rows((Real*)scratch.row), row(rows), output(utterance) {}

    // sum over all frames of log sum_k exp x(k). Writes the gradient where there is one to write: that of a frame while
    // the exponentials of the next one are computed, so that memory and arithmetic are busy at the same time.
    double run() {
        double total = 0, product = 1;
        Real factor = 0;
        for (int64_t t = 0; t < utterance.frames; t++) {
            const Real largest = largest_of(t);
            total += largest;
            const bool writes = utterance.gradient && t > 0;
            const bool streams = writes && output.streams(t - 1);
            if (writes && !streams) output.write(t - 1, row, factor);
            const Real* const before = row;
            row = rows + t % 2 * padded(classes);
            double sum = streams ? exponentiate<true>(t, largest, before, factor)
                                 : exponentiate<false>(t, largest, before, factor);
            if (sum < 2) sum = find_dominant();
            if (utterance.gradient) subtract_occupancies(t, sum);
            if (output.is_regularised) output.regularise(t, sum, row);
            factor = Real(utterance.scale / sum);
            product *= sum;
            if (!(product < 1e250)) {  // one logarithm for many frames
                total += log(product);
                product = 1;
            }
        }
        if (utterance.gradient && utterance.frames > 0) output.write(utterance.frames - 1, row, factor);
        return total + log(product);
    }

    double regularisation() const { return output.regularisation; }

    // log sum_k exp x(k) of every frame, as `run` sums them; false where one is not a number, or infinite.
    bool read_log_sums(double* log_sums) {
        for (int64_t t = 0; t < utterance.frames; t++) {
            const Real largest = largest_of(t);
            double sum = exponentiate<false>(t, largest, nullptr, 0);
            if (sum < 2) sum = find_dominant();
            log_sums[t] = largest == -Real(INFINITY) ? -INFINITY : double(largest) + log(sum);
            if (!(log_sums[t] < INFINITY)) return false;
        }
        return true;
    }

  private:
    Real largest_of(int64_t t) const {
        const In* const from = output.logits_at(t);
        V even = all(-Real(INFINITY)), odd = even;
        int64_t k = 0;
        for (; k + 2 * W <= classes; k += 2 * W) {
            even = vmax(even, load_elements(from + k));
            odd = vmax(odd, load_elements(from + k + W));
        }
        for (; k < classes; k += W) even = vmax(even, output.logits_from(from, k));
        return max_of(vmax(even, odd));
    }

    // The row becomes exp(x - largest), whole vectors with 0 behind the last class; returns its sum. Fetches the next
    // row meanwhile, and with STREAMS writes `before` * factor as the gradient of the frame before.
    template <bool STREAMS> double exponentiate(int64_t t, Real largest, const Real* before, Real factor) const {
        const In* const from = output.logits_at(t);
        const In* const next = output.logits_at(t + 1 < utterance.frames ? t + 1 : t);
        // Rows need not begin with a vector of memory, as those of 5000 floats do in every other utterance.
        const int64_t unaligned = STREAMS ? output.write_unaligned(t - 1, before, factor) : 0;
        Real* const gradient = STREAMS ? (Real*)output.gradient_at(t - 1) + unaligned : nullptr;
        const Real* const aligned = before + unaligned;
        const int64_t streamed = (classes - unaligned) / (2 * W) * (2 * W);
        Real* const to = row;
        const V reference = all(largest), by = all(factor);
        const auto exponential = [=](int64_t k, V x) {
            const V e = exp_of(x - reference);
            store(to + k, e);
            return e;
        };
        double sum = 0;
        int64_t k = 0;
        while (k + SUM_BLOCK <= classes) {
            V even = {}, odd = {};
            for (const int64_t end = k + SUM_BLOCK; k < end; k += 2 * W) {
                __builtin_prefetch(next + k, 0, 2);
                if (2 * W * sizeof(In) > 64) __builtin_prefetch(next + k + W, 0, 2);
                even += exponential(k, load_elements(from + k));
                odd += exponential(k + W, load_elements(from + k + W));
                if (STREAMS && k < streamed) {
                    stream(gradient + k, V(load(aligned + k) * by));
                    stream(gradient + k + W, V(load(aligned + k + W) * by));
                }
            }
            sum += sum_of(even + odd);
        }
        V others = {};
        const int64_t rest_begin = k;
        for (; k < classes; k += W) {
            __builtin_prefetch(next + k, 0, 2);
            others += exponential(k, output.logits_from(from, k));
        }
        if (STREAMS) output.write_from(unaligned + smaller(rest_begin, streamed), t - 1, before, factor);
        return sum + sum_of(others);
    }

    // Of exponentials of which one or more are 1 and that sum up to less than 2: that one is `dominant`, and the sum of
    // all others, which is kept in `rest`, is not 1 less but added up by itself.
    double find_dominant() {
        const Real* const from = row;
        rest = 0;
        for (int64_t begin = 0; begin < classes; begin += SUM_BLOCK) {
            V sum = {};
            for (int64_t k = begin; k < smaller(classes, begin + SUM_BLOCK); k += W) {
                const V e = load(from + k);
                sum += e < all(Real(1)) ? e : V{};
            }
            rest += sum_of(sum);
        }
        for (dominant = 0; row[dominant] != 1;) dominant++;
        return 1 + rest;
    }

    // The row becomes the gradient times `sum`.
    void subtract_occupancies(int64_t t, double sum) const {
        const Real* const occupied = occupancies + t / GROUP * group_stride(slots) + t % GROUP;
        const Real factor = Real(sum) * occupied[GROUP * padded(slots)];
        double others = 0, rest_outside = rest;
        if (utterance.stars) {  // a star takes every class as the softmax has it, which leaves no gradient
            const Real outside = occupied[GROUP * (padded(slots) + 1)];
            for (int64_t k = 0; k < classes; k += W) store(row + k, load(row + k) * all(outside));
            rest_outside *= outside;
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
    int64_t classes, slots;
    const Real* occupancies;
    Real *rows, *row;
    GradientRow<In> output;
    int64_t dominant = 0;
    double rest = 0;
};

}  // namespace CTC_ISA
