// Softmaxes of one cell: what the lattice needs of its logits, and their gradient, softmax times occupancy less flows.
#pragma once

#include <math.h>

#include "elements.h"
#include "exponential.h"
#include "cells.h"

namespace CTC_ISA {

template <typename In> class Softmax {
  public:
    using Real = typename Computed<In>::type;
    using V = VectorOf<Real>;
    static constexpr int W = LANES<Real>;

    Softmax(const In* logits, int64_t count) : logits(logits), count(count) {}

    void normalise() {
        V even = all(-Real(INFINITY)), odd = even;
        int64_t k = 0;
        for (; k + 2 * W <= count; k += 2 * W) {
            even = vmax(even, load_elements(logits + k));
            odd = vmax(odd, load_elements(logits + k + W));
        }
        for (; k < count; k += W) even = vmax(even, from(k));
        largest = max_of(vmax(even, odd));
        if (largest == -Real(INFINITY)) largest = 0;  // no class is possible, or some are NaN: the sum tells
        sum = 0;
        const V reference = all(Real(largest));
        for (k = 0; k + BLOCK <= count;) {
            V sums[4] = {};
            for (const int64_t end = k + BLOCK; k < end; k += 4 * W)
                for (int i = 0; i < 4; i++) sums[i] += exp_of(load_elements(logits + k + i * W) - reference);
            sum += sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
        }
        V rest = {};
        for (; k < count; k += W) rest += exp_of(from(k) - reference);
        sum += sum_of(rest);
    }

    // `row` becomes the exponentials times `factor`; whole vectors.
    void exponentials(double factor, Real* row) const {
        const V reference = all(Real(largest)), by = all(Real(factor));
        int64_t k = 0;
        for (; k + W <= count; k += W) store(row + k, V(exp_of(load_elements(logits + k) - reference) * by));
        if (k < count) store(row + k, V(exp_of(from(k) - reference) * by));
    }

    bool is_finite() const { return sum < INFINITY; }  // not for NaN
    double log_sum() const { return log(sum); }
    double score(int64_t k, double log_sum) const { return double(to_real(logits[k])) - largest - log_sum; }

    double largest = 0, sum = 0;

  private:
    // Sums are taken in double every so many elements, so that 100,000 classes are as exact as 100.
    static constexpr int64_t BLOCK = 64 * W;

    V from(int64_t k) const { return k + W <= count ? load_elements(logits + k) : load_end(logits, count, k); }

    const In* logits;
    int64_t count;
};

template <typename In> static bool read_cell(const Cells& cells, const void* logits, int64_t t, int64_t u) {
    const transducerProblem& p = cells.problem;
    const In* const x = (const In*)logits;
    Softmax<In> tokens(x, p.classes);
    tokens.normalise();
    bool is_finite = tokens.is_finite() && tokens.largest < INFINITY;
    const double log_sum = tokens.log_sum();
    const bool has_label = u < cells.shape.labels;
    cells.plane(t, BLANK_PLANE)[u] = tokens.score(p.blank, log_sum) - p.sigma;
    cells.plane(t, LABEL_PLANE)[u] = has_label ? tokens.score(cells.labels[u], log_sum) - p.sigma : -INFINITY;
    cells.plane(t, LARGEST_PLANE)[u] = tokens.largest;
    cells.plane(t, SUM_PLANE)[u] = tokens.sum;
    if (tokens.sum == 0) cells.plane(t, BLANK_PLANE)[u] = cells.plane(t, LABEL_PLANE)[u] = -INFINITY;
    if (p.duration_count) {
        Softmax<In> lengths(x + p.classes, p.duration_count);
        lengths.normalise();
        is_finite &= lengths.is_finite() && lengths.largest < INFINITY;
        const double log_lengths = lengths.log_sum();
        for (int64_t i = 0; i < p.duration_count; i++)
            cells.plane(t, DURATION_PLANE + i)[u] = lengths.sum == 0 ? -INFINITY : lengths.score(i, log_lengths);
    }
    return is_finite;
}

// Fills `count` elements from row, or with what `at(k)` gives, past the caches where that is wanted.
template <typename In, typename At> static void write(In* to, int64_t count, bool streams, At at) {
    using Real = typename Computed<In>::type;
    constexpr int W = LANES<Real>;
    int64_t k = 0;
    if constexpr (sizeof(In) == sizeof(Real)) {
        if (streams) {
            const int64_t misaligned = (uintptr_t)to % CTC_VECTOR_BYTES / sizeof(In);
            const int64_t head = smaller(count, misaligned ? W - misaligned : 0);
            if (head) {
                store_first(to, at(0), head);
                k = head;
            }
            for (; k + W <= count; k += W) stream((Real*)to + k, at(k));
        }
    }
    for (; k + W <= count; k += W) store_elements(to + k, at(k));
    if (k < count) store_first(to + k, at(k), count - k);
}

template <typename In>
static void write_gradient(const Cells& cells, const void* logits, void* gradient, int64_t t, int64_t u, double scale,
                           bool has_normaliser, bool streams, void* memory) {
    using Real = typename Computed<In>::type;
    const transducerProblem& p = cells.problem;
    Real* const row = (Real*)memory;
    const double blank_flow = cells.plane(t, BLANK_PLANE)[u], label_flow = cells.plane(t, LABEL_PLANE)[u];
    const double occupancy = blank_flow + label_flow;  // with the label's times 1 + fastemit
    Softmax<In> tokens((const In*)logits, p.classes);
    if (has_normaliser) {
        tokens.largest = cells.plane(t, LARGEST_PLANE)[u];
        tokens.sum = cells.plane(t, SUM_PLANE)[u];
    } else {
        tokens.normalise();
    }
    if (p.duration_count) {  // first, since whole vectors are written behind the classes
        Softmax<In> lengths((const In*)logits + p.classes, p.duration_count);
        lengths.normalise();
        Real* const behind = row + p.classes + LANES<Real>;
        lengths.exponentials(scale * (blank_flow + label_flow / (1 + p.fastemit)) / lengths.sum, behind);
        tokens.exponentials(scale * occupancy / tokens.sum, row);
        for (int64_t i = 0; i < p.duration_count; i++)
            row[p.classes + i] = behind[i] - Real(scale * cells.plane(t, DURATION_PLANE + i)[u]);
    } else {
        tokens.exponentials(scale * occupancy / tokens.sum, row);
    }
    row[p.blank] -= Real(scale * blank_flow);
    if (u < cells.shape.labels) row[cells.labels[u]] -= Real(scale * label_flow);
    write((In*)gradient, p.classes + p.duration_count, streams, [=](int64_t k) { return load(row + k); });
}

template <typename In> static void fill(void* gradient, int64_t count, double value, bool streams) {
    using Real = typename Computed<In>::type;
    const VectorOf<Real> v = all(Real(value));
    write((In*)gradient, count, streams, [=](int64_t) { return v; });
}

}  // namespace CTC_ISA
