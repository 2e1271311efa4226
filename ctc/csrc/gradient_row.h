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

    // Whether the gradient of frame t goes past the caches.
    bool streams(int64_t t) const {
        return utterance.past_caches && (uintptr_t)gradient_at(t) % CTC_VECTOR_BYTES == 0 && sizeof(In) == sizeof(Real);
    }

    // row * factor becomes the gradient of frame t.
    void write(int64_t t, const Real* row, Real factor) const { write_from(0, t, row, factor); }

    // The same from class k, the first of a vector, on.
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
