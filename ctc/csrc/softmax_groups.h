// The softmax of a small alphabet and the gradient softmax - occupancy, from what the linear lattice leaves: its
// emissions, which are relative to the largest logit of all, are the exponentials of the softmax already. Four frames
// at a time, as they lie.
#pragma once

#include "gradient_row.h"

namespace CTC_ISA {

template <typename In> class SoftmaxGroups {
    static constexpr int W = LANES<float>;

  public:
    SoftmaxGroups(const Utterance& utterance, const Scratch& scratch)
        : utterance(utterance), stride(group_stride(utterance.classes)), lanes(padded(utterance.classes)),
          emissions((const float*)scratch.emissions), occupancies((const float*)scratch.occupancies),
          rows((float*)scratch.rows), output(utterance) {}

    // sum over all frames of log sum_k exp(x(k) - largest x). Writes the gradient where there is one to write.
    double run() {
        double total = 0, product = 1;
        for (int64_t first = 0; first < utterance.frames; first += GROUP) {
            const int64_t count = smaller(GROUP, utterance.frames - first);
            double sums[GROUP] = {1, 1, 1, 1};
            finish_group(first, count, sums);
            if (output.is_regularised) finish_rows(first, count, sums);
            product *= (sums[0] * sums[1]) * (sums[2] * sums[3]);
            if (!(product < 1e250)) {  // one logarithm for many frames
                total += log(product);
                product = 1;
            }
        }
        return total + log(product);
    }

    double regularisation() const { return output.regularisation; }

  private:
    // The frames' sums of exponentials, and their gradient, which stays in `rows` and unscaled if more is to be done.
    void finish_group(int64_t first, int64_t count, double sums[GROUP]) {
        const float* const e = emissions + first / GROUP * stride;
        const Floats sum = sum_of_quads(GROUP * lanes, [=](int64_t s) { return load(e + s); });
        bool is_dominated = false;
        for (int64_t f = 0; f < count; f++) {
            sums[f] = sum[f];
            is_dominated |= sum[f] < 2;
        }
        const float* const occupied = occupancies + first / GROUP * stride;
        const Floats factor = sum * load_quads([=](int) { return occupied + GROUP * lanes; });
        const Floats outside = load_quads([=](int) { return occupied + GROUP * (lanes + 1); });
        // A star takes every class as the softmax has it, which leaves no gradient.
        if (utterance.stars)
            meet_all(e, occupied, sum, factor, is_dominated, first, count, sums, [=](Floats p) { return p * outside; });
        else
            meet_all(e, occupied, sum, factor, is_dominated, first, count, sums, [](Floats p) { return p; });
    }

    // `share_of`: of exponentials, what is outside stars.
    template <typename Share>
    inline __attribute__((always_inline)) void meet_all(const float* e, const float* occupied, Floats sum,
                                                        Floats factor, bool is_dominated, int64_t first, int64_t count,
                                                        double sums[GROUP], Share share_of) {
        if (is_dominated)
            meet_dominated(e, occupied, sum, factor, first, count, sums, share_of);
        else if (utterance.gradient)
            meet(e, occupied, first, count, sums,
                 [=](Floats p, Floats occupancy) { return share_of(p) - occupancy * factor; });
    }

    template <typename Difference>
    inline __attribute__((always_inline)) void meet(const float* e, const float* occupied, int64_t first,
                                                    int64_t count, const double sums[GROUP], Difference difference) {
        In* to[GROUP];
        Floats factor[GROUP];
        for (int64_t f = 0; f < GROUP; f++) {
            to[f] = output.gradient_at(smaller(first + f, utterance.frames - 1));
            factor[f] = all(float(utterance.scale / sums[f]));
            __builtin_prefetch(output.gradient_at(smaller(first + f + 8, utterance.frames - 1)), 1);
        }
        for (int64_t s = 0; s < utterance.classes; s += W) {
            Floats columns[GROUP];
            for (int j = 0; j < GROUP; j++) {
                const auto at = [&](const float* from) {
                    return load_quads([&](int k) { return from + GROUP * (s + 4 * k + j); });
                };
                columns[j] = difference(at(e), at(occupied));
            }
            transpose(columns);
            if (output.is_regularised) {
                for (int f = 0; f < GROUP; f++) store(rows + f * lanes + s, columns[f]);
            } else if (s + W <= utterance.classes) {
                for (int64_t f = 0; f < count; f++) store_elements(to[f] + s, Floats(columns[f] * factor[f]));
            } else {
                for (int64_t f = 0; f < count; f++)
                    store_first(to[f] + s, Floats(columns[f] * factor[f]), utterance.classes - s);
            }
        }
    }

    void finish_rows(int64_t first, int64_t count, const double sums[GROUP]) {
        for (int64_t f = 0; f < count; f++) {
            output.regularise(first + f, sums[f], rows + f * lanes);
            if (utterance.gradient) output.write(first + f, rows + f * lanes, float(utterance.scale / sums[f]));
        }
    }

    // A class with more than half of a frame's probability has 1 of a sum below 2. Its gradient is minus the sum of all
    // others', and the sum is 1 more than that of the others, since little is left of the difference of numbers near 1.
    template <typename Share>
    void meet_dominated(const float* e, const float* occupied, Floats sum, Floats factor, int64_t first, int64_t count,
                        double sums[GROUP], Share share_of) {
        const auto of_others = [=](const float* values) {
            return sum_of_quads(GROUP * lanes, [=](int64_t s) {
                return load(e + s) < all(1.0f) ? load(values + s) : Floats{};
            });
        };
        const Floats rest = of_others(e);
        const Floats of_dominant = utterance.gradient ? of_others(occupied) * factor - share_of(rest) : Floats{};
        for (int64_t f = 0; f < count; f++)
            if (sum[f] < 2) sums[f] = 1 + double(rest[f]);
        if (!utterance.gradient) return;
        meet(e, occupied, first, count, sums, [=](Floats p, Floats occupancy) {
            const auto is_dominant = (p == all(1.0f)) & (sum < all(2.0f));
            return is_dominant ? of_dominant : share_of(p) - occupancy * factor;
        });
    }

    const Utterance& utterance;
    int64_t stride, lanes;
    const float *emissions, *occupancies;
    float* rows;
    GradientRow<In> output;
};

}  // namespace CTC_ISA
