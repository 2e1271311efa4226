// The C entry points: checks, sizes, the choice of the instruction set.
#include <initializer_list>

#include "layout.h"
#include "processor.h"

namespace {

constexpr int64_t LINE = 64;

int64_t rounded(int64_t count, int64_t step) { return (count + step - 1) / step * step; }
int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t bytes_of(const attention_network& network, const convolution_problem* layer, int64_t rows, int32_t threads) {
    convolution_problem problem = *layer;
    problem.frames = problem.outputs = rows;
    problem.threads = threads;
    const float unused = 0;
    problem.x = &unused;
    problem.y = const_cast<float*>(&unused);
    return int64_t(network.multiply_bytes(&problem));
}

bool is_sized(const convolution_problem* layer, int64_t inputs, int64_t outputs) {
    return layer && layer->channels == inputs && layer->filters == outputs;
}

bool is_valid(const attention_network& n) {
    if (n.layers < 1 || n.heads < 1 || n.width < n.heads || n.width % n.heads != 0 || n.inner < 1 || n.classes < 1 ||
        !n.blocks || !n.tokens || !n.places || !n.multiply || !n.multiply_bytes || !is_sized(n.head, n.width, n.classes))
        return false;
    for (int64_t i = 0; i < n.layers; i++) {
        const attention_block& b = n.blocks[i];
        if (!is_sized(b.qkv, n.width, 3 * n.width) || !is_sized(b.text_leave, n.width, n.width) ||
            !is_sized(b.query, n.width, n.width) || !is_sized(b.sound_leave, n.width, n.width) ||
            !is_sized(b.enter, n.width, n.inner) || !is_sized(b.leave, n.inner, n.width))
            return false;
    }
    return true;
}

bool is_valid(const attention_network& n, const attention_step& s) {
    if (s.tokens < 0 || s.asked < 0 || s.best < 1 || s.best > n.classes || s.threads < 1 || s.capacity < 0) return false;
    if (s.instructions != 0 && !is_supported(InstructionSet(s.instructions))) return false;
    if (s.tokens > 0 && (!s.labels || !s.at || !s.slots || !s.first || !s.store || !s.heard || !s.frames)) return false;
    if (s.asked > 0 && (!s.asked_tokens || !s.allowed || !s.found || !s.log_probs)) return false;
    for (int64_t i = 0; i < s.tokens; i++) {
        if (s.labels[i] < 0 || s.labels[i] >= n.classes || s.at[i] < 0 || s.at[i] >= n.positions) return false;
        if (s.frames[i] < 0 || (s.frames[i] > 0 && !s.heard[i])) return false;
        for (int64_t j = 0; j <= s.at[i]; j++)
            if (s.slots[s.first[i] + j] < 0 || s.slots[s.first[i] + j] >= s.capacity) return false;
    }
    for (int64_t i = 0; i < s.asked; i++)
        if (s.asked_tokens[i] < 0 || s.asked_tokens[i] >= s.tokens || !s.allowed[i]) return false;
    return true;
}

Layout layout_of(const attention_network& n, const attention_step& s) {
    Layout l{};
    int64_t floats = 0;
    const auto take = [&](int64_t count) {
        const int64_t start = floats;
        floats += rounded(count, LINE / 4);
        return start;
    };
    l.x = take(s.tokens * n.width);
    l.normed = take(s.tokens * n.width);
    l.wide = take(s.tokens * larger(3 * n.width, n.inner));
    l.text = take(s.tokens * n.width);
    l.logits = take(s.asked * n.classes);
    for (int64_t i = 0; i < s.tokens; i++) l.longest = larger(l.longest, larger(s.at[i] + 1, s.frames[i]));
    l.longest = rounded(l.longest, LANES_AT_MOST);
    l.scores = take(s.threads * l.longest);
    l.products = floats;
    int64_t most = bytes_of(n, n.head, larger(s.asked, 1), s.threads);
    const attention_block& b = n.blocks[0];
    for (const convolution_problem* layer : {b.qkv, b.text_leave, b.query, b.sound_leave, b.enter, b.leave})
        most = larger(most, bytes_of(n, layer, s.tokens, s.threads));
    l.bytes = floats * 4 + most;
    return l;
}

}  // namespace

size_t attention_step_workspace(const attention_network* network, const attention_step* step) {
    if (!network || !step || !is_valid(*network) || !is_valid(*network, *step)) return 0;
    return layout_of(*network, *step).bytes;
}

int32_t attention_step_run(const attention_network* network, const attention_step* step) {
    if (!network || !step || !is_valid(*network) || !is_valid(*network, *step)) return ATTENTION_INVALID_VALUE;
    if (step->tokens == 0) return ATTENTION_SUCCESS;
    const Layout layout = layout_of(*network, *step);
    if (!step->workspace || (uintptr_t)step->workspace % LINE != 0 || step->workspace_bytes < size_t(layout.bytes))
        return ATTENTION_INVALID_VALUE;
    switch (chosen(InstructionSet(step->instructions))) {
#if defined(NATIVE_HAS_AVX512)
        case InstructionSet::AVX512: return avx512::step(*network, *step, layout);
#endif
#if defined(NATIVE_HAS_AVX2)
        case InstructionSet::AVX2: return avx2::step(*network, *step, layout);
#endif
        default: return generic::step(*network, *step, layout);
    }
}
