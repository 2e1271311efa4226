// The pass over whole frames: softmax, its log-normaliser, and the gradient softmax - occupancy.
//
// One read of the logits and one write of the gradient; what lies between stays in the first-level cache. Where one
// class has more than half of the probability its gradient is computed as minus the sum of all others', since the
// difference of two numbers close to 1 would keep few of its digits when training is nearly done.
#pragma once

#include "elements.h"
#include "exponential.h"
#include "utterance.h"

namespace CTC_ISA {

template <typename In> class SoftmaxRows {
    using Real = typename Computed<In>::type;
    using V = VectorOf<Real>;
    static constexpr int W = LANES<Real>;
    // Sums are taken in double every so many elements, so that 100,000 classes are as exact as 100.
    static constexpr int64_t SUM_BLOCK = 64 * W;

  public:
    SoftmaxRows(const Utterance& utterance, const Scratch& scratch, int64_t slots)
        : utterance(utterance), scratch(scratch), classes(utterance.classes), slots(slots),
          slot_stride(padded(slots)), row((Real*)scratch.row) {
        memset(row + padded(classes) - PADDING, 0, PADDING * sizeof(Real));
    }

    // sum over all frames of log sum_k exp x(k). Writes the gradient where there is one to write.
    double run() {
        double total = 0, product = 1;
        for (int64_t t = 0; t < utterance.frames; t++) {
            const double largest = load_row(t);
            const double sum = exponentiate(Real(largest), t);
            if (utterance.gradient) write_gradient(t, sum);
            total += largest;
            product *= sum;
            if (!(product < 1e250)) {  // one logarithm for many frames
                total += log(product);
                product = 1;
            }
        }
        return total + log(product);
    }

  private:
    const In* logits_at(int64_t t) const { return (const In*)utterance.logits + t * utterance.logits_stride; }
    In* gradient_at(int64_t t) const { return (In*)utterance.gradient + t * utterance.gradient_stride; }

    // Copies a row, whole vectors with -inf behind the last class; returns its largest element.
    double load_row(int64_t t) {
        const In* from = logits_at(t);
        V largest = all(Real(-INFINITY));
        int64_t k = 0;
        for (; k + W <= classes; k += W) {
            const V x = load_elements(from + k);
            store(row + k, x);
            largest = vmax(largest, x);
        }
        if (k < classes) {
            Real lanes[W];
            for (int i = 0; i < W; i++) lanes[i] = k + i < classes ? to_real(from[k + i]) : Real(-INFINITY);
            store(row + k, load(lanes));
            largest = vmax(largest, load(lanes));
        }
        return max_of<Real>(largest);
    }

    // The row becomes exp(x - largest); returns its sum. Fetches the next row meanwhile.
    double exponentiate(Real largest, int64_t t) {
        const char* next = (const char*)logits_at(t + 1 < utterance.frames ? t + 1 : t);
        const V reference = all(largest);
        double sum = 0;
        for (int64_t begin = 0; begin < classes; begin += SUM_BLOCK) {
            const int64_t end = smaller(classes, begin + SUM_BLOCK);
            V block = {};
            for (int64_t k = begin; k < end; k += W) {
                __builtin_prefetch(next + k * int64_t(sizeof(In)));
                const V e = exp_of(load(row + k) - reference);
                store(row + k, e);
                block += e;
            }
            sum += sum_of<Real>(block);
        }
        return sum < 2 ? 1 + sum_below_one() : sum;
    }

    // What the largest class leaves to the others: not 1 minus something, hence exact however small.
    double sum_below_one() {
        double sum = 0;
        for (int64_t begin = 0; begin < classes; begin += SUM_BLOCK) {
            const int64_t end = smaller(classes, begin + SUM_BLOCK);
            V block = {};
            for (int64_t k = begin; k < end; k += W) {
                const V e = load(row + k);
                const V kept = e < all(Real(1)) ? e : V{};
                block += kept;
                if (max_of_is_one(e)) dominant = k;
            }
            sum += sum_of<Real>(block);
        }
        while (row[dominant] != 1) dominant++;
        return sum;
    }

    static bool max_of_is_one(V e) { return any(e == all(Real(1))); }
    static bool any(Ints mask) { return any((Longs)mask); }
    static bool any(Longs mask) {
        int64_t bits = 0;
        for (int i = 0; i < LANES<double>; i++) bits |= mask[i];
        return bits != 0;
    }

    void write_gradient(int64_t t, double sum) {
        Real* occupancy = (Real*)scratch.emissions + t * slot_stride;
        const Real factor = Real(double(((Real*)scratch.inverse_sum)[t]) * sum);
        for (int64_t s = 0; s < slots; s++) row[scratch.class_of_slot[s]] -= occupancy[s] * factor;
        if (sum < 2) {
            for (int64_t s = 0; s < slots; s++)
                if (scratch.class_of_slot[s] == dominant) occupancy[s] = 0;
            V others = {};
            for (int64_t s = 0; s < slot_stride; s += W) others += load(occupancy + s);
            row[dominant] = Real(double(sum_of<Real>(others) * factor) - (sum - 1));
        }
        write_row(gradient_at(t), Real(utterance.scale / sum));
    }

    void write_row(In* to, Real factor) const {
        const V by = all(factor);
        int64_t k = 0;
        if (utterance.past_caches && (uintptr_t)to % CTC_VECTOR_BYTES == 0 && sizeof(In) == sizeof(Real)) {
            for (; k + W <= classes; k += W) stream((Real*)to + k, V(load(row + k) * by));
        } else {
            for (; k + W <= classes; k += W) store_elements(to + k, V(load(row + k) * by));
        }
        for (; k < classes; k++) from_real(to + k, row[k] * factor);
    }

    const Utterance& utterance;
    const Scratch& scratch;
    int64_t classes, slots, slot_stride;
    Real* row;
    int64_t dominant = 0;
};

}  // namespace CTC_ISA
