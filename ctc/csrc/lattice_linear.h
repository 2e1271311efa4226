// The fast lattice: linear domain, float, tilted, scaled by powers of two, with a certificate. See recurrence.h.
//
// Work per frame, direction and vector of pairs: two loads and two stores of states, one shift by a lane, about six
// arithmetic instructions. beta is stored for every frame (8 bytes a pair), alpha walks over it and leaves the
// occupancies. Only pairs that can be reached from the start and can reach the end are computed.
#pragma once

#include "exponential.h"
#include "recurrence.h"
#include "utterance.h"

namespace CTC_ISA {

constexpr int WIDTH = LANES<float>;
static_assert(FRAMES_PER_RESCALE == 4, "a group of frames makes a Quad");

class LinearLattice {
  public:
    // `emissions` [frames, padded(slots)]: at most 1, the largest of each frame 1.
    LinearLattice(const Utterance& utterance, const Scratch& scratch, int64_t slots, int64_t blank_slot,
                  double label_blank_ratio)
        : frames(utterance.frames), labels(utterance.label_count), blank_slot(blank_slot),
          slot_stride(padded(slots)), vectors(round_up(labels + 1, WIDTH) / WIDTH),
          slot_of_label(scratch.slot_of_label), emissions((const float*)scratch.emissions),
          occupancies((float*)scratch.occupancies), inverse_sum((float*)scratch.inverse_sum) {
        tilt_bits = labels > 0 ? tilt_exponent(frames, labels, label_blank_ratio) : 0;
        tilt = ldexp_of(1.0f, tilt_bits);
        const int64_t lanes = vectors * WIDTH;
        float* p = (float*)scratch.lattice;
        const auto take = [&](int64_t n) { return (p += n) - n; };
        skip = take(lanes);
        blank_states = take(lanes);
        label_states = take(lanes);
        label_occupancy = take(FRAMES_PER_RESCALE * lanes);
        label_emissions = take(FRAMES_PER_RESCALE * lanes);
        slot_sums = (Quad*)take(4 * slot_stride);
        slot_lanes = (int32_t*)take(lanes);
        beta = take(0);
        // Rows of frames that do not exist are read but never written.
        memset(label_occupancy, 0, size_t(FRAMES_PER_RESCALE * lanes) * sizeof(float));
        for (int64_t i = 0; i < lanes; i++) {
            const bool may_skip = i > 0 && i < labels && slot_of_label[i] != slot_of_label[i - 1];
            skip[i] = may_skip ? tilt : 0;
            slot_lanes[i] = i < labels ? slot_of_label[i] : 0;
        }
    }

    // Whether the result is certified; then `log2_z` is set and, if wanted, so are the occupancies, which `inverse_sum`
    // of their frame normalises. Otherwise none of them may be used.
    bool run(bool wants_occupancies, bool has_tiny_emission, double* log2_z) {
        run_beta();
        const float smallest = smallest_accepted_sum(frames, labels, has_tiny_emission);
        if (!run_alpha(wants_occupancies, smallest)) return false;
        double last = blank_states[labels];
        if (labels > 0) last += double(tilt) * label_states[labels - 1];
        *log2_z = log2(last) + double(alpha_exponent) - double(tilt_bits) * double(labels);
        return true;
    }

  private:
    struct Band {
        int64_t low, high;  // vectors, both included
    };

    static float ldexp_of(float x, int exponent) {
        const uint32_t bits = uint32_t(exponent + 127) << 23;
        float power;
        memcpy(&power, &bits, sizeof power);
        return x * power;
    }

    Band band_at(int64_t t) const {
        return {larger(0, labels - frames + t) / WIDTH, smaller(vectors - 1, t / WIDTH)};
    }

    float* beta_at(int64_t t, int64_t vector) const { return beta + (t * vectors + vector) * 2 * WIDTH; }
    float* group_row(float* rows, int64_t t) const { return rows + (t % FRAMES_PER_RESCALE) * vectors * WIDTH; }
    float blank_emission(int64_t t) const { return emissions[t * slot_stride + blank_slot]; }

    // Copies ahead of use: a vector load right behind scalar stores would have to wait for them.
    void spread_emissions(int64_t first, int64_t last) const {
        for (int64_t t = first; t <= last; t++) {
            const Band band = band_at(t);
            const float* const from = emissions + t * slot_stride;
            float* const to = group_row(label_emissions, t);
            if (HAS_LOOKUP && slot_stride == LOOKUP_SIZE) {
                for (int64_t v = band.low; v <= band.high; v++)
                    store(to + v * WIDTH, lookup(from, slot_lanes + v * WIDTH));
            } else {
                const int64_t end = smaller(labels, (band.high + 1) * WIDTH);
                for (int64_t i = band.low * WIDTH; i < end; i++) to[i] = from[slot_of_label[i]];
            }
            // Lanes behind the last label are nobody's.
            if (band.high == vectors - 1)
                for (int64_t i = labels; i < vectors * WIDTH; i++) to[i] = 0;
        }
    }

    // The power of two that brings `largest` to about 2^target; 1 where there is nothing sensible to scale.
    static float rescaling(float largest, int target, int64_t* exponent) {
        if (!(largest > 0.0f && largest < LARGEST_SUM)) return 1.0f;
        uint32_t bits;
        memcpy(&bits, &largest, sizeof bits);
        const int shift = int(smaller(127, larger(-126, target + 127 - int64_t(bits >> 23))));
        *exponent -= shift;
        return ldexp_of(1.0f, shift);
    }

    void run_beta() {
        const Band last = band_at(frames - 1);
        for (int64_t v = last.low; v <= last.high; v++) memset(beta_at(frames - 1, v), 0, 2 * WIDTH * sizeof(float));
        const float one = ldexp_of(1.0f, BETA_TARGET);
        if (labels / WIDTH <= last.high) beta_at(frames - 1, labels / WIDTH)[labels % WIDTH] = one;
        if (labels > 0) beta_at(frames - 1, (labels - 1) / WIDTH)[WIDTH + (labels - 1) % WIDTH] = tilt * one;
        for (int64_t t = frames - 2; t >= 0; t--) {
            const bool is_group_end = (t + 1) % FRAMES_PER_RESCALE == FRAMES_PER_RESCALE - 1;
            if (is_group_end || t == frames - 2)
                spread_emissions((t + 1) / FRAMES_PER_RESCALE * FRAMES_PER_RESCALE, t + 1);
            step_beta(t);
            if (t % FRAMES_PER_RESCALE == 0) rescale_beta(t);
        }
    }

    void step_beta(int64_t t) const {
        const Band band = band_at(t), next = band_at(t + 1);
        const float* const from = beta_at(t + 1, 0);
        float* const to = beta_at(t, 0);
        const float* const q = group_row(label_emissions, t + 1);
        const float* const skips = skip;
        const Floats q_blank = all(blank_emission(t + 1)), z = all(tilt);
        const auto leaving = [=](int64_t v, Floats* blank, Floats* label) {
            *blank = load(from + 2 * v * WIDTH) * q_blank;
            *label = load(from + (2 * v + 1) * WIDTH) * load(q + v * WIDTH);
            return z * *blank + load(skips + v * WIDTH) * *label;
        };
        Floats blank, label, above = {};
        if (next.high > band.high) above = leaving(next.high, &blank, &label);
        for (int64_t v = band.high; v >= next.low; v--) {
            const Floats here = leaving(v, &blank, &label);
            store(to + 2 * v * WIDTH, blank + label);
            store(to + (2 * v + 1) * WIDTH, label + shift_down(here, above));
            above = here;
        }
        if (band.low < next.low) {
            store(to + 2 * band.low * WIDTH, Floats{});
            store(to + (2 * band.low + 1) * WIDTH, shift_down(Floats{}, above));
        }
    }

    void rescale_beta(int64_t t) {
        const Band band = band_at(t);
        float* const begin = beta_at(t, band.low);
        float* const end = beta_at(t, band.high + 1);
        Floats largest = {};
        for (float* p = begin; p < end; p += WIDTH) largest = vmax(largest, load(p));
        int64_t unused = 0;
        const Floats factor = all(rescaling(max_of(largest), BETA_TARGET, &unused));
        for (float* p = begin; p < end; p += WIDTH) store(p, load(p) * factor);
    }

    bool run_alpha(bool wants_occupancies, float smallest_sum) {
        memset(blank_states, 0, size_t(vectors * WIDTH) * sizeof(float));
        memset(label_states, 0, size_t(vectors * WIDTH) * sizeof(float));
        blank_states[0] = ldexp_of(1.0f, ALPHA_TARGET);
        alpha_exponent = -ALPHA_TARGET;
        bool is_certain = true;
        for (int64_t first = 0; first < frames; first += FRAMES_PER_RESCALE) {
            const int64_t end = smaller(frames, first + FRAMES_PER_RESCALE);
            float blanks[FRAMES_PER_RESCALE];
            spread_emissions(first, end - 1);
            for (int64_t t = first; t < end; t++) {
                const float sum = step_alpha(t, &blanks[t - first]);
                is_certain &= sum >= smallest_sum && sum <= LARGEST_SUM;
                inverse_sum[t] = 1.0f / sum;
            }
            if (wants_occupancies) gather_occupancies(first, end, blanks);
            rescale_alpha(end - 1);
        }
        return is_certain;
    }

    // One frame of alpha in place, from the highest vector down. Returns the sum of alpha beta over all states.
    float step_alpha(int64_t t, float* blank_occupancy) const {
        const Band band = band_at(t), before = band_at(larger(0, t - 1));
        float *const blank_row = blank_states, *const label_row = label_states;
        const float* const q = group_row(label_emissions, t);
        const float* const betas = beta_at(t, 0);
        const float* const skips = skip;
        float* const occupied_row = group_row(label_occupancy, t);
        const Floats q_blank = all(blank_emission(t)), z = all(tilt);
        Floats blanks = {}, all_labels = {};
        Floats label = load(label_row + band.high * WIDTH);
        for (int64_t v = band.high; v >= band.low; v--) {
            const Floats below = v > before.low ? load(label_row + (v - 1) * WIDTH) : Floats{};
            const Floats blank = load(blank_row + v * WIDTH);
            const Floats entering = shift_up(below, label);
            const Floats new_blank = (blank + z * entering) * q_blank;
            const Floats new_label = (label + blank + load(skips + v * WIDTH) * entering) * load(q + v * WIDTH);
            store(blank_row + v * WIDTH, new_blank);
            store(label_row + v * WIDTH, new_label);
            const Floats occupied = new_label * load(betas + (2 * v + 1) * WIDTH);
            store(occupied_row + v * WIDTH, occupied);
            blanks += new_blank * load(betas + 2 * v * WIDTH);
            all_labels += occupied;
            label = below;
        }
        // Within a group of frames the band moves by no more than a vector.
        if (band.high + 1 < vectors) store(occupied_row + (band.high + 1) * WIDTH, Floats{});
        if (band.low > 0) store(occupied_row + (band.low - 1) * WIDTH, Floats{});
        *blank_occupancy = sum_of(blanks);
        return sum_of(blanks + all_labels);
    }

    // Sums the labels' occupancies by slot, for a group of frames at once: a label's four frames make one vector.
    void gather_occupancies(int64_t first, int64_t end, const float* blanks) const {
        const int32_t* const slot = slot_of_label;
        const float* const rows = label_occupancy;
        const int64_t row_stride = vectors * WIDTH;
        const int64_t begin_label = band_at(first).low * WIDTH;
        const int64_t end_label = smaller(labels, (band_at(end - 1).high + 1) * WIDTH);
        Quad* const sums = slot_sums;
        memset(sums, 0, size_t(slot_stride) * sizeof(Quad));
        for (int64_t i = begin_label; i < end_label; i += 4) {
            Quad of_label[4];
            transpose(rows + i, row_stride, of_label);
            const int64_t count = smaller(4, end_label - i);
            for (int64_t j = 0; j < count; j++) sums[slot[i + j]] += of_label[j];
        }
        for (int64_t s = 0; s < slot_stride; s += 4) {
            Quad of_frame[4];
            transpose((const float*)(sums + s), 4, of_frame);
            for (int64_t t = first; t < end; t++)
                memcpy(occupancies + t * slot_stride + s, &of_frame[t - first], sizeof(Quad));
        }
        for (int64_t t = first; t < end; t++) occupancies[t * slot_stride + blank_slot] = blanks[t - first];
    }

    void rescale_alpha(int64_t t) {
        const Band band = band_at(t);
        float *const blank_row = blank_states, *const label_row = label_states;
        Floats largest = {};
        for (int64_t v = band.low; v <= band.high; v++)
            largest = vmax(largest, vmax(load(blank_row + v * WIDTH), load(label_row + v * WIDTH)));
        const Floats factor = all(rescaling(max_of(largest), ALPHA_TARGET, &alpha_exponent));
        for (int64_t v = band.low; v <= band.high; v++) {
            store(blank_row + v * WIDTH, load(blank_row + v * WIDTH) * factor);
            store(label_row + v * WIDTH, load(label_row + v * WIDTH) * factor);
        }
    }

    int64_t frames, labels, blank_slot, slot_stride, vectors;
    const int32_t* slot_of_label;
    const float* emissions;
    float *occupancies, *inverse_sum;
    int tilt_bits;
    float tilt;
    Quad* slot_sums;
    int32_t* slot_lanes;  // slot_of_label, in whole vectors
    float *skip, *blank_states, *label_states, *label_occupancy, *label_emissions, *beta;
    int64_t alpha_exponent = 0;
};

}  // namespace CTC_ISA
