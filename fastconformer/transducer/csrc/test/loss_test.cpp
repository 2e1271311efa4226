// Tests of the losses that need no Python, to be run under sanitizers: loss_test [random lattices, default 500] [seed].
//
// Workspaces have exactly the promised size, with guard bytes behind; every instruction set of this machine must give
// the sum of all paths, computed the slow way, and a gradient whose rows add up to 0.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <random>
#include <thread>
#include <vector>

#include "random_lattices.h"

static void check_case(Case& c, int32_t instruction_set, long which) {
    transducerProblem& p = c.problem;
    p.durations = c.durations.data();
    p.instruction_set = instruction_set;
    size_t bytes = 0, row_bytes = 0;
    if (transducer_lattices_bytes(&p, &bytes) != TRANSDUCER_SUCCESS) return;  // not of this machine
    check(transducer_workspace_bytes(&p, &row_bytes) == TRANSDUCER_SUCCESS, "size of the workspace", which);
    const Guarded lattices(bytes), workspace(row_bytes);
    std::vector<double> losses(size_t(p.batch)), scale(size_t(p.batch), 1);
    std::vector<float> gradient(c.logits.size(), NAN);
    int64_t invalid = 0;
    check(transducer_loss(&p, c.logits.data(), c.targets.data(), c.frames.data(), c.labels.data(), losses.data(),
                          lattices, &invalid) == TRANSDUCER_SUCCESS, "loss", which);
    check(transducer_gradient(&p, c.logits.data(), gradient.data(), c.targets.data(), c.frames.data(), c.labels.data(),
                              scale.data(), lattices, workspace) == TRANSDUCER_SUCCESS, "gradient", which);
    for (int64_t n = 0; n < p.batch; n++) {
        const double expected = loss_by_definition(c, n), found = losses[size_t(n)];
        check(expected == INFINITY ? found == INFINITY : fabs(found - expected) <= 1e-5 + 1e-6 * expected,
              "sum of all paths", which);
    }
    const int64_t outputs = p.classes + p.duration_count;
    for (size_t cell = 0; cell < gradient.size(); cell += size_t(outputs)) {
        double sum = 0;
        for (int64_t k = 0; k < p.classes; k++) sum += gradient[cell + size_t(k)];
        check(fabs(sum) < 1e-5, "gradient of a cell adds up to 0", which);
    }
}

// The same in pieces, as one utterance.
static void check_pieces(Case& c, long which) {
    transducerProblem& p = c.problem;
    p.instruction_set = TRANSDUCER_AUTOMATIC;
    p.durations = c.durations.data();
    const int64_t frames = c.frames[0], labels = c.labels[0], positions = labels + 1;
    size_t bytes = 0, row_bytes = 0;
    check(transducer_lattice_bytes(&p, frames, labels, &bytes) == TRANSDUCER_SUCCESS, "size of a lattice", which);
    transducer_workspace_bytes(&p, &row_bytes);
    const Guarded lattice(bytes), workspace(row_bytes);
    const int64_t outputs = p.classes + p.duration_count;
    std::vector<float> rows;
    for (int64_t t = 0; t < frames; t++) {
        const float* const from = &c.logits[size_t(t * p.logits_frame_stride)];
        rows.insert(rows.end(), from, from + positions * outputs);
        check(transducer_read_cells(&p, from, t * positions, positions, c.targets.data(), frames, labels, lattice) ==
                  TRANSDUCER_SUCCESS, "reads cells", which);
    }
    std::vector<int64_t> kept(size_t(frames * positions) + 1);
    int64_t count = 0;
    double loss = 0;
    check(transducer_walk(&p, frames, labels, lattice, &loss, kept.data(), &count) == TRANSDUCER_SUCCESS, "walk", which);
    const double expected = loss_by_definition(c, 0);
    check(expected == INFINITY ? loss == INFINITY && count == 0 : fabs(loss - expected) <= 1e-5 + 1e-6 * expected,
          "sum of all paths in pieces", which);
    for (int64_t i = 0; i < count; i++) {
        float* const row = &rows[size_t(kept[size_t(i)] * outputs)];
        check(transducer_cell_gradients(&p, row, &kept[size_t(i)], 1, c.targets.data(), frames, labels, 1, lattice,
                                        workspace) == TRANSDUCER_SUCCESS, "gradient of a cell", which);
    }
}

// The loss fused with the joint, against that of its logits, by every instruction set. Inputs of some size make lattices
// of which cells are left out.
static void check_joint(Random& random, Case& c, int32_t instruction_set, long which) {
    transducerProblem& p = c.problem;
    p.durations = c.durations.data();
    p.instruction_set = instruction_set;
    p.skip_below = between(random, 0, 3) ? 1e-9 : 0;
    const int64_t width = between(random, 1, 70), outputs = p.classes + p.duration_count;
    std::normal_distribution<float> normal(0, between(random, 0, 1) ? 1.0f : 4.0f);
    std::vector<float> encoded(size_t(p.batch * p.frames * width)), predicted(size_t(p.batch * p.positions * width)),
        weights(size_t(outputs * width)), bias(size_t(outputs), 0.5f);
    for (std::vector<float>* each : {&encoded, &predicted, &weights})
        for (float& x : *each) x = normal(random);
    if (!between(random, 0, 9)) encoded[0] = NAN;
    const transducerJoint joint = {encoded.data(), predicted.data(), p.frames * width, width, p.positions * width, width,
                                   weights.data(), bias.data(), width, TRANSDUCER_RELU};
    size_t bytes = 0, all_bytes = 0, of_one = 0;
    if (transducer_joint_workspace_bytes(&p, &joint, &bytes) != TRANSDUCER_SUCCESS) return;  // not of this machine
    int64_t cells = 0;
    for (int64_t n = 0; n < p.batch; n++) {
        transducer_lattice_bytes(&p, c.frames[size_t(n)], c.labels[size_t(n)], &of_one);
        all_bytes += of_one;
        cells += c.frames[size_t(n)] * (c.labels[size_t(n)] + 1);
    }
    const Guarded lattices(all_bytes), workspace(bytes);
    std::vector<int64_t> kept(size_t(cells) + 1), counts(size_t(p.batch));
    std::vector<double> losses(size_t(p.batch)), expected(size_t(p.batch));
    check(transducer_joint_losses(&p, &joint, c.targets.data(), c.frames.data(), c.labels.data(), losses.data(), lattices,
                                  kept.data(), counts.data(), workspace) == TRANSDUCER_SUCCESS, "loss of a joint", which);
    std::vector<float> logits(size_t(p.batch * p.frames * p.positions * outputs));
    for (size_t i = 0; i < logits.size(); i++) {
        const size_t k = i % size_t(outputs), cell = i / size_t(outputs), u = cell % size_t(p.positions);
        const size_t frame = cell / size_t(p.positions), n = frame / size_t(p.frames);
        double sum = bias[k];
        for (size_t j = 0; j < size_t(width); j++) {
            const size_t position = n * size_t(p.positions) + u;
            const float x = encoded[frame * size_t(width) + j] + predicted[position * size_t(width) + j];
            sum += double(x <= 0 ? 0 : x) * double(weights[k * size_t(width) + j]);
        }
        logits[i] = float(sum);
    }
    transducer_lattices_bytes(&p, &bytes);
    const Guarded whole(bytes);
    transducer_loss(&p, logits.data(), c.targets.data(), c.frames.data(), c.labels.data(), expected.data(), whole, nullptr);
    for (size_t n = 0; n < size_t(p.batch); n++) {
        const bool is_same = isfinite(expected[n]) ? fabs(losses[n] - expected[n]) <= 1e-4 + 1e-5 * expected[n]
                                                   : isnan(expected[n]) == isnan(losses[n]) && !isfinite(losses[n]);
        check(is_same, "loss of a joint is that of its logits", which);
        check(counts[n] >= 0 && counts[n] <= c.frames[n] * (c.labels[n] + 1), "cells that are kept", which);
    }
}

static void check_refusals() {
    Random random(1);
    Case c = random_case(random);
    transducerProblem& p = c.problem;
    p.durations = c.durations.data();
    size_t bytes;
    check(transducer_lattices_bytes(nullptr, &bytes) == TRANSDUCER_INVALID_VALUE, "refuses no problem");
    transducer_lattices_bytes(&p, &bytes);
    const Guarded lattices(bytes);
    std::vector<double> losses(size_t(p.batch));
    int64_t invalid = 0;
    c.frames[0] = p.frames + 1;
    check(transducer_loss(&p, c.logits.data(), c.targets.data(), c.frames.data(), c.labels.data(), losses.data(),
                          lattices, &invalid) == TRANSDUCER_INVALID_VALUE && invalid == 0, "refuses a length");
    p.blank = p.classes;
    check(transducer_lattices_bytes(&p, &bytes) == TRANSDUCER_INVALID_VALUE, "refuses a blank");
}

int main(int count, char** arguments) {
    const long lattices = count > 1 ? atol(arguments[1]) : 500;
    const unsigned seed = count > 2 ? unsigned(atol(arguments[2])) : 1;
    const auto run = [=](unsigned seed) {
        Random random(seed);
        for (long i = 0; i < lattices; i++) {
            Case c = random_case(random);
            for (int32_t set = TRANSDUCER_GENERIC; set <= TRANSDUCER_AVX512; set++) check_case(c, set, i);
            check_pieces(c, i);
            for (int32_t set = TRANSDUCER_GENERIC; set <= TRANSDUCER_AVX512; set++) check_joint(random, c, set, i);
        }
    };
    check_refusals();
    run(seed);
    std::thread one(run, seed + 1), other(run, seed + 1);  // nobody shares anything
    one.join();
    other.join();
    if (failures == 0) printf("all passed\n");
    return failures != 0;
}
