// The kernels of the losses for one instruction set.
#include "joint_cells.h"
#include "lattice.h"

namespace CTC_ISA {

template <template <typename> class Function, typename... Arguments>
static auto of_type(int32_t type, Arguments... arguments) {
    switch (type) {
        case TRANSDUCER_FLOAT64: return Function<double>::call(arguments...);
        case TRANSDUCER_FLOAT16: return Function<Half>::call(arguments...);
        case TRANSDUCER_BFLOAT16: return Function<Bfloat>::call(arguments...);
        default: return Function<float>::call(arguments...);
    }
}

template <typename In> struct ReadCell {
    static bool call(const Cells* cells, const void* logits, int64_t t, int64_t u) {
        return read_cell<In>(*cells, logits, t, u);
    }
};

template <typename In> struct WriteGradient {
    static void call(const Cells* cells, const void* logits, void* gradient, int64_t t, int64_t u, double scale,
                     bool has_normaliser, bool streams, void* row) {
        write_gradient<In>(*cells, logits, gradient, t, u, scale, has_normaliser, streams, row);
    }
};

template <typename In> struct Fill {
    static void call(void* gradient, int64_t count, double value, bool streams) {
        fill<In>(gradient, count, value, streams);
    }
};

static bool read_any_cell(const Cells& cells, const void* logits, int64_t t, int64_t u) {
    return of_type<ReadCell>(cells.problem.type, &cells, logits, t, u);
}

static double walk(const Cells& cells, bool wants_flows, const Band* bands) {
    const FlushDenormals flushing;
    Lattice lattice(cells, bands);
    const double log_probability = lattice.walk_to_start();
    if (wants_flows && log_probability > -INFINITY) lattice.walk_to_end();
    return log_probability;
}

static double walk_joint(const Cells& cells, const JointRows& joint, const JointScratch& scratch) {
    const FlushDenormals flushing;
    return JointCells(cells, joint, scratch).read() ? walk(cells, true, scratch.bands) : NAN;
}

static void write_any_gradient(const Cells& cells, const void* logits, void* gradient, int64_t t, int64_t u,
                               double scale, bool has_normaliser, bool streams, void* row) {
    const FlushDenormals flushing;  // nobody misses them, and a product with them takes many times as long
    of_type<WriteGradient>(cells.problem.type, &cells, logits, gradient, t, u, scale, has_normaliser, streams, row);
}

static void fill_any(void* gradient, int64_t count, int32_t type, double value, bool streams) {
    of_type<Fill>(type, gradient, count, value, streams);
}

const Kernels kernels = {walk_joint, read_any_cell, walk, write_any_gradient, fill_any};

}  // namespace CTC_ISA
