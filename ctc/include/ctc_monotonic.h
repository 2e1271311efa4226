/* Monotonic alignment of frames to tokens, without blanks, on the CPU. The rules of ctc_decode.h hold here too. */
#ifndef CTC_MONOTONIC_H
#define CTC_MONOTONIC_H

#include "ctc_decode.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For utterances of at most `frames` frames and `tokens` tokens. */
CTC_DECODE_API size_t ctc_monotonic_workspace(int64_t frames, int64_t tokens, int32_t threads);

/* scores->vocabulary is the number of tokens of the longest utterance. frames[b] and lengths[b]: how many frames and
 * tokens of utterance b count. durations[b * scores->vocabulary + i]: how many frames token i gets, 0 beyond the length
 * and for an utterance with fewer frames than tokens. The first frame is of the first token, the last of the last; the
 * sum of the frames' scores is the highest possible, and of equal sums the one whose last tokens begin latest. */
CTC_DECODE_API int ctc_monotonic(const ctc_scores *scores, const int64_t *frames, const int64_t *lengths,
                                 int32_t threads, int64_t *durations, void *workspace, size_t workspace_bytes);

#ifdef __cplusplus
}
#endif
#endif
