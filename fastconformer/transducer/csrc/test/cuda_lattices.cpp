// Random lattices through the CUDA kernels in the emulator: cuda_lattices FOLDER [lattices, default 300] [seed], where FOLDER
// is what transducer_cuda_use takes. It is meant for sanitizers: every buffer has exactly its size, so that one byte too
// far is found.
//
// Losses must be the sum of all paths, computed the slow way, the gradient of a cell must add up to 0, and an utterance must
// have the same bits alone, in a batch, in tiles of frames and in whatever order the threads run.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_lattices.h"
#include "test/on_device.h"

namespace {

struct Answer {
    std::vector<double> losses;
    std::vector<float> gradient;
    bool operator==(const Answer& other) const {
        return losses == other.losses && memcmp(gradient.data(), other.gradient.data(), gradient.size() * 4) == 0;
    }
};

Answer run(Case& c, int64_t tile, long which) {
    transducerProblem& p = c.problem;
    p.durations = c.durations.data();
    size_t bytes = 0;
    check(transducer_lattices_bytes_cuda(&p, &bytes) == TRANSDUCER_SUCCESS, "size of the lattices", which);
    OnDevice<float> logits(c.logits);
    OnDevice<int64_t> targets(c.targets), frames(c.frames), labels(c.labels);
    OnDevice<double> losses(std::vector<double>(size_t(p.batch), NAN)), scale(std::vector<double>(size_t(p.batch), 1));
    OnDevice<char> lattices(std::vector<char>(bytes, 0));
    OnDevice<float> gradient(std::vector<float>(c.logits.size(), NAN));
    bool is_good = transducer_begin_cuda(&p, targets.data, frames.data, labels.data, lattices.data, nullptr) == TRANSDUCER_SUCCESS;
    for (int64_t t = 0; t < p.frames; t += tile)
        is_good &= transducer_read_frames_cuda(&p, logits.data + t * p.logits_frame_stride, t,
                                               tile < p.frames - t ? tile : p.frames - t, targets.data, lattices.data,
                                               nullptr) == TRANSDUCER_SUCCESS;
    is_good &= transducer_walk_cuda(&p, losses.data, lattices.data, nullptr) == TRANSDUCER_SUCCESS;
    for (int64_t t = 0; t < p.frames; t += tile)
        is_good &= transducer_gradient_cuda(&p, logits.data + t * p.logits_frame_stride,
                                            gradient.data + t * p.gradient_frame_stride, t,
                                            tile < p.frames - t ? tile : p.frames - t, targets.data, scale.data,
                                            lattices.data, nullptr) == TRANSDUCER_SUCCESS;
    check(is_good, "status", which);
    return {losses.values(), gradient.values()};
}

Case alone(const Case& c, int64_t n) {
    const transducerProblem& p = c.problem;
    Case own = c;
    own.problem.batch = 1;
    own.logits.assign(c.logits.begin() + n * p.logits_batch_stride, c.logits.begin() + (n + 1) * p.logits_batch_stride);
    own.targets.assign(c.targets.begin() + n * p.targets_stride, c.targets.begin() + (n + 1) * p.targets_stride);
    own.frames = {c.frames[size_t(n)]};
    own.labels = {c.labels[size_t(n)]};
    return own;
}

void check_case(Case& c, Random& random, long which) {
    const transducerProblem& p = c.problem;
    const Answer answer = run(c, p.frames, which);
    check(answer == run(c, between(random, 1, int(p.frames)), which), "tiles of frames have other bits", which);
    for (int64_t n = 0; n < p.batch; n++) {
        const double expected = loss_by_definition(c, n), found = answer.losses[size_t(n)];
        check(expected == INFINITY ? found == INFINITY : fabs(found - expected) <= 1e-5 + 1e-6 * expected,
              "sum of all paths", which);
        Case own = alone(c, n);
        const Answer of_own = run(own, p.frames, which);
        check(of_own.losses[0] == found && memcmp(of_own.gradient.data(), &answer.gradient[size_t(n * p.gradient_batch_stride)],
                                                  of_own.gradient.size() * 4) == 0, "other bits alone", which);
    }
    const int64_t outputs = p.classes + p.duration_count;
    for (size_t cell = 0; cell < answer.gradient.size(); cell += size_t(outputs)) {
        double sum = 0;
        for (int64_t k = 0; k < p.classes; k++) sum += answer.gradient[cell + size_t(k)];
        check(fabs(sum) < 1e-5, "gradient of a cell adds up to 0", which);
    }
}

}  // namespace

int main(int count, char** arguments) {
    transducer_cuda_use(arguments[1], nullptr, "");
    const long cases = count > 2 ? atol(arguments[2]) : 300;
    Random random(count > 3 ? unsigned(atol(arguments[3])) : 1);
    for (long i = 0; i < cases; i++) {
        Case c = random_case(random);
        check_case(c, random, i);
    }
    if (failures == 0) printf("all passed\n");
    return failures != 0;
}
