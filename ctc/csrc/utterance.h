// One utterance of a batch, as the kernels see it, and the scratch memory that they need for it.
#pragma once

#include <stdint.h>

struct Utterance {
    const void* logits;
    void* gradient;  // null: the loss alone
    const void* labels;
    int64_t logits_stride;  // from frame to frame, in elements; so is the next
    int64_t gradient_stride;
    int64_t frames;
    int64_t padded_frames;
    int64_t classes;
    int64_t blank;
    int64_t label_count;
    int32_t type;  // ctcType
    bool labels_are_64_bit;
    bool past_caches;     // the gradient is larger than the caches
    bool force_extended;  // for tests: never the linear lattice
    double scale;      // of the gradient
    double label_smoothing;
    double entropy_weight;
};

// Slots number the classes that an utterance's lattice may emit: blank and its distinct labels in order of appearance,
// or, in a small alphabet, simply all classes.
struct Scratch {
    int32_t* slot_of_class;  // [classes], set for the classes of slots alone
    int32_t* class_of_slot;  // [slots]
    int32_t* slot_of_label;  // [labels]
    void* mean;              // [slots]
    void* unused;            // [slots]: 1 where no label and no blank is, else 0
    void* row;               // [classes]
    void* emissions;         // [frames, slots]
    void* occupancies;       // [frames, slots]; takes the place of the emissions unless they serve the softmax too
    void* inverse_sum;       // [frames]: what the occupancies are to be multiplied with
    void* lattice;           // the rest
    int64_t lattice_bytes;
};

constexpr int64_t SCRATCH_ALIGNMENT = 64;
constexpr int64_t PADDING = 16;  // lanes of the widest vector, so that every instruction set needs the same memory
// Longer lattices are computed in the extended range, which keeps only checkpoints: it is slower by less than memory is.
constexpr int64_t LARGEST_LINEAR_LATTICE = int64_t(64) << 20;

// In an alphabet of up to this many classes the lattice reads whole frames, and the softmax takes its exponentials.
constexpr int64_t SMALL_ALPHABET = 64;

static inline int64_t padded(int64_t n) { return (n + PADDING - 1) / PADDING * PADDING; }

// Frames between two checkpoints of the extended lattice: about the square root, which needs the least memory.
static inline int64_t checkpoint_distance(int64_t frames) {
    int64_t distance = 1;
    while (distance * distance < frames) distance++;
    return distance;
}

static inline int64_t linear_lattice_bytes(int64_t frames, int64_t labels, int64_t slots) {
    // Two rows of states a frame; working rows: skip, slots, two of alpha, four each of occupancies and of
    // emissions; the occupancies of four frames by slot.
    return ((2 * frames + 12) * padded(labels + 1) + 4 * padded(slots)) * int64_t(sizeof(float));
}

static inline int64_t extended_lattice_bytes(int64_t frames, int64_t labels, int64_t slots) {
    const int64_t distance = checkpoint_distance(frames);
    const int64_t rows = distance + (frames + distance - 1) / distance + 1;
    return ((4 * rows + 14) * padded(labels + 1) + 2 * padded(slots)) * int64_t(sizeof(double));
}

// Lays the scratch out from `base`, whose alignment is SCRATCH_ALIGNMENT; returns its size. `base` may be null.
static inline int64_t lay_out(Scratch* scratch, char* base, int64_t frames, int64_t classes, int64_t labels,
                              int64_t real_bytes) {
    int64_t used = 0;
    const auto take = [&](int64_t bytes) {
        char* p = base ? base + used : nullptr;
        used += (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
        return p;
    };
    const bool is_small = classes <= SMALL_ALPHABET;
    const int64_t slots = labels + 1 < classes && !is_small ? labels + 1 : classes;
    scratch->slot_of_class = (int32_t*)take(classes * 4);
    scratch->class_of_slot = (int32_t*)take(slots * 4);
    scratch->slot_of_label = (int32_t*)take(labels * 4);
    scratch->mean = take(padded(slots) * real_bytes);
    scratch->unused = take(padded(slots) * real_bytes);
    scratch->row = take(padded(classes) * real_bytes);
    scratch->emissions = take(frames * padded(slots) * real_bytes);
    scratch->occupancies = is_small ? take(frames * padded(slots) * real_bytes) : scratch->emissions;
    scratch->inverse_sum = take(frames * real_bytes);
    // Enough for any shorter utterance to take the path that it would take alone.
    const int64_t linear = real_bytes == sizeof(float) ? linear_lattice_bytes(frames, labels, slots) : 0;
    const int64_t capped = linear < LARGEST_LINEAR_LATTICE ? linear : LARGEST_LINEAR_LATTICE;
    const int64_t extended = extended_lattice_bytes(frames, labels, slots);
    scratch->lattice_bytes = capped > extended ? capped : extended;
    scratch->lattice = take(scratch->lattice_bytes);
    return used;
}

// Minus the log-probability of the labels; writes the gradient. Labels are valid. One for each instruction set.
typedef double (*UtteranceLoss)(const Utterance& utterance, const Scratch& scratch);

namespace generic { double utterance_loss(const Utterance&, const Scratch&); }
namespace avx2 { double utterance_loss(const Utterance&, const Scratch&); }
namespace avx512 { double utterance_loss(const Utterance&, const Scratch&); }
