// The C entry points of the decoder: checks, the choice of the instruction set, threads.
#if defined(_OPENMP)
#include <omp.h>
#endif

#include "beam.h"
#include "job.h"
#include "processor.h"

namespace {

constexpr uintptr_t ALIGNMENT = 64;

bool is_valid(const transducerDecodeOptions* o) {
    return o && o->max_symbols >= 1 && o->slots >= 1 && o->window >= 1 && o->window_rows >= 1 && o->threads >= 1 &&
           o->internal_weight >= 0 && o->internal_most >= 0 &&
           (o->instruction_set == TRANSDUCER_AUTOMATIC || is_supported(InstructionSet(o->instruction_set)));
}

void decode_one_thread(const DecodeJob& job, void* memory) {
    switch (chosen(InstructionSet(job.options.instruction_set))) {
#if defined(NATIVE_HAS_AVX512)
        case InstructionSet::AVX512: return avx512::decode(job, memory);
#endif
#if defined(NATIVE_HAS_AVX2)
        case InstructionSet::AVX2: return avx2::decode(job, memory);
#endif
        default: return generic::decode(job, memory);
    }
}

}  // namespace

transducerStatus transducer_state_floats(const transducerNetwork* network, int64_t* count) {
    if (!is_valid(network) || !count) return TRANSDUCER_INVALID_VALUE;
    const transducerDecodeOptions unused = {};
    *count = DecodeSizes{*network, unused}.state_floats();
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_decode_workspace(const transducerNetwork* network, const transducerDecodeOptions* options,
                                             size_t* bytes) {
    if (!is_valid(network) || !is_valid(options) || !bytes) return TRANSDUCER_INVALID_VALUE;
    *bytes = size_t(DecodeSizes{*network, *options}.memory_bytes()) * size_t(options->threads);
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_decode(const transducerNetwork* network, const transducerDecodeOptions* options,
                                   const float* encoded, int64_t batch, int64_t batch_stride, int64_t frame_stride,
                                   const int64_t* frame_counts, int64_t capacity, int32_t* tokens, int32_t* frames,
                                   int32_t* durations, float* confidences, float* entropies, int64_t* counts,
                                   float* states, transducerPosition* positions, const ctc_scorer* const* scorers,
                                   int32_t* scorer_states, void* workspace, int64_t* invalid) {
    if (invalid) *invalid = -1;
    if (!is_valid(network) || !is_valid(options) || batch < 0 ||
        (scorers && options->internal_weight > 0 && !network->output_rows) || !states != !positions || capacity < 0 ||
        (scorer_states && !positions))
        return TRANSDUCER_INVALID_VALUE;
    if (batch == 0) return TRANSDUCER_SUCCESS;
    if (!frame_counts || !counts || !workspace || (uintptr_t)workspace % ALIGNMENT != 0)
        return TRANSDUCER_INVALID_VALUE;
    for (int64_t n = 0; n < batch; n++) {
        const bool has_buffers = frame_counts[n] == 0 || (encoded && tokens && frames && confidences);
        const bool is_known = !positions || (positions[n].next_frame >= 0 && positions[n].symbols >= 0);
        if (frame_counts[n] < 0 || frame_counts[n] > capacity / options->max_symbols || !has_buffers || !is_known) {
            if (invalid) *invalid = n;
            return TRANSDUCER_INVALID_VALUE;
        }
    }
    int64_t next = 0, with_nan = batch;
    const DecodeJob job = {{*network, *options}, encoded,  batch,      batch_stride, frame_stride, frame_counts,
                           capacity,             tokens,   frames,     durations,    confidences,  entropies,
                           counts,               states,   positions,  scorers,      scorer_states, &next,     &with_nan};
    const int threads = int(options->threads < batch ? options->threads : batch);
    if (threads == 1) {
        decode_one_thread(job, workspace);
    } else {
#if defined(_OPENMP)
        const int64_t bytes = job.memory_bytes();
#pragma omp parallel num_threads(threads)
        decode_one_thread(job, (char*)workspace + bytes * omp_get_thread_num());
#else
        decode_one_thread(job, workspace);
#endif
    }
    if (with_nan == batch) return TRANSDUCER_SUCCESS;
    if (invalid) *invalid = with_nan;
    return TRANSDUCER_INVALID_VALUE;
}
