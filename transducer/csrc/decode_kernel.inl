// The loop of the greedy decoder for one instruction set.
#include <math.h>

#include "exponential.h"
#include "job.h"
#include "multiply.h"

namespace CTC_ISA {

static inline Floats sigmoid(Floats x) {
    const Floats e = exp_of(x < Floats{} ? x : -x);
    const Floats small = e / (1.0f + e);
    return x < Floats{} ? small : 1.0f - small;
}

static inline Floats tanh_of(Floats x) {
    const Floats e = exp_of(2.0f * (x < Floats{} ? x : -x));
    const Floats size = (1.0f - e) / (1.0f + e);
    return x < Floats{} ? -size : size;
}

class GreedyDecoder {
    static constexpr int W = LANES<float>;

    struct Slot {
        int64_t utterance, frame, frames, symbols, count, first_projected;
        float *hidden, *cell, *prediction, *projected;
    };
    static_assert(sizeof(Slot) <= SLOT_BYTES, "DecodeJob counts on it");

  public:
    GreedyDecoder(const DecodeJob& job, void* given)
        : job(job), net(job.network), hidden(padded(net.hidden)), joint(padded(net.joint)),
          classes(padded(net.classes)), logit_width(job.width_of_logits()), memory((float*)given) {
        const int64_t rows = job.rows(), slot_count = job.options.slots;
        logits = take(rows * logit_width);
        sums = take(rows * joint);
        inputs = take(rows * 2 * hidden);
        gates = take(rows * larger(4 * hidden, joint));
        start.hidden = take(net.layers * hidden);
        start.cell = take(net.layers * hidden);
        start.prediction = take(joint);
        float* const of_slots = take(slot_count * (job.state_floats() + PROJECTED_FRAMES * joint));
        emitting = (int64_t*)take(2 * slot_count);
        slots = (Slot*)take(slot_count * SLOT_BYTES / 4);
        for (int64_t i = 0; i < slot_count; i++) {
            float* own = of_slots + i * (job.state_floats() + PROJECTED_FRAMES * joint);
            slots[i].hidden = own;
            slots[i].cell = own += net.layers * hidden;
            slots[i].prediction = own += net.layers * hidden;
            slots[i].projected = own + joint;
        }
    }

    void run() {
        start_prediction();
        for (active = 0;;) {
            while (active < job.options.slots && begin(slots[active])) active++;
            if (active == 0) return;
            step();
            for (int64_t i = 0; i < active;) {
                if (slots[i].frame < slots[i].frames) {
                    i++;
                    continue;
                }
                finish(slots[i]);
                const Slot done = slots[i];
                slots[i] = slots[--active];
                slots[active] = done;
            }
        }
    }

  private:
    float* take(int64_t floats) {
        float* const taken = memory;
        memory += (floats + 15) / 16 * 16;
        return taken;
    }

    static void copy(float* to, const float* from, int64_t count) { memcpy(to, from, size_t(count) * sizeof(float)); }

    // What the prediction network says before the first label: once for all.
    void start_prediction() {
        memset(start.hidden, 0, size_t(net.layers * hidden) * sizeof(float));
        memset(start.cell, 0, size_t(net.layers * hidden) * sizeof(float));
        Slot* const one = &start;
        predict(&one, 1, net.classes - 1);
    }

    // Takes the next utterance. False where there is none.
    bool begin(Slot& slot) {
        for (;;) {
            const int64_t n = __atomic_fetch_add(job.next, 1, __ATOMIC_RELAXED);
            if (n >= job.batch) return false;
            transducerPosition position = job.positions ? job.positions[n] : transducerPosition{};
            slot.utterance = n;
            slot.frame = position.next_frame;
            slot.frames = job.frame_counts[n];
            slot.symbols = position.symbols;
            slot.count = 0;
            slot.first_projected = -PROJECTED_FRAMES;
            const float* const from = position.started ? job.states + n * job.state_floats() : start.hidden;
            if (position.started) {
                copy(slot.hidden, from, job.state_floats());
            } else {
                copy(slot.hidden, start.hidden, net.layers * hidden);
                copy(slot.cell, start.cell, net.layers * hidden);
                copy(slot.prediction, start.prediction, joint);
            }
            if (slot.frame < slot.frames) return true;
            finish(slot);
        }
    }

    void finish(Slot& slot) {
        job.counts[slot.utterance] = slot.count;
        if (!job.positions) return;
        job.positions[slot.utterance] = {slot.frame - slot.frames, slot.symbols, 1};
        copy(job.states + slot.utterance * job.state_floats(), slot.hidden, job.state_floats());
    }

    const float* projected(Slot& slot, int64_t frame) {
        if (frame >= slot.first_projected + PROJECTED_FRAMES) {
            slot.first_projected = frame;
            const int64_t count = smaller(PROJECTED_FRAMES, slot.frames - frame);
            const float* const from = job.encoded + slot.utterance * job.batch_stride + frame * job.frame_stride;
            multiply({from, job.frame_stride, count, net.encoder, net.encoder_weights, net.encoder_bias,
                      slot.projected, joint}, joint);
        }
        return slot.projected + (frame - slot.first_projected) * joint;
    }

    void step() {
        const int64_t window = smaller(job.options.window, larger(1, job.options.window_rows / active));
        int64_t rows = 0;
        for (int64_t i = 0; i < active; i++) {
            Slot& slot = slots[i];
            const int64_t last = smaller(slot.frames, slot.frame + window);
            // A window never leaves what is projected, but for its first frame.
            projected(slot, slot.frame);
            const int64_t end = smaller(last, slot.first_projected + PROJECTED_FRAMES);
            for (int64_t t = slot.frame; t < end; t++) activate(slot, t, sums + rows++ * joint);
        }
        multiply({sums, joint, rows, joint, net.output_weights, net.output_bias, logits, logit_width}, logit_width);
        int64_t emitted = 0, row = 0;
        for (int64_t i = 0; i < active; i++) {
            Slot& slot = slots[i];
            const int64_t first = slot.frame;
            const int64_t end = smaller(smaller(slot.frames, first + window), slot.first_projected + PROJECTED_FRAMES);
            if (follow(slot, end, logits + row * logit_width)) emitting[emitted++] = i;
            row += end - first;
        }
        Slot* emitters[EMITTERS];
        for (int64_t i = 0; i < emitted; i += EMITTERS) {
            const int64_t count = smaller(EMITTERS, emitted - i);
            for (int64_t j = 0; j < count; j++) emitters[j] = slots + emitting[i + j];
            predict(emitters, count, -1);
        }
    }

    // Input of the output layer for a frame.
    void activate(Slot& slot, int64_t frame, float* to) {
        const float *const e = projected(slot, frame), *const g = slot.prediction;
        for (int64_t j = 0; j < joint; j += W) {
            const Floats x = load(e + j) + load(g + j);
            store(to + j, net.activation == TRANSDUCER_RELU   ? vmax(Floats{}, x)  // NaN stays
                          : net.activation == TRANSDUCER_TANH ? tanh_of(x)
                                                              : sigmoid(x));
        }
    }

    // The best of `count` scores, the first of several: its number. `largest` becomes its score.
    int64_t best_of(const float* scores, int64_t count, float* largest) const {
        Floats most = all(-INFINITY);
        for (int64_t k = 0; k < count; k += W) most = vmax(most, load(scores + k));
        *largest = max_of(most);
        int64_t best = 0;
        while (best < count && scores[best] != *largest) best++;
        return best;
    }

    // Follows the blanks from frame to frame until a label, or `end`. `scores`: of the frames from the slot's on.
    // Returns whether there was a label.
    bool follow(Slot& slot, int64_t end, const float* scores) {
        const int64_t first = slot.frame, blank = net.classes - 1;
        while (slot.frame < end) {
            const float* const row = scores + (slot.frame - first) * logit_width;
            float largest, longest;
            const int64_t token = best_of(row, classes, &largest);
            const int64_t which = net.duration_count ? best_of(row + classes, logit_width - classes, &longest) : 0;
            if (token >= net.classes || which >= larger(1, net.duration_count)) return give_up(slot);
            int64_t duration = net.duration_count ? net.durations[which] : 0;
            if (token == blank) {
                slot.symbols = 0;
                slot.frame += larger(1, duration);
                continue;
            }
            emit(slot, token, duration, row, largest);
            if (duration == 0 && ++slot.symbols == job.options.max_symbols) duration = 1;
            if (duration > 0) slot.symbols = 0;
            slot.frame += duration;
            return true;
        }
        return false;
    }

    // NaN among the scores.
    bool give_up(Slot& slot) {
        int64_t known = __atomic_load_n(job.invalid, __ATOMIC_RELAXED);
        while (slot.utterance < known && !__atomic_compare_exchange_n(job.invalid, &known, slot.utterance, false,
                                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        }
        slot.frame = slot.frames;
        return false;
    }

    void emit(Slot& slot, int64_t token, int64_t duration, const float* row, float largest) {
        const int64_t at = slot.utterance * job.capacity + slot.count++;
        job.tokens[at] = int32_t(token);
        job.frames[at] = int32_t(slot.frame);
        if (job.durations) job.durations[at] = int32_t(duration);
        Floats total = {}, weighted = {};
        for (int64_t k = 0; k < classes; k += W) {
            const Floats x = load(row + k) - largest, e = exp_of(x);
            total += e;
            weighted += e > Floats{} ? x * e : Floats{};
        }
        const float sum = sum_of(total);
        job.confidences[at] = 1 / sum;
        if (job.entropies) job.entropies[at] = float(log(double(sum)) - double(sum_of(weighted)) / double(sum));
    }

    // Advances the prediction network of some slots by the label each emitted last, or all by `label`.
    void predict(Slot* const* which, int64_t count, int64_t label) {
        for (int64_t layer = 0; layer < net.layers; layer++) {
            const int64_t width = layer ? 2 * hidden : hidden;
            for (int64_t i = 0; i < count; i++) {
                float* const input = inputs + i * width;
                if (layer) copy(input, which[i]->hidden + (layer - 1) * hidden, hidden);
                copy(input + width - hidden, which[i]->hidden + layer * hidden, hidden);
            }
            multiply({inputs, width, count, width, net.gate_weights[layer], layer ? net.gate_biases[layer] : nullptr,
                      gates, 4 * hidden}, 4 * hidden);
            for (int64_t i = 0; i < count; i++) {
                const Slot& slot = *which[i];
                const int64_t token = label >= 0 ? label : job.tokens[slot.utterance * job.capacity + slot.count - 1];
                const float* const added = layer ? nullptr : net.first_gates + token * 4 * hidden;
                advance(gates + i * 4 * hidden, added, slot.hidden + layer * hidden, slot.cell + layer * hidden);
            }
        }
        for (int64_t i = 0; i < count; i++)
            copy(inputs + i * hidden, which[i]->hidden + (net.layers - 1) * hidden, hidden);
        multiply({inputs, hidden, count, hidden, net.prediction_weights, nullptr, gates, joint}, joint);
        for (int64_t i = 0; i < count; i++) copy(which[i]->prediction, gates + i * joint, joint);
    }

    void advance(const float* sum, const float* added, float* h, float* c) const {
        for (int64_t j = 0; j < hidden; j += W) {
            const auto gate = [&](int64_t i) {
                const Floats x = load(sum + i * hidden + j);
                return added ? x + load(added + i * hidden + j) : x;
            };
            const Floats cell = sigmoid(gate(1)) * load(c + j) + sigmoid(gate(0)) * tanh_of(gate(2));
            store(c + j, cell);
            store(h + j, Floats(sigmoid(gate(3)) * tanh_of(cell)));
        }
    }

    static constexpr int64_t EMITTERS = 48;

    const DecodeJob& job;
    const transducerNetwork& net;
    int64_t hidden, joint, classes, logit_width, active = 0;
    float *memory, *logits, *sums, *inputs, *gates;
    int64_t* emitting;
    Slot* slots;
    Slot start = {};
};

void decode(const DecodeJob& job, void* memory) { GreedyDecoder(job, memory).run(); }

}  // namespace CTC_ISA
