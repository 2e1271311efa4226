// Tests of decoding and alignment that need no Python, to be run under sanitizers: decode_test [cases, default 500]
// [seed].
//
// Random scores go through greedy decoding, alignment and beam search, with and without a language model, and what
// comes out must hold together. Buffers are of exactly the promised size, with guard bytes behind workspaces.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "ctc_ngram.h"
#include "test/checking.h"

struct Case {
    int batch, frames, vocabulary, blank;
    std::vector<float> singles;
    std::vector<double> doubles;
    std::vector<int64_t> lengths;  // frames of each utterance

    ctc_scores scores(bool is_double) const {
        const void* data = is_double ? (const void*)doubles.data() : (const void*)singles.data();
        const int64_t row = vocabulary;
        return {data, is_double, batch, frames, vocabulary, frames * row, row};
    }
    double at(int item, int frame, int label) const {
        return doubles[(size_t(item) * frames + frame) * vocabulary + label];
    }
};

static Case random_case(Random& random) {
    Case c;
    c.batch = between(random, 1, 3);
    c.frames = between(random, 0, 30);
    c.vocabulary = between(random, 4, between(random, 0, 3) ? 12 : 90);
    c.blank = between(random, 0, 1) ? c.vocabulary - 1 : 3;
    const float scales[] = {0, 1e-6f, 1, 3, 10, 1000};
    const float scale = scales[between(random, 0, 5)];
    std::normal_distribution<float> normal;
    for (int i = 0; i < c.batch * c.frames * c.vocabulary; i++) {
        c.singles.push_back(between(random, 0, 200) ? scale * normal(random) : -INFINITY);
        c.doubles.push_back(c.singles.back());
    }
    for (int item = 0; item < c.batch; item++) c.lengths.push_back(between(random, c.frames / 2, c.frames));
    return c;
}

static std::vector<uint8_t> packed(const std::vector<int64_t>& values, int32_t width) {
    std::vector<uint8_t> bits(ctc_packed_bytes(int64_t(values.size()), width));
    ctc_pack(values.data(), int64_t(values.size()), width, bits.data());
    return bits;
}

// Words 3 "0", 4 "0 1", 5 "1", after <unk>, <s> and </s>, of labels 0 and 1 with 2 between them; bigrams follow "0".
struct Language {
    std::vector<uint8_t> first_arc = packed({0, 6, 8}, 4), arc_word = packed({0, 1, 2, 3, 4, 5, 2, 4}, 3);
    std::vector<uint8_t> arc_next = packed({0, 0, 0, 1, 0, 0, 0, 0}, 1), backoff_state = packed({0, 0}, 1);
    std::vector<float> arc_log_prob = {-4, -90, -2, -1, -1.5f, -2, -0.5f, -0.7f}, backoff = {0, -0.9f};
    std::vector<float> word_bound = {-4, -90, -0.5f, -1, -0.7f, -2};
    std::vector<int32_t> first_child = {1, 3, 4, 4, 4}, label = {-1, 0, 1, 1}, word = {-1, 3, 5, 4};
    std::vector<int32_t> phrase_first_child = {1, 2, 3, 3}, phrase_label = {-1, 0, 1}, fail = {0, 0, 0};
    std::vector<float> promise = {0, 1, 0}, reward = {0, 0, 2}, bound = {1, 1, 1};
    ctc_ngram ngram;
    ctc_lexicon lexicon;
    ctc_phrases phrases;
    ctc_scorer scorer;

    explicit Language(Random& random)
        : ngram{2, 6, 8, {first_arc.data(), 4}, {arc_word.data(), 3}, arc_log_prob.data(), {arc_next.data(), 1},
                backoff.data(), {backoff_state.data(), 1}, word_bound.data(), 0, 0, 2},
          lexicon{4, first_child.data(), label.data(), word.data()},
          phrases{3, phrase_first_child.data(), phrase_label.data(), fail.data(), promise.data(), reward.data(),
                  bound.data(), 0},
          scorer{&ngram, &lexicon, between(random, 0, 1) ? &phrases : nullptr, nullptr, nullptr, 2,
                 between(random, 0, 1), 0.7, between(random, -1, 2) * 0.8, -3.0} {}
    Language(const Language&) = delete;
};

static void test_greedy(const Case& c, bool is_double, long which) {
    const size_t cells = size_t(c.batch) * c.frames;
    std::vector<int32_t> runs(3 * cells), counts(c.batch), nan_frames(c.batch);
    std::vector<float> confidence(cells);
    const ctc_scores scores = c.scores(is_double);
    const int status = ctc_greedy(&scores, c.lengths.data(), c.blank, 2, runs.data(), confidence.data(), counts.data(),
                                  nan_frames.data());
    check(status == CTC_DECODE_SUCCESS, "greedy refuses", which);
    for (int item = 0; item < c.batch; item++) {
        std::vector<int32_t> path;
        for (int t = 0; t < c.lengths[item]; t++) {
            int best = 0;
            for (int k = 1; k < c.vocabulary; k++)
                if (c.at(item, t, k) > c.at(item, t, best)) best = k;
            path.push_back(best);
        }
        const int32_t* part = runs.data() + size_t(item) * 3 * c.frames;
        std::vector<int32_t> spelled(path.size(), c.blank);
        for (int i = 0; i < counts[item]; i++)
            for (int t = part[c.frames + i]; t < part[2 * c.frames + i]; t++) spelled[size_t(t)] = part[i];
        check(spelled == path && nan_frames[item] == 0, "greedy is not the best path", which);
    }
}

static void test_align(const Case& c, bool is_double, Random& random, long which) {
    const int stride = between(random, 0, c.frames);
    std::vector<int32_t> targets(size_t(c.batch) * stride, -7), is_clipped(c.batch);
    std::vector<int64_t> lengths, start(targets.size()), end(targets.size());
    std::vector<double> log_probs(targets.size()), totals(c.batch);
    for (int item = 0; item < c.batch; item++) {
        lengths.push_back(between(random, 0, stride));
        for (int i = 0; i < lengths[item]; i++) {
            const int label = between(random, 0, between(random, 0, 3) ? c.vocabulary - 2 : 0);
            targets[size_t(item) * stride + i] = label + (label >= c.blank);
        }
    }
    const ctc_scores scores = c.scores(is_double);
    const int window = between(random, 0, 2) ? 0 : between(random, 1, 20);
    const ctc_align_options options = {c.blank, 2, window, nullptr, 0};
    const Guarded workspace(ctc_align_workspace(*std::max_element(c.lengths.begin(), c.lengths.end()),
                                                  *std::max_element(lengths.begin(), lengths.end()), &options));
    const int status = ctc_align(&scores, c.lengths.data(), targets.data(), stride, lengths.data(), &options,
                                 start.data(), end.data(), log_probs.data(), totals.data(), is_clipped.data(),
                                 workspace, workspace.bytes());
    check(status == CTC_DECODE_SUCCESS, "align refuses", which);
    for (int item = 0; item < c.batch; item++) {
        if (!std::isfinite(totals[item])) continue;
        int64_t before = 0;
        for (int i = 0; i < lengths[item]; i++) {
            const size_t at = size_t(item) * stride + i;
            const bool is_repeat = i > 0 && targets[at] == targets[at - 1];
            check(start[at] >= before + is_repeat && start[at] < end[at], "spans are out of order", which);
            before = end[at];
        }
        check(before <= c.lengths[item] && totals[item] <= 1e-9, "a span lies behind the end", which);
    }
}

struct Hypotheses {
    std::vector<int32_t> labels, lengths, counts;
    std::vector<double> acoustic, external;
    bool operator==(const Hypotheses& other) const {
        if (counts != other.counts) return false;
        const size_t n_best = lengths.size() / counts.size(), frames = labels.size() / lengths.size();
        for (size_t item = 0; item < counts.size(); item++)
            for (size_t n = item * n_best; n < item * n_best + size_t(counts[item]); n++) {
                const int32_t *left = labels.data() + n * frames, *right = other.labels.data() + n * frames;
                if (acoustic[n] != other.acoustic[n] || external[n] != other.external[n] ||
                    lengths[n] != other.lengths[n] || !std::equal(left, left + lengths[n], right))
                    return false;
            }
        return true;
    }
};

static Hypotheses search(const Case& c, bool is_double, const ctc_scorer* scorer, ctc_beam_options options) {
    const size_t rows = size_t(c.batch) * options.n_best;
    Hypotheses found;
    found.labels.resize(rows * c.frames);
    found.lengths.resize(rows);
    found.counts.resize(size_t(c.batch));
    found.acoustic.resize(rows);
    found.external.resize(rows);
    const ctc_scores scores = c.scores(is_double);
    const int64_t most_frames = *std::max_element(c.lengths.begin(), c.lengths.end());
    const Guarded workspace(ctc_beam_workspace(most_frames, c.vocabulary, &options));
    const int status = ctc_beam_search(&scores, c.lengths.data(), scorer, &options, found.labels.data(),
                                       found.lengths.data(), found.acoustic.data(), found.external.data(),
                                       found.counts.data(), nullptr, nullptr, workspace, workspace.bytes());
    check(status == CTC_DECODE_SUCCESS, "beam search refuses");
    return found;
}

static ctc_beam_options random_options(const Case& c, Random& random) {
    const int beam = between(random, 1, 40);
    const double cuts[] = {-INFINITY, -20, -3, 0};
    return {c.blank, 2, beam, between(random, 1, beam), cuts[between(random, 0, 3)], cuts[between(random, 0, 3)],
            between(random, 0, 1)};
}

static void test_beam(const Case& c, bool is_double, const ctc_scorer* scorer, ctc_beam_options options, long which) {
    const Hypotheses found = search(c, is_double, scorer, options);
    for (int item = 0; item < c.batch; item++) {
        std::set<std::vector<int32_t>> seen;
        double before = INFINITY;
        for (int n = 0; n < found.counts[item]; n++) {
            const size_t row = size_t(item) * options.n_best + n;
            const int32_t* first = found.labels.data() + row * c.frames;
            check(found.lengths[row] <= c.lengths[item], "more labels than frames", which);
            check(seen.emplace(first, first + found.lengths[row]).second, "two hypotheses are the same", which);
            check(std::count(first, first + found.lengths[row], c.blank) == 0, "a blank is spelled", which);
            const double score = found.acoustic[row] + found.external[row];
            check(score <= before, "hypotheses are out of order", which);
            // Its exp is off by up to 3e-7 in each of up to 30 frames.
            check(found.acoustic[row] <= 30 * 3e-7, "a probability is above 1", which);
            before = score;
        }
    }
    options.threads = 1;
    check(search(c, is_double, scorer, options) == found, "threads change the result", which);
}

static void test_all_hypotheses_of_a_wide_beam_have_probability_one(Random& random) {
    for (int i = 0; i < 20; i++) {
        Case c = random_case(random);
        c.batch = 1;
        c.frames = 4;
        c.vocabulary = 4;
        c.blank = i % 4;
        c.lengths = {4};
        c.doubles.resize(16);
        for (double& score : c.doubles) score = between(random, -30, 30) / 10.0;
        const Hypotheses found = search(c, true, nullptr, {c.blank, 1, 400, 400, -INFINITY, -INFINITY});
        double sum = 0;
        for (int n = 0; n < found.counts[0]; n++) sum += exp(found.acoustic[n]);
        check(fabs(sum - 1) < 1e-12, "probabilities do not add up", i);
    }
}

static void test_two_callers_at_once(Random& random) {
    const Case first = random_case(random), second = random_case(random);
    const Language language(random);
    const ctc_beam_options one = {first.blank, 1, 20, 5, -INFINITY, -INFINITY};
    const ctc_beam_options two = {second.blank, 1, 9, 9, -5, -9};
    const Hypotheses expected_first = search(first, false, &language.scorer, one);
    const Hypotheses expected_second = search(second, true, &language.scorer, two);
    const auto repeat = [&](const Case& c, bool is_double, ctc_beam_options options, const Hypotheses& expected) {
        for (int i = 0; i < 20; i++)
            check(search(c, is_double, &language.scorer, options) == expected, "callers meet", i);
    };
    std::thread other([&] { repeat(first, false, one, expected_first); });
    repeat(second, true, two, expected_second);
    other.join();
}

static void test_invalid_arguments_are_refused(Random& random) {
    Case c = random_case(random);
    ctc_scores scores = c.scores(false);
    const ctc_beam_options good = {c.blank, 1, 4, 2, -7, -16}, bad = {c.blank, 1, 2, 4, -7, -16};
    check(ctc_beam_workspace(1, 1, nullptr) == 0 && ctc_beam_workspace(1, 4, &bad) == 0, "bad options pass");
    check(ctc_align_workspace(-1, 0, nullptr) == 0, "bad options pass");
    std::vector<int32_t> labels(size_t(c.batch) * 2 * c.frames + 1), ints(size_t(c.batch) * 2);
    std::vector<double> doubles(size_t(c.batch) * 2);
    const auto beam = [&](const int64_t* frames, const ctc_beam_options& options, size_t bytes) {
        char space[64];
        return ctc_beam_search(&scores, frames, nullptr, &options, labels.data(), ints.data(), doubles.data(),
                               doubles.data(), ints.data(), nullptr, nullptr, space, bytes);
    };
    check(beam(c.lengths.data(), good, 64) == CTC_DECODE_WORKSPACE, "a small workspace passes");
    check(beam(c.lengths.data(), bad, 64) == CTC_DECODE_INVALID, "n_best above the beam passes");
    check(beam(nullptr, good, 64) == CTC_DECODE_INVALID, "NULL passes");
    const std::vector<int64_t> long_lengths(size_t(c.batch), c.frames + 1);
    check(beam(long_lengths.data(), good, 64) == CTC_DECODE_INVALID, "too many frames pass");
    check(ctc_greedy(&scores, c.lengths.data(), c.vocabulary, 1, nullptr, nullptr, nullptr, nullptr) ==
              CTC_DECODE_INVALID, "a blank that is no label passes");
    check(ctc_greedy(nullptr, nullptr, 0, 1, nullptr, nullptr, nullptr, nullptr) == CTC_DECODE_INVALID, "NULL passes");
}

int main(int count, char** arguments) {
    const long cases = count > 1 ? atol(arguments[1]) : 500;
    Random random(count > 2 ? unsigned(atol(arguments[2])) : 1);
    test_invalid_arguments_are_refused(random);
    test_all_hypotheses_of_a_wide_beam_have_probability_one(random);
    test_two_callers_at_once(random);
    for (long i = 0; i < cases; i++) {
        const Case c = random_case(random);
        const Language language(random);
        const bool is_double = i % 2;
        test_greedy(c, is_double, i);
        test_align(c, is_double, random, i);
        test_beam(c, is_double, i % 3 ? &language.scorer : nullptr, random_options(c, random), i);
    }
    if (failures == 0) printf("all passed\n");
    return failures != 0;
}
