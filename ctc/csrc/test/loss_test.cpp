// Tests of the loss that need no Python, to be run under sanitizers: loss_test [random lattices, default 2000] [seed].
//
// The random lattices go through the linear domain, where it certifies itself, and through the extended range; both
// must agree to 1e-6 on every instruction set of this machine, whatever the logits.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <random>
#include <thread>
#include <vector>

#include "ctc.h"
#include "test/checking.h"

struct Case {
    ctcProblem problem = {};
    int flags = 0;  // of every run
    std::vector<float> logits;
    std::vector<int32_t> targets, input_lengths, target_lengths;
};

struct Answer {
    ctcStatus_t status;
    std::vector<float> losses, gradient;
};

// Runs in a workspace of exactly the promised size, with guard bytes behind it.
static Answer run(Case& c, int flags, int instruction_set, int threads, bool wants_gradient = true) {
    c.problem.flags = c.flags | flags;
    c.problem.instruction_set = instruction_set;
    c.problem.threads = threads;
    Answer answer = {CTC_STATUS_SUCCESS, std::vector<float>(size_t(c.problem.batch)), {}};
    if (wants_gradient) answer.gradient.assign(c.logits.size(), NAN);
    size_t bytes = 0;
    answer.status = ctc_loss_workspace(&c.problem, &bytes);
    if (answer.status != CTC_STATUS_SUCCESS) return answer;
    const Guarded workspace(bytes);
    answer.status = ctc_loss(&c.problem, c.logits.data(), wants_gradient ? answer.gradient.data() : nullptr,
                             c.targets.data(), c.input_lengths.data(), c.target_lengths.data(), nullptr,
                             answer.losses.data(), nullptr, workspace, nullptr);
    return answer;
}

// Stars in place of one label, of a few, or of half of them.
static void put_stars(Case& c, Random& random) {
    c.flags = CTC_STARS;
    c.problem.star = -1;
    const size_t count = c.targets.size();
    if (count == 0) return;
    const int every = between(random, 0, 2) ? between(random, 2, 20) : int(count);
    for (size_t i = 0; i < count / size_t(every) + 1; i++) c.targets[size_t(between(random, 0, int(count) - 1))] = -1;
}

// Sizes, scales and shapes of logits from the harmless to the absurd.
static Case random_case(Random& random) {
    Case c;
    const int shape = between(random, 0, 9);
    const int frames = between(random, 1, shape < 8 ? 80 : 300);
    const int classes = between(random, 2, shape % 2 ? 40 : 300);
    const int batch = between(random, 1, 2);
    const int longest = between(random, 0, frames);
    ctcProblem& p = c.problem;
    p.frames = frames;
    p.batch = batch;
    p.classes = classes;
    p.blank = between(random, 0, classes - 1);
    p.logits_frame_stride = p.gradient_frame_stride = int64_t(batch) * classes;
    p.logits_batch_stride = p.gradient_batch_stride = classes;
    p.targets_stride = p.longest_target = longest;
    p.targets_count = int64_t(batch) * longest;
    const bool is_constant = between(random, 0, 4) == 0;
    for (int i = 0; i < batch * longest; i++) {
        const int label = is_constant ? 0 : between(random, 0, classes - 2);
        c.targets.push_back(label + (label >= p.blank));
    }
    if (between(random, 0, 1)) put_stars(c, random);
    for (int n = 0; n < batch; n++) {
        c.input_lengths.push_back(between(random, frames / 2, frames));
        c.target_lengths.push_back(between(random, 0, longest));
    }
    const float scales[] = {0.01f, 0.3f, 1, 1, 2, 4, 10, 30, 100, 300};
    const float scale = scales[between(random, 0, 9)];
    const float offset = between(random, 0, 3) ? 0 : float(between(random, -1000, 1000));
    const float blank_offset = between(random, 0, 3) ? 0 : float(between(random, -30, 100));
    const float margin = between(random, 0, 3) ? 0 : float(between(random, 1, 30));
    std::normal_distribution<float> normal;
    for (int t = 0; t < frames; t++)
        for (int n = 0; n < batch; n++) {
            const int labels = c.target_lengths[size_t(n)];
            const int said = labels ? c.targets[size_t(n * longest + t * labels / frames)] : int(p.blank);
            const int aligned = said == p.star && c.flags ? between(random, 0, classes - 1) : said;
            for (int k = 0; k < classes; k++) {
                float x = scale * normal(random) + offset;
                if (k == p.blank) x += blank_offset;
                if (k == aligned && t % 2) x += margin;
                c.logits.push_back(x);
            }
        }
    return c;
}

// Largest difference, of the losses and of the gradients, each relative. A gradient is the difference of two
// probabilities that are rounded to 2^-24, so its error is taken relative to its norm plus an eighth a frame.
static double difference(const Answer& a, const Answer& b, double frames) {
    double worst = 0, error = 0, norm = 0;
    for (size_t n = 0; n < a.losses.size(); n++) {
        if (a.losses[n] == b.losses[n]) continue;
        worst = fmax(worst, fabs(double(a.losses[n]) - b.losses[n]) / fmax(1, fabs(double(b.losses[n]))));
        if (isfinite(a.losses[n]) != isfinite(b.losses[n])) return INFINITY;
    }
    for (size_t i = 0; i < a.gradient.size(); i++) {
        if (!isfinite(a.gradient[i]) || !isfinite(b.gradient[i])) return INFINITY;
        error += (double(a.gradient[i]) - b.gradient[i]) * (double(a.gradient[i]) - b.gradient[i]);
        norm += double(b.gradient[i]) * b.gradient[i];
    }
    return fmax(worst, sqrt(error) / (sqrt(norm) + sqrt(frames) / 8));
}

static void test_random_lattices(long count, unsigned seed) {
    Random random(seed);
    double worst = 0;
    for (long i = 0; i < count; i++) {
        Case c = random_case(random);
        const Answer truth = run(c, CTC_EXTENDED_RANGE, CTC_GENERIC, 1);
        for (int set = CTC_GENERIC; set <= CTC_AVX512; set++) {
            const Answer answer = run(c, 0, set, 1);
            if (answer.status == CTC_STATUS_INVALID_VALUE && set != CTC_GENERIC) continue;  // not on this machine
            check(answer.status == CTC_STATUS_SUCCESS, "status of a random lattice", i);
            const double found = difference(answer, truth, double(c.problem.frames * c.problem.batch));
            worst = fmax(worst, found);
            check(found <= 1e-6, "a random lattice is wrong", i);
        }
        const Answer loss_alone = run(c, 0, CTC_AUTOMATIC, 1, false);
        check(loss_alone.losses == run(c, 0, CTC_AUTOMATIC, 1).losses, "the loss without a gradient differs", i);
    }
    printf("%ld random lattices, worst relative difference %.1e\n", count, worst);
}

static void test_threads_and_batches_do_not_matter() {
    Random random(7);
    for (long i = 0; i < 20; i++) {
        Case c = random_case(random);
        const ctcProblem& p = c.problem;
        Case many = c;
        many.problem.batch = 8 * p.batch;
        many.problem.logits_frame_stride = many.problem.gradient_frame_stride = 8 * p.batch * p.classes;
        many.problem.targets_count = 8 * p.targets_count;
        many.logits.clear();
        for (int64_t t = 0; t < p.frames; t++)
            for (int copy = 0; copy < 8; copy++) {
                const float* frame = c.logits.data() + t * p.logits_frame_stride;
                many.logits.insert(many.logits.end(), frame, frame + p.logits_frame_stride);
            }
        for (int copy = 1; copy < 8; copy++) {
            many.targets.insert(many.targets.end(), c.targets.begin(), c.targets.end());
            many.input_lengths.insert(many.input_lengths.end(), c.input_lengths.begin(), c.input_lengths.end());
            many.target_lengths.insert(many.target_lengths.end(), c.target_lengths.begin(), c.target_lengths.end());
        }
        const Answer alone = run(c, 0, CTC_AUTOMATIC, 1), one = run(many, 0, CTC_AUTOMATIC, 1);
        const Answer four = run(many, 0, CTC_AUTOMATIC, 4);
        check(one.losses == four.losses && one.gradient == four.gradient, "thread count matters", i);
        for (size_t n = 0; n < one.losses.size(); n++)
            check(one.losses[n] == alone.losses[n % alone.losses.size()], "batch index matters", i);
    }
}

static void test_two_callers_at_once() {
    Random random(3);
    Case first = random_case(random), second = random_case(random);
    const Answer expected_first = run(first, 0, CTC_AUTOMATIC, 1), expected_second = run(second, 0, CTC_AUTOMATIC, 1);
    const auto repeat = [](Case c, const Answer& expected) {
        for (int i = 0; i < 20; i++) check(run(c, 0, CTC_AUTOMATIC, 1).losses == expected.losses, "callers interfere");
    };
    std::thread other(repeat, first, std::cref(expected_first));
    repeat(second, expected_second);
    other.join();
}

// A star can only make a transcript likelier, and one that is not there changes nothing.
static void test_stars() {
    Random random(6);
    for (int i = 0; i < 60; i++) {
        Case c = random_case(random);
        while (c.flags) c = random_case(random);
        const Answer plain = run(c, CTC_EXTENDED_RANGE, CTC_AUTOMATIC, 2);
        c.problem.star = -1;
        const Answer none = run(c, CTC_EXTENDED_RANGE | CTC_STARS, CTC_AUTOMATIC, 2);
        check(none.losses == plain.losses && none.gradient == plain.gradient, "no star is not nothing", i);
        check(run(c, CTC_STARS, CTC_AUTOMATIC, 2).gradient == run(c, 0, CTC_AUTOMATIC, 2).gradient,
              "no star is not nothing to the fast lattice", i);
        const int64_t longest = c.problem.longest_target;
        std::vector<int32_t> targets;
        for (int64_t n = 0; n < c.problem.batch; n++) {
            targets.insert(targets.end(), c.targets.begin() + n * longest, c.targets.begin() + (n + 1) * longest);
            targets.insert(targets.end() - longest + between(random, 0, c.target_lengths[size_t(n)]), -1);
            c.target_lengths[size_t(n)]++;
        }
        c.targets = targets;
        c.problem.longest_target = c.problem.targets_stride = longest + 1;
        c.problem.targets_count = int64_t(targets.size());
        for (int set : {CTC_GENERIC, CTC_AUTOMATIC}) {
            const Answer starred = run(c, CTC_STARS, set, 2);
            check(starred.status == CTC_STATUS_SUCCESS, "a star is refused", i);
            for (size_t n = 0; n < starred.losses.size(); n++)
                check(starred.losses[n] <= plain.losses[n] + 1e-4f * fabsf(plain.losses[n]) + 1e-3f,
                      "a star costs something", i);
        }
    }
}

static void test_invalid_arguments_are_refused() {
    Random random(5);
    Case c = random_case(random);
    for (int32_t bad : {-1, int32_t(c.problem.classes), int32_t(c.problem.blank)}) {
        Case wrong = c;
        wrong.targets.assign(size_t(c.problem.targets_count + 1), bad);
        wrong.problem.targets_count = int64_t(wrong.targets.size());
        wrong.problem.longest_target = wrong.problem.targets_stride = 1;
        wrong.target_lengths.assign(size_t(c.problem.batch), 1);
        if (wrong.problem.targets_count < c.problem.batch) continue;
        check(run(wrong, 0, CTC_AUTOMATIC, 1).status == CTC_STATUS_INVALID_VALUE, "a bad label passed", bad);
    }
    Case wrong = c;
    wrong.input_lengths[0] = int32_t(c.problem.frames + 1);
    check(run(wrong, 0, CTC_AUTOMATIC, 1).status == CTC_STATUS_INVALID_VALUE, "too many frames passed");
    wrong = c;
    wrong.target_lengths[0] = -1;
    check(run(wrong, 0, CTC_AUTOMATIC, 1).status == CTC_STATUS_INVALID_VALUE, "a negative length passed");
    check(ctc_loss_workspace(nullptr, nullptr) == CTC_STATUS_INVALID_VALUE, "NULL passed");
    check(ctc_loss(&c.problem, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                   nullptr) == CTC_STATUS_INVALID_VALUE, "NULL passed");
}

int main(int count, char** arguments) {
    test_invalid_arguments_are_refused();
    test_threads_and_batches_do_not_matter();
    test_two_callers_at_once();
    test_stars();
    test_random_lattices(count > 1 ? atol(arguments[1]) : 2000, count > 2 ? unsigned(atol(arguments[2])) : 1);
    if (failures == 0) printf("all passed\n");
    return failures != 0;
}
