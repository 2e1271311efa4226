// The lattice in double, logarithmic: 10,000 products of probabilities leave no room in a float. Backwards, the
// log-probability to reach the end from every cell; that makes each way out of a cell a conditional probability, and
// forwards occupancies are products of those alone, without a logarithm.
//
// Rows of positions are vectors. Only a label of duration 0 stays in its row: that way alone is walked one by one.
#pragma once

#include <math.h>

#include "exponential.h"
#include "cells.h"

namespace CTC_ISA {

class Lattice {
    static constexpr int W = LANES<double>;

  public:
    Lattice(const Cells& cells, const Band* bands)
        : cells(cells), bands(bands), shape(cells.shape), durations(cells.problem.durations),
          duration_count(cells.problem.duration_count), end(cells.scratch(0)), largest(cells.scratch(1)),
          sums(cells.scratch(2)), stay(cells.scratch(3)) {}

    // Log-probability of all paths.
    double walk_to_start() {
        for (int64_t u = 0; u < shape.stride; u++) end[u] = u == shape.labels ? 0 : -INFINITY;
        for (int64_t t = shape.frames - 1; t >= 0; t--) {
            const Band band = band_of(t);
            double* const to_end = cells.plane(t, TO_END_PLANE);
            for (int64_t u = 0; u < band.first; u++) to_end[u] = -INFINITY;
            for (int64_t u = band.last + 1; u < shape.stride; u++) to_end[u] = -INFINITY;
            if (band.last < band.first) continue;
            const bool stays = leaving_ways(t, vectors_of(band));
            double next = -INFINITY;
            for (int64_t u = band.last; u >= band.first; u--) {
                const double score = stays ? stay[u] + next : -INFINITY;
                next = log_of_sum(largest[u], sums[u], score);
                to_end[u] = next;
            }
        }
        return shape.frames ? cells.plane(0, TO_END_PLANE)[0] : -INFINITY;
    }

    // Scores become flows.
    void walk_to_end() {
        for (int64_t t = 0; t <= shape.longest_duration; t++) clear(cells.occupancies(t));
        if (shape.frames) cells.occupancies(0)[0] = 1;
        for (int64_t t = 0; t < shape.frames; t++) {
            double* const occupied = cells.occupancies(t);
            const Band band = band_of(t);
            if (band.first <= band.last) {
                spread_within(t, vectors_of(band), occupied);
                spread(t, vectors_of(band), occupied);
            }
            clear(occupied);
        }
    }

  private:
    Band band_of(int64_t t) const { return bands ? bands[t] : Band{0, shape.labels}; }

    // From the first position of a vector to behind the last of one.
    Band vectors_of(Band band) const { return {band.first / W * W, smaller(round_up(band.last + 1, W), shape.stride)}; }

    // log(sum e^largest + e^score)
    static double log_of_sum(double largest, double sum, double score) {
        if (score == -INFINITY) return sum > 0 ? largest + log(sum) : -INFINITY;
        if (!(largest > score)) return score + log(1 + sum * exp(largest - score));
        return largest + log(sum + exp(score - largest));
    }

    void clear(double* row) const {
        for (int64_t u = 0; u < shape.stride + POSITION_PADDING; u++) row[u] = 0;
    }

    // Calls use(duration, scores of the duration or NULL, may be a label's, may be a blank's).
    template <typename Use> void for_durations(int64_t t, Use use) const {
        if (duration_count == 0) {
            use(0, (double*)nullptr, true, false);
            use(1, (double*)nullptr, false, true);
        }
        for (int64_t i = 0; i < duration_count; i++) {
            if (durations[i] > shape.longest_duration) break;
            use(durations[i], cells.plane(t, DURATION_PLANE + i), true, durations[i] > 0);
        }
    }

    // Log-probability of what follows a blank in frame t; NULL where nothing does.
    const double* behind_blank(int64_t t) const {
        return t < shape.frames ? cells.plane(t, TO_END_PLANE) : t == shape.frames ? end : nullptr;
    }

    const double* behind_label(int64_t t) const {
        return t < shape.frames ? cells.plane(t, TO_END_PLANE) + 1 : nullptr;
    }

    // Calls use(score of the way, where it leads) for every way out of cells u to u + W that leaves frame t.
    template <typename Use> void for_ways(int64_t t, int64_t u, Doubles blank, Doubles label, Use use) const {
        for_durations(t, [&](int64_t d, const double* scores, bool labels, bool blanks) {
            const Doubles score = scores ? load(scores + u) : Doubles{};
            const double* const after_blank = blanks ? behind_blank(t + d) : nullptr;
            const double* const after_label = labels && d > 0 ? behind_label(t + d) : nullptr;
            if (after_blank) use(blank + score + load(after_blank + u));
            if (after_label) use(label + score + load(after_label + u));
        });
    }

    // Of the ways that leave frame t, the largest and the sum relative to it; and `stay`, the score of the one that
    // does not. Returns whether there is one.
    bool leaving_ways(int64_t t, Band band) {
        const double* const blanks = cells.plane(t, BLANK_PLANE);
        const double* const labels = cells.plane(t, LABEL_PLANE);
        for (int64_t u = band.first; u < band.last; u += W) {
            const Doubles blank = load(blanks + u), label = load(labels + u);
            Doubles most = all(-double(INFINITY));
            for_ways(t, u, blank, label, [&](Doubles score) { most = vmax(most, score); });
            const Doubles reference = finite(most);
            Doubles sum = {};
            for_ways(t, u, blank, label, [&](Doubles score) { sum += exp_of(score - reference); });
            store(largest + u, most);
            store(sums + u, sum);
        }
        bool stays = false;
        for_durations(t, [&](int64_t d, const double* scores, bool, bool) {
            if (d != 0) return;
            stays = true;
            for (int64_t u = band.first; u < band.last; u += W)
                store(stay + u, Doubles(load(labels + u) + (scores ? load(scores + u) : Doubles{})));
        });
        return stays;
    }

    // -infinity becomes 0, so that differences from it are no NaN.
    static Doubles finite(Doubles x) { return x > all(-double(INFINITY)) ? x : Doubles{}; }

    // Labels of duration 0 hand occupancy on to their neighbours; `stay` becomes their conditional probability.
    void spread_within(int64_t t, Band band, double* occupied) {
        const double* const to_end = cells.plane(t, TO_END_PLANE);
        const double* const labels = cells.plane(t, LABEL_PLANE);
        for (int64_t u = band.first; u < band.last; u += W) store(stay + u, Doubles{});
        for_durations(t, [&](int64_t d, const double* scores, bool, bool) {
            if (d != 0) return;
            for (int64_t u = band.first; u < band.last; u += W) {
                const Doubles score = load(labels + u) + (scores ? load(scores + u) : Doubles{});
                const Doubles way = score + load(to_end + u + 1);
                store(stay + u, exp_of(vmin(way - finite(load(to_end + u)))));
            }
            for (int64_t u = band.first; u < smaller(band.last, shape.labels); u++) occupied[u + 1] += occupied[u] * stay[u];
        });
    }

    static Doubles vmin(Doubles x) { return x < Doubles{} ? x : Doubles{}; }

    void spread(int64_t t, Band band, const double* occupied) {
        const double* const to_end = cells.plane(t, TO_END_PLANE);
        double *const blanks = cells.plane(t, BLANK_PLANE), *const labels = cells.plane(t, LABEL_PLANE);
        const double label_factor = 1 + cells.problem.fastemit;
        for (int64_t u = band.first; u < band.last; u += W) {
            const Doubles blank = load(blanks + u), label = load(labels + u), here = load(occupied + u);
            const Doubles reference = finite(load(to_end + u));
            Doubles blank_flow = {}, label_flow = {};
            for_durations(t, [&](int64_t d, double* scores, bool may_label, bool may_blank) {
                const Doubles score = scores ? load(scores + u) : Doubles{};
                const double* const after_blank = may_blank ? behind_blank(t + d) : nullptr;
                const double* const after_label = may_label && d > 0 ? behind_label(t + d) : nullptr;
                Doubles by_blank = {}, by_label = {};
                if (after_blank) {
                    by_blank = here * exp_of(vmin(blank + score + load(after_blank + u) - reference));
                    if (t + d < shape.frames) add(cells.occupancies(t + d) + u, by_blank);
                }
                if (after_label) {
                    by_label = here * exp_of(vmin(label + score + load(after_label + u) - reference));
                    add(cells.occupancies(t + d) + u + 1, by_label);
                }
                if (d == 0) by_label = here * load(stay + u);
                blank_flow += by_blank;
                label_flow += by_label;
                if (scores) store(scores + u, Doubles(by_blank + by_label));
            });
            store(blanks + u, blank_flow);
            store(labels + u, Doubles(label_flow * label_factor));
        }
        for (int64_t i = 0; i < duration_count; i++)  // those longer than the utterance
            if (durations[i] > shape.longest_duration)
                for (int64_t u = band.first; u < band.last; u += W) store(cells.plane(t, DURATION_PLANE + i) + u, Doubles{});
    }

    static void add(double* to, Doubles v) { store(to, Doubles(load(to) + v)); }

    const Cells& cells;
    const Band* bands;
    const LatticeShape& shape;
    const int32_t* durations;
    int64_t duration_count;
    double *end, *largest, *sums, *stay;
};

}  // namespace CTC_ISA
