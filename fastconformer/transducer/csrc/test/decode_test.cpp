// Tests of the decoder that need no Python, to be run under sanitizers: decode_test [random networks, default 100] [seed].
//
// Every instruction set of this machine, any number of slots, threads and frames at once must find the same tokens.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <random>
#include <vector>

#include "test/checking.h"
#include "transducer_beam.h"
#include "transducer_decode.h"

static int64_t padded(int64_t width) { return (width + 31) / 32 * 32; }

static std::vector<float> normals(Random& random, int64_t count, float scale) {
    std::normal_distribution<float> normal(0, scale);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& x : values) x = normal(random);
    return values;
}

struct Net {
    transducerNetwork network = {};
    std::vector<int32_t> durations;
    std::vector<std::vector<float>> kept;
    std::vector<const float*> gate_weights, gate_biases;

    const float* keep(std::vector<float> values) {
        kept.push_back(std::move(values));
        return kept.back().data();
    }
};

// Widths that are padded hold numbers there too: they are only part of a network of that width.
static void make(Net& net, Random& random) {
    transducerNetwork& n = net.network;
    n.classes = between(random, 2, 70);
    n.encoder = between(random, 1, 20);
    n.hidden = 32 * between(random, 1, 2);
    n.joint = 32 * between(random, 1, 3);
    n.layers = between(random, 1, 2);
    n.activation = between(random, 0, 2);
    if (between(random, 0, 1)) net.durations = {0, 1, 2, 4};
    n.duration_count = int64_t(net.durations.size());
    n.durations = net.durations.data();
    net.kept.reserve(16);
    n.first_gates = net.keep(normals(random, n.classes * 4 * n.hidden, 0.5f));
    for (int64_t layer = 0; layer < n.layers; layer++) {
        net.gate_weights.push_back(net.keep(normals(random, 4 * n.hidden * n.hidden * (layer ? 2 : 1), 0.1f)));
        net.gate_biases.push_back(net.keep(normals(random, 4 * n.hidden, 0.1f)));
    }
    n.gate_weights = net.gate_weights.data();
    n.gate_biases = net.gate_biases.data();
    n.encoder_weights = net.keep(normals(random, n.joint * n.encoder, 0.5f));
    n.encoder_bias = net.keep(normals(random, n.joint, 0.1f));
    n.prediction_weights = net.keep(normals(random, n.joint * n.hidden, 0.3f));
    const int64_t classes = padded(n.classes), outputs = classes + padded(n.duration_count);
    n.output_weights = net.keep(normals(random, outputs * n.joint, 0.3f));
    std::vector<float> rows(static_cast<size_t>(n.classes * n.joint));
    for (int64_t k = 0; k < n.classes; k++)
        for (int64_t j = 0; j < n.joint; j++)
            rows[size_t(k * n.joint + j)] = n.output_weights[k / 32 * 32 * n.joint + j * 32 + k % 32];
    n.output_rows = net.keep(std::move(rows));
    std::vector<float> bias(static_cast<size_t>(outputs), -INFINITY);
    for (int64_t i = 0; i < n.classes; i++) bias[size_t(i)] = i == n.classes - 1 ? 1.0f : 0.0f;
    for (int64_t i = 0; i < n.duration_count; i++) bias[size_t(classes + i)] = 0;
    n.output_bias = net.keep(std::move(bias));
}

struct Found {
    std::vector<int32_t> tokens, frames, durations;
    std::vector<int64_t> counts;
    bool is_valid = false;
};

// Labels that follow each other are favoured: a phrase of the first two, over labels as they are.
struct Favoured {
    int32_t first_child[4] = {1, 2, 3, 3}, label[3] = {-1, 0, 1}, fail[3] = {0, 0, 0};
    float promise[3] = {0, 0.5f, 0}, reward[3] = {0, 0, 1}, bound[3] = {1, 1, 1};
    ctc_phrases phrases = {3, first_child, label, fail, promise, reward, bound, 0};
    ctc_scorer scorer = {};
    Favoured() {
        scorer.phrases = &phrases;
        scorer.boundary = -1;
    }
};

static Found decode(const Net& net, const transducerDecodeOptions& options, const std::vector<float>& encoded,
                    int64_t frames, const std::vector<int64_t>& frame_counts, long which) {
    const int64_t batch = int64_t(frame_counts.size()), capacity = frames * options.max_symbols;
    Found found;
    size_t bytes = 0;
    if (transducer_decode_workspace(&net.network, &options, &bytes) != TRANSDUCER_SUCCESS) return found;
    char* const workspace = (char*)aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(workspace, 0x5a, bytes + 64);
    found.tokens.assign(size_t(batch * capacity), -1);
    found.frames = found.durations = found.tokens;
    found.counts.assign(size_t(batch), -1);
    std::vector<float> confidences(size_t(batch * capacity)), entropies(confidences);
    int64_t state_floats = 0;
    transducer_state_floats(&net.network, &state_floats);
    std::vector<float> states(size_t(batch * state_floats));
    std::vector<transducerPosition> positions(static_cast<size_t>(batch));
    int64_t invalid = 0;
    const Favoured favoured;
    std::vector<const ctc_scorer*> scorers(size_t(batch), net.network.classes > 3 ? &favoured.scorer : nullptr);
    std::vector<int32_t> scorer_states(size_t(3 * batch));
    const transducerStatus status = transducer_decode(
        &net.network, &options, encoded.data(), batch, frames * net.network.encoder, net.network.encoder,
        frame_counts.data(), capacity, found.tokens.data(), found.frames.data(), found.durations.data(),
        confidences.data(), entropies.data(), found.counts.data(), states.data(), positions.data(), scorers.data(),
        scorer_states.data(), workspace, &invalid);
    check(status == TRANSDUCER_SUCCESS, "decodes", which);
    for (int i = 0; i < 64; i++) check(workspace[bytes + size_t(i)] == 0x5a, "wrote behind the workspace", which);
    free(workspace);
    for (int64_t n = 0; n < batch; n++) {
        check(positions[size_t(n)].started == 1, "positions are updated", which);
        for (int64_t i = 0; i < found.counts[size_t(n)]; i++) {
            const size_t at = size_t(n * capacity + i);
            check(confidences[at] > 0 && confidences[at] <= 1, "confidence", which);
            check(entropies[at] > -1e-4f && entropies[at] <= logf(float(net.network.classes)) + 1e-4f, "entropy", which);
        }
    }
    found.is_valid = true;
    return found;
}

struct Sequence {
    std::vector<int32_t> tokens, frames;
    double score;
    bool operator==(const Sequence& other) const {
        return tokens == other.tokens && frames == other.frames && score == other.score;
    }
};

using Sequences = std::vector<std::vector<Sequence>>;  // of every utterance

// All frames at once, or with `cuts` in pieces; as an utterance that could go on, or whole.
static Sequences search(const Net& net, const transducerBeamOptions& options, const std::vector<float>& encoded,
                        int64_t frames, const std::vector<int64_t>& frame_counts, const Favoured& favoured,
                        bool goes_on, Random* cuts, long which) {
    const int64_t batch = int64_t(frame_counts.size()), capacity = frames * options.max_symbols + options.nodes;
    const size_t rows = size_t(batch * options.n_best), room = rows * size_t(capacity);
    Sequences found(static_cast<size_t>(batch));
    size_t bytes = 0, state_bytes = 0;
    if (transducer_beam_workspace(&net.network, &options, &bytes) != TRANSDUCER_SUCCESS ||
        transducer_beam_state(&net.network, &options, &state_bytes) != TRANSDUCER_SUCCESS)
        return found;
    char* const workspace = (char*)aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(workspace, 0x5a, bytes + 64);
    std::vector<void*> states;
    for (int64_t n = 0; n < batch && goes_on; n++) {
        states.push_back(aligned_alloc(64, (state_bytes + 127) / 64 * 64));
        memset(states.back(), 0, state_bytes);
        memset((char*)states.back() + state_bytes, 0x5a, 64);
    }
    std::vector<int32_t> tokens(room, -1), at_frames(room, -1), durations(room, -1);
    std::vector<float> confidences(room), entropies(room);
    std::vector<double> scores(rows), external(rows);
    std::vector<int64_t> lengths(rows), counts(static_cast<size_t>(batch)), settled(counts), of_piece(counts);
    std::vector<Sequence> before(static_cast<size_t>(batch));
    std::vector<const ctc_scorer*> scorers(size_t(batch), net.network.classes > 3 ? &favoured.scorer : nullptr);
    for (int64_t first = 0; first < frames || first == 0;) {
        const int64_t piece = cuts ? between(*cuts, 1, 7) : frames;
        const bool is_over = first + piece >= frames;
        for (size_t n = 0; n < size_t(batch); n++)
            of_piece[n] = std::max(int64_t(0), std::min(piece, frame_counts[n] - first));
        int64_t invalid = 0;
        const transducerStatus status = transducer_beam(
            &net.network, &options, encoded.data() + std::min(first, frames - 1) * net.network.encoder, batch,
            frames * net.network.encoder, net.network.encoder, of_piece.data(), goes_on ? states.data() : nullptr, is_over,
            scorers.data(), capacity, tokens.data(), at_frames.data(), durations.data(), confidences.data(),
            entropies.data(), lengths.data(), settled.data(), scores.data(), external.data(), counts.data(), workspace,
            &invalid);
        check(status == TRANSDUCER_SUCCESS, "searches", which);
        for (int64_t n = 0; n < batch; n++) {
            check(counts[size_t(n)] >= 1, "finds something", which);
            std::vector<Sequence>& own = found[size_t(n)];
            own.clear();
            for (int64_t i = 0; i < counts[size_t(n)]; i++) {
                const size_t row = size_t(n * options.n_best + i);
                check(scores[row] <= 1e-3, "log-probability", which);
                check(settled[size_t(n)] <= lengths[row] && lengths[row] <= capacity, "length", which);
                own.push_back(before[size_t(n)]);
                own.back().score = scores[row] + external[row];
                for (int64_t j = 0; j < lengths[row]; j++) {
                    const size_t at = row * size_t(capacity) + size_t(j);
                    check(tokens[at] >= 0 && tokens[at] < net.network.classes - 1, "label", which);
                    check(at_frames[at] >= 0 && at_frames[at] < frame_counts[size_t(n)], "frame", which);
                    check(confidences[at] > 0 && confidences[at] <= 1, "confidence", which);
                    own.back().tokens.push_back(tokens[at]);
                    own.back().frames.push_back(at_frames[at]);
                }
            }
            const size_t done = before[size_t(n)].tokens.size() + size_t(settled[size_t(n)]);
            for (const Sequence& one : own)
                check(std::equal(one.tokens.begin(), one.tokens.begin() + long(done), own[0].tokens.begin()),
                      "what is settled is in all sequences", which);
            before[size_t(n)] = own[0];
            before[size_t(n)].tokens.resize(done);
            before[size_t(n)].frames.resize(done);
        }
        first += piece;
    }
    for (int i = 0; i < 64; i++) check(workspace[bytes + size_t(i)] == 0x5a, "wrote behind the workspace", which);
    free(workspace);
    for (void* state : states) {
        for (int i = 0; i < 64; i++) check(((char*)state)[state_bytes + size_t(i)] == 0x5a, "wrote behind a state", which);
        free(state);
    }
    return found;
}

int main(int count, char** arguments) {
    const long networks = count > 1 ? atol(arguments[1]) : 100;
    Random random(count > 2 ? unsigned(atol(arguments[2])) : 1);
    for (long i = 0; i < networks; i++) {
        Net net;
        make(net, random);
        const int64_t batch = between(random, 1, 5), frames = between(random, 1, 40);
        std::vector<int64_t> frame_counts;
        for (int64_t n = 0; n < batch; n++) frame_counts.push_back(between(random, 0, int(frames)));
        const std::vector<float> encoded = normals(random, batch * frames * net.network.encoder, 1);
        for (int32_t set = TRANSDUCER_GENERIC; set <= TRANSDUCER_AVX512; set++) {
            transducerDecodeOptions options = {between(random, 1, 4), 1, 1, 1, 1, set, 0.3, 2};
            const Found expected = decode(net, options, encoded, frames, frame_counts, i);
            options.slots = between(random, 1, 6);
            options.window = between(random, 1, 9);
            options.window_rows = between(random, 1, 40);
            options.threads = between(random, 1, 3);
            const Found found = decode(net, options, encoded, frames, frame_counts, i);
            check(found.is_valid == expected.is_valid && found.tokens == expected.tokens &&
                      found.frames == expected.frames && found.durations == expected.durations &&
                      found.counts == expected.counts,
                  "the same, however it works", i);
            const int64_t beam = between(random, 1, 6), nodes = between(random, 0, 1) ? 2 * beam + 1 : 20000;
            const bool is_short = nodes < 20000;
            transducerBeamOptions searched = {beam, between(random, 1, int(beam)), -12, options.max_symbols, 1, nodes, 1, set, 0.3};
            const Favoured favoured;
            const Sequences best = search(net, searched, encoded, frames, frame_counts, favoured, is_short, nullptr, i);
            searched.slots = between(random, 1, 6);
            searched.threads = between(random, 1, 3);
            check(search(net, searched, encoded, frames, frame_counts, favoured, is_short, nullptr, i) == best,
                  "the same search, however it works", i);
            check(search(net, searched, encoded, frames, frame_counts, favoured, true, &random, i) == best,
                  "the same search, however the frames are cut", i);
        }
    }
    if (failures == 0) printf("all passed\n");
    return failures != 0;
}
