// Tests of convolutions that need no Python, to be run under sanitizers: convolution_test [random problems, default 300]
// [seed]. Every format, form and instruction set, of random shapes, strides, lengths and loudness, beside the sum as it is
// defined in double precision; memory that is not a problem's own is guarded.
#include <math.h>

#include <memory>
#include <thread>
#include <vector>

#include "../../../../ctc/csrc/test/checking.h"
#include "../product.cpp"
#include "convolution.h"

namespace {

using Doubles = std::vector<double>;

// The matrices of overlap-save, as include/convolution.h describes them; of PLAIN and taps of 1 a block as it is.
struct Matrices {
    std::vector<float> input, output;
    Doubles weight;
    int64_t points = 0, stored = 0;
};

Matrices matrices_of(int form, int64_t block, int64_t taps) {
    Matrices made;
    if (form == CONVOLUTION_DIRECT) {
        made.points = made.stored = taps;
        return made;
    }
    const int64_t odd = (block - 1) / 2, even = block - odd, outputs = block - taps + 1;
    made.points = block + odd;
    made.stored = form == CONVOLUTION_PAIRS ? block : made.points;
    const auto angle = [&](int64_t f, int64_t n) { return 2 * M_PI / block * f * n; };
    const auto sine_share = [&](int64_t f) { return f >= 1 && f <= odd; };
    if (form == CONVOLUTION_PLAIN) {
        for (int64_t f = 0; f < even; f++) for (int64_t n = 0; n < block; n++) made.input.push_back(cos(angle(f, n)));
        for (int64_t f = 1; f <= odd; f++) for (int64_t n = 0; n < block; n++) made.input.push_back(-sin(angle(f, n)));
        for (int64_t f = 1; f <= odd; f++)
            for (int64_t n = 0; n < block; n++) made.input.push_back(cos(angle(f, n)) - sin(angle(f, n)));
    } else {
        for (int64_t f = 0; f < even; f++) for (int64_t n = 0; n < even; n++) made.input.push_back(cos(angle(f, n)));
        for (int64_t f = 1; f <= odd; f++)
            for (int64_t n = 0; n < even; n++) made.input.push_back(2 * n == block ? 0 : -sin(angle(f, n)));
    }
    for (int64_t m = 0; m < outputs; m++) {
        const auto real = [&](int64_t f) { return cos(angle(f, m)) * (sine_share(f) ? 2.0 : 1.0) / block; };
        const auto imaginary = [&](int64_t f) { return -sin(angle(f, m)) * 2 / block; };
        if (form == CONVOLUTION_PLAIN) {
            for (int64_t f = 0; f < even; f++) made.output.push_back(sine_share(f) ? imaginary(f) : real(f));
            for (int64_t f = 1; f <= odd; f++) made.output.push_back(-real(f));
            for (int64_t f = 1; f <= odd; f++) made.output.push_back(real(f) + imaginary(f));
        } else {
            for (int64_t f = 0; f < even; f++) made.output.push_back(real(f));
            for (int64_t f = 1; f <= odd; f++) made.output.push_back(imaginary(f));
        }
    }
    const auto taps_of = [&](int64_t f, double of_cosine, double of_sine) {
        for (int64_t k = 0; k < taps; k++)
            made.weight.push_back(of_cosine * cos(angle(f, k)) + of_sine * sin(angle(f, k)));
    };
    if (form == CONVOLUTION_PAIRS) {
        for (int64_t f = 0; f < even; f++) taps_of(f, 1, 0);
        for (int64_t f = 1; f <= odd; f++) taps_of(f, 0, 1);
    } else {
        for (int64_t f = 0; f < even; f++) taps_of(f, sine_share(f) ? -1 : 1, sine_share(f) ? 1 : 0);
        for (int64_t f = 1; f <= odd; f++) taps_of(f, 1, 1);
        for (int64_t f = 1; f <= odd; f++) taps_of(f, 1, 0);
    }
    return made;
}

// What each format may lose; scales are random here, and cost fixed point six bits.
constexpr double MOST[] = {1.5e-5, 0.15, 1e-4, 2.4};

void random_problem(unsigned seed) {
    Random random(seed);
    std::normal_distribution<float> normal;
    convolution_problem p{};
    p.form = between(random, 0, 3), p.weights = between(random, 0, 3), p.instructions = between(random, 0, 5);
    p.taps = p.form == CONVOLUTION_DIRECT && p.weights == CONVOLUTION_INT8 ? 1 : between(random, 1, 30);
    p.block = p.form == CONVOLUTION_DIRECT ? 0 : p.taps + between(random, 0, 40);
    p.stride = p.form == CONVOLUTION_DIRECT ? between(random, 1, 3) : 1;
    const bool fits = convolution_fits(p.form, p.block, p.taps, p.stride, p.weights, p.instructions);
    p.batch = between(random, 0, 3), p.frames = between(random, 0, 90), p.outputs = between(random, 0, 90);
    p.channels = between(random, 1, 70), p.filters = between(random, 1, 70);
    p.dilation = between(random, 1, 3), p.before = between(random, 0, 40), p.threads = between(random, 1, 2);
#ifdef __SANITIZE_THREAD__
    p.threads = 1;
#endif
    p.activation = between(random, 0, 2), p.input_slope = between(random, 0, 1) ? 1.0f : 0.3f, p.output_slope = 0.4f;
    const Matrices made = matrices_of(p.form, p.block, p.taps);
    p.points = made.points, p.input = made.input.data(), p.output = made.output.data();

    const size_t sizes[] = {size_t(p.batch * p.frames * p.channels), size_t(p.filters * p.taps * p.channels),
                            size_t(p.batch * p.outputs * p.filters), size_t(p.channels), size_t(p.filters)};
    std::unique_ptr<float[]> x(new float[sizes[0]]), weight(new float[sizes[1]]), scale(new float[sizes[3]]);
    std::unique_ptr<float[]> bias(new float[sizes[4]]);  // exactly as large as they are: readers beyond are found
    const int loud = between(random, 0, 3) ? -1 : between(random, 0, 89);
    for (size_t i = 0; i < sizes[0]; i++) x[i] = normal(random) * (int(i / p.channels) == loud ? 1e4f : 1.0f);
    for (size_t i = 0; i < sizes[1]; i++) weight[i] = normal(random);
    for (size_t i = 0; i < sizes[3]; i++) scale[i] = ldexpf(1.0f, between(random, -3, 3));
    for (size_t i = 0; i < sizes[4]; i++) bias[i] = normal(random);
    std::vector<int64_t> lengths(p.batch);
    for (auto& length : lengths) length = between(random, -1, static_cast<int>(p.outputs) + 1);
    Guarded y(sizes[2] * sizeof(float)), packed(convolution_packed_bytes(made.stored, p.channels, p.filters, p.weights));
    const bool has_scale = p.form != CONVOLUTION_DIRECT || p.weights == CONVOLUTION_INT8;
    p.x = x.get(), p.x_batch_stride = p.frames * p.channels, p.x_frame_stride = p.channels;
    p.y = static_cast<float*>(static_cast<void*>(y)), p.y_batch_stride = p.outputs * p.filters, p.y_frame_stride = p.filters;
    p.bias = between(random, 0, 1) ? bias.get() : nullptr;
    p.scale = has_scale && between(random, 0, 1) ? scale.get() : nullptr;
    p.output_lengths = between(random, 0, 1) ? lengths.data() : nullptr;
    p.weight = packed;
    const double one = 1.0;
    const int32_t status = convolution_pack(
        weight.get(), p.scale, p.form == CONVOLUTION_DIRECT ? nullptr : made.weight.empty() ? &one : made.weight.data(),
        p.form, p.block, made.stored, p.taps, p.channels, p.filters, p.weights, p.threads, packed);
    if (!fits) {
        const int32_t ran = convolution_run(&p);
        check(ran != CONVOLUTION_SUCCESS || p.batch * p.outputs == 0, "ran what does not fit", seed);
        return;
    }
    check(status == CONVOLUTION_SUCCESS, "packs what fits", seed);
    Guarded workspace(convolution_workspace(&p));
    p.workspace = workspace, p.workspace_bytes = workspace.bytes();
    const int32_t ran = convolution_run(&p);
    if (ran == CONVOLUTION_NO_INSTRUCTIONS) return;
    check(ran == CONVOLUTION_SUCCESS, "runs what it packs", seed);

    double error = 0, size = 1e-30;
    for (int64_t b = 0; b < p.batch; b++)
        for (int64_t s = 0; s < p.outputs; s++)
            for (int64_t o = 0; o < p.filters; o++) {
                double sum = p.bias ? bias[o] : 0, squares = 1;
                for (int64_t k = 0; k < p.taps; k++) {
                    const int64_t t = s * p.stride + k * p.dilation - p.before;
                    for (int64_t i = 0; i < p.channels && t >= 0 && t < p.frames; i++) {
                        double value = x[(b * p.frames + t) * p.channels + i];
                        value *= value < 0 ? p.input_slope : 1;
                        const double product = value * weight[(o * p.taps + k) * p.channels + i];
                        sum += product, squares += product * product;
                    }
                }
                if (p.activation == CONVOLUTION_LEAKY_RELU && sum < 0) sum *= p.output_slope;
                if (p.activation == CONVOLUTION_CLIPPED_RELU) sum = fmin(fmax(sum, 0), p.output_slope);
                if (p.output_lengths && s >= lengths[b]) sum = 0;
                const double found = p.y[(b * p.outputs + s) * p.filters + o];
                if (!(fabs(found - sum) <= error * sqrt(squares))) error = fabs(found - sum) / sqrt(squares), size = sum;
            }
    const double most = MOST[p.weights];
    if (!(error <= most)) printf("form %d weights %d: %g of %g\n", p.form, p.weights, error, size);
    check(error <= most, "the sum as it is defined", seed);
}

}  // namespace

int main(int count, char** arguments) {
    const int problems = count > 1 ? atoi(arguments[1]) : 300, seed = count > 2 ? atoi(arguments[2]) : 0;
    // The library keeps no state: half of the problems each to two threads.
    std::thread other([&] { for (int i = 0; i < problems; i += 2) random_problem(seed + i); });
    for (int i = 1; i < problems; i += 2) random_problem(seed + i);
    other.join();
    if (failures == 0) printf("%d problems, all passed\n", problems);
    return failures != 0;
}
