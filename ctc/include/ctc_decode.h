/* Decoding and forced alignment for CTC on the CPU, for C and C++.
 *
 * Nothing here allocates, prints, throws or keeps state between calls: the caller owns every buffer, workspace
 * included, and calls from several threads do not meet. Workspaces need the alignment of a double. Every function
 * returns a ctc_decode_status; results are the same for any number of threads and any batch an utterance is in.
 */
#ifndef CTC_DECODE_H
#define CTC_DECODE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CTC_DECODE_API __attribute__((visibility("default")))
#else
#define CTC_DECODE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  CTC_DECODE_SUCCESS = 0,
  CTC_DECODE_INVALID = 1,   /* a NULL pointer, a negative size, a blank or label out of range, a length above the frames */
  CTC_DECODE_WORKSPACE = 2, /* the workspace is smaller than its size function says */
  CTC_DECODE_DEVICE = 3,    /* CUDA refused a launch */
} ctc_decode_status;

#define CTC_DECODE_VERSION 6

/* CTC_DECODE_VERSION of the sources that the library was built from: what programs have to compare with their own. */
CTC_DECODE_API int ctc_decode_version(void);

/* Log-probabilities or logits: element (b, t, v) at data[b * batch_stride + t * frame_stride + v]. */
typedef struct {
  const void *data;
  int32_t is_double; /* elements are double, not float */
  int64_t batch, frames, vocabulary;
  int64_t batch_stride, frame_stride; /* in elements */
} ctc_scores;

/* ---- Greedy: the best label of every frame, repeats merged, blanks dropped. ----
 * frames[b]: how many frames of utterance b count. counts[b]: how many labels it has. Label i of utterance b is
 * runs[(b * 3 + 0) * scores->frames + i]; its first frame and the one past its last are in parts 1 and 2.
 * confidence[b * scores->frames + i]: geometric mean over its frames of its probability. nan_frames[b]: how many
 * of its frames hold NaN (its other results are then unspecified). */
CTC_DECODE_API int ctc_greedy(const ctc_scores *scores, const int64_t *frames, int32_t blank, int32_t threads,
                              int32_t *runs, float *confidence, int32_t *counts, int32_t *nan_frames);

/* ---- Forced alignment: the best path that spells a transcript. ---- */
typedef struct {
  int32_t blank;
  int32_t threads;
  /* How many neighbouring labels are followed at a time, centred on the best of them; transcripts no
   * longer than this are aligned exactly. 0: all. */
  int64_t window;
  /* NULL, or one flag for the place before every label and one for the end, [length + 1]: recording that is
   * not in the transcript may lie there, at gap_log_prob a frame below its best label. Needs a batch of one. */
  const uint8_t *is_gap;
  double gap_log_prob;
} ctc_align_options;

/* For utterances of at most `frames` frames and `length` labels. */
CTC_DECODE_API size_t ctc_align_workspace(int64_t frames, int64_t length, const ctc_align_options *options);

/* Transcript b: lengths[b] labels at targets + b * target_stride. Label i of it lies on the frames
 * [start[b * target_stride + i], end[...]), with the sum of its log-probabilities in log_probs[...]. totals[b]: that
 * of the whole path, blanks included; not finite where there is no path. is_clipped[b]: the path came
 * near the edge of the window, so that a wider one may find a better path. */
CTC_DECODE_API int ctc_align(const ctc_scores *scores, const int64_t *frames, const int32_t *targets,
                             int64_t target_stride, const int64_t *lengths, const ctc_align_options *options,
                             int64_t *start, int64_t *end, double *log_probs, double *totals, int32_t *is_clipped,
                             void *workspace, size_t workspace_bytes);

/* ---- Beam search: the best label sequences, each summed over its paths. ----
 * The tables below only point to arrays of the caller, are never written, and may be shared by threads. All
 * log-probabilities are natural logarithms. */

/* Numbers from 0 on, of `width` bits each, 1 to 57, one after the other from the lowest bit of the first byte on. Behind the
 * last lie 8 bytes more, which mean nothing (ctc_pack of ctc_ngram.h writes them). */
typedef struct {
  const uint8_t *bits;
  int32_t width;
} ctc_packed;

/* A back-off language model as an automaton. State 0 knows no history; its arc w is word w, so
 * that every word has one. The arcs of state s are [first_arc[s], first_arc[s + 1]), sorted by word. */
typedef struct {
  int32_t states, words;
  int64_t arcs;
  ctc_packed first_arc;      /* [states + 1] */
  ctc_packed arc_word;       /* [arcs] */
  const float *arc_log_prob; /* [arcs] */
  ctc_packed arc_next;       /* [arcs] state after the word */
  const float *backoff;      /* [states] log weight of leaving for the shorter history */
  ctc_packed backoff_state;  /* [states] */
  const float *word_bound;   /* [words] log-probability that no history gives the word more than */
  int32_t start_state, unknown_word, end_word; /* end_word: -1 where sentences have no end */
} ctc_ngram;

/* Words as a tree of labels, numbered level by level: children of node n are [first_child[n], first_child[n + 1]),
 * sorted by label; node 0 is the root. */
typedef struct {
  int32_t nodes;
  const int32_t *first_child; /* [nodes + 1] */
  const int32_t *label;       /* [nodes] label that leads here */
  const int32_t *word;        /* [nodes] word of the language model that ends here, or -1 */
} ctc_lexicon;

/* Phrases to favour, as an Aho-Corasick automaton over labels; tree as in ctc_lexicon. */
typedef struct {
  int32_t nodes;
  const int32_t *first_child;
  const int32_t *label;
  const int32_t *fail;  /* [nodes] longest proper suffix that is a node */
  const float *promise; /* [nodes] bonus lent for what is matched so far, taken back if the phrase does not go on */
  const float *reward;  /* [nodes] bonus kept for phrases complete here */
  const float *bound;   /* [nodes] the most that one more label adds to a score */
  int32_t start;        /* node before the first label */
} ctc_phrases;

/* Labels of several letters, such as word pieces: the units, letters and the boundary between words, that each label
 * spells, none for a label that stands for nothing. Lexicon, phrases and boundary are then of units, not of labels. */
typedef struct {
  int32_t unit_count;
  const int32_t *first_unit; /* [vocabulary + 1] */
  const int32_t *units;
} ctc_spelling;

typedef struct {
  const ctc_ngram *ngram;       /* or NULL */
  const ctc_lexicon *lexicon;   /* words, or NULL: labels themselves are the words of the language model */
  const ctc_phrases *phrases;   /* or NULL */
  const int32_t *label_word;    /* [vocabulary] word of each label where lexicon is NULL and ngram is not */
  const ctc_spelling *spelling; /* or NULL: every label is a unit of its own */
  int32_t boundary;             /* unit between words, -1 where there is none */
  int32_t is_closed;            /* only words of the lexicon may be spelled */
  double weight;                /* of the language model's log-probabilities */
  double word_bonus;            /* for every word */
  double unknown_penalty;       /* for every unit of a word that is not in the lexicon */
} ctc_scorer;

/* Whether a search over `vocabulary` labels may walk these tables: every index leads somewhere, arcs and children are in
 * order, suffixes are shorter, and all numbers are finite. CTC_DECODE_SUCCESS or CTC_DECODE_INVALID. A search trusts its
 * tables, so call this once for tables from outside. Takes time in proportion to their size. */
CTC_DECODE_API int ctc_scorer_check(const ctc_scorer *scorer, int64_t vocabulary);

typedef struct {
  int32_t blank;
  int32_t threads;
  int32_t beam;   /* prefixes kept after every frame */
  int32_t n_best; /* hypotheses returned, <= beam */
  double token_log_prob; /* labels this far below a frame's best start no new prefix (<= 0) */
  double beam_log_prob;  /* prefixes this far below the best are dropped (<= 0) */
  /* Also keeps what searches of the same beam keep that rank a prefix's paths which end in blank and those which end in its
   * last label apart, be it by their best path or by their sum, and at the end sums every prefix over all of its
   * alignments: what such a search finds is never better. Not for streams. */
  int32_t is_thorough;
  int32_t stream_frames; /* of a stream: frames whose prefixes it has room for, from 8 to 3000; 0 for 3000 */
} ctc_beam_options;

CTC_DECODE_API size_t ctc_beam_workspace(int64_t frames, int64_t vocabulary, const ctc_beam_options *options);

/* Hypothesis n of utterance b, best first: lengths[b * n_best + n] labels at
 * labels + (b * n_best + n) * scores->frames; acoustic[...] and external[...] add up to its score. There are counts[b]
 * of them: none where a closed lexicon allows nothing, or where the scores are not numbers, which is no matter to the
 * other utterances. `start` and `end`, both or neither NULL, are like `labels`: the first frame of every label on the best
 * path that the beam kept, and the frame behind its last. `scorer` may be NULL.
 *
 * A search keeps the prefixes of 3000 frames; when an utterance has more, it drops those that no prefix of the beam begins
 * with. Only where the beam's own prefixes have more labels than that has room for does an utterance find nothing. */
CTC_DECODE_API int ctc_beam_search(const ctc_scores *scores, const int64_t *frames, const ctc_scorer *scorer,
                                   const ctc_beam_options *options, int32_t *labels, int32_t *lengths,
                                   double *acoustic, double *external, int32_t *counts, int32_t *start, int32_t *end,
                                   void *workspace, size_t workspace_bytes);

/* ---- The same of scores that come in chunks: one utterance, in a state of the caller's, of constant size. ---- */

CTC_DECODE_API size_t ctc_beam_stream_bytes(int64_t vocabulary, const ctc_beam_options *options);

CTC_DECODE_API int ctc_beam_stream_start(int64_t vocabulary, const ctc_scorer *scorer, const ctc_beam_options *options,
                                         void *state, size_t state_bytes);

/* All frames of `scores`, a batch of one; scorer and options are those of the start. `is_over`: nothing can be read any
 * more, because of numbers that are none or of a closed lexicon, and what else is pushed is not looked at. */
CTC_DECODE_API int ctc_beam_stream_push(const ctc_scores *scores, const ctc_scorer *scorer,
                                        const ctc_beam_options *options, void *state, int32_t *is_over);

/* As ctc_beam_stream_push, for streams without end: labels that all paths which are kept have, with the same frames, are
 * handed out and forgotten, so that they are the first of whatever is found later; `count` of them, at most the frames of
 * `scores` and those whose prefixes there is room for, of which `capacity` fit. Where other labels fill the room, the most
 * probable path decides. What is found does not depend on how the frames are cut. `log_probs` and `entropies`, or NULL: of
 * every label the sum of its log-probability, and of the entropy, over its frames. A stream is pushed, or settled, throughout. */
CTC_DECODE_API int ctc_beam_stream_settle(const ctc_scores *scores, const ctc_scorer *scorer,
                                          const ctc_beam_options *options, void *state, int64_t capacity,
                                          int32_t *labels, int32_t *start, int32_t *end, float *log_probs,
                                          float *entropies, int64_t *count, int32_t *is_over);

/* What ctc_beam_search would find if the utterance ended here, behind the labels that were settled; rows of labels, `start`
 * and `end`, and of `log_probs` and `entropies` as above, unless NULL, are `stride` apart: at least the frames behind the last
 * settled label, or those there is room for times the beam. Changes nothing: more may be pushed after. */
CTC_DECODE_API int ctc_beam_stream_result(int64_t vocabulary, const ctc_scorer *scorer, const ctc_beam_options *options,
                                          void *state, int64_t stride, int32_t *labels, int32_t *lengths,
                                          double *acoustic, double *external, int32_t *count, int32_t *start,
                                          int32_t *end, float *log_probs, float *entropies);

/* ---- On CUDA, with the kernels that ctc_cuda_use of ctc.h says: all pointers but `scores` are to the device's memory, as is scores->data; all work goes
 * to `stream`, and nothing waits. `type` is a ctcType of ctc.h; scores->is_double means nothing. Workspaces are aligned
 * to 64 bytes. Lengths out of range are cut to it. ---- */
struct CUstream_st;

CTC_DECODE_API size_t ctc_greedy_cuda_workspace(int64_t batch, int64_t frames);

/* Row b of `packed`, 4 * frames + 3 numbers: labels, first frames, frames past the last, bits of the confidences, all as
 * ctc_greedy gives them; then the number of labels, of frames with NaN, and frames[b] itself. */
CTC_DECODE_API int ctc_greedy_cuda(const ctc_scores *scores, int32_t type, const int64_t *frames, int32_t blank,
                                   int32_t *packed, void *workspace, struct CUstream_st *stream);

CTC_DECODE_API size_t ctc_align_cuda_workspace(int64_t batch, int64_t frames, int64_t target_stride);

/* ctc_align, without window and gaps; a label that does not exist makes a transcript impossible. */
CTC_DECODE_API int ctc_align_cuda(const ctc_scores *scores, int32_t type, const int64_t *frames,
                                  const int32_t *targets, int64_t target_stride, const int64_t *lengths,
                                  int32_t blank, int64_t *start, int64_t *end, double *log_probs, double *totals,
                                  void *workspace, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
#endif
