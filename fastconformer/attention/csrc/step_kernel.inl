// A step by the vectors of an instruction set.
#if defined(_OPENMP)
#include <omp.h>
#endif

#include <math.h>

#include "exponential.h"
#include "layout.h"

namespace CTC_ISA {
namespace {

constexpr int64_t WIDTH = LANES<float>;
constexpr float EPSILON = 1e-5f;

// f(i, vector) for whole vectors, then f(i, one) for what is left of `count` values.
template <typename Whole, typename One> inline void each(int64_t count, Whole whole, One one) {
    int64_t i = 0;
    for (; i + WIDTH <= count; i += WIDTH) whole(i);
    for (; i < count; i++) one(i);
}

inline float sum_over(const float* a, int64_t count) {
    Floats sum{};
    float rest = 0;
    each(count, [&](int64_t i) { sum += load(a + i); }, [&](int64_t i) { rest += a[i]; });
    return sum_of(sum) + rest;
}

inline float dot(const float* a, const float* b, int64_t count) {
    Floats sums[2] = {};
    float rest = 0;
    int64_t i = 0;
    for (; i + 2 * WIDTH <= count; i += 2 * WIDTH) {
        sums[0] += load(a + i) * load(b + i);
        sums[1] += load(a + i + WIDTH) * load(b + i + WIDTH);
    }
    if (i + WIDTH <= count) sums[0] += load(a + i) * load(b + i), i += WIDTH;
    for (; i < count; i++) rest += a[i] * b[i];
    return sum_of(sums[0] + sums[1]) + rest;
}

inline void normalize(const float* x, attention_norm norm, int64_t width, float* y) {
    const float mean = sum_over(x, width) / float(width);
    each(width, [&](int64_t i) { store(y + i, load(x + i) - mean); }, [&](int64_t i) { y[i] = x[i] - mean; });
    const float by = 1.0f / sqrtf(dot(y, y, width) / float(width) + EPSILON);
    each(
        width, [&](int64_t i) { store(y + i, load(y + i) * by * load(norm.scale + i) + load(norm.shift + i)); },
        [&](int64_t i) { y[i] = y[i] * by * norm.scale[i] + norm.shift[i]; });
}

inline float greatest_of(const float* a, int64_t count) {
    float most = -INFINITY;
    for (int64_t i = 0; i < count; i++) most = a[i] > most ? a[i] : most;
    return most;
}

// e to the power of each less the greatest, whose sum it returns. Behind the values there is room for a whole vector.
inline float exponentials(float* a, int64_t count) {
    const float most = greatest_of(a, count);
    for (int64_t i = count; i % WIDTH != 0; i++) a[i] = -INFINITY;
    Floats sum{};
    for (int64_t i = 0; i < count; i += WIDTH) {
        const Floats value = exp_of(load(a + i) - most);
        store(a + i, value);
        sum += value;
    }
    return sum_of(sum);
}

// V vectors of the sum over s of share[s] times value(s), from column `at` on.
template <int V, typename Value> inline void mix(const float* share, int64_t count, Value value, int64_t at, float* y) {
    Floats sums[V] = {};
    for (int64_t s = 0; s < count; s++) {
        const float* from = value(s) + at;
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) sums[v] += share[s] * load(from + v * WIDTH);
    }
    for (int v = 0; v < V; v++) store(y + at + v * WIDTH, sums[v]);
}

// What a query [width] finds at `count` places, by key(s) and value(s).
template <typename Key, typename Value>
inline void attend(const float* query, int64_t count, int64_t width, Key key, Value value, float* shares, float* y) {
    const float unit = 1.0f / sqrtf(float(width));
    for (int64_t s = 0; s < count; s++) shares[s] = dot(query, key(s), width) * unit;
    const float by = 1.0f / exponentials(shares, count);
    for (int64_t s = 0; s < count; s++) shares[s] *= by;
    int64_t at = 0;
    for (; at + 8 * WIDTH <= width; at += 8 * WIDTH) mix<8>(shares, count, value, at, y);
    for (; at + WIDTH <= width; at += WIDTH) mix<1>(shares, count, value, at, y);
    for (; at < width; at++) {
        float sum = 0;
        for (int64_t s = 0; s < count; s++) sum += shares[s] * value(s)[at];
        y[at] = sum;
    }
}

struct Step {
    const attention_network& n;
    const attention_step& s;
    const Layout& l;
    float* const memory = static_cast<float*>(s.workspace);
    const int64_t each_width = n.width / n.heads;

    int32_t operator()() const {
        float *x = memory + l.x, *normed = memory + l.normed, *wide = memory + l.wide, *text = memory + l.text;
        for (int64_t i = 0; i < s.tokens; i++) {
            const float *token = n.tokens + s.labels[i] * n.width, *place = n.places + s.at[i] * n.width;
            for (int64_t d = 0; d < n.width; d++) normed[i * n.width + d] = token[d] + place[d];
            normalize(normed + i * n.width, n.embedding_norm, n.width, x + i * n.width);
        }
        for (int64_t layer = 0; layer < n.layers; layer++) {
            const attention_block& b = n.blocks[layer];
            float* kept = s.store + layer * s.capacity * 2 * n.width;
            normalize_all(x, b.text_norm, normed);
            if (!multiply(b.qkv, s.tokens, normed, wide)) return ATTENTION_NO_PRODUCT;
            for (int64_t i = 0; i < s.tokens; i++)
                memcpy(kept + s.slots[s.first[i] + s.at[i]] * 2 * n.width, wide + (3 * i + 1) * n.width,
                       size_t(2 * n.width) * sizeof(float));
            for_heads([&](int64_t i, int64_t head, float* shares) {
                const int64_t *slots = s.slots + s.first[i], from = head * each_width;
                const auto key = [&](int64_t t) { return kept + slots[t] * 2 * n.width + from; };
                const auto value = [&](int64_t t) { return kept + (slots[t] * 2 + 1) * n.width + from; };
                attend(wide + 3 * i * n.width + from, s.at[i] + 1, each_width, key, value, shares, text + i * n.width + from);
            });
            if (!multiply(b.text_leave, s.tokens, text, x, x)) return ATTENTION_NO_PRODUCT;
            normalize_all(x, b.sound_norm, normed);
            if (!multiply(b.query, s.tokens, normed, wide)) return ATTENTION_NO_PRODUCT;
            for_heads([&](int64_t i, int64_t head, float* shares) {
                const int64_t plane = s.frames[i] * each_width, from = head * each_width;
                const float* keys = s.heard[i] + (layer * 2 * n.heads + head) * plane;
                const auto key = [=](int64_t t) { return keys + t * each_width; };
                const auto value = [=](int64_t t) { return keys + n.heads * plane + t * each_width; };
                attend(wide + i * n.width + from, s.frames[i], each_width, key, value, shares, text + i * n.width + from);
            });
            if (!multiply(b.sound_leave, s.tokens, text, x, x)) return ATTENTION_NO_PRODUCT;
            normalize_all(x, b.norm, normed);
            if (!multiply(b.enter, s.tokens, normed, wide, nullptr, n.activation)) return ATTENTION_NO_PRODUCT;
            if (!multiply(b.leave, s.tokens, wide, x, x)) return ATTENTION_NO_PRODUCT;
        }
        for (int64_t i = 0; i < s.asked; i++)
            normalize(x + s.asked_tokens[i] * n.width, n.norm, n.width, text + i * n.width);
        float* logits = memory + l.logits;
        if (!multiply(n.head, s.asked, text, logits)) return ATTENTION_NO_PRODUCT;
        for (int64_t i = 0; i < s.asked; i++) choose(i, logits + i * n.classes);
        return ATTENTION_SUCCESS;
    }

    bool multiply(const convolution_problem* layer, int64_t rows, const float* x, float* y, const float* residual = nullptr,
                  int32_t activation = CONVOLUTION_IDENTITY) const {
        if (rows == 0) return true;
        convolution_problem p = *layer;
        p.batch = 1;
        p.frames = p.outputs = rows;
        p.x = x, p.x_batch_stride = rows * p.channels, p.x_frame_stride = p.channels;
        p.y = y, p.y_batch_stride = rows * p.filters, p.y_frame_stride = p.filters;
        p.residual = residual, p.residual_batch_stride = p.y_batch_stride, p.residual_frame_stride = p.y_frame_stride;
        p.activation = activation;
        p.output_slope = 0;
        p.threads = s.threads;
        p.workspace = memory + l.products;
        p.workspace_bytes = s.workspace_bytes - size_t(l.products) * sizeof(float);
        return n.multiply(&p) == CONVOLUTION_SUCCESS;
    }

    void normalize_all(const float* x, attention_norm norm, float* y) const {
        for (int64_t i = 0; i < s.tokens; i++) normalize(x + i * n.width, norm, n.width, y + i * n.width);
    }

    // body(token, head, room for scores): tokens of one recording follow each other, so its keys are in a cache then.
    template <typename Body> void for_heads(Body body) const {
        const int64_t jobs = n.heads * s.tokens;
#pragma omp parallel for schedule(static) num_threads(s.threads) if (s.threads > 1)
        for (int64_t job = 0; job < jobs; job++) {
#if defined(_OPENMP)
            float* shares = memory + l.scores + omp_get_thread_num() * l.longest;
#else
            float* shares = memory + l.scores;
#endif
            body(job % s.tokens, job / s.tokens, shares);
        }
    }

    // The best of the classes that may follow, and their log-probabilities.
    void choose(int64_t i, const float* logits) const {
        const float most = greatest_of(logits, n.classes);
        Floats sums{};
        float rest = 0;
        each(
            n.classes, [&](int64_t v) { sums += exp_of(load(logits + v) - most); },
            [&](int64_t v) { rest += expf(logits[v] - most); });
        const float total = most + logf(sum_of(sums) + rest);
        int32_t* found = s.found + i * s.best;
        float* scores = s.log_probs + i * s.best;
        int64_t count = 0;
        for (int64_t v = 0; v < n.classes; v++) {
            if (count == s.best && !(logits[v] > scores[count - 1])) continue;
            if (!s.allowed[i][v] || logits[v] != logits[v]) continue;
            int64_t place = count < s.best ? count++ : count - 1;
            for (; place > 0 && logits[v] > scores[place - 1]; place--) {
                scores[place] = scores[place - 1];
                found[place] = found[place - 1];
            }
            scores[place] = logits[v];
            found[place] = int32_t(v);
        }
        for (int64_t k = 0; k < s.best; k++) {
            scores[k] = k < count ? scores[k] - total : -INFINITY;
            if (k >= count) found[k] = 0;
        }
    }
};

}  // namespace

int32_t step(const attention_network& network, const attention_step& s, const Layout& layout) {
    return Step{network, s, layout}();
}

}  // namespace CTC_ISA
