// Greedy decoding and forced alignment on CUDA: what the C entry points of ctc_decode.h launch.
#include "cuda_ctc.h"
#include "cuda_driver.h"

using namespace ctc_cuda;

namespace {

bool are_valid(const ctc_scores* scores, int32_t type, const int64_t* frames, int32_t blank) {
    if (!scores || scores->batch < 0 || scores->frames < 0 || scores->vocabulary < 1) return false;
    if (scores->vocabulary > INT32_MAX || double(scores->batch) * double(scores->frames) > INT32_MAX) return false;
    if ((!frames && scores->batch > 0) || (!scores->data && scores->batch * scores->frames > 0)) return false;
    return type >= CTC_FLOAT32 && type <= CTC_BFLOAT16 && blank >= 0 && blank < scores->vocabulary;
}

int64_t row_doubles(int64_t width) { return 4 * (width + 2); }

size_t lay_out(int64_t batch, int64_t frames, int64_t width, char* base, AlignmentWork* work) {
    const auto bytes = [](int64_t count, int64_t size) { return size_t(round_up(count * size, 64)); };
    const size_t emissions = bytes(batch * frames * (width + 1), 8), rows = bytes(batch * row_doubles(width), 8);
    work->emissions = (double*)base;
    work->rows = (double*)(base + emissions);
    work->origins = (uint8_t*)(base + emissions + rows);
    return emissions + rows + bytes(batch * frames * (width + 1), 1);
}

template <typename In>
bool decode(const ctc_scores& scores, const int64_t* frames, int32_t blank, FrameBest* found, int32_t* packed,
            Stream stream) {
    const int64_t rows = scores.batch * scores.frames;
    const Grid a_warp_each = {blocks_for(rows, ROWS_PER_BLOCK), ROWS_PER_BLOCK * WARP, 0};
    const Grid utterances = {unsigned(scores.batch), COLLAPSE_THREADS, 0};
    return (rows == 0 || launch<best_kernel<In>>(a_warp_each, stream, scores, frames, blank, found)) &&
           launch<collapse_kernel<>>(utterances, stream, scores, frames, blank, found, packed);
}

template <typename In> bool align(const Alignment& a, Stream stream) {
    const int64_t rows = a.scores.batch * a.scores.frames;
    const size_t bytes = size_t(row_doubles(a.width)) * sizeof(double);
    const bool is_shared = bytes <= ALIGN_SHARED_BYTES;
    const Grid a_warp_each = {blocks_for(rows, ROWS_PER_BLOCK), ROWS_PER_BLOCK * WARP, 0};
    const Grid utterances = {unsigned(a.scores.batch), ALIGN_THREADS, is_shared ? bytes : 0};
    return (rows == 0 || launch<gather_kernel<In>>(a_warp_each, stream, a)) &&
           launch<align_kernel<>>(utterances, stream, a, is_shared);
}

int status_of(bool is_launched) { return is_launched ? CTC_DECODE_SUCCESS : CTC_DECODE_DEVICE; }

}  // namespace

extern "C" size_t ctc_greedy_cuda_workspace(int64_t batch, int64_t frames) {
    return batch < 0 || frames < 0 ? 0 : size_t(batch * frames) * sizeof(FrameBest);
}

extern "C" int ctc_greedy_cuda(const ctc_scores* scores, int32_t type, const int64_t* frames, int32_t blank,
                               int32_t* packed, void* workspace, struct CUstream_st* stream) {
    if (!are_valid(scores, type, frames, blank)) return CTC_DECODE_INVALID;
    if (scores->batch == 0) return CTC_DECODE_SUCCESS;
    if (!packed || (!workspace && scores->frames > 0)) return CTC_DECODE_INVALID;
    FrameBest* const found = (FrameBest*)workspace;
    return status_of(for_type(
        type, [&](auto in) { return decode<decltype(in)>(*scores, frames, blank, found, packed, stream); }));
}

extern "C" size_t ctc_align_cuda_workspace(int64_t batch, int64_t frames, int64_t target_stride) {
    AlignmentWork unused;
    return batch < 0 || frames < 0 || target_stride < 0 ? 0 : lay_out(batch, frames, target_stride, nullptr, &unused);
}

extern "C" int ctc_align_cuda(const ctc_scores* scores, int32_t type, const int64_t* frames, const int32_t* targets,
                              int64_t target_stride, const int64_t* lengths, int32_t blank, int64_t* start,
                              int64_t* end, double* log_probs, double* totals, void* workspace,
                              struct CUstream_st* stream) {
    if (!are_valid(scores, type, frames, blank) || target_stride < 0) return CTC_DECODE_INVALID;
    if (scores->batch == 0) return CTC_DECODE_SUCCESS;
    if (!lengths || !totals || !workspace) return CTC_DECODE_INVALID;
    if (target_stride > 0 && (!targets || !start || !end || !log_probs)) return CTC_DECODE_INVALID;
    Alignment a = {*scores, frames, targets, target_stride, lengths, blank, start, end, log_probs, totals, {}};
    lay_out(scores->batch, scores->frames, target_stride, (char*)workspace, &a.work);
    return status_of(for_type(type, [&](auto in) { return align<decltype(in)>(a, stream); }));
}
