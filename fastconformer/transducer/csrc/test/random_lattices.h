// Random lattices for the C++ tests of the losses, and their losses by the definition.
#ifndef RANDOM_LATTICES_H
#define RANDOM_LATTICES_H

#include <math.h>

#include <random>
#include <vector>

#include "test/checking.h"
#include "transducer_loss.h"

struct Case {
    transducerProblem problem = {};
    std::vector<int32_t> durations;
    std::vector<float> logits;
    std::vector<int64_t> targets, frames, labels;
};

static Case random_case(Random& random) {
    Case c;
    transducerProblem& p = c.problem;
    p.batch = between(random, 1, 3);
    p.frames = between(random, 1, 30);
    p.positions = between(random, 1, 20);
    p.classes = between(random, 2, between(random, 0, 1) ? 20 : 200);
    p.blank = between(random, 0, int(p.classes) - 1);
    if (between(random, 0, 1)) {
        for (int d = between(random, 0, 1); int(c.durations.size()) < between(random, 1, 6); d += between(random, 1, 3))
            c.durations.push_back(d);
        if (c.durations.back() == 0) c.durations.push_back(1);
        p.sigma = between(random, 0, 1) * 0.05;
    }
    p.duration_count = int64_t(c.durations.size());
    const int64_t outputs = p.classes + p.duration_count;
    p.logits_position_stride = p.gradient_position_stride = outputs;
    p.logits_frame_stride = p.gradient_frame_stride = outputs * p.positions;
    p.logits_batch_stride = p.gradient_batch_stride = outputs * p.positions * p.frames;
    p.targets_stride = p.positions - 1;
    p.threads = between(random, 1, 3);
    std::normal_distribution<float> normal(0, between(random, 0, 3) ? 2.0f : 30.0f);
    c.logits.resize(size_t(p.batch * p.logits_batch_stride));
    for (float& x : c.logits) x = normal(random);
    for (int64_t i = 0; i < p.batch * p.targets_stride; i++) {
        const int64_t label = between(random, 0, int(p.classes) - 2);
        c.targets.push_back(label + (label >= p.blank));
    }
    for (int64_t n = 0; n < p.batch; n++) {
        c.frames.push_back(between(random, 0, int(p.frames)));
        c.labels.push_back(between(random, 0, int(p.positions) - 1));
    }
    return c;
}

static double add_logs(double a, double b) {
    if (a == -INFINITY) return b;
    return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}

// Score of output k of a cell among outputs `first` to `last`.
static double score(const float* cell, int64_t k, int64_t first, int64_t last) {
    double sum = -INFINITY;
    for (int64_t i = first; i < last; i++) sum = add_logs(sum, cell[i]);
    return cell[k] - sum;
}

static double loss_by_definition(const Case& c, int64_t n) {
    const transducerProblem& p = c.problem;
    const int64_t frames = c.frames[size_t(n)], labels = c.labels[size_t(n)];
    std::vector<double> alpha(size_t((frames + 1) * (labels + 1)), -INFINITY);
    const auto at = [&](int64_t t, int64_t u) -> double& { return alpha[size_t(t * (labels + 1) + u)]; };
    if (frames == 0) return INFINITY;
    at(0, 0) = 0;
    for (int64_t t = 0; t < frames; t++)
        for (int64_t u = 0; u <= labels; u++) {
            const float* const cell = &c.logits[size_t(n * p.logits_batch_stride + t * p.logits_frame_stride +
                                                       u * p.logits_position_stride)];
            const double blank = at(t, u) + score(cell, p.blank, 0, p.classes) - p.sigma;
            const double label =
                u < labels ? at(t, u) + score(cell, c.targets[size_t(n * p.targets_stride + u)], 0, p.classes) - p.sigma
                           : -INFINITY;
            const int64_t ways = p.duration_count ? p.duration_count : 1;
            for (int64_t i = 0; i < ways; i++) {
                const double length =
                    p.duration_count ? score(cell, p.classes + i, p.classes, p.classes + p.duration_count) : 0;
                const int64_t after_label = p.duration_count ? c.durations[size_t(i)] : 0;
                const int64_t after_blank = p.duration_count ? c.durations[size_t(i)] : 1;
                if (after_blank > 0 && (t + after_blank < frames || (t + after_blank == frames && u == labels)))
                    at(t + after_blank, u) = add_logs(at(t + after_blank, u), blank + length);
                if (u < labels && t + after_label < frames)
                    at(t + after_label, u + 1) = add_logs(at(t + after_label, u + 1), label + length);
            }
        }
    return -at(frames, labels);
}

#endif
