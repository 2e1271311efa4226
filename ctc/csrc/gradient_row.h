// What is left to do with the gradient of one frame once softmax and occupancies have met: the terms that are not of
// the alignments, and its way to the caller's memory. Rows are whole vectors of the computing type.
#pragma once

#include "elements.h"
#include "exponential.h"
#include "utterance.h"

namespace CTC_ISA {

template <typename In> class GradientRow {
    using Real = typename Computed<In>::type;
    using V = VectorOf<Real>;
    static constexpr int W = LANES<Real>;

  public:
    explicit GradientRow(const Utterance& utterance)
        : is_regularised(utterance.label_smoothing != 0 || utterance.entropy_weight != 0), utterance(utterance),
          classes(utterance.classes) {}

    const bool is_regularised;
    double regularisation = 0;  // of the loss, so far

    const In* logits_at(int64_t t) const { return (const In*)utterance.logits + t * utterance.logits_stride; }
    In* gradient_at(int64_t t) const { return (In*)utterance.gradient + t * utterance.gradient_stride; }

    V logits_from(const In* frame, int64_t k) const {
        return k + W <= classes ? load_elements(frame + k) : load_end(frame, classes, k);
    }

    // Adds e KL(uniform || p) - w H(p) of frame t to `regularisation` and its gradient to (1 - e) times that of the
    // alignments, which the row holds, both times `sum`, that of exp(x - largest x). Classes at -inf are left out.
    void regularise(int64_t t, double sum, Real* row) {
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

    // Whether the gradient of frame t goes past the caches, but for what lies before the first whole vector of memory.
    bool streams(int64_t t) const {
        return utterance.past_caches && classes > W && sizeof(In) == sizeof(Real) &&
               (uintptr_t)gradient_at(t) % sizeof(Real) == 0;
    }

    // The classes before that vector, of a frame that streams.
    int64_t unaligned_classes(int64_t t) const {
        return int64_t(-(uintptr_t)gradient_at(t) % CTC_VECTOR_BYTES / sizeof(Real));
    }

    // row * factor becomes the gradient of frame t.
    void write(int64_t t, const Real* row, Real factor) const {
        const int64_t first = streams(t) ? write_unaligned(t, row, factor) : 0;
        write_from(first, t, row, factor);
    }

    // The same of the unaligned classes alone, whose number it returns.
    int64_t write_unaligned(int64_t t, const Real* row, Real factor) const {
        const int64_t count = unaligned_classes(t);
        store_first(gradient_at(t), V(load(row) * all(factor)), count);
        return count;
    }

    // The same from class k on, with which a vector of memory begins if the frame streams.
    void write_from(int64_t k, int64_t t, const Real* row, Real factor) const {
        In* const to = gradient_at(t);
        const V by = all(factor);
        if (streams(t)) {
            for (; k + W <= classes; k += W) stream((Real*)to + k, V(load(row + k) * by));
        } else {
            for (; k + W <= classes; k += W) store_elements(to + k, V(load(row + k) * by));
        }
        if (k < classes) store_first(to + k, V(load(row + k) * by), classes - k);
    }

  private:
    const Utterance& utterance;
    int64_t classes;
};

}  // namespace CTC_ISA
