// The loop of the greedy decoder for one instruction set.
#include <math.h>

#include "beam.h"
#include "fusion.h"
#include "job.h"
#include "network.inl"

namespace CTC_ISA {

class GreedyDecoder {
    static constexpr int W = LANES<float>;

    struct Slot {
        int64_t utterance, frame, frames, symbols, count, first_projected;
        float *hidden, *cell, *prediction, *projected;
        bool is_fused;
        alignas(8) unsigned char fusion[FUSION_BYTES];
    };
    static_assert(sizeof(Slot) <= SLOT_BYTES, "DecodeJob counts on it");

    // Logits of the prediction network and a frame of zeros, of which few are ever asked for: made when they are.
    struct Unheard {
        const Network& network;
        const float* prediction;
        float *sum, *logits;
        int64_t* made_for;  // of each logit
        int64_t serial;
        bool has_sum;

        void begin(const float* of) {
            prediction = of;
            serial++;
            has_sum = false;
        }
        static float logit(void* of, int64_t label) {
            Unheard& u = *(Unheard*)of;
            if (u.made_for[label] != u.serial) {
                if (!u.has_sum) u.network.activate(u.network.net.encoder_bias, u.prediction, u.sum);
                u.has_sum = true;
                u.logits[label] = u.network.score_one(u.sum, label);
                u.made_for[label] = u.serial;
            }
            return u.logits[label];
        }
    };

  public:
    GreedyDecoder(const DecodeJob& job, void* given)
        : job(job), net(job.network), network(net), hidden(network.hidden), joint(network.joint),
          classes(network.classes), logit_width(network.logit_width), memory((float*)given) {
        const int64_t rows = job.rows(), slot_count = job.options.slots;
        logits = take(rows * logit_width);
        sums = take(rows * joint);
        inputs = take(rows * 2 * hidden);
        gates = take(rows * larger(4 * hidden, joint));
        unheard.sum = take(joint);
        unheard.logits = take(classes);
        unheard.made_for = (int64_t*)take(2 * classes);
        fusing = take(fusion_floats(net.classes));
        memset(fusing, 0, size_t(fusion_floats(net.classes)) * sizeof(float));
        lay_out(start, take(job.state_floats()));
        float* const of_slots = take(slot_count * (job.state_floats() + PROJECTED_FRAMES * joint));
        emitting = (int64_t*)take(2 * slot_count);
        slots = (Slot*)take(slot_count * SLOT_BYTES / 4);
        for (int64_t i = 0; i < slot_count; i++) {
            float* own = of_slots + i * (job.state_floats() + PROJECTED_FRAMES * joint);
            lay_out(slots[i], own);
            slots[i].projected = own + job.state_floats();
        }
    }

    void run() {
        start_prediction();
        unheard.serial = 0;
        for (int64_t i = 0; i < classes; i++) unheard.made_for[i] = 0;
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

    void lay_out(Slot& slot, float* state) const {
        slot.hidden = state;
        slot.cell = state + net.layers * hidden;
        slot.prediction = slot.cell + net.layers * hidden;
    }

    static void copy(float* to, const float* from, int64_t count) { memcpy(to, from, size_t(count) * sizeof(float)); }

    // What the prediction network says before the first label: once for all.
    void start_prediction() {
        memset(start.hidden, 0, size_t(net.layers * hidden) * sizeof(float));
        memset(start.cell, 0, size_t(net.layers * hidden) * sizeof(float));
        const int32_t blank = int32_t(net.classes - 1);
        float* const state = start.hidden;
        predict(1, &blank, &state);
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
            copy(slot.hidden, from, job.state_floats());
            slot.is_fused = job.scorers && job.scorers[n];
            const int32_t* const language = position.started && job.scorer_states ? job.scorer_states + 3 * n : nullptr;
            if (slot.is_fused) start_fusion(slot.fusion, fusion_of(job.scorers[n]), language);
            if (slot.frame < slot.frames) return true;
            finish(slot);
        }
    }

    // Utterances mostly have the scorer of the one before.
    const void* fusion_of(const ctc_scorer* scorer) {
        if (scorer != made_of) make_fusion(made, scorer, net.classes, fusing);
        made_of = scorer;
        return made;
    }

    void finish(Slot& slot) {
        job.counts[slot.utterance] = slot.count;
        if (slot.is_fused && job.scorer_states) save_fusion(slot.fusion, job.scorer_states + 3 * slot.utterance);
        if (!job.positions) return;
        job.positions[slot.utterance] = {slot.frame - slot.frames, slot.symbols, 1};
        copy(job.states + slot.utterance * job.state_floats(), slot.hidden, job.state_floats());
    }

    const float* projected(Slot& slot, int64_t frame) {
        if (frame >= slot.first_projected + PROJECTED_FRAMES) {
            slot.first_projected = frame;
            const int64_t count = smaller(PROJECTED_FRAMES, slot.frames - frame);
            const float* const from = job.encoded + slot.utterance * job.batch_stride + frame * job.frame_stride;
            network.project(from, job.frame_stride, count, slot.projected);
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
            for (int64_t t = slot.frame; t < end; t++)
                network.activate(projected(slot, t), slot.prediction, sums + rows++ * joint);
        }
        network.score(sums, rows, logits);
        int64_t emitted = 0, row = 0;
        for (int64_t i = 0; i < active; i++) {
            Slot& slot = slots[i];
            const int64_t first = slot.frame;
            const int64_t end = smaller(smaller(slot.frames, first + window), slot.first_projected + PROJECTED_FRAMES);
            if (follow(slot, end, logits + row * logit_width)) emitting[emitted++] = i;
            row += end - first;
        }
        int32_t tokens[EMITTERS];
        float* states[EMITTERS];
        for (int64_t i = 0; i < emitted; i += EMITTERS) {
            const int64_t count = smaller(EMITTERS, emitted - i);
            for (int64_t j = 0; j < count; j++) {
                const Slot& slot = slots[emitting[i + j]];
                tokens[j] = job.tokens[slot.utterance * job.capacity + slot.count - 1];
                states[j] = slot.hidden;
            }
            predict(count, tokens, states);
        }
    }

    void predict(int64_t count, const int32_t* tokens, float* const* states) const {
        network.recur(count, 1, states, inputs, gates);
        const auto recurrent = [this](int64_t i) { return gates + i * 4 * hidden; };
        network.predict(count, 1, tokens, states, states, recurrent, inputs, gates);
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
            int64_t token = best_of(row, classes, &largest);
            const int64_t which = net.duration_count ? best_of(row + classes, logit_width - classes, &longest) : 0;
            if (token >= net.classes || which >= larger(1, net.duration_count)) return give_up(slot);
            int64_t duration = net.duration_count ? net.durations[which] : 0;
            if (token == blank) {
                slot.symbols = 0;
                slot.frame += larger(1, duration);
                continue;
            }
            if (slot.is_fused) {
                unheard.begin(slot.prediction);
                const Internal internal = {Unheard::logit, &unheard, job.options.internal_weight, job.options.internal_most};
                token = fused_label(slot.fusion, row, token, blank, internal);
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
        job.confidences[at] = expf(row[token] - largest) / sum;
        if (job.entropies) job.entropies[at] = float(log(double(sum)) - double(sum_of(weighted)) / double(sum));
    }

    static constexpr int64_t EMITTERS = 48;

    const DecodeJob& job;
    const transducerNetwork& net;
    const Network network;
    int64_t hidden, joint, classes, logit_width, active = 0;
    float *memory, *logits, *sums, *inputs, *gates, *fusing;
    int64_t* emitting;
    Slot* slots;
    Slot start = {};
    Unheard unheard = {network, nullptr, nullptr, nullptr, nullptr, 0, false};
    const ctc_scorer* made_of = nullptr;
    alignas(8) unsigned char made[FUSION_BYTES];
};

void decode(const DecodeJob& job, void* memory) { GreedyDecoder(job, memory).run(); }

static void project(const transducerNetwork& net, const float* frames, int64_t stride, int64_t count, float* to) {
    Network(net).project(frames, stride, count, to);
}

static void score(const transducerNetwork& net, const float* const* frames, const float* const* predictions,
                  int64_t rows, float* sums, float* logits) {
    const Network network(net);
    for (int64_t i = 0; i < rows; i++) network.activate(frames[i], predictions[i], sums + i * network.joint);
    network.score(sums, rows, logits);
}

static double log_sum(const float* scores, int64_t count) {
    Floats most = all(-INFINITY), total = {};
    for (int64_t k = 0; k < count; k += LANES<float>) most = vmax(most, load(scores + k));
    const float largest = max_of(most);
    for (int64_t k = 0; k < count; k += LANES<float>) total += exp_of(load(scores + k) - largest);
    return double(largest) + log(double(sum_of(total)));
}

static double entropy(const float* scores, int64_t count, double log_sum) {
    Floats weighted = {};
    for (int64_t k = 0; k < count; k += LANES<float>) {
        const Floats x = load(scores + k) - float(log_sum), e = exp_of(x);
        weighted += e > Floats{} ? x * e : Floats{};
    }
    return -double(sum_of(weighted));
}

static int64_t above(const float* scores, int64_t count, float lowest, int32_t* which) {
    int64_t found = 0;
    for (int64_t k = 0; k < count; k += LANES<float>) {
        if (max_of(load(scores + k)) < lowest) continue;
        for (int64_t i = k; i < smaller(count, k + LANES<float>); i++)
            if (scores[i] >= lowest) which[found++] = int32_t(i);
    }
    return found;
}

static void recur(const transducerNetwork& net, int64_t count, float* const* states, float* inputs, float* gates) {
    const int64_t width = recurrent_floats(net);
    Network(net).recur(count, net.layers, states, inputs, gates);
    for (int64_t i = 0; i < count; i++)
        memcpy(states[i] + state_floats(net), gates + i * width, size_t(width) * sizeof(float));
}

static void predict(const transducerNetwork& net, int64_t count, const int32_t* tokens, const float* const* before,
                    float* const* after, float* inputs, float* gates) {
    const auto recurrent = [&](int64_t i) { return before[i] + state_floats(net); };
    Network(net).predict(count, net.layers, tokens, before, after, recurrent, inputs, gates);
}

const BeamKernels beam_kernels = {project, score, log_sum, entropy, above, recur, predict};

}  // namespace CTC_ISA
