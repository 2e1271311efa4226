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
    // `has_exponentials`: the slots are the classes, and their emissions are relative to the largest class, so that
    // they are the exponentials of the softmax; what is left to do is relative to that.
    SoftmaxRows(const Utterance& utterance, const Scratch& scratch, int64_t slots, bool has_exponentials)
        : utterance(utterance), scratch(scratch), classes(utterance.classes), slots(slots),
          slot_stride(padded(slots)), has_exponentials(has_exponentials), row((Real*)scratch.row),
          is_regularised(utterance.label_smoothing != 0 || utterance.entropy_weight != 0) {}

    // sum over all frames of log sum_k exp x(k), less the largest x if `has_exponentials`. Writes the gradient where
    // there is one to write.
    double run() {
        double total = 0, product = 1;
        for (int64_t t = 0; t < utterance.frames; t++) {
            if (has_exponentials) {
                if (utterance.gradient) __builtin_prefetch(gradient_at(smaller(t + 8, utterance.frames - 1)), 1);
                row = (Real*)scratch.emissions + t * slot_stride;
            } else {
                const Real largest = load_row(t);
                exponentiate(largest, t);
                total += largest;
            }
            const double sum = sum_row();
            if (utterance.gradient) subtract_occupancies(t, sum);
            if (is_regularised) regularise(t, sum);
            if (utterance.gradient) write_row(gradient_at(t), Real(utterance.scale / sum));
            product *= sum;
            if (!(product < 1e250)) {  // one logarithm for many frames
                total += log(product);
                product = 1;
            }
        }
        return total + log(product);
    }

    double regularisation = 0;

  private:
    const In* logits_at(int64_t t) const { return (const In*)utterance.logits + t * utterance.logits_stride; }
    In* gradient_at(int64_t t) const { return (In*)utterance.gradient + t * utterance.gradient_stride; }

    // Copies a row, whole vectors with -inf behind the last class; returns its largest element.
    Real load_row(int64_t t) const {
        const In* const from = logits_at(t);
        Real* const to = row;
        V largest = all(-Real(INFINITY));
        int64_t k = 0;
        for (; k + W <= classes; k += W) {
            const V x = load_elements(from + k);
            store(to + k, x);
            largest = vmax(largest, x);
        }
        if (k < classes) {
            const V x = load_last(from + k, classes - k);
            store(to + k, x);
            largest = vmax(largest, x);
        }
        return max_of(largest);
    }

    // The row becomes exp(x - largest). Fetches the next row meanwhile.
    void exponentiate(Real largest, int64_t t) const {
        const char* const next = (const char*)logits_at(t + 1 < utterance.frames ? t + 1 : t);
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
    void subtract_occupancies(int64_t t, double sum) {
        Real* const occupancy = (Real*)scratch.occupancies + t * slot_stride;
        const Real factor = Real(double(((Real*)scratch.inverse_sum)[t]) * sum);
        if (classes <= SMALL_ALPHABET) {
            for (int64_t k = 0; k < classes; k += W) store(row + k, load(row + k) - load(occupancy + k) * factor);
        } else {
            for (int64_t s = 0; s < slots; s++) row[scratch.class_of_slot[s]] -= occupancy[s] * factor;
        }
        if (sum < 2) row[dominant] = occupancy_of_others(occupancy) * factor - Real(rest);
    }

    V logits_from(const In* frame, int64_t k) const {
        return k + W <= classes ? load_elements(frame + k) : load_last(frame + k, classes - k);
    }

    // Adds e KL(uniform || p) - w H(p) of frame t to `regularisation` and its gradient to (1 - e) times that of the
    // alignments, which the row holds. Classes at -inf are left out.
    void regularise(int64_t t, double sum) {
        const In* const frame = logits_at(t);
        V highest = all(-Real(INFINITY)), logits = {}, weighted = {}, counts = {};
        for (int64_t k = 0; k < classes; k += W) highest = vmax(highest, logits_from(frame, k));
        const V largest = all(max_of(highest));
        for (int64_t k = 0; k < classes; k += W) {
            const V x = logits_from(frame, k) - largest;
            const auto is_possible = x > all(-Real(INFINITY));
            logits += is_possible ? x : V{};
            weighted += is_possible ? x * exp_of(x) : V{};
            counts += is_possible ? all(Real(1)) : V{};
        }
        const double count = sum_of(counts), log_sum = log(sum);
        const double entropy = log_sum - sum_of(weighted) / sum;
        const double divergence = log_sum - sum_of(logits) / count - log(count);
        const double smoothing = utterance.label_smoothing, weight = utterance.entropy_weight;
        regularisation += smoothing * divergence - weight * entropy;
        if (!utterance.gradient) return;
        for (int64_t k = 0; k < classes; k += W) {
            const V x = logits_from(frame, k) - largest;
            const V p = exp_of(x);
            const V smoothed = Real(smoothing) * (p - Real(sum / count));
            const V surprised = Real(weight) * p * (x + Real(entropy - log_sum));
            const V added = x > all(-Real(INFINITY)) ? smoothed + surprised : V{};
            store(row + k, load(row + k) * Real(1 - smoothing) + added);
        }
    }

    Real occupancy_of_others(Real* occupancy) const {
        for (int64_t s = 0; s < slots; s++)
            if (scratch.class_of_slot[s] == dominant) occupancy[s] = 0;
        V others = {};
        for (int64_t s = 0; s < slot_stride; s += W) others += load(occupancy + s);
        return sum_of(others);
    }

    void write_row(In* to, Real factor) const {
        const V by = all(factor);
        int64_t k = 0;
        if (utterance.past_caches && (uintptr_t)to % CTC_VECTOR_BYTES == 0 && sizeof(In) == sizeof(Real)) {
            for (; k + W <= classes; k += W) stream((Real*)to + k, V(load(row + k) * by));
        } else {
            for (; k + W <= classes; k += W) store_elements(to + k, V(load(row + k) * by));
        }
        if (k < classes && classes >= W) {  // once more what the last whole vector wrote
            k = classes - W;
            store_elements(to + k, V(load(row + k) * by));
            return;
        }
        for (; k < classes; k++) from_real(to + k, row[k] * factor);
    }

    const Utterance& utterance;
    const Scratch& scratch;
    int64_t classes, slots, slot_stride;
    bool has_exponentials;
    Real* row;
    bool is_regularised;
    int64_t dominant = 0;
    double rest = 0;
};

}  // namespace CTC_ISA
