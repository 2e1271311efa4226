// The pass over whole frames: softmax, its log-normaliser, and the gradient softmax - occupancy; one read of the logits
// and one write of the gradient. A warp takes a frame of few classes, a block one of many, whose logits it holds in
// registers up to 6144 classes and reads again, from the caches, beyond.
//
// Where one class has more than half of the probability its gradient is computed as minus the sum of all others', since
// the difference of two numbers close to 1 would keep few of its digits when training is nearly done.
//
// Of float logits nothing here is double but the normaliser on its way to memory, and what regularisation needs.
#pragma once

#include "cuda_prepare.cuh"
#include "cuda_sums.cuh"

namespace ctc_cuda {

// Blocks of a processor at once, which bounds the registers of a thread.
template <typename In> constexpr int MOST_BLOCKS = sizeof(In) == 8 ? 1 : 3;

template <typename In, int N> struct alignas(sizeof(In) * N) Elements {
    In x[N];
};

// The threads that share a frame: a warp, or a block.
template <int SIZE> struct RowTeam {
    uint64_t* partial;  // shared, one for each warp of a block

    __device__ int rank() const { return SIZE == WARP ? lane_index() : int(threadIdx.x); }
    __device__ void sync() const {
        if (SIZE == WARP)
            __syncwarp();
        else
            __syncthreads();
    }
    template <typename T, typename Combine> __device__ T combine(T x, Combine both) const {
        static_assert(sizeof(T) <= sizeof(uint64_t), "");
        if (SIZE == WARP) return x;
        if (lane_index() == 0) ((T*)partial)[warp_index()] = x;
        __syncthreads();
        x = ((const T*)partial)[0];
        for (int w = 1; w < SIZE / WARP; w++) x = both(x, ((const T*)partial)[w]);
        __syncthreads();
        return x;
    }
    template <typename Real> __device__ Sum<Real> sum(Sum<Real> x) const {
        return combine(warp_sum(x), [](Sum<Real> a, Sum<Real> b) { return a + b; });
    }
    template <typename T> __device__ T max(T x) const {
        return combine(warp_max(x), [](T a, T b) { return larger_of(a, b); });
    }
};

// One frame's logits, dealt out to the threads of its team.
template <typename In, int SIZE, bool IS_HELD> class Row {
    using Real = typename Computed<In>::type;
    static constexpr int CHUNK = SIZE == WARP ? 1 : CHUNK_BYTES / int(sizeof(Real));
    static constexpr int SPAN = SIZE * CHUNK * CHUNKS;

  public:
    __device__ Row(const In* from, int classes, int rank) : from(from), classes(classes), rank(rank) {
        if (IS_HELD) load(0);
    }

    // visit(k, x) for the thread's classes; what it returns is added up.
    template <typename Visit> __device__ Sum<Real> add_up(Visit visit) {
        Sum<Real> total = sum_of(Real(0));
        for (int begin = 0; begin < classes; begin += SPAN) {
            if (!IS_HELD) load(begin);
            Real sum = 0;
CTC_UNROLL
            for (int j = 0; j < CHUNKS * CHUNK; j++) {
                const int k = begin + place(j);
                if (k < classes) sum += visit(k, x[j]);
            }
            total = total + sum;
        }
        return total;
    }

    // Writes value(k, x) of the thread's classes to `to`, which may be where they were read.
    template <typename Value> __device__ void write(In* to, Value value) {
        for (int begin = 0; begin < classes; begin += SPAN) {
            if (!IS_HELD) load(begin);
CTC_UNROLL
            for (int c = 0; c < CHUNKS; c++) {
                const int first = begin + place(c * CHUNK);
                __syncwarp();
                Elements<In, CHUNK> out = {};
CTC_UNROLL
                for (int e = 0; e < CHUNK; e++)
                    if (first + e < classes) from_real(&out.x[e], value(first + e, x[c * CHUNK + e]));
                if (first + CHUNK <= classes && is_aligned(to)) {
                    *(Elements<In, CHUNK>*)(to + first) = out;
                } else {
CTC_UNROLL
                    for (int e = 0; e < CHUNK; e++)
                        if (first + e < classes) to[first + e] = out.x[e];
                }
            }
        }
    }

  private:
    __device__ int place(int j) const { return (j / CHUNK * SIZE + rank) * CHUNK + j % CHUNK; }

    static __device__ bool is_aligned(const In* p) { return (uintptr_t)p % sizeof(Elements<In, CHUNK>) == 0; }

    __device__ void load(int begin) {
CTC_UNROLL
        for (int c = 0; c < CHUNKS; c++) {
            const int first = begin + place(c * CHUNK);
            if (first + CHUNK <= classes && is_aligned(from)) {
                const Elements<In, CHUNK> in = *(const Elements<In, CHUNK>*)(from + first);
CTC_UNROLL
                for (int e = 0; e < CHUNK; e++) x[c * CHUNK + e] = to_real(in.x[e]);
            } else {
CTC_UNROLL
                for (int e = 0; e < CHUNK; e++)
                    x[c * CHUNK + e] = first + e < classes ? to_real(from[first + e]) : -Real(INFINITY);
            }
        }
    }

    const In* from;
    int classes, rank;
    Real x[CHUNKS * CHUNK];
};

// What label smoothing and the entropy term add: e KL(uniform || p) - w H(p), over the classes that are not at -inf.
template <typename Real> struct Regularisation {
    bool is_wanted;
    Real smoothing, weight;
    Real uniform, surprise;  // sum of exponentials over classes; entropy less the log of that sum

    __device__ explicit Regularisation(const ctcProblem& p)
        : is_wanted(p.label_smoothing != 0 || p.entropy_weight != 0), smoothing(Real(p.label_smoothing)),
          weight(Real(p.entropy_weight)), uniform(0), surprise(0) {}

    // What is added to the loss. `sum`: of the frame's exponentials, relative to the largest logit.
    template <typename RowType, typename Team>
    __device__ double measure(const ctcProblem& p, RowType& row, const Team& team, Real largest, double sum) {
        const Real least = -Real(INFINITY);
        const auto add_up = [&](auto visit) { return double(team.sum(row.add_up(visit)).value()); };
        const double count = add_up([=](int, Real x) { return Real(x > least); });
        const double logits = add_up([=](int, Real x) { return x > least ? x - largest : Real(0); });
        const double weighted =
            add_up([=](int, Real x) { return x > least ? (x - largest) * exp(x - largest) : Real(0); });
        const double log_sum = log(sum), entropy = log_sum - weighted / sum;
        uniform = Real(sum / count);
        surprise = Real(entropy - log_sum);
        return p.label_smoothing * (log_sum - logits / count - log(count)) - p.entropy_weight * entropy;
    }

    // The gradient, times the sum of exponentials, from that of the alignments, x - largest and its exponential.
    __device__ Real gradient(Real alignments, Real x, Real e) const {
        if (!is_wanted) return alignments;
        const Real added = smoothing * (e - uniform) + weight * e * (x + surprise);
        return alignments * (1 - smoothing) + (x > -Real(INFINITY) ? added : Real(0));
    }
};

// What the labels and blank did on a frame: products of alpha and beta, to be divided by their sum.
template <typename Real, int SIZE> class Occupancies {
  public:
    __device__ Occupancies(const Batch& b, int64_t n, int64_t t, const Outcome& outcome, const RowTeam<SIZE>& team)
        : distinct(outcome.distinct), blank(int(b.problem.blank)), stride(int(pair_stride(outcome.labels))),
          blanks(states_of<Real>(b, n) + t * 2 * stride), order(b.workspace.order + n * b.problem.longest_target),
          class_begin(b.workspace.class_begin + n * (b.problem.longest_target + 1)),
          class_of(b.workspace.class_of + n * b.problem.longest_target) {
        const uint8_t* const stars = stars_of(b, n);
        Sum<Real> of_blank = sum_of(Real(0)), of_labels = of_blank, of_stars = of_blank;
        for (int i = team.rank(); i <= outcome.labels; i += SIZE) {
            if (outcome.has_stars && stars[i])
                of_stars = of_stars + blanks[i];
            else
                of_blank = of_blank + blanks[i];
            of_labels = of_labels + blanks[stride + i];
        }
        of_blank = team.sum(of_blank);
        blank_sum = of_blank.value();
        const Sum<Real> of_classes = of_blank + team.sum(of_labels);
        const Sum<Real> of_all = outcome.has_stars ? of_classes + team.sum(of_stars) : of_classes;
        inverse = 1 / of_all.value();
        outside = outcome.has_stars ? of_classes.value() * inverse : Real(1);
        team.sync();  // `store` takes the place of the blanks
    }

    Real outside;  // the probability of being in no star: a star takes every class as the softmax has it

    __device__ int count() const { return distinct + 1; }
    __device__ int class_at(int s) const { return s < distinct ? class_of[s] : blank; }
    __device__ Real probability(int s) const {
        if (s == distinct) return blank_sum * inverse;
        Real sum = 0;
        for (int32_t j = class_begin[s]; j < class_begin[s + 1]; j++) sum += blanks[stride + order[j]];
        return sum * inverse;
    }
    __device__ void store(int s, Real gradient) const { blanks[s] = gradient; }
    __device__ Real stored(int s) const { return blanks[s]; }

  private:
    int distinct, blank, stride;
    Real* blanks;
    const int32_t *order, *class_begin, *class_of;
    Real blank_sum, inverse;
};

template <typename In, int SIZE> static __device__ void fill(In* to, int classes, int rank, float value) {
    for (int k = rank; k < classes; k += SIZE) from_real(to + k, typename Computed<In>::type(value));
}

template <typename In, int SIZE, bool IS_HELD>
static __device__ void compute_row(const Batch& b, int64_t n, int64_t t, const RowTeam<SIZE>& team) {
    using Real = typename Computed<In>::type;
    const ctcProblem& p = b.problem;
    const Outcome outcome = b.workspace.outcomes[n];
    const In* const from = logits_at<In>(b, n, t);
    In* const to = b.gradient ? gradient_at<In>(b, n, t) : nullptr;
    const int rank = team.rank();
    if (outcome.state != DONE || t >= outcome.frames) {
        const bool is_wrong = outcome.state == INVALID || (outcome.state == NOT_A_NUMBER && t < outcome.frames);
        if (to) fill<In, SIZE>(to, int(p.classes), rank, is_wrong ? NAN : 0.0f);
        return;
    }

    Row<In, SIZE, IS_HELD> row(from, int(p.classes), rank);
    Real own_largest = -Real(INFINITY);
    row.add_up([&](int, Real x) {
        own_largest = larger_of(own_largest, x);
        return Real(0);
    });
    const Real largest = team.max(own_largest);
    Sum<Real> sum = team.sum(row.add_up([=](int, Real x) { return exp(x - largest); }));
    const bool is_dominated = sum.value() < 2;
    Sum<Real> rest = sum_of(Real(0));
    int dominant = -1;
    if (is_dominated) {
        rest = team.sum(row.add_up([&](int k, Real x) {
            if (x == largest) dominant = k;
            return x < largest ? exp(x - largest) : Real(0);
        }));
        dominant = team.max(dominant);
        sum = rest + Real(1);
    }
    const Real total = sum.value(), log_sum = is_dominated ? log1p(rest.value()) : log(total);
    Regularisation<Real> regularisation(p);
    const double added = regularisation.is_wanted ? regularisation.measure(p, row, team, largest, total) : 0;
    if (rank == 0) {
        b.workspace.normalisers[n * p.frames + t] = double(largest) + double(log_sum);
        b.workspace.regularisation[n * p.frames + t] = added;
    }
    if (!to) return;

    const Real of_utterance = b.scale ? ((const Real*)b.scale)[n] : Real(1);
    const Real factor = Real(outcome.weight) * of_utterance / total;
    const auto gradient = [=](Real alignments, Real x, Real e) {
        return regularisation.gradient(alignments, x, e) * factor;
    };
    const Occupancies<Real, SIZE> occupancies(b, n, t, outcome, team);
    const Real outside = occupancies.outside;
    Sum<Real> own_others = sum_of(Real(0));
    for (int s = rank; s < occupancies.count(); s += SIZE) {
        const int k = occupancies.class_at(s);
        if (k == dominant) continue;
        const Real probability = occupancies.probability(s);
        const Real x = to_real(from[k]) - largest, e = exp(x), occupied = probability * total;
        own_others = own_others + occupied;
        occupancies.store(s, gradient(e * outside - occupied, x, e));
    }
    const Real others = (team.sum(own_others) + -times(rest, outside)).value();
    team.sync();
    row.write(to, [=](int, Real logit) {
        const Real x = logit - largest, e = exp(x);
        return gradient(e * outside, x, e);
    });
    team.sync();
    for (int s = rank; s < occupancies.count(); s += SIZE) {
        const int k = occupancies.class_at(s);
        if (k != dominant) from_real(to + k, occupancies.stored(s));
    }
    if (is_dominated && rank == 0) from_real(to + dominant, gradient(others, Real(0), Real(1)));
}

template <typename In> __global__ void __launch_bounds__(FRAMES_PER_BLOCK* WARP, MOST_BLOCKS<In>)
    warp_rows_kernel(const __grid_constant__ Batch b) {
    const int64_t index = int64_t(blockIdx.x) * FRAMES_PER_BLOCK + warp_index();
    if (index >= b.problem.batch * b.problem.frames) return;
    const Frame frame = frame_of(b.problem, index);
    compute_row<In, WARP, true>(b, frame.utterance, frame.frame, RowTeam<WARP>{nullptr});
}

template <typename In, bool IS_HELD>
__global__ void __launch_bounds__(ROW_THREADS, MOST_BLOCKS<In>) block_rows_kernel(const __grid_constant__ Batch b) {
    __shared__ uint64_t partial[ROW_THREADS / WARP];
    const Frame frame = frame_of(b.problem, int64_t(blockIdx.x));
    compute_row<In, ROW_THREADS, IS_HELD>(b, frame.utterance, frame.frame, RowTeam<ROW_THREADS>{partial});
}

}  // namespace ctc_cuda
