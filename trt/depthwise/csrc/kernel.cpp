#include "depthwise.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of GCC's own header, in error
#endif
#include <immintrin.h>
#define HAS_VNNI 1
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#endif

namespace depthwise {
void pack(const int8_t* weight, int64_t taps, int64_t channels, int8_t* packed) {
    memset(packed, 0, packed_bytes(taps, channels));
    for (int64_t c = 0; c < channels; c++)
        for (int64_t k = 0; k < taps; k++)
            packed[((c / CHANNELS * fours(taps) + k / 4) * CHANNELS + c % CHANNELS) * 4 + k % 4] = weight[c * taps + k];
}

#ifdef HAS_VNNI
bool runs() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

namespace {
constexpr int64_t TILE = 192;  // output frames whose inputs stay in the first cache
constexpr int ROWS = 12;       // of them at a time: sums in registers
constexpr int64_t QUADS = TILE + MOST_SPAN;

VNNI inline __m128i load(const uint8_t* values) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(values)); }

// quads [t][16][4]: of 16 channels the frames t, t + dilation, t + 2 dilation, t + 3 dilation side by side.
template <bool IS_DILATED>
VNNI void interleave(const uint8_t* const* rows, int64_t channel, int64_t count, int64_t dilation, uint8_t* quads) {
    __m128i frame[4] = {load(rows[0] + channel), load(rows[1] + channel), load(rows[2] + channel), {}};
    for (int64_t t = 0; t < count; t++, quads += 64) {
        if (IS_DILATED)
#pragma GCC unroll 4
            for (int i = 0; i < 3; i++) frame[i] = load(rows[t + i * dilation] + channel);
        frame[3] = load(rows[t + 3 * dilation] + channel);
        const __m128i low = _mm_unpacklo_epi8(frame[0], frame[1]), high = _mm_unpackhi_epi8(frame[0], frame[1]);
        const __m128i more = _mm_unpacklo_epi8(frame[2], frame[3]), most = _mm_unpackhi_epi8(frame[2], frame[3]);
        __m128i* to = reinterpret_cast<__m128i*>(quads);
        _mm_store_si128(to, _mm_unpacklo_epi16(low, more));
        _mm_store_si128(to + 1, _mm_unpackhi_epi16(low, more));
        _mm_store_si128(to + 2, _mm_unpacklo_epi16(high, most));
        _mm_store_si128(to + 3, _mm_unpackhi_epi16(high, most));
        if (!IS_DILATED)
#pragma GCC unroll 4
            for (int i = 0; i < 3; i++) frame[i] = frame[i + 1];
    }
}

// ROWS output frames of 16 channels, of which `count` are written.
VNNI void rows_of(const Problem& p, const uint8_t* quads, const int8_t* packed, int64_t channel, int64_t count,
                  uint8_t* y) {
    __m512i sum[ROWS];
    const __m512i start = _mm512_loadu_si512(p.start + channel);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++) sum[r] = start;
    for (int64_t j = 0; j < fours(p.taps); j++, packed += 64, quads += 256 * p.dilation) {
        const __m512i weight = _mm512_loadu_si512(packed);
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; r++)
            sum[r] = _mm512_dpbusd_epi32(sum[r], _mm512_load_si512(quads + 64 * r), weight);
    }
    const __m512 scale = _mm512_loadu_ps(p.scale + channel);
    const __m512i zero = _mm512_set1_epi32(p.y_zero);
    const __m512 least = _mm512_set1_ps(-static_cast<float>(p.y_zero)), most = _mm512_set1_ps(255.0f - p.y_zero);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++) {
        if (r >= count) return;
        __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[r]), scale);
        value = _mm512_min_ps(_mm512_max_ps(value, least), most);
        const __m512i whole = _mm512_add_epi32(_mm512_cvtps_epi32(value), zero);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y + r * p.channels), _mm512_cvtepi32_epi8(whole));
    }
}
}  // namespace

VNNI void run(const Problem& p) {
    alignas(64) uint8_t quads[QUADS * 64];
    const uint8_t* rows[QUADS + 3 * MOST_SPAN];
    uint8_t outside[MOST_CHANNELS];  // a frame of zeros
    memset(outside, p.x_zero, sizeof outside);
    const int64_t reach = 4 * p.dilation * (fours(p.taps) - 1);
    for (int64_t b = 0; b < p.batch; b++) {
        const uint8_t *x = p.x + b * p.frames * p.channels, *mask = p.mask + b * p.frames;
        for (int64_t first = 0; first < p.frames; first += TILE) {
            const int64_t count = std::min(TILE, p.frames - first);
            const int64_t whole = (count + ROWS - 1) / ROWS * ROWS + reach;
            for (int64_t i = 0; i < whole + 3 * p.dilation; i++) {
                const int64_t t = first + i - p.padding;
                rows[i] = t >= 0 && t < p.frames && mask[t] ? x + t * p.channels : outside;
            }
            for (int64_t channel = 0; channel < p.channels; channel += CHANNELS) {
                const auto taken = p.dilation == 1 ? interleave<false> : interleave<true>;
                taken(rows, channel, whole, p.dilation, quads);
                const int8_t* packed = p.packed + channel * fours(p.taps) * 4;
                uint8_t* y = p.y + (b * p.frames + first) * p.channels + channel;
                for (int64_t t = 0; t < count; t += ROWS)
                    rows_of(p, quads + 64 * t, packed, channel, count - t, y + t * p.channels);
            }
        }
    }
}
#else
bool runs() { return false; }
void run(const Problem&) {}
#endif
}  // namespace depthwise
