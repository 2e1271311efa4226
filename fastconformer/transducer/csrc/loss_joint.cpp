// The C entry points of the loss fused with the joint.
#include <string.h>

#include "loss_problem.h"
#include "network.h"

namespace {

int64_t panel_floats(const transducerProblem& p, const transducerJoint& joint) { return padded(outputs(p)) * joint.width; }

// Weights and bias, packed once; then scratch of every thread.
struct JointMemory {
    size_t weights, bias, bands, hidden, logits, positions, of_thread;

    JointMemory(const transducerProblem& p, const transducerJoint& joint)
        : weights(aligned(size_t(panel_floats(p, joint)) * sizeof(float))),
          bias(aligned(size_t(padded(outputs(p))) * sizeof(float))), bands(aligned(size_t(p.frames) * sizeof(Band))),
          hidden(aligned(size_t(JOINT_ROWS * padded(joint.width)) * sizeof(float))),
          logits(aligned(size_t(JOINT_ROWS * padded(outputs(p))) * sizeof(float))),
          positions(aligned(size_t(JOINT_ROWS) * sizeof(int32_t))), of_thread(bands + hidden + logits + positions) {}

    size_t bytes(int threads) const { return weights + bias + of_thread * size_t(threads); }
};

bool is_valid_joint(const transducerProblem* p, const transducerJoint* joint) {
    return p && joint && is_valid_batch(*p) && p->type == TRANSDUCER_FLOAT32 && joint->width >= 1 &&
           joint->activation >= TRANSDUCER_RELU && joint->activation <= TRANSDUCER_SIGMOID;
}

// Rows of `joint.weights` become columns of panels.
void pack(const transducerJoint& joint, int64_t count, float* weights, float* bias) {
    const int64_t width = joint.width;
    for (int64_t panel = 0; panel < padded(count); panel += PANEL)
        for (int64_t k = 0; k < PANEL; k++) {
            const float* const from = joint.weights + (panel + k) * width;
            float* const to = weights + panel * width + k;
            for (int64_t j = 0; j < width; j++) to[j * PANEL] = panel + k < count ? from[j] : 0;
            bias[panel + k] = panel + k < count ? joint.bias[panel + k] : 0;
        }
}

// Numbers that are not finite make the results so.
void measure(const transducerJoint& joint, int64_t count, double* largest_factor, double* largest_bias) {
    for (int64_t k = 0; k < count; k++) {
        double sum = 0;
        for (int64_t j = 0; j < joint.width; j++) sum += fabs(double(joint.weights[k * joint.width + j]));
        const double bias = fabs(double(joint.bias[k]));
        *largest_factor = sum <= *largest_factor ? *largest_factor : sum;
        *largest_bias = bias <= *largest_bias ? *largest_bias : bias;
        if (!isfinite(sum + bias)) *largest_bias = INFINITY;
    }
}

}  // namespace

transducerStatus transducer_joint_workspace_bytes(const transducerProblem* problem, const transducerJoint* joint,
                                                  size_t* bytes) {
    if (!is_valid_joint(problem, joint) || !bytes) return TRANSDUCER_INVALID_VALUE;
    *bytes = JointMemory(*problem, *joint).bytes(worthwhile_threads(*problem));
    return TRANSDUCER_SUCCESS;
}

transducerStatus transducer_joint_losses(const transducerProblem* problem, const transducerJoint* joint,
                                         const int64_t* targets, const int64_t* frame_counts,
                                         const int64_t* label_counts, double* losses, void* lattices, int64_t* kept,
                                         int64_t* kept_counts, void* workspace) {
    if (!is_valid_joint(problem, joint)) return TRANSDUCER_INVALID_VALUE;
    const transducerProblem& p = *problem;
    if (p.batch == 0) return TRANSDUCER_SUCCESS;
    const bool has_inputs = joint->weights && joint->bias && joint->predicted && (joint->encoded || p.frames == 0);
    if (!has_inputs || (!targets && p.positions > 1) || !frame_counts || !label_counts || !losses ||
        !is_aligned(lattices) || !is_aligned(workspace) || (!kept && p.frames > 0) || !kept_counts ||
        first_invalid(p, targets, frame_counts, label_counts) >= 0)
        return TRANSDUCER_INVALID_VALUE;
    const JointMemory memory(p, *joint);
    char* const base = (char*)workspace;
    float *const weights = (float*)base, *const bias = (float*)(base + memory.weights);
    pack(*joint, outputs(p), weights, bias);
    double largest_factor = 0, largest_bias = 0;
    measure(*joint, outputs(p), &largest_factor, &largest_bias);
    for_utterances(p, [&](int64_t n, int thread) {
        char* lattice = (char*)lattices;
        int64_t* own_kept = kept;
        for (int64_t i = 0; i < n; i++) {
            lattice += lattice_bytes(p, frame_counts[i], label_counts[i]);
            own_kept += frame_counts[i] * (label_counts[i] + 1);
        }
        char* const scratch = base + memory.weights + memory.bias + memory.of_thread * size_t(thread);
        char* const rows = scratch + memory.bands;
        const JointScratch of_thread = {(Band*)scratch, (float*)rows, (float*)(rows + memory.hidden),
                                        (int32_t*)(rows + memory.hidden + memory.logits)};
        const JointRows own = {joint->encoded + n * joint->encoded_batch_stride,
                               joint->predicted + n * joint->predicted_batch_stride,
                               joint->encoded_frame_stride,
                               joint->predicted_position_stride,
                               joint->width,
                               weights,
                               bias,
                               joint->activation,
                               largest_factor,
                               largest_bias};
        const Cells cells = cells_of(p, targets + n * p.targets_stride, frame_counts[n], label_counts[n], lattice);
        const double log_probability = kernels_of(p).walk_joint(cells, own, of_thread);
        losses[n] = loss_of(p, log_probability);
        kept_counts[n] = keep_cells(cells, log_probability, of_thread.bands, own_kept);
    });
    return TRANSDUCER_SUCCESS;
}
