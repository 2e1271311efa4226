// Prediction network and joint for one instruction set: what every decoder computes with.
#pragma once

#include <string.h>

#include "activation.h"
#include "job.h"
#include "multiply.h"

namespace CTC_ISA {

// The state of a row is its hidden vectors, layer after layer, then its cells, then the projected output.
class Network {
    static constexpr int W = LANES<float>;

  public:
    explicit Network(const transducerNetwork& net)
        : net(net), hidden(padded(net.hidden)), joint(padded(net.joint)), classes(padded(net.classes)),
          logit_width(classes + padded(net.duration_count)) {}

    // What the states of some rows say of the gates of the first `layers` layers, with their biases, whatever label
    // comes next: `layers` x 4 H a row. `inputs`: H a row.
    void recur(int64_t count, int64_t layers, const float* const* states, float* inputs, float* recurrent) const {
        const int64_t width = 4 * hidden;
        for (int64_t layer = 0; layer < layers; layer++) {
            // Its own weights follow those of the layer below.
            const float* const weights = net.gate_weights[layer] + (layer ? hidden * PANEL : 0);
            for (int64_t i = 0; i < count; i++) copy(inputs + i * hidden, states[i] + layer * hidden, hidden);
            multiply({inputs, hidden, count, hidden, weights, layer ? net.gate_biases[layer] : nullptr,
                      recurrent + layer * width, layers * width, layer ? 2 * hidden : hidden}, width);
        }
    }

    // The state of some rows after one more label each; `before` may be `after`. `recurrent(i)`: what `recur` made of
    // row i for `layers`, 1 or all; of 1, it may be in `gates`. `inputs`: 2 H a row; `gates`: 4 H, or J where that is
    // more.
    template <typename Recurrent>
    void predict(int64_t count, int64_t layers, const int32_t* tokens, const float* const* before, float* const* after,
                 Recurrent recurrent, float* inputs, float* gates) const {
        const int64_t cells = net.layers * hidden, width = 4 * hidden;
        for (int64_t i = 0; i < count; i++)
            advance(recurrent(i), net.first_gates + int64_t(tokens[i]) * width, before[i] + cells, after[i],
                    after[i] + cells);
        for (int64_t layer = 1; layer < net.layers; layer++) {
            const bool is_known = layer < layers;
            const int64_t k = is_known ? hidden : 2 * hidden, own = layer * hidden;
            for (int64_t i = 0; i < count; i++) {
                copy(inputs + i * k, after[i] + own - hidden, hidden);
                if (!is_known) copy(inputs + i * k + hidden, before[i] + own, hidden);
            }
            multiply({inputs, k, count, k, net.gate_weights[layer], is_known ? nullptr : net.gate_biases[layer], gates,
                      width, 2 * hidden}, width);
            for (int64_t i = 0; i < count; i++)
                advance(gates + i * width, is_known ? recurrent(i) + layer * width : nullptr, before[i] + cells + own,
                        after[i] + own, after[i] + cells + own);
        }
        for (int64_t i = 0; i < count; i++) copy(inputs + i * hidden, after[i] + cells - hidden, hidden);
        multiply({inputs, hidden, count, hidden, net.prediction_weights, nullptr, gates, joint}, joint);
        for (int64_t i = 0; i < count; i++) copy(after[i] + 2 * cells, gates + i * joint, joint);
    }

    // Input of the output layer, of a projected frame and a projected output of the prediction network.
    void activate(const float* e, const float* g, float* to) const {
        for (int64_t j = 0; j < joint; j += W) store(to + j, activated(load(e + j) + load(g + j), net.activation));
    }

    void project(const float* frames, int64_t stride, int64_t count, float* projected) const {
        multiply({frames, stride, count, net.encoder, net.encoder_weights, net.encoder_bias, projected, joint}, joint);
    }

    void score(const float* sums, int64_t rows, float* logits) const {
        multiply({sums, joint, rows, joint, net.output_weights, net.output_bias, logits, logit_width}, logit_width);
    }

    // One logit: another order of the sum than `score`'s.
    float score_one(const float* sum, int64_t label) const {
        const float* const row = net.output_rows + label * joint;
        Floats sums[2] = {};
        for (int64_t j = 0; j < joint; j += 2 * W)  // widths are multiples of a panel, which is of these
            for (int i = 0; i < 2; i++) sums[i] += load(sum + j + i * W) * load(row + j + i * W);
        return sum_of(sums[0] + sums[1]) + net.output_bias[label];
    }

    const transducerNetwork& net;
    const int64_t hidden, joint, classes, logit_width;

  private:
    static void copy(float* to, const float* from, int64_t count) { memcpy(to, from, size_t(count) * sizeof(float)); }

    void advance(const float* sum, const float* added, const float* from, float* h, float* c) const {
        for (int64_t j = 0; j < hidden; j += W) {
            const auto gate = [&](int64_t i) {
                const Floats x = load(sum + i * hidden + j);
                return added ? x + load(added + i * hidden + j) : x;
            };
            const Floats cell = sigmoid(gate(1)) * load(from + j) + sigmoid(gate(0)) * tanh_of(gate(2));
            store(c + j, cell);
            store(h + j, Floats(sigmoid(gate(3)) * tanh_of(cell)));
        }
    }
};

}  // namespace CTC_ISA
