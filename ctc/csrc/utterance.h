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
    bool may_have_stars;  // among the labels
    bool underflows;      // CTC_UNDERFLOW
    int64_t star;
    const uint8_t* stars;  // null, or [labels + 1]: 1 where a star stood before the label, or behind the last
    double scale;      // of the gradient
    double label_smoothing;
    double entropy_weight;
};

// Slots number the classes that an utterance's lattice may emit: blank and its distinct labels in order of appearance,
// or, in a small alphabet, simply all classes.
// Emissions and occupancies lie in groups of four frames, in quads: frame t, slot s at `group_stride * (t / GROUP) +
// GROUP * s + t % GROUP`. Behind the last slot of a group is one more quad: emissions have 0 there, the slot of nobody;
// occupancies have what those of each frame are to be multiplied with. With stars there is a second one: emissions are
// to be multiplied with it where that of a star is 1, and occupancies have the probability of being in none.
struct Scratch {
    int32_t* slot_of_class;  // [classes], set for the classes of slots alone
    int32_t* class_of_slot;  // [slots]
    int32_t* slot_of_label;  // [labels]
    int32_t* labels;         // [labels] without stars
    uint8_t* stars;          // [labels + 1]
    double* log_sums;        // [frames] log sum_k exp x(k), with stars
    void* mean;              // [2, slots]
    void* unused;            // [slots]: 1 where no label and no blank is, else 0
    void* rows;              // [GROUP, slots]
    void* row;               // [2, classes]
    void* emissions;
    void* occupancies;
    void* lattice;           // the rest
};

constexpr int64_t SCRATCH_ALIGNMENT = 64;
constexpr int64_t PADDING = 16;  // lanes of the widest vector, so that every instruction set needs the same memory
constexpr int64_t GROUP = 4;

// In an alphabet of up to this many classes the lattice reads whole frames, and the softmax takes its exponentials.
constexpr int64_t SMALL_ALPHABET = 64;

static inline int64_t padded(int64_t n) { return (n + PADDING - 1) / PADDING * PADDING; }
static inline int64_t groups_of(int64_t frames) { return (frames + GROUP - 1) / GROUP; }
static inline int64_t group_stride(int64_t slots) { return GROUP * padded(slots) + PADDING; }

// About the square root, which for a walk with checkpoints needs the least memory.
static inline int64_t checkpoint_distance(int64_t steps) {
    int64_t distance = 1;
    while (distance * distance < steps) distance++;
    return distance;
}

// beta of a whole utterance is kept where it stays in the second-level cache, else that of a block of groups that
// stays in the first.
constexpr int64_t LARGEST_SINGLE_BLOCK = int64_t(1) << 20;
constexpr int64_t BLOCK_BYTES = int64_t(24) << 10;

static inline int64_t linear_group_bytes(int64_t labels) {
    return (GROUP + 1) * padded(labels + 1) * int64_t(sizeof(float));
}

static inline int64_t linear_groups_per_block(int64_t frames, int64_t labels) {
    const int64_t groups = groups_of(frames), bytes = linear_group_bytes(labels);
    if (groups * bytes <= LARGEST_SINGLE_BLOCK) return groups > 0 ? groups : 1;
    const int64_t least = checkpoint_distance(groups);
    return BLOCK_BYTES / bytes > least ? BLOCK_BYTES / bytes : least;
}

static inline int64_t linear_blocks(int64_t frames, int64_t labels) {
    const int64_t groups = linear_groups_per_block(frames, labels);
    return (groups_of(frames) + groups - 1) / groups;
}

// Enough for every utterance of fewer frames and labels too.
static inline int64_t linear_lattice_bytes(int64_t frames, int64_t labels) {
    const int64_t bytes = linear_group_bytes(labels), lanes = padded(labels + 1);
    const int64_t block = linear_groups_per_block(frames, labels) * bytes;
    const int64_t whole = groups_of(frames) * bytes;
    const int64_t least = whole < LARGEST_SINGLE_BLOCK ? whole : LARGEST_SINGLE_BLOCK;
    const int64_t rows = 7 + 2 * linear_blocks(frames, labels);
    return rows * lanes * int64_t(sizeof(float)) + (block > least ? block : least);
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
    scratch->labels = (int32_t*)take(labels * 4);
    scratch->stars = (uint8_t*)take(labels + 1);
    scratch->log_sums = (double*)take(frames * 8);
    const int64_t table = groups_of(frames) * group_stride(slots) * real_bytes;
    scratch->mean = take(2 * padded(slots) * real_bytes);
    scratch->unused = take(padded(slots) * real_bytes);
    scratch->rows = take(GROUP * padded(slots) * real_bytes);
    scratch->row = take(2 * padded(classes) * real_bytes);
    scratch->emissions = take(table);
    scratch->occupancies = take(table);
    const int64_t linear = real_bytes == sizeof(float) ? linear_lattice_bytes(frames, labels) : 0;
    const int64_t extended = extended_lattice_bytes(frames, labels, slots);
    scratch->lattice = take(linear > extended ? linear : extended);
    return used;
}

// Minus the log-probability of the labels; writes the gradient. Labels are valid. One for each instruction set.
typedef double (*UtteranceLoss)(const Utterance& utterance, const Scratch& scratch);

namespace generic { double utterance_loss(const Utterance&, const Scratch&); }
namespace avx2 { double utterance_loss(const Utterance&, const Scratch&); }
namespace avx512 { double utterance_loss(const Utterance&, const Scratch&); }
