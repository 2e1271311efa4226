// Random lattices through the CUDA kernels in the emulator: cuda_lattices FOLDER [lattices, default 300] [seed], where FOLDER
// is what ctc_cuda_use takes. It is meant for sanitizers: every buffer, workspace included, has exactly its size, so that
// one byte too far is found.
//
// The linear domain, where it certifies itself, must agree with the extended range to 1e-6, whatever the logits; and an
// utterance must have the same bits alone, in a batch, behind padding and in whatever order the threads run.
#include <random>

#include <math.h>
#include <stdio.h>

#include <algorithm>

#include "ctc.h"
#include "ctc_decode.h"
#include "on_device.h"

extern "C" void emulator_order(uint64_t seed);

namespace {

int failures = 0, certified = 0, tried = 0;

void check(bool holds, const char* what, long which) {
    if (holds) return;
    failures++;
    printf("FAILED: %s (%ld)\n", what, which);
}

using Random = std::mt19937;

int between(Random& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

constexpr int STAR = -2;

struct Example {
    int frames, blank;
    std::vector<int32_t> labels;
    std::vector<float> logits;  // [frames, classes]
};

struct Answer {
    std::vector<float> losses, gradient;
};

// Sizes, scales and shapes of logits from the harmless to the absurd.
Example random_example(Random& random, int classes, int blank) {
    Example example;
    const int most = between(random, 0, 9) ? 60 : 200;
    example.frames = between(random, 1, most);
    example.blank = blank;
    const int count = between(random, 0, 5) ? between(random, 0, (example.frames + 1) / 2) : between(random, 0, most);
    const bool is_constant = between(random, 0, 4) == 0;
    for (int i = 0; i < count && classes > 1; i++) {
        const int label = is_constant ? 0 : between(random, 0, classes - 2);
        example.labels.push_back(label + (label >= blank));
    }
    const float scales[] = {0.01f, 0.3f, 1, 1, 2, 4, 10, 30, 100, 300};
    const float scale = scales[between(random, 0, 9)];
    const float offset = between(random, 0, 3) ? 0 : float(between(random, -1000, 1000));
    const float blank_offset = between(random, 0, 3) ? 0 : float(between(random, -30, 100));
    const float margin = between(random, 0, 3) ? 0 : float(between(random, 1, 30));
    std::normal_distribution<float> normal;
    for (int t = 0; t < example.frames; t++) {
        const size_t labels = example.labels.size();
        const int aligned = labels ? example.labels[size_t(t) * labels / size_t(example.frames)] : blank;
        for (int k = 0; k < classes; k++) {
            float x = scale * normal(random) + offset;
            if (k == blank) x += blank_offset;
            if (k == aligned && t % 2) x += margin;
            example.logits.push_back(x);
        }
    }
    const int every = between(random, 0, 1) ? between(random, 1, 20) : 0;  // half of all are without stars
    for (size_t i = 0; every > 0 && i < example.labels.size(); i++)
        if (between(random, 1, every) == 1) example.labels[i] = STAR;
    return example;
}

// The examples as one batch of `frames` and room for `longest` labels. Padding is NaN and labels that do not exist.
Answer run(const std::vector<Example>& examples, int classes, int frames, int longest, int flags,
           bool wants_gradient = true) {
    const int batch = int(examples.size());
    std::vector<float> logits(size_t(frames) * size_t(batch * classes), NAN);
    std::vector<int32_t> targets(size_t(batch * longest), -7), input_lengths, target_lengths;
    for (int n = 0; n < batch; n++) {
        const Example& example = examples[size_t(n)];
        for (int t = 0; t < example.frames; t++)
            std::copy_n(&example.logits[size_t(t * classes)], classes, &logits[size_t((t * batch + n) * classes)]);
        std::copy(example.labels.begin(), example.labels.end(), targets.begin() + n * longest);
        input_lengths.push_back(example.frames);
        target_lengths.push_back(int32_t(example.labels.size()));
    }
    ctcProblem p = {};
    p.frames = frames;
    p.batch = batch;
    p.classes = classes;
    p.blank = examples[0].blank;
    p.logits_frame_stride = p.gradient_frame_stride = int64_t(batch) * classes;
    p.logits_batch_stride = p.gradient_batch_stride = classes;
    p.targets_stride = p.longest_target = longest;
    p.targets_count = int64_t(batch) * longest;
    p.flags = flags;
    p.star = STAR;
    size_t bytes = 0;
    check(ctc_loss_cuda_workspace(&p, &bytes) == CTC_STATUS_SUCCESS, "the size of the workspace", 0);
    const OnDevice<char> workspace(std::vector<char>(bytes, 0x5a));
    const OnDevice<float> x(logits), losses(std::vector<float>(size_t(batch), -1));
    const OnDevice<float> gradient(std::vector<float>(wants_gradient ? logits.size() : 0, -1));
    const OnDevice<int32_t> labels(targets), frame_counts(input_lengths), label_counts(target_lengths);
    const OnDevice<int64_t> invalid(std::vector<int64_t>(1, 0));
    const ctcStatus_t status =
        ctc_loss_cuda(&p, x.data, gradient.data, labels.data, frame_counts.data, label_counts.data, nullptr,
                      losses.data, nullptr, workspace.data, invalid.data, nullptr);
    check(status == CTC_STATUS_SUCCESS && invalid.values()[0] == -1, "status", 0);
    return {losses.values(), gradient.values()};
}

// Gradient of example n of a batch, its own frames alone.
std::vector<float> gradient_of(const Answer& answer, int n, int batch, int frames, int classes) {
    std::vector<float> own;
    for (int t = 0; t < frames; t++) {
        const float* const from = &answer.gradient[size_t((t * batch + n) * classes)];
        own.insert(own.end(), from, from + classes);
    }
    return own;
}

// Largest difference, of the losses and of the gradients, each relative. A gradient is the difference of two
// probabilities that are rounded to 2^-24, so its error is taken relative to its norm plus an eighth a frame.
double difference(const Answer& a, const Answer& b, double frames) {
    double worst = 0, error = 0, norm = 0;
    for (size_t n = 0; n < a.losses.size(); n++) {
        if (a.losses[n] == b.losses[n]) continue;
        worst = fmax(worst, fabs(double(a.losses[n]) - b.losses[n]) / fmax(1, fabs(double(b.losses[n]))));
        if (!isfinite(a.losses[n]) || !isfinite(b.losses[n])) return INFINITY;
    }
    for (size_t i = 0; i < a.gradient.size(); i++) {
        if (!isfinite(a.gradient[i]) || !isfinite(b.gradient[i])) return INFINITY;
        error += pow(double(a.gradient[i]) - b.gradient[i], 2);
        norm += pow(double(b.gradient[i]), 2);
    }
    return fmax(worst, sqrt(error) / (sqrt(norm) + sqrt(frames) / 8));
}

// Greedy decoding and alignment of an example: what they write must make sense.
void check_decoders(Example example, int classes, long which) {
    example.labels.erase(std::remove(example.labels.begin(), example.labels.end(), STAR), example.labels.end());
    const int64_t frames = example.frames, labels = int64_t(example.labels.size());
    const OnDevice<float> x(example.logits);
    const ctc_scores scores = {x.data, 0, 1, frames, classes, frames * classes, classes};
    const OnDevice<int64_t> lengths({frames}), counts({labels});
    const OnDevice<char> greedy_memory(std::vector<char>(ctc_greedy_cuda_workspace(1, frames), 0x5a));
    const OnDevice<int32_t> packed(std::vector<int32_t>(size_t(4 * frames + 3), -1));
    const int decoded = ctc_greedy_cuda(&scores, CTC_FLOAT32, lengths.data, example.blank, packed.data,
                                        greedy_memory.data, nullptr);
    const std::vector<int32_t> runs = packed.values();
    const int32_t found = runs[size_t(4 * frames)];
    check(decoded == CTC_DECODE_SUCCESS && found >= 0 && found <= frames, "greedy decoding", which);
    for (int32_t i = 0; i < found; i++)
        check(runs[size_t(frames + i)] < runs[size_t(2 * frames + i)], "a run of greedy decoding", which);

    const OnDevice<char> memory(std::vector<char>(ctc_align_cuda_workspace(1, frames, labels), 0x5a));
    const OnDevice<int64_t> start(std::vector<int64_t>(size_t(labels), -1)), end(start.values());
    const OnDevice<double> log_probs(std::vector<double>(size_t(labels), 1)), total({1.0});
    const OnDevice<int32_t> targets(example.labels);
    const int aligned =
        ctc_align_cuda(&scores, CTC_FLOAT32, lengths.data, targets.data, labels, counts.data, example.blank,
                       start.data, end.data, log_probs.data, total.data, memory.data, nullptr);
    check(aligned == CTC_DECODE_SUCCESS, "alignment", which);
    const std::vector<int64_t> first = start.values(), last = end.values();
    if (!isfinite(total.values()[0])) return;
    for (size_t i = 0; i < size_t(labels); i++)
        check(first[i] < last[i] && (i == 0 || last[i - 1] <= first[i]), "a span of an alignment", which);
}

}  // namespace

int main(int count, char** arguments) {
    ctc_cuda_use(arguments[1], nullptr, "");
    const long lattices = count > 2 ? atol(arguments[2]) : 300;
    const unsigned seed = count > 3 ? unsigned(atol(arguments[3])) : 1;
    Random random(seed);
#if !defined(__CUDACC__)
    emulator_order(seed * 2654435761u + 1);
#endif
    double worst = 0;
    for (long i = 0; i < lattices; i++) {
        const int classes = between(random, 1, 9) ? between(random, 2, 40) : between(random, 41, 400);
        const int blank = between(random, 0, classes - 1);
        const Example a = random_example(random, classes, blank), b = random_example(random, classes, blank);
        const int labels = int(a.labels.size());
        const int stars = std::count(a.labels.begin(), a.labels.end(), STAR) > 0 ? CTC_STARS : 0;
        const Answer truth = run({a}, classes, a.frames, labels, CTC_EXTENDED_RANGE | stars);
        const Answer alone = run({a}, classes, a.frames, labels, stars);
        const double found = difference(alone, truth, a.frames);
        worst = fmax(worst, found);
        check(found <= 1e-6, "a random lattice is wrong", i);
        if (isfinite(alone.losses[0]) && labels > 0) {
            tried++;
            certified += alone.gradient != truth.gradient;
        }
        check_decoders(a, classes, i);
        check(run({a}, classes, a.frames, labels, stars, false).losses == alone.losses, "the gradient changes the loss", i);
        const int frames = std::max(a.frames, b.frames) + between(random, 0, 3);
        const int longest = std::max(labels, int(b.labels.size())) + between(random, 0, 300);
        const Answer both = run({b, a}, classes, frames, longest, CTC_STARS);
        check(both.losses[1] == alone.losses[0], "the batch changes the loss", i);
        check(gradient_of(both, 1, 2, a.frames, classes) == alone.gradient, "the batch changes the gradient", i);
    }
    check(tried < 30 || 4 * certified > tried, "hardly any lattice was certified in the linear domain", certified);
    printf("%ld random lattices, %d of %d possible ones in the linear domain, worst relative difference %.1e\n", lattices,
           certified, tried, worst);
    if (failures == 0) printf("all passed\n");
    return failures != 0;
}
