// The cells of a lattice from what goes into the joint: its logits, of some rows at a time, and which cells are worth
// them. Walking from the first frame on, the probability of reaching a cell bounds that of all paths through it, since
// what follows has at most probability 1. Cells that hardly anything reaches are left out; the probability that arrives
// there is added up, and is what the sum of all paths can be missing at most.
#pragma once

#include <float.h>
#include <math.h>

#include "activation.h"
#include "cell.h"
#include "multiply.h"

namespace CTC_ISA {

class JointCells {
    static constexpr int W = LANES<float>;
    // Of skip_below: what may be missing of all paths.
    static constexpr double MISSING = 1e-6;
    // What has to reach a cell, at first: enough for losses up to 10. If nothing reaches the end, what is tried next; and
    // below what all cells are read.
    static constexpr double FIRST_REACH = 1e-20, SECOND_REACH = 1e-90, LEAST_REACH = 1e-250;
    // Positions that are read in advance, behind one that has to be: a label that takes no time leads there.
    static constexpr int64_t AHEAD = 2;
    static constexpr int64_t AT_ONCE = 8;  // ways whose probabilities are taken at once

  public:
    JointCells(const Cells& cells, const JointRows& joint, const JointScratch& scratch)
        : cells(cells), shape(cells.shape), problem(cells.problem), joint(joint), scratch(scratch),
          hidden_stride(padded(joint.width)), outputs(problem.classes + problem.duration_count),
          logit_stride(padded(outputs)) {}

    // Reads what counts, and says so in the bands. False where a logit is NaN or +infinity.
    bool read() {
        memset(cells.memory, 0, size_t(lattice_doubles(shape)) * sizeof(double));
        if (!(problem.skip_below > 0) || problem.sigma < 0 || !is_bounded()) return read_all();
        for (double reach = FIRST_REACH; reach > LEAST_REACH;) {
            const Found found = walk(reach);
            const double missing = found.probability * problem.skip_below * MISSING;
            if (found.probability > 0 && found.missing <= missing) {
                shut_out();
                return true;
            }
            if (found.probability > 0)
                reach = 0.5 * missing / double(shape.frames * shape.positions);
            else
                reach = reach > SECOND_REACH ? SECOND_REACH : 0;
        }
        return read_all();
    }

  private:
    struct Found {
        double probability, missing;
    };

    // Whether no logit can be NaN or infinite, so that cells need not be read to know it.
    bool is_bounded() const {
        double bound = 1;
        if (joint.activation == TRANSDUCER_RELU)
            bound = largest_of(joint.encoded, joint.encoded_stride, shape.frames) +
                    largest_of(joint.predicted, joint.predicted_stride, shape.positions);
        else if (!(largest_of(joint.encoded, joint.encoded_stride, shape.frames) < INFINITY &&
                   largest_of(joint.predicted, joint.predicted_stride, shape.positions) < INFINITY))
            return false;
        return joint.largest_bias + joint.largest_factor * bound < double(FLT_MAX) / 4;
    }

    // The largest size of a number; infinity where one is NaN.
    double largest_of(const float* rows, int64_t stride, int64_t count) const {
        Floats most = {}, nothing = {};
        float rest = 0;
        bool is_number = true;
        for (int64_t i = 0; i < count; i++) {
            const float* const row = rows + i * stride;
            int64_t j = 0;
            for (; j + W <= joint.width; j += W) {
                const Floats x = load(row + j);
                nothing += x * 0.0f;
                most = vmax(most, x < Floats{} ? -x : x);
            }
            for (; j < joint.width; j++) {
                is_number &= fabsf(row[j]) <= FLT_MAX;
                rest = fmaxf(rest, fabsf(row[j]));
            }
        }
        return is_number && sum_of(nothing) == 0 ? double(fmaxf(rest, max_of(most))) : double(INFINITY);
    }

    bool is_read(int64_t t, int64_t u) const { return cells.plane(t, SUM_PLANE)[u] > 0; }

    // The joint of some positions of a frame, and what the lattice needs of it.
    bool read_rows(int64_t t, const int32_t* positions, int64_t count) {
        const float* const frame = joint.encoded + t * joint.encoded_stride;
        for (int64_t i = 0; i < count; i++) {
            const float* const position = joint.predicted + positions[i] * joint.predicted_stride;
            float* const hidden = scratch.hidden + i * hidden_stride;
            int64_t j = 0;
            for (; j + W <= joint.width; j += W)
                store(hidden + j, activated(load(frame + j) + load(position + j), joint.activation));
            if (j < joint.width) {
                const int64_t rest = joint.width - j;
                store(hidden + j, activated(load_last(frame + j, rest) + load_last(position + j, rest), joint.activation));
            }
        }
        const Product product = {scratch.hidden, hidden_stride, count,          joint.width,
                                 joint.weights,  joint.bias,    scratch.logits, logit_stride};
        multiply(product, logit_stride);
        bool is_finite = true;
        for (int64_t i = 0; i < count; i++)
            is_finite &= read_cell<float>(cells, scratch.logits + i * logit_stride, t, positions[i]);
        return is_finite;
    }

    bool read_all() {
        for (int64_t t = 0; t < shape.frames; t++) {
            scratch.bands[t] = {0, shape.labels};
            for (int64_t first = 0; first < shape.positions; first += JOINT_ROWS) {
                const int64_t count = smaller(JOINT_ROWS, shape.positions - first);
                for (int64_t i = 0; i < count; i++) scratch.positions[i] = int32_t(first + i);
                if (!read_rows(t, scratch.positions, count)) return false;
            }
        }
        return true;
    }

    // Reads position u and those behind it that are needed, or might be.
    void read_from(int64_t t, int64_t u, const double* reached, double reach) {
        int64_t count = 0, last = u;
        for (int64_t v = u; v <= shape.labels && count < JOINT_ROWS; v++) {
            if (reached[v] >= reach) last = v;
            if (v <= last + AHEAD && !is_read(t, v)) scratch.positions[count++] = int32_t(v);
        }
        read_rows(t, scratch.positions, count);
    }

    // Probabilities to reach the cells that at least `reach` arrives at, and of all paths through such cells alone.
    Found walk(double reach) {
        for (int64_t t = 0; t <= shape.longest_duration; t++)
            memset(cells.occupancies(t), 0, size_t(shape.positions) * sizeof(double));
        if (shape.frames) cells.occupancies(0)[0] = 1;
        Found found = {};
        for (int64_t t = 0; t < shape.frames; t++) {
            double* const reached = cells.occupancies(t);
            for (int64_t u = 0; u < shape.positions; u++) {
                if (reached[u] < reach) {
                    found.missing += reached[u];
                    continue;
                }
                if (!is_read(t, u)) read_from(t, u, reached, reach);
                leave(t, u, reached[u], &found);
            }
            memset(reached, 0, size_t(shape.positions) * sizeof(double));
        }
        return found;
    }

    void leave(int64_t t, int64_t u, double reached, Found* found) {
        double logs[AT_ONCE] = {cells.plane(t, BLANK_PLANE)[u], cells.plane(t, LABEL_PLANE)[u]}, ways[AT_ONCE];
        exponentials(logs, ways);
        const double by_blank = reached * ways[0], by_label = u < shape.labels ? reached * ways[1] : 0;
        if (problem.duration_count == 0) {
            arrive(t + 1, u, by_blank, found);
            if (by_label > 0) cells.occupancies(t)[u + 1] += by_label;
            return;
        }
        for (int64_t first = 0; first < problem.duration_count; first += AT_ONCE) {
            const int64_t count = smaller(AT_ONCE, problem.duration_count - first);
            for (int64_t i = 0; i < count; i++) logs[i] = cells.plane(t, DURATION_PLANE + first + i)[u];
            exponentials(logs, ways);
            for (int64_t i = 0; i < count; i++) {
                const int64_t d = problem.durations[first + i];
                if (d > 0) arrive(t + d, u, by_blank * ways[i], found);
                if (by_label > 0 && t + d < shape.frames) cells.occupancies(t + d)[u + 1] += by_label * ways[i];
            }
        }
    }

    // By a blank: what lands behind the last frame has all labels, or is no path.
    void arrive(int64_t t, int64_t u, double probability, Found* found) {
        if (t < shape.frames)
            cells.occupancies(t)[u] += probability;
        else if (t == shape.frames && u == shape.labels)
            found->probability += probability;
    }

    static void exponentials(const double* logs, double* ways) {
        constexpr int D = LANES<double>;
        for (int64_t i = 0; i < AT_ONCE; i += D) store(ways + i, exp_of(load(logs + i)));
    }

    // Cells that were not read have no way out.
    void shut_out() {
        for (int64_t t = 0; t < shape.frames; t++) {
            double *const blanks = cells.plane(t, BLANK_PLANE), *const labels = cells.plane(t, LABEL_PLANE);
            Band band = {shape.positions, -1};
            for (int64_t u = 0; u < shape.positions; u++)
                if (is_read(t, u)) {
                    band.first = smaller(band.first, u);
                    band.last = u;
                }
            for (int64_t u = 0; u < shape.stride; u++)
                if (u > shape.labels || !is_read(t, u)) blanks[u] = labels[u] = -INFINITY;
            scratch.bands[t] = band;
        }
    }

    const Cells& cells;
    const LatticeShape& shape;
    const transducerProblem& problem;
    const JointRows& joint;
    const JointScratch& scratch;
    int64_t hidden_stride, outputs, logit_stride;
};

}  // namespace CTC_ISA
