// Convolutions of every channel by itself in 8 bits, stride 1: four taps of 16 channels in one instruction of VNNI.
#ifndef DEPTHWISE_H
#define DEPTHWISE_H

#include <cstdint>

namespace depthwise {
constexpr int64_t CHANNELS = 16;   // that are computed together
constexpr int64_t MOST_CHANNELS = 4096;
constexpr int64_t MOST_SPAN = 512;  // frames from the first tap to the last four

// x to y, both [batch][frames][channels]; frames where the mask is 0 are x_zero, as are those
// outside. All values are what QLinearConv gives: y = saturated(round(scale * (start + sum of weight * x)) + y_zero).
struct Problem {
    int64_t batch, frames, channels, taps, dilation, padding;
    const uint8_t* x;
    const uint8_t* mask;    // [batch][frames], 1 or 0
    const int8_t* packed;   // of `pack`
    const int32_t* start;   // [channels] what x_zero adds to the sums, with its sign changed
    const float* scale;     // [channels]
    uint8_t x_zero, y_zero;
    uint8_t* y;
};

inline int64_t fours(int64_t taps) { return (taps + 3) / 4; }
inline int64_t packed_bytes(int64_t taps, int64_t channels) { return fours(taps) * 4 * channels; }

// Whether the kernels compute such a convolution, of as many output frames as input frames.
inline bool is_taken(int64_t channels, int64_t taps, int64_t dilation, int64_t padding) {
    return channels > 0 && channels % CHANNELS == 0 && channels <= MOST_CHANNELS && taps % 2 == 1 && dilation > 0 &&
           dilation <= MOST_SPAN && taps <= MOST_SPAN && padding == taps / 2 * dilation &&
           4 * dilation * (fours(taps) - 1) <= MOST_SPAN;
}

// Whether this processor has the instructions.
bool runs();

// weight [channels][taps] to [channels / 16][fours][16][4], zeros beyond the last tap.
void pack(const int8_t* weight, int64_t taps, int64_t channels, int8_t* packed);

void run(const Problem& problem);
}  // namespace depthwise
#endif
