// Normalised sums with ReLU and dropout, a channel of all utterances at a time: it stays in the first cache, or in the
// second. Included after product.inl.
#include <math.h>

#include "normalization.h"

namespace convolution {
namespace {

class Normalized {
  public:
    explicit Normalized(const normalization_problem& problem)
        : p(problem), count(static_cast<double>(p.utterances * p.frames)) {}

    void forward() const {
#pragma omp parallel for schedule(static) num_threads(p.threads) if (p.threads > 1)
        for (int64_t c = 0; c < p.channels; c++) {
            float shift = 0;
            for (int64_t j = 0; j < p.branches; j++) {
                const normalized_branch& b = p.branch[j];
                measure(b, c);
                shift += b.bias[c] - b.mean[c] * b.weight[c] * b.scale[c];
            }
            for (int64_t n = 0; n < p.utterances; n++) write(n, c, shift);
        }
    }

    void backward() const {
#pragma omp parallel for schedule(static) num_threads(p.threads) if (p.threads > 1)
        for (int64_t c = 0; c < p.channels; c++) {
            const double total = gradient_of_sum(c);
            // The first branch is last, as its gradient lies where that of the sum is.
            for (int64_t j = p.branches - 1; j >= 0; j--) gradient_of(p.branch[j], c, total);
        }
    }

  private:
    int64_t place(int64_t n, int64_t c) const { return (n * p.channels + c) * p.frames; }

    // body(place, values, first, rest), for each vector of a channel of an utterance; the last one may not be full.
    template <class Body>
    void each(int64_t n, int64_t c, const Body& body) const {
        const int64_t from = place(n, c);
        for (int64_t t = 0; t < p.frames; t += WIDTH) body(from + t, t, std::min<int64_t>(WIDTH, p.frames - t));
    }
    static Vector values(const float* from, int64_t count) { return count == WIDTH ? load(from) : first_of(from, count); }
    static void put_values(float* to, Vector value, int64_t count) {
        if (count == WIDTH)
            store(to, value);
        else
            store_first(to, value, count);
    }
    static double sum_of(Vector value) {
        double sum = 0;
        for (int64_t i = 0; i < WIDTH; i++) sum += value[i];
        return sum;
    }

    // Mean and deviation of a channel, in two passes: squares of differences from the mean lose no digits.
    void measure(const normalized_branch& b, int64_t c) const {
        double sum = 0, squares = 0;
        for (int64_t n = 0; n < p.utterances; n++) {
            Vector part{};
            each(n, c, [&](int64_t at, int64_t, int64_t rest) { part += values(b.x + at, rest); });
            sum += sum_of(part);
        }
        const float mean = static_cast<float>(sum / count);
        for (int64_t n = 0; n < p.utterances; n++) {
            Vector part{};
            each(n, c, [&](int64_t at, int64_t, int64_t rest) {
                Vector difference = values(b.x + at, rest) - mean;
                if (rest < WIDTH)
                    for (int64_t i = rest; i < WIDTH; i++) difference[i] = 0;
                part += difference * difference;
            });
            squares += sum_of(part);
        }
        b.mean[c] = mean;
        b.scale[c] = static_cast<float>(1 / sqrt(squares / count + p.epsilon));
        if (!b.running_mean) return;
        b.running_mean[c] += p.momentum * (mean - b.running_mean[c]);
        const float variance = static_cast<float>(squares / (count > 1 ? count - 1 : 1));
        b.running_variance[c] += p.momentum * (variance - b.running_variance[c]);
    }

    void write(int64_t n, int64_t c, float shift) const {
        const float* mask = p.mask + n * p.frames;
        each(n, c, [&](int64_t at, int64_t t, int64_t rest) {
            Vector value = Vector{} + shift;
            for (int64_t j = 0; j < p.branches; j++) {
                const normalized_branch& b = p.branch[j];
                value += values(b.x + at, rest) * (b.weight[c] * b.scale[c]);
            }
            value *= values(mask + t, rest);
            value = value < 0 ? Vector{} : value;  // what is not a number stays so
            if (p.noise) value = dropped(value, p.noise + at, rest);
            put_values(p.y + at, value, rest);
        });
    }

    Vector dropped(Vector value, const uint16_t* noise, int64_t count) const {
#ifdef __AVX512F__
        const __mmask16 some = static_cast<__mmask16>((1u << count) - 1);
        alignas(32) uint16_t all[WIDTH] = {};
        if (count < WIDTH) memcpy(all, noise, count * sizeof(uint16_t));
        const void* from = count < WIDTH ? static_cast<const void*>(all) : noise;
        const __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
        const __mmask16 kept = some & _mm512_cmpge_epu32_mask(words, _mm512_set1_epi32(static_cast<int>(p.dropped)));
        return (Vector)_mm512_maskz_mul_ps(kept, (__m512)value, _mm512_set1_ps(p.growth));
#else
        for (int64_t i = 0; i < count; i++) value[i] = noise[i] >= p.dropped ? value[i] * p.growth : 0.0f;
        return value;
#endif
    }

    // Writes the gradient of the sum before the ReLU where that of the first branch will be; returns its own sum.
    double gradient_of_sum(int64_t c) const {
        double total = 0;
        for (int64_t n = 0; n < p.utterances; n++) {
            Vector part{};
            each(n, c, [&](int64_t at, int64_t, int64_t rest) {
                const Vector y = values(p.y + at, rest), gradient = values(p.grad_y + at, rest) * p.growth;
                const Vector passed = y > 0 ? gradient : Vector{};
                part += passed;
                put_values(p.branch[0].grad_x + at, passed, rest);
            });
            total += sum_of(part);
        }
        return total;
    }

    void gradient_of(const normalized_branch& b, int64_t c, double total) const {
        const float mean = b.mean[c], *gradients = p.branch[0].grad_x;
        double product = 0;
        for (int64_t n = 0; n < p.utterances; n++) {
            Vector part{};
            each(n, c, [&](int64_t at, int64_t, int64_t rest) {
                part += values(gradients + at, rest) * (values(b.x + at, rest) - mean);
            });
            product += sum_of(part);
        }
        b.grad_bias[c] = static_cast<float>(total);
        b.grad_weight[c] = static_cast<float>(product * b.scale[c]);
        const float factor = b.weight[c] * b.scale[c], shared = static_cast<float>(total / count);
        const float tilt = static_cast<float>(product / count * b.scale[c] * b.scale[c]);
        for (int64_t n = 0; n < p.utterances; n++)
            each(n, c, [&](int64_t at, int64_t, int64_t rest) {
                const Vector difference = values(b.x + at, rest) - mean;
                put_values(b.grad_x + at, (values(gradients + at, rest) - shared - difference * tilt) * factor, rest);
            });
    }

    const normalization_problem& p;
    const double count;
};
}  // namespace
}  // namespace convolution
