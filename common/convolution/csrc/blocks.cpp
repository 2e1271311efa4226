// Convolutions by blocks, forward and backward: which products they are made of.
#include "blocks.h"

#include <string.h>

#include <algorithm>

#include "kernels.h"
#include "product.h"

namespace convolution {
namespace {

constexpr int64_t POINTS_TOGETHER = 12;  // weights at so many points are made by one pass over the taps

// Rows at the points, [points][utterances][blocks][width], with a gap behind every plane.
struct Planes {
    float* at;
    int64_t plane, width;
};

int64_t plane_of(int64_t rows, int64_t width) { return rows * width + BLOCKS_GAP; }

class Blocks {
  public:
    explicit Blocks(const blocks_problem& problem)
        : p(problem), made(p.block - p.taps + 1), outputs(p.frames + 2 * p.padding - p.taps + 1),
          blocks((outputs + made - 1) / made), rows(p.utterances * blocks), length((blocks - 1) * made + p.block),
          taps_of_all(p.filters * p.channels) {}

    static bool is_valid(const blocks_problem& p) {
        const bool sizes = p.utterances > 0 && p.channels > 0 && p.frames > 0 && p.filters > 0 && p.taps > 0 &&
                           p.taps <= LONGEST_BLOCK && p.padding >= 0 && p.block >= p.taps && p.points > 0;
        return sizes && p.frames + 2 * p.padding >= p.taps && p.input && p.transform && p.output && p.x && p.weight;
    }

    size_t bytes() const { return sizeof(float) * (padded_values() + at_points() + chunk_values()) + deepest(); }

    int32_t forward() {
        take_workspace();
        Planes in = points_of(p.channels), sums = sums_of();
        if (p.kept) in.at = p.kept;
        to_points(in);
        multiply(in, sums, p.taps, p.channels * p.taps);
        // Blocks of the output; the last one of an utterance may be shorter.
        for (int64_t first = 0; first < blocks; first += whole_or_rest(first)) {
            product_problem q = product(whole_or_rest(first), p.filters, made_of(first), p.points);
            q.a = sums.at + first * p.filters, q.a_row = 1, q.a_depth = sums.plane;
            q.a_outer = blocks * p.filters, q.a_batch = p.filters;
            q.b = p.output, q.b_column = 1, q.b_depth = made;
            q.c = p.y + first * made, q.c_outer = p.filters * outputs, q.c_batch = made, q.c_row = outputs;
            run(q);
        }
        return status;
    }

    int32_t backward() {
        take_workspace();
        Planes in = points_of(p.channels), sums = sums_of();
        for (int64_t first = 0; first < blocks; first += whole_or_rest(first)) {
            product_problem q = product(whole_or_rest(first), p.points, p.filters, made_of(first));
            q.a = p.output, q.a_row = made, q.a_depth = 1;
            q.b = p.grad_y + first * made, q.b_column = outputs, q.b_depth = 1;
            q.b_outer = p.filters * outputs, q.b_batch = made;
            q.c = sums.at + first * p.filters, q.c_row = sums.plane;
            q.c_outer = blocks * p.filters, q.c_batch = p.filters;
            run(q);
        }
        if (p.grad_weight) {
            Planes kept = in;
            if (p.kept)
                kept.at = p.kept;
            else
                to_points(in);
            gradient(sums, kept);
        }
        if (p.grad_x) {
            multiply(sums, in, p.channels * p.taps, p.taps);
            from_points(in);
        }
        return status;
    }

  private:
    int64_t padded_values() const { return p.utterances * p.channels * length; }
    int64_t at_points() const { return p.points * (plane_of(rows, p.channels) + plane_of(rows, p.filters)); }

    // Whether the rows at all points stay in the cache, from which they are read for every few columns.
    bool fits() const {
        return static_cast<int64_t>(sizeof(float)) * p.points * rows * (p.channels + p.filters) <= p.cached_bytes;
    }
    int64_t chunk() const {
        const int64_t size = sizeof(float) * taps_of_all * POINTS_TOGETHER;
        return std::min(p.points, std::max<int64_t>(1, p.chunk_bytes / size) * POINTS_TOGETHER);
    }
    int64_t chunk_plane() const { return taps_of_all + BLOCKS_GAP; }
    int64_t chunk_values() const { return fits() ? 0 : chunk() * chunk_plane(); }

    // The workspace of the largest of the products.
    size_t deepest() const {
        const auto of = [](int64_t rows, int64_t columns, int64_t depth, int64_t a_depth) {
            product_problem q = product(1, rows, columns, depth);
            q.a_depth = a_depth;
            return plan_of(q).bytes();
        };
        size_t most = std::max({of(p.points, p.channels, p.block, 1), of(p.points, p.filters, made, 1),
                                of(p.filters, made, p.points, 2), of(p.channels, p.block, p.points, 2)});
        if (fits()) {
            points_problem q = at_points_problem(p.channels, p.filters);
            most = std::max(most, points_bytes(q));
            q.depth = p.filters, q.columns = p.channels;
            return std::max(most, points_bytes(q));
        }
        return std::max({most, of(chunk(), taps_of_all, p.taps, 1), of(rows, p.filters, p.channels, 1),
                         of(rows, p.channels, p.filters, 1), of(p.filters, p.channels, rows, 2),
                         of(taps_of_all, p.taps, std::min(chunk(), DEEPEST), 2)});
    }

    void take_workspace() {
        padded = static_cast<float*>(p.workspace);
        own = padded + padded_values();
        weights = own + at_points();
        inner = weights + chunk_values();
    }
    Planes points_of(int64_t width) const { return {own, plane_of(rows, width), width}; }
    Planes sums_of() const {
        return {own + p.points * plane_of(rows, p.channels), plane_of(rows, p.filters), p.filters};
    }

    int64_t whole() const { return outputs / made; }
    int64_t whole_or_rest(int64_t first) const { return first < whole() ? whole() : 1; }
    int64_t made_of(int64_t first) const { return first < whole() ? made : outputs - whole() * made; }

    // Products of each of `batch` blocks of all utterances, or one product.
    static product_problem product(int64_t batch, int64_t rows, int64_t columns, int64_t depth) {
        product_problem q{};
        q.outer = 1, q.batch = batch, q.rows = rows, q.columns = columns, q.segments = 1, q.depth = depth, q.threads = 1;
        return q;
    }

    void run(product_problem& q, bool is_of_utterances = true) {
        if (is_of_utterances) q.outer = p.utterances;
        q.instructions = p.instructions, q.workspace = inner, q.workspace_bytes = plan_of(q).bytes();
        note(product_run(&q));
    }
    void note(int32_t found) {
        if (found != CONVOLUTION_SUCCESS) status = found;
    }

    points_problem at_points_problem(int64_t depth, int64_t columns) const {
        points_problem q{};
        q.points = p.points, q.rows = rows, q.depth = depth, q.columns = columns, q.taps = p.taps;
        q.matrix = p.transform, q.instructions = p.instructions, q.workspace = inner;
        q.workspace_bytes = points_bytes(q);
        return q;
    }

    // Blocks of x, with zeros around it, at the points.
    void to_points(Planes to) {
        for (int64_t row = 0; row < p.utterances * p.channels; row++) {
            float* at = padded + row * length;
            memset(at, 0, p.padding * sizeof(float));
            memcpy(at + p.padding, p.x + row * p.frames, p.frames * sizeof(float));
            memset(at + p.padding + p.frames, 0, (length - p.padding - p.frames) * sizeof(float));
        }
        product_problem q = product(blocks, p.points, p.channels, p.block);
        q.a = p.input, q.a_row = p.block, q.a_depth = 1;
        q.b = padded, q.b_outer = p.channels * length, q.b_batch = made, q.b_column = length, q.b_depth = 1;
        q.c = to.at, q.c_outer = blocks * p.channels, q.c_batch = p.channels, q.c_row = to.plane;
        run(q);
    }

    // The way back, to grad_x: blocks overlap, and their sum is it.
    void from_points(Planes from) {
        memset(padded, 0, padded_values() * sizeof(float));
        product_problem q = product(blocks, p.channels, p.block, p.points);
        q.a = from.at, q.a_outer = blocks * p.channels, q.a_batch = p.channels, q.a_row = 1, q.a_depth = from.plane;
        q.b = p.input, q.b_column = 1, q.b_depth = p.block;
        q.c = padded, q.c_outer = p.channels * length, q.c_batch = made, q.c_row = length, q.adds = 1;
        run(q);
        for (int64_t row = 0; row < p.utterances * p.channels; row++)
            memcpy(p.grad_x + row * p.frames, padded + row * length + p.padding, p.frames * sizeof(float));
    }

    // At each point the rows times the taps there, [from.width][to.width] of the strides given.
    void multiply(Planes from, Planes to, int64_t weight_depth, int64_t weight_column) {
        if (fits()) {
            points_problem q = at_points_problem(from.width, to.width);
            q.a = from.at, q.a_plane = from.plane, q.c = to.at, q.c_plane = to.plane;
            q.weight = const_cast<float*>(p.weight), q.weight_depth = weight_depth, q.weight_column = weight_column;
            note(points_multiply(&q));
            return;
        }
        for (int64_t first = 0; first < p.points; first += chunk()) {
            const int64_t count = std::min(chunk(), p.points - first);
            product_problem made_weights = product(1, count, taps_of_all, p.taps);
            made_weights.a = p.transform + first * p.taps, made_weights.a_row = p.taps, made_weights.a_depth = 1;
            made_weights.b = p.weight, made_weights.b_column = p.taps, made_weights.b_depth = 1;
            made_weights.c = weights, made_weights.c_row = chunk_plane();
            run(made_weights, false);
            product_problem q = product(count, rows, to.width, from.width);
            q.a = from.at + first * from.plane, q.a_batch = from.plane, q.a_row = from.width, q.a_depth = 1;
            q.b = weights, q.b_batch = chunk_plane();
            q.b_column = weight_column / p.taps, q.b_depth = weight_depth / p.taps;
            q.c = to.at + first * to.plane, q.c_batch = to.plane, q.c_row = to.width;
            run(q, false);
        }
    }

    // The gradient of the taps where that of the sums, and the input, are at the points.
    void gradient(Planes sums, Planes in) {
        if (fits()) {
            points_problem q = at_points_problem(p.filters, p.channels);
            q.a = sums.at, q.a_plane = sums.plane, q.c = in.at, q.c_plane = in.plane;
            q.weight = p.grad_weight, q.weight_depth = p.channels * p.taps, q.weight_column = p.taps;
            note(points_gradient(&q));
            return;
        }
        for (int64_t first = 0; first < p.points; first += chunk()) {
            const int64_t count = std::min(chunk(), p.points - first);
            product_problem q = product(count, p.filters, p.channels, rows);
            q.a = sums.at + first * sums.plane, q.a_batch = sums.plane, q.a_row = 1, q.a_depth = p.filters;
            q.b = in.at + first * in.plane, q.b_batch = in.plane, q.b_column = 1, q.b_depth = p.channels;
            q.c = weights, q.c_batch = chunk_plane(), q.c_row = p.channels;
            run(q, false);
            product_problem back = product(1, taps_of_all, p.taps, count);
            back.a = weights, back.a_row = 1, back.a_depth = chunk_plane();
            back.b = p.transform + first * p.taps, back.b_column = 1, back.b_depth = p.taps;
            back.c = p.grad_weight, back.c_row = p.taps, back.adds = first > 0;
            run(back, false);
        }
    }

    const blocks_problem& p;
    const int64_t made, outputs, blocks, rows, length, taps_of_all;
    float *padded = nullptr, *own = nullptr, *weights = nullptr, *inner = nullptr;
    int32_t status = CONVOLUTION_SUCCESS;
};

int32_t run(const blocks_problem* problem, bool has_tensors, int32_t (Blocks::*way)()) {
    if (!problem || !Blocks::is_valid(*problem) || !has_tensors) return CONVOLUTION_INVALID_VALUE;
    Blocks blocks{*problem};
    return problem->workspace_bytes < blocks.bytes() ? CONVOLUTION_INVALID_VALUE : (blocks.*way)();
}

}  // namespace
}  // namespace convolution

using namespace convolution;

size_t blocks_workspace(const blocks_problem* problem) {
    return problem && Blocks::is_valid(*problem) ? Blocks{*problem}.bytes() : 0;
}

int32_t blocks_forward(const blocks_problem* problem) {
    return run(problem, problem && problem->y, &Blocks::forward);
}

int32_t blocks_backward(const blocks_problem* problem) {
    return run(problem, problem && problem->grad_y, &Blocks::backward);
}
