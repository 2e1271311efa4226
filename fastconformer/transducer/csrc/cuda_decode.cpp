// Decoding on CUDA: what the C entry points of transducer_decode.h and transducer_beam.h launch.
#include <new>

#include "beam_slot.h"
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

// The prediction network of those that emitted a label, `most` at most.
template <typename Weight> bool predict(const Job& job, int64_t most, Stream stream) {
    const Grid cells = grid_of(job.hidden / PANEL, most, VECTORS, GATES * GATE_SHARES);
    bool are_launched = true;
    for (int layer = 0; layer < job.layers; layer++)
        are_launched = are_launched && launch<cell_kernel<Weight>>(cells, stream, job, layer);
    return are_launched && launch<project_kernel<Weight>>(grid_of(job.joint / PANEL, most, VECTORS, SHARES), stream, job);
}

template <typename Weight> bool score(const Job& job, int64_t most, Stream stream) {
    const size_t shared = size_t(VECTORS * job.joint) * sizeof(float);
    return launch<score_kernel<Weight>>(grid_of(job.logit_width / PANEL, most, VECTORS / job.batch.window, SHARES, shared), stream, job);
}

// ---- Beam search

bool is_valid(const transducerNetwork* n, const transducerBeamOptions* o, const transducerDeviceBeam* b) {
    return is_valid(n) && n->encoder % PANEL == 0 && n->layers <= TRANSDUCER_MOST_LAYERS &&
           padded(n->joint) <= TRANSDUCER_MOST_JOINT && n->duration_count <= TRANSDUCER_MOST_DURATIONS &&
           (n->duration_count == 0 || n->durations[n->duration_count - 1] <= TRANSDUCER_LONGEST_JUMP) && o &&
           o->beam >= 1 && o->n_best >= 1 && o->n_best <= o->beam && o->drop <= 0 && o->nodes > 2 * o->beam &&
           o->nodes <= INT32_MAX / 4 && o->max_symbols >= 1 && o->internal_weight >= 0 && b && b->batch >= 0 &&
           b->frames >= 0 && b->frames <= INT32_MAX / 8 && b->frames <= b->capacity / o->max_symbols &&
           b->weight_type != TRANSDUCER_FLOAT64 &&
           double(b->batch) * fmax(fmax(double(b->frames) * PANEL, double(width_of_logits(*n)) * double(o->beam)), 4096) <= INT32_MAX;
}

// The parts of a search, in a workspace that may be null, and the bytes of this.
BeamJob beam_job_of(const transducerNetwork& n, const transducerBeamOptions& o, const transducerDeviceBeam& b, int64_t* bytes) {
    using namespace transducer_beam_search;
    const Sizes sizes{n, o};
    BeamJob own = {};
    own.net = n;
    own.options = o;
    own.beam = b;
    own.predictions = sizes.predictions();
    Arena none(nullptr), arena(b.workspace);
    none.take<Slot>(1);
    Slot slot{};
    slot.take_tables(none, sizes);
    slot.take_room(none, sizes);
    own.bytes_each = none.used();
    const int64_t states = b.batch * own.predictions, rows = b.batch * o.beam;
    transducerDeviceBatch batch = {};
    batch.batch = states;
    batch.frames = b.frames;
    batch.window = 1;
    batch.weight_type = b.weight_type;
    batch.encoded = b.encoded;
    batch.frame_counts = b.frame_counts;
    batch.counts = b.counts;
    batch.projected = arena.take<float>(b.batch * b.frames * sizes.joint());
    batch.states = arena.take<float>(states * state_floats(n));
    batch.pending = arena.take<float>(states * n.layers * padded(n.hidden));
    batch.emitted = arena.take<int32_t>(states);
    batch.is_active = arena.take<int32_t>(states);
    own.job = job_of(n, batch);
    own.memory = arena.take<char>(b.batch * own.bytes_each);
    own.which = arena.take<int32_t>(b.batch * sizes.classes());
    own.before = arena.take<int32_t>(states);
    own.fused = arena.take<float>(b.batch * sizes.internal_floats());
    own.internals = arena.take<float>(states * sizes.internal_floats());
    own.row_is_active = arena.take<int32_t>(rows);
    own.row_frames = arena.take<int32_t>(rows);
    own.row_states = arena.take<int32_t>(rows);
    own.logits = arena.take<float>(rows * sizes.logit_width());
    *bytes = arena.used();
    return own;
}

// What the network says of new sequences, `most` at most.
template <typename Weight> bool ask(const BeamJob& own, int64_t most, Stream stream) {
    if (!predict<Weight>(own.job, most, stream)) return false;
    if (own.options.internal_weight == 0) return true;
    Job internal = own.job;
    internal.rows_each = 1;
    internal.logit_width = own.job.classes;
    internal.batch.logits = own.internals;
    return score<Weight>(internal, most, stream) &&
           launch<internal_kernel<>>(grid_of(1, own.job.batch.batch, 1, 1), stream, own);
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
               (batch->frames == 0 || launch<encode_kernel<Weight>>(encoding, stream, job)) && predict<Weight>(job, batch->batch, stream);
    });
    return are_launched ? TRANSDUCER_SUCCESS : TRANSDUCER_EXECUTION_FAILED;
}

transducerStatus transducer_decode_steps_cuda(const transducerNetwork* network, const transducerDeviceBatch* batch,
                                              int64_t steps, Stream stream) {
    if (!is_valid(network, batch) || steps < 0) return TRANSDUCER_INVALID_VALUE;
    if (batch->batch == 0) return TRANSDUCER_SUCCESS;
    const Job job = job_of(*network, *batch);
    const Grid following = grid_of(1, batch->batch, FOLLOWERS, FOLLOWERS);
    const bool are_launched = for_weights(job, [&](auto weight) {
        using Weight = decltype(weight);
        bool all = true;
        for (int64_t i = 0; all && i < steps; i++)
            all = score<Weight>(job, batch->batch, stream) &&
                  (batch->scorers ? launch<fused_follow_kernel<Weight>>(following, stream, job)
                                  : launch<follow_kernel<>>(following, stream, job)) &&
                  predict<Weight>(job, batch->batch, stream);
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

transducerStatus transducer_beam_workspace_cuda(const transducerNetwork* network, const transducerBeamOptions* options,
                                                const transducerDeviceBeam* beam, size_t* bytes) {
    if (!is_valid(network, options, beam) || !bytes) return TRANSDUCER_INVALID_VALUE;
    int64_t needed;
    beam_job_of(*network, *options, *beam, &needed);
    *bytes = size_t(needed);
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_beam_begin_cuda(const transducerNetwork* network, const transducerBeamOptions* options,
                                            const transducerDeviceBeam* beam, Stream stream) {
    if (!is_valid(network, options, beam) || !beam->workspace) return TRANSDUCER_INVALID_VALUE;
    if (beam->batch == 0) return TRANSDUCER_SUCCESS;
    int64_t bytes;
    const BeamJob own = beam_job_of(*network, *options, *beam, &bytes);
    const Grid encoding = grid_of(own.job.joint / PANEL * beam->batch, beam->frames, VECTORS, SHARES);
    const bool are_launched = for_weights(own.job, [&](auto weight) {
        using Weight = decltype(weight);
        return launch<beam_start_kernel<>>(grid_of(1, beam->batch, 1, 1), stream, own) &&
               (beam->frames == 0 || launch<encode_kernel<Weight>>(encoding, stream, own.job)) &&
               ask<Weight>(own, beam->batch, stream) &&
               launch<beam_kernel<>>(grid_of(1, beam->batch, 1, 1), stream, own, true);
    });
    return are_launched ? TRANSDUCER_SUCCESS : TRANSDUCER_EXECUTION_FAILED;
}

transducerStatus transducer_beam_steps_cuda(const transducerNetwork* network, const transducerBeamOptions* options,
                                            const transducerDeviceBeam* beam, int64_t steps, Stream stream) {
    if (!is_valid(network, options, beam) || !beam->workspace || steps < 0) return TRANSDUCER_INVALID_VALUE;
    if (beam->batch == 0) return TRANSDUCER_SUCCESS;
    int64_t bytes;
    const BeamJob own = beam_job_of(*network, *options, *beam, &bytes);
    const int64_t most = beam->batch * options->beam;
    Job rows = own.job;
    rows.batch.batch = most;
    rows.batch.is_active = own.row_is_active;
    rows.batch.logits = own.logits;
    rows.rows_each = options->beam;
    rows.row_frames = own.row_frames;
    rows.row_states = own.row_states;
    const bool are_launched = for_weights(own.job, [&](auto weight) {
        using Weight = decltype(weight);
        bool all = true;
        for (int64_t i = 0; all && i < steps; i++)
            all = score<Weight>(rows, most, stream) &&
                  launch<beam_kernel<>>(grid_of(1, beam->batch, 1, 1), stream, own, false) && ask<Weight>(own, most, stream);
        return all;
    });
    return are_launched ? TRANSDUCER_SUCCESS : TRANSDUCER_EXECUTION_FAILED;
}
