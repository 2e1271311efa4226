// Forced alignment by Viterbi on CUDA; the recurrence is that of decode_align.cpp, ties included. A warp a frame finds the
// normalisers and gathers the emissions; then a block an utterance goes forward, one barrier a frame, and one of its
// threads back.
#pragma once

#include "cuda_scores.cuh"

namespace ctc_cuda {

enum Origin : uint8_t { FROM_BLANK = 1, FROM_LABEL_BEFORE = 2, BLANK_FROM_LABEL = 4 };  // 0: stayed

// Labels that do not exist are impossible.
static __device__ inline bool is_label(const Alignment& a, int64_t label) {
    return label >= 0 && label < a.scores.vocabulary && label != a.blank;
}

template <typename In>
__global__ void __launch_bounds__(ROWS_PER_BLOCK* WARP, 4) gather_kernel(const __grid_constant__ Alignment a) {
    const int64_t index = int64_t(blockIdx.x) * ROWS_PER_BLOCK + warp_index();
    if (index >= a.scores.batch * a.scores.frames) return;
    const int64_t item = index / a.scores.frames, t = index % a.scores.frames;
    if (t >= a.frames[item]) return;
    const In* const row = scores_at<In>(a.scores, item, t);
    const auto best = best_label(row, a.scores.vocabulary);
    const double norm = best.has_nan ? double(NAN) : double(best.value) + log_exp_sum(row, a.scores.vocabulary, best.value);
    const int32_t* const labels = a.targets + item * a.width;
    const int64_t length = bounded(a.lengths[item], a.width);
    double* const to = a.work.emissions + index * (a.width + 1);
    for (int64_t i = lane_index(); i < length; i += WARP)
        to[i] = is_label(a, labels[i]) ? double(to_real(row[labels[i]])) - norm : -double(INFINITY);
    if (lane_index() == 0) to[length] = double(to_real(row[a.blank])) - norm;
}

// One utterance. Rows of states begin with a label that is impossible: place i + 1 belongs to label i.
class Path {
  public:
    __device__ Path(const Alignment& a, int64_t item, double* rows)
        : frames(bounded(a.frames[item], a.scores.frames)), length(bounded(a.lengths[item], a.width)),
          emission_stride(a.width + 1), labels(a.targets + item * a.width),
          emissions(a.work.emissions + item * a.scores.frames * emission_stride),
          origins(a.work.origins + item * a.scores.frames * emission_stride), rows(rows), row_size(a.width + 2) {}

    // Leaves where every state came from; all threads know the total behind it.
    __device__ double go_forward() {
        const double impossible = -double(INFINITY);
        for (int64_t i = threadIdx.x; i < length + 2; i += ALIGN_THREADS) {
            blanks(0)[i] = i == 1 ? 0 : impossible;  // before the first frame: a blank follows, or a step into label 0
            blanks(1)[i] = states(0)[i] = states(1)[i] = impossible;
        }
        __syncthreads();
        for (int64_t t = 0; t < frames; t++) {
            for (int64_t i = threadIdx.x; i <= length; i += ALIGN_THREADS) advance(t, i);
            __syncthreads();
        }
        const double blank = blanks(frames)[length + 1], label = states(frames)[length];
        ends_in_label = length > 0 && label > blank;
        return ends_in_label ? label : blank;
    }

    // For one thread: reads the path from its end and adds up what each label got.
    __device__ void go_back(int64_t* start, int64_t* end, double* log_probs) const {
        bool in_label = ends_in_label;
        int64_t i = in_label ? length - 1 : length;
        for (int64_t t = frames - 1; t >= 0; t--) {
            const uint8_t origin = origins[t * emission_stride + i];
            if (!in_label) {
                in_label = origin & BLANK_FROM_LABEL;
                i -= in_label;
                continue;
            }
            if (end[i] == 0) end[i] = t + 1;
            start[i] = t;
            log_probs[i] += emissions[t * emission_stride + i];
            in_label = (origin & 3) != FROM_BLANK;
            i -= (origin & 3) == FROM_LABEL_BEFORE;
        }
    }

    int64_t frames, length;

  private:
    // Before frame t; two rows take turns.
    __device__ double* blanks(int64_t t) const { return rows + 2 * (t % 2) * row_size; }
    __device__ double* states(int64_t t) const { return blanks(t) + row_size; }

    __device__ void advance(int64_t t, int64_t i) const {
        const double* const e = emissions + t * emission_stride;
        const double *const b = blanks(t), *const l = states(t);
        const double stayed = l[i + 1], blank = b[i + 1], before = l[i];
        const bool may_skip = i > 0 && i < length && labels[i] != labels[i - 1];
        const bool blank_wins = blank > stayed;
        const double best = blank_wins ? blank : stayed;
        const bool skip_wins = may_skip && before > best;
        const bool label_ends = before > blank;
        if (i < length) states(t + 1)[i + 1] = (skip_wins ? before : best) + e[i];
        blanks(t + 1)[i + 1] = (label_ends ? before : blank) + e[length];
        const int origin = skip_wins ? FROM_LABEL_BEFORE : blank_wins ? FROM_BLANK : 0;
        origins[t * emission_stride + i] = uint8_t(origin | (label_ends ? BLANK_FROM_LABEL : 0));
    }

    int64_t emission_stride;
    const int32_t* labels;
    const double* emissions;
    uint8_t* origins;
    double* rows;
    int64_t row_size;
    bool ends_in_label = false;
};

template <typename> __global__ void __launch_bounds__(ALIGN_THREADS, 4) align_kernel(const __grid_constant__ Alignment a, bool is_shared) {
    CTC_DYNAMIC_SHARED(shared);
    const int64_t item = blockIdx.x, first = item * a.width;
    Path path(a, item, is_shared ? (double*)shared : a.work.rows + item * 4 * (a.width + 2));
    for (int64_t i = threadIdx.x; i < a.width; i += ALIGN_THREADS) {
        a.start[first + i] = a.end[first + i] = 0;
        a.log_probs[first + i] = 0;
    }
    const double total = path.go_forward();
    if (threadIdx.x != 0) return;
    a.totals[item] = total;
    if (isfinite(total)) path.go_back(a.start + first, a.end + first, a.log_probs + first);
}

}  // namespace ctc_cuda
