// The positions of a transcript grouped by class, so that the occupancies of a class are added up in a fixed order.
#pragma once

#include "cuda_ctc.h"
#include "cuda_portable.cuh"

namespace ctc_cuda {

// Sorts positions by counting, for every one, how many go before it: quadratic, but it runs beside the lattice, on warps
// that have nothing else to do. Called by `threads` threads, a whole number of warps, who have `barrier` to themselves.
static __device__ void group_by_class(const Batch& b, int64_t n, int64_t count, int thread, int threads,
                                      unsigned barrier) {
    const Workspace& w = b.workspace;
    const int64_t longest = b.problem.longest_target;
    const int32_t* const labels = labels_of(b, n);
    int32_t* const order = w.order + n * longest;
    int32_t* const class_begin = w.class_begin + n * (longest + 1);
    int32_t* const class_of = w.class_of + n * longest;
    for (int64_t i = thread; i < count; i += threads) {
        const int32_t label = labels[i];
        int32_t rank = 0;
        for (int64_t j = 0; j < i; j++) rank += labels[j] <= label;
        for (int64_t j = i + 1; j < count; j++) rank += labels[j] < label;
        order[rank] = int32_t(i);
    }
    named_barrier(barrier, unsigned(threads));
    if (thread >= WARP) return;
    int32_t classes = 0;
    for (int64_t first = 0; first < count; first += WARP) {
        const int64_t rank = first + thread;
        const int32_t label = rank < count ? labels[order[rank]] : -1;
        const bool begins = rank < count && (rank == 0 || labels[order[rank - 1]] != label);
        const unsigned beginnings = __ballot_sync(ALL_LANES, begins);
        if (begins) {
            const int32_t number = classes + __popc(beginnings & ((1u << thread) - 1));
            class_begin[number] = int32_t(rank);
            class_of[number] = label;
        }
        classes += __popc(beginnings);
    }
    if (thread == 0) {
        class_begin[classes] = int32_t(count);
        w.outcomes[n].distinct = classes;
    }
}

}  // namespace ctc_cuda
