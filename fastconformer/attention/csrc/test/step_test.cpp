// Tests of the step that need no Python, to be run under sanitizers: step_test [random networks, default 100] [seed].
//
// By every instruction set of this machine and any number of threads a token must find the same alone and among others.
#include <math.h>

#include <algorithm>
#include <vector>

#include "attention_step.h"
#include "test/checking.h"

// Products as they are defined, of weights [filters, channels]; the workspace is written, as that of the kernels is.
static size_t product_bytes(const convolution_problem* p) { return size_t(p->outputs * p->channels) * sizeof(float); }

static int32_t product(const convolution_problem* p) {
    check(p->workspace_bytes >= product_bytes(p), "workspace of products");
    memset(p->workspace, 0x33, product_bytes(p));
    std::vector<float> y(size_t(p->outputs * p->filters));
    const float* weight = static_cast<const float*>(p->weight);
    for (int64_t r = 0; r < p->outputs; r++)
        for (int64_t f = 0; f < p->filters; f++) {
            float sum = p->bias[f];
            for (int64_t c = 0; c < p->channels; c++) sum += weight[f * p->channels + c] * p->x[r * p->x_frame_stride + c];
            if (p->residual) sum += p->residual[r * p->residual_frame_stride + f];
            y[size_t(r * p->filters + f)] = p->activation == CONVOLUTION_IDENTITY ? sum : std::max(sum, 0.0f);
        }
    memcpy(p->y, y.data(), y.size() * sizeof(float));
    return CONVOLUTION_SUCCESS;
}

struct Network {
    attention_network n = {};
    std::vector<attention_block> blocks;
    std::vector<std::vector<float>> kept;
    std::vector<convolution_problem> layers;
    Random& random;

    explicit Network(Random& drawn) : random(drawn) {
        n.layers = between(random, 1, 3), n.heads = between(random, 1, 4), n.inner = between(random, 1, 40);
        n.width = n.heads * between(random, 1, 40), n.classes = between(random, 1, 50), n.positions = 12;
        kept.reserve(100), layers.reserve(100);
        for (int64_t i = 0; i < n.layers; i++)
            blocks.push_back({norm(), norm(), norm(), layer(n.width, 3 * n.width), layer(n.width, n.width),
                              layer(n.width, n.width), layer(n.width, n.width), layer(n.width, n.inner),
                              layer(n.inner, n.width)});
        n.blocks = blocks.data();
        n.tokens = values(n.classes * n.width), n.places = values(n.positions * n.width);
        n.embedding_norm = norm(), n.norm = norm();
        n.head = layer(n.width, n.classes);
        n.activation = CONVOLUTION_LEAKY_RELU;
        n.multiply = product, n.multiply_bytes = product_bytes;
    }
    const float* values(int64_t count) {
        std::normal_distribution<float> normal(0, 0.3f);
        kept.emplace_back(size_t(count));
        for (float& value : kept.back()) value = normal(random);
        return kept.back().data();
    }
    attention_norm norm() { return {values(n.width), values(n.width)}; }
    const convolution_problem* layer(int64_t inputs, int64_t outputs) {
        convolution_problem p = {};
        p.channels = inputs, p.filters = outputs, p.weight = values(inputs * outputs), p.bias = values(outputs);
        layers.push_back(p);
        return &layers.back();
    }
};

struct Found {
    std::vector<int32_t> labels;
    std::vector<float> log_probs;
};

// Reads the tokens of some sequences at once, all of each, and asks for what follows each sequence.
static Found run(const Network& net, const std::vector<std::vector<int64_t>>& texts, const std::vector<int64_t>& frames,
                 const std::vector<const float*>& heard, int64_t best, int32_t threads, int32_t instructions, long which) {
    std::vector<int64_t> labels, at, slots, first, counts, asked;
    std::vector<const float*> of_tokens;
    std::vector<unsigned char> may(size_t(net.n.classes), 1);
    if (may.size() > 2) may[1] = 0;
    for (size_t i = 0; i < texts.size(); i++) {
        const int64_t start = int64_t(slots.size());
        for (size_t j = 0; j < texts[i].size(); j++) {
            labels.push_back(texts[i][j]), at.push_back(int64_t(j)), first.push_back(start);
            slots.push_back(int64_t(slots.size())), counts.push_back(frames[i]), of_tokens.push_back(heard[i]);
        }
        asked.push_back(int64_t(labels.size()) - 1);
    }
    std::reverse(slots.begin(), slots.end());
    const std::vector<const unsigned char*> allowed(texts.size(), may.data());
    const int64_t capacity = int64_t(slots.size());
    Guarded store(size_t(net.n.layers * capacity * 2 * net.n.width) * sizeof(float));
    Found found{std::vector<int32_t>(texts.size() * size_t(best)), std::vector<float>(texts.size() * size_t(best))};
    attention_step s = {int64_t(labels.size()), labels.data(), at.data(), slots.data(), first.data(), (float*)(void*)store,
                        capacity, of_tokens.data(), counts.data(), int64_t(asked.size()), best, asked.data(),
                        allowed.data(), found.labels.data(), found.log_probs.data(), threads, instructions, nullptr, 0};
    Guarded workspace(attention_step_workspace(&net.n, &s));
    s.workspace = workspace, s.workspace_bytes = workspace.bytes();
    check(attention_step_run(&net.n, &s) == ATTENTION_SUCCESS, "runs", which);
    labels[0] = net.n.classes;
    check(attention_step_run(&net.n, &s) == ATTENTION_INVALID_VALUE, "refuses a label", which);
    return found;
}

int main(int count, char** values) {
    const long problems = count > 1 ? atol(values[1]) : 100;
    Random random(count > 2 ? unsigned(atol(values[2])) : 1u);
    for (long which = 0; which < problems; which++) {
        Network net(random);
        std::vector<std::vector<int64_t>> texts;
        std::vector<int64_t> frames;
        std::vector<const float*> heard;
        for (int i = between(random, 1, 5); i > 0; i--) {
            texts.emplace_back();
            for (int j = between(random, 1, 12); j > 0; j--) texts.back().push_back(between(random, 0, int(net.n.classes) - 1));
            frames.push_back(between(random, 0, 40));
            heard.push_back(net.values(net.n.layers * 2 * net.n.width * frames.back()));
        }
        const int64_t best = between(random, 1, int(std::min<int64_t>(net.n.classes, 6)));
        Found first;
        for (int32_t instructions = 1; instructions <= 3; instructions++) {
            const attention_step probe = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, instructions, 0, 0};
            if (attention_step_run(&net.n, &probe) != ATTENTION_SUCCESS) continue;
            const Found all = run(net, texts, frames, heard, best, between(random, 1, 3), instructions, which);
            if (first.labels.empty()) first = all;
            for (size_t i = 0; i < texts.size(); i++) {
                const Found alone = run(net, {texts[i]}, {frames[i]}, {heard[i]}, best, 1, instructions, which);
                for (size_t k = 0; k < size_t(best); k++) {
                    const size_t place = i * size_t(best) + k;
                    check(alone.labels[k] == all.labels[place], "label alone", which);
                    check(memcmp(&alone.log_probs[k], &all.log_probs[place], sizeof(float)) == 0, "bits alone", which);
                    const float one = all.log_probs[place], other = first.log_probs[place];
                    check(one == other || fabsf(one - other) < 1e-3f, "as by other instructions", which);
                }
            }
        }
    }
    if (failures == 0) printf("%ld networks: all passed\n", problems);
    return failures != 0;
}
