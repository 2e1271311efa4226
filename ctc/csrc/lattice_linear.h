// The fast lattice: linear domain, float, tilted, scaled by powers of two, with a certificate. See recurrence.h.
//
// Four frames, a group, are computed for one vector of pairs before the next vector, in registers: what frame t needs
// of frame t - 1 is the same vector and one lane of its neighbour. Emissions lie as quads, the four frames of a slot
// side by side, so that a transposition of four by four spreads them over the labels, and another one takes the
// occupancies back. alpha is kept without its own emission and beta with it, so that one table of emissions serves
// both and their product is the probability of a state.
//
// beta is stored for a block of groups that stays in the caches; where the utterance is longer, a first pass leaves
// beta at the end of every block, and each block is computed anew when alpha comes to it. Only pairs that can be
// reached from the start and can reach the end are computed.
#pragma once

#include "exponential.h"
#include "recurrence.h"
#include "utterance.h"

namespace CTC_ISA {

constexpr int WIDTH = LANES<float>;
static_assert(FRAMES_PER_RESCALE == GROUP, "states are scaled once a group");

class LinearLattice {
  public:
    // `emissions`: groups of quads by slot, as `group_stride` says; at most 1, the largest of each frame 1.
    LinearLattice(const Utterance& utterance, const Scratch& scratch, int64_t slots, int64_t blank_slot, int tilt_bits)
        : frames(utterance.frames), labels(utterance.label_count), slots(slots), blank_slot(blank_slot),
          stride(group_stride(slots)), vectors(round_up(labels + 1, WIDTH) / WIDTH),
          groups_per_block(linear_groups_per_block(frames, labels)), emissions((const float*)scratch.emissions),
          occupancies((float*)scratch.occupancies), tilt_bits(tilt_bits), tilt(ldexp_of(1.0f, tilt_bits)) {
        const int64_t lanes = padded(labels + 1);
        float* p = (float*)scratch.lattice;
        const auto take = [&](int64_t n) { return (p += n) - n; };
        skip = take(lanes);
        quad_of_label = (int32_t*)take(lanes);
        is_star = (int32_t*)take(lanes);
        alpha = {take(lanes), take(lanes), 1, 0};
        beta = {take(lanes), take(lanes), 1, 0};
        checkpoints = take(2 * lanes * (linear_blocks(frames, labels) - 1));
        betas = p;
        for (int64_t i = 0; i < lanes; i++) {
            const int32_t* const slot = scratch.slot_of_label;
            skip[i] = i > 0 && i < labels && slot[i] != slot[i - 1] ? tilt : 0;
            // Lanes behind the last label are nobody's: the quad behind the last slot is always 0.
            quad_of_label[i] = int32_t(4 * (i < labels ? slot[i] : padded(slots)));
        }
        for (int64_t i = 0; utterance.stars && i < lanes; i++)
            is_star[i] = i <= labels && utterance.stars[i] ? -1 : 0;
    }

    // Whether the result is certified; then `log2_z` is set and so are the occupancies. Otherwise neither may be used.
    // STARS: whether there are any.
    template <bool STARS> bool run(bool has_tiny_emission, double* log2_z) {
        const float smallest = smallest_accepted_sum(frames, labels, has_tiny_emission);
        const int64_t groups = groups_of(frames), blocks = linear_blocks(frames, labels);
        begin_beta();
        for (int64_t block = blocks - 1; block > 0; block--) {
            save_checkpoint(block);
            const int64_t first = block * groups_per_block;
            for (int64_t g = smaller(groups, first + groups_per_block) - 1; g >= first; g--) step_beta<false, STARS>(g);
        }
        begin_alpha();
        for (int64_t block = 0; block < blocks; block++) {
            if (block > 0) load_checkpoint(block);
            const int64_t first = block * groups_per_block, end = smaller(groups, first + groups_per_block);
            for (int64_t g = end - 1; g >= first; g--) step_beta<true, STARS>(g);
            for (int64_t g = first; g < end; g++)
                if (!step_alpha<STARS>(g, smallest)) return false;
        }
        double last = alpha.blanks[labels];
        if (labels > 0) last += double(tilt) * alpha.labels[labels - 1];
        *log2_z = log2(last * alpha.factor) + double(alpha.exponent) - double(tilt_bits) * double(labels);
        return true;
    }

  private:
    // One row of states. They are to be multiplied with `factor`, which `exponent` takes account of.
    struct States {
        float *blanks, *labels;
        float factor;
        int64_t exponent;
    };

    struct Band {
        int64_t low, high;  // vectors, both included
    };

    static float ldexp_of(float x, int exponent) {
        const uint32_t bits = uint32_t(exponent + 127) << 23;
        float power;
        memcpy(&power, &bits, sizeof power);
        return x * power;
    }

    // What can be reached at the group's last frame and, from the frame before its first, reaches the end.
    Band band_of(int64_t group) const {
        const int64_t first = GROUP * group;
        return {larger(0, labels - frames + first - 1) / WIDTH, smaller(vectors - 1, (first + GROUP - 1) / WIDTH)};
    }

    int frames_in(int64_t group) const { return int(smaller(GROUP, frames - GROUP * group)); }

    // What is kept of beta for a group and a vector: y_label for each of its frames, and the blanks behind them, from
    // which y_blank follows.
    float* betas_of(int64_t group, int64_t vector) const {
        return betas + (group % groups_per_block * vectors + vector) * (GROUP + 1) * WIDTH;
    }

    // The emissions of a vector of labels, frame by frame.
    void label_emissions(const float* group, int64_t vector, Floats q[GROUP]) const {
        const int32_t* const quads = quad_of_label + vector * WIDTH;
        for (int j = 0; j < 4; j++) q[j] = load_quads([&](int k) { return group + quads[4 * k + j]; });
        transpose(q);
    }

    // The power of two that brings `largest` to about 2^target; 1 where there is nothing sensible to scale.
    static void rescale(States* states, float largest, int target) {
        states->factor = 1;
        if (!(largest > 0.0f && largest < LARGEST_SUM)) return;
        uint32_t bits;
        memcpy(&bits, &largest, sizeof bits);
        const int shift = int(smaller(127, larger(-126, target + 127 - int64_t(bits >> 23))));
        states->exponent -= shift;
        states->factor = ldexp_of(1.0f, shift);
    }

    void clear(States* states) const {
        memset(states->blanks, 0, size_t(vectors * WIDTH) * sizeof(float));
        memset(states->labels, 0, size_t(vectors * WIDTH) * sizeof(float));
        states->factor = 1;
    }

    void begin_beta() {
        clear(&beta);
        const float one = ldexp_of(1.0f, BETA_TARGET);
        beta.blanks[labels] = one;
        if (labels > 0) beta.labels[labels - 1] = tilt * one;
    }

    void begin_alpha() {
        clear(&alpha);
        alpha.blanks[0] = ldexp_of(1.0f, ALPHA_TARGET);
        alpha.exponent = -ALPHA_TARGET;
    }

    void save_checkpoint(int64_t block) const {
        float* const to = checkpoints + (block - 1) * 2 * vectors * WIDTH;
        for (int64_t i = 0; i < vectors * WIDTH; i += WIDTH) {
            store(to + 2 * i, load(beta.blanks + i) * beta.factor);
            store(to + 2 * i + WIDTH, load(beta.labels + i) * beta.factor);
        }
    }

    void load_checkpoint(int64_t block) {
        const float* const from = checkpoints + (block - 1) * 2 * vectors * WIDTH;
        for (int64_t i = 0; i < vectors * WIDTH; i += WIDTH) {
            store(beta.blanks + i, load(from + 2 * i));
            store(beta.labels + i, load(from + 2 * i + WIDTH));
        }
        beta.factor = 1;
    }

    // What a group's frames emit. With stars that is a share of what all classes do, which a star takes whole.
    template <bool STARS> struct Emitted {
        Floats blank[GROUP], share[STARS ? GROUP : 1];

        Emitted(const float* group, int64_t blank_slot, int64_t slots) {
            for (int f = 0; f < GROUP; f++) blank[f] = all(group[GROUP * blank_slot + f]);
            if constexpr (!STARS) return;
            for (int f = 0; f < GROUP; f++) share[f] = all(group[GROUP * (padded(slots) + 1) + f]);
            for (int f = 0; f < GROUP; f++) blank[f] *= share[f];
        }
        Floats blank_at(int f, Ints in_star) const {
            if constexpr (STARS) return in_star ? all(1.0f) : blank[f];
            return blank[f];
        }
        Floats label_at(int f, Floats label) const {
            if constexpr (STARS) return label * share[f];
            return label;
        }
    };

    // Lanes where a star stands.
    template <bool STARS> Ints stars_of(int64_t vector) const {
        Ints lanes = {};
        if constexpr (STARS) memcpy(&lanes, is_star + vector * WIDTH, sizeof lanes);
        return lanes;
    }

    template <bool STORES, bool STARS> void step_beta(int64_t group) {
        if (frames_in(group) == GROUP)
            step_beta_through<STORES, STARS>(group, GROUP);
        else
            step_beta_through<STORES, STARS>(group, frames_in(group));
    }

    // beta from behind a group to before it; `betas` gets it with its own emission. From the highest vector down.
    template <bool STORES, bool STARS>
    inline __attribute__((always_inline)) void step_beta_through(int64_t group, const int count) {
        const float* const q = emissions + group * stride;
        const Floats z = all(tilt), factor = all(beta.factor);
        const Emitted<STARS> emitted(q, blank_slot, slots);
        Floats above[GROUP] = {}, largest = {};
        const Band band = band_of(group);
        for (int64_t v = band.high; v >= band.low; v--) {
            Floats q_label[GROUP];
            label_emissions(q, v, q_label);
            const Floats skips = load(skip + v * WIDTH);
            const Ints in_star = stars_of<STARS>(v);
            Floats blank = load(beta.blanks + v * WIDTH) * factor;
            Floats label = load(beta.labels + v * WIDTH) * factor;
            float* const to = betas_of(group, v);
            if (STORES) store(to + GROUP * WIDTH, blank);
            for (int f = count - 1; f >= 0; f--) {
                const Floats y_blank = blank * emitted.blank_at(f, in_star);
                const Floats y_label = label * emitted.label_at(f, q_label[f]);
                if (STORES) store(to + f * WIDTH, y_label);
                const Floats leaving = z * y_blank + skips * y_label;
                blank = y_blank + y_label;
                label = y_label + shift_down(leaving, above[f]);
                above[f] = leaving;
            }
            store(beta.blanks + v * WIDTH, blank);
            store(beta.labels + v * WIDTH, label);
            largest = vmax(largest, vmax(blank, label));
        }
        rescale(&beta, max_of(largest), BETA_TARGET);
    }

    template <bool STARS> bool step_alpha(int64_t group, float smallest_sum) {
        if (frames_in(group) == GROUP) return step_alpha_through<STARS>(group, GROUP, smallest_sum);
        return step_alpha_through<STARS>(group, frames_in(group), smallest_sum);
    }

    // alpha from before a group to behind it, from the lowest vector up, and the occupancies of the group. Whether the
    // sums of alpha beta of its frames are within bounds.
    template <bool STARS>
    inline __attribute__((always_inline)) bool step_alpha_through(int64_t group, const int count, float smallest_sum) {
        const float* const q = emissions + group * stride;
        float* const sums = occupancies + group * stride;
        memset(sums, 0, size_t(stride) * sizeof(float));
        const Floats z = all(tilt), factor = all(alpha.factor);
        const Emitted<STARS> emitted(q, blank_slot, slots);
        Floats below[GROUP] = {}, blank_sums[GROUP] = {}, star_sums[GROUP] = {}, largest = {};
        const Band band = band_of(group);
        for (int64_t v = band.low; v <= band.high; v++) {
            Floats q_label[GROUP], occupied[GROUP] = {};
            label_emissions(q, v, q_label);
            const Floats skips = load(skip + v * WIDTH);
            const Ints in_star = stars_of<STARS>(v);
            Floats blank = load(alpha.blanks + v * WIDTH) * factor;
            Floats label = load(alpha.labels + v * WIDTH) * factor;
            const float* const y = betas_of(group, v);
            Floats y_blank[GROUP], behind = load(y + GROUP * WIDTH);
            for (int f = count - 1; f >= 0; f--) {
                y_blank[f] = behind * emitted.blank_at(f, in_star);
                behind = y_blank[f] + load(y + f * WIDTH);
            }
            for (int f = 0; f < count; f++) {
                const Floats entering = shift_up(below[f], label);
                below[f] = label;
                label = label + blank + skips * entering;
                blank = blank + z * entering;
                if constexpr (STARS) {
                    const Floats either = blank * y_blank[f];
                    blank_sums[f] += in_star ? Floats{} : either;
                    star_sums[f] += in_star ? either : Floats{};
                } else {
                    blank_sums[f] += blank * y_blank[f];
                }
                occupied[f] = label * load(y + f * WIDTH);
                blank *= emitted.blank_at(f, in_star);
                label *= emitted.label_at(f, q_label[f]);
            }
            store(alpha.blanks + v * WIDTH, blank);
            store(alpha.labels + v * WIDTH, label);
            largest = vmax(largest, vmax(blank, label));
            add_occupied(v, occupied, sums);
        }
        rescale(&alpha, max_of(largest), ALPHA_TARGET);
        const Floats total = finish_occupancies<STARS>(sums, blank_sums, star_sums);
        bool is_certain = true;
        for (int f = 0; f < count; f++) is_certain &= total[f] >= smallest_sum && total[f] <= LARGEST_SUM;
        return is_certain;
    }

    // Adds a vector of labels' occupancies to those of their slots. Labels may share a slot, so one after the other.
    void add_occupied(int64_t vector, Floats occupied[GROUP], float* sums) const {
        const int32_t* const quads = quad_of_label + vector * WIDTH;
        transpose(occupied);
        for (int j = 0; j < 4; j++)
            for_quads(occupied[j], [&](int k, Quad added) {
                Quad sum;
                memcpy(&sum, sums + quads[4 * k + j], sizeof sum);
                sum += added;
                memcpy(sums + quads[4 * k + j], &sum, sizeof sum);
            });
    }

    // With those of blank and stars: the sums over all, whose reciprocals go behind the slots.
    template <bool STARS>
    Floats finish_occupancies(float* sums, Floats blank_sums[GROUP], Floats star_sums[GROUP]) const {
        const auto set = [=](int64_t slot, Floats quads) {
            for_quads(quads, [=](int, Quad quad) { memcpy(sums + GROUP * slot, &quad, sizeof quad); });
        };
        set(blank_slot, sum_of_lanes(blank_sums));
        // By quads, as they were written: a wider load would have to wait until the stores are done.
        const Floats of_slots = sum_of_quads(GROUP * padded(slots), [=](int64_t s) {
            return load_quads([=](int k) { return sums + s + 4 * k; });
        });
        const Floats total = STARS ? of_slots + sum_of_lanes(star_sums) : of_slots;
        set(padded(slots), all(1.0f) / total);
        if (STARS) set(padded(slots) + 1, of_slots / total);
        return total;
    }

    // Of four vectors, as quads.
    static Floats sum_of_lanes(Floats v[GROUP]) {
        transpose(v);
        return sum_of_quads((v[0] + v[1]) + (v[2] + v[3]));
    }

    int64_t frames, labels, slots, blank_slot, stride, vectors, groups_per_block;
    const float* emissions;
    float* occupancies;
    int tilt_bits;
    float tilt;
    States alpha = {}, beta = {};
    int32_t* quad_of_label;  // where in a group its slot's quad begins
    int32_t* is_star;        // -1 where a star stands before the label, set where there are stars
    float *skip, *checkpoints, *betas;
};

}  // namespace CTC_ISA
