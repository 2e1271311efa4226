// Greedy decoding on CUDA: what the C entry points of transducer_decode.h launch.
#include <new>

#include "cuda_driver.h"
#include "cuda_transducer.h"
#include "decode_scorer.h"
#include "network.h"

using namespace transducer_cuda;

namespace {

bool is_valid(const transducerNetwork* n, const transducerDeviceBatch* b) {
    if (!is_valid(n) || !b || n->encoder % PANEL || n->layers > TRANSDUCER_MOST_LAYERS || padded(n->joint) > TRANSDUCER_MOST_JOINT ||
        n->duration_count > TRANSDUCER_MOST_DURATIONS)
        return false;
    const bool has_window = b->window == 1 || b->window == 2 || b->window == 4 || b->window == 8;
    // More than the blocks of any kernel: of encode_kernel, whose panels are 32 at most, and of the others.
    const double widest = fmax(double(width_of_logits(*n)), double(padded(n->hidden)));
    const double blocks = double(b->batch) * fmax(double(b->frames) * double(PANEL), widest);
    return b->batch >= 0 && b->batch <= INT32_MAX / 4096 && b->frames >= 0 && blocks <= INT32_MAX &&
           b->max_symbols >= 1 && has_window && b->weight_type != TRANSDUCER_FLOAT64 && (!b->scorers || b->scorer_states) && b->frames <= b->capacity / b->max_symbols;
}

Job job_of(const transducerNetwork& n, const transducerDeviceBatch& b) {
    Job job = {};
    job.batch = b;
    job.classes = padded(n.classes);
    job.encoder = n.encoder;
    job.hidden = padded(n.hidden);
    job.joint = padded(n.joint);
    job.layers = n.layers;
    job.logit_width = width_of_logits(n);
    job.state_floats = state_floats(n);
    job.duration_count = n.duration_count;
    for (int64_t i = 0; i < n.duration_count; i++) job.durations[i] = n.durations[i];
    for (int64_t i = 0; i < n.layers; i++) {
        job.gate_weights[i] = n.gate_weights[i];
        job.gate_biases[i] = n.gate_biases[i];
    }
    job.first_gates = n.first_gates;
    job.encoder_weights = n.encoder_weights;
    job.encoder_bias = n.encoder_bias;
    job.prediction_weights = n.prediction_weights;
    job.output_weights = n.output_weights;
    job.output_bias = n.output_bias;
    job.activation = n.activation;
    job.blank = int32_t(n.classes - 1);
    return job;
}

// So many blocks for every group of utterances.
Grid grid_of(int64_t of_a_group, int64_t count, int64_t in_a_group, int warps, size_t shared_bytes = 0) {
    return {unsigned(of_a_group) * blocks_for(count, in_a_group), unsigned(warps * WARP), shared_bytes};
}

// use(In()) for the type of packed weights.
template <typename Use> bool for_weights(const Job& job, Use use) {
    switch (job.batch.weight_type) {
        case TRANSDUCER_FLOAT16: return use(Half());
        case TRANSDUCER_BFLOAT16: return use(Bfloat());
        default: return use(float());
    }
}

// The prediction network of those that emitted a label.
template <typename Weight> bool predict(const Job& job, Stream stream) {
    const int64_t batch = job.batch.batch;
    const Grid cells = grid_of(job.hidden / PANEL, batch, VECTORS, GATES * GATE_SHARES);
    bool are_launched = true;
    for (int layer = 0; layer < job.layers; layer++)
        are_launched = are_launched && launch<cell_kernel<Weight>>(cells, stream, job, layer);
    return are_launched && launch<project_kernel<Weight>>(grid_of(job.joint / PANEL, batch, VECTORS, SHARES), stream, job);
}

}  // namespace

transducerStatus transducer_decode_begin_cuda(const transducerNetwork* network, const transducerDeviceBatch* batch,
                                              Stream stream) {
    if (!is_valid(network, batch)) return TRANSDUCER_INVALID_VALUE;
    if (batch->batch == 0) return TRANSDUCER_SUCCESS;
    const Job job = job_of(*network, *batch);
    const Grid encoding = grid_of(job.joint / PANEL * batch->batch, batch->frames, VECTORS, SHARES);
    const bool are_launched = for_weights(job, [&](auto weight) {
        using Weight = decltype(weight);
        return launch<start_kernel<>>(grid_of(1, batch->batch, 1, 1), stream, job) &&
               (batch->frames == 0 || launch<encode_kernel<Weight>>(encoding, stream, job)) && predict<Weight>(job, stream);
    });
    return are_launched ? TRANSDUCER_SUCCESS : TRANSDUCER_EXECUTION_FAILED;
}

transducerStatus transducer_decode_steps_cuda(const transducerNetwork* network, const transducerDeviceBatch* batch,
                                              int64_t steps, Stream stream) {
    if (!is_valid(network, batch) || steps < 0) return TRANSDUCER_INVALID_VALUE;
    if (batch->batch == 0) return TRANSDUCER_SUCCESS;
    const Job job = job_of(*network, *batch);
    const size_t shared = size_t(VECTORS * job.joint) * sizeof(float);
    const Grid scoring = grid_of(job.logit_width / PANEL, batch->batch, VECTORS / batch->window, SHARES, shared);
    const Grid following = grid_of(1, batch->batch, FOLLOWERS, FOLLOWERS);
    const bool are_launched = for_weights(job, [&](auto weight) {
        using Weight = decltype(weight);
        bool all = true;
        for (int64_t i = 0; all && i < steps; i++)
            all = launch<score_kernel<Weight>>(scoring, stream, job) &&
                  (batch->scorers ? launch<fused_follow_kernel<Weight>>(following, stream, job)
                                  : launch<follow_kernel<>>(following, stream, job)) &&
                  predict<Weight>(job, stream);
        return all;
    });
    return are_launched ? TRANSDUCER_SUCCESS : TRANSDUCER_EXECUTION_FAILED;
}

transducerStatus transducer_scorer_for_device(const ctc_scorer* scorer, const ctc_scorer* on_device, int64_t vocabulary,
                                              void* made) {
    if (!scorer || !on_device || vocabulary < 1 || !made) return TRANSDUCER_INVALID_VALUE;
    new (made) ctc_decode::Scorer(ctc_decode::Scorer(scorer, vocabulary).on(on_device));
    return TRANSDUCER_SUCCESS;
}
