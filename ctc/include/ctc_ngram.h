/* Back-off language models for C and C++: ARPA files read, and made into the automaton that a beam search walks.
 *
 * Nothing here allocates, prints, throws or keeps state between calls: the caller owns every buffer. The automaton,
 * `ctc_ngram`, is described in ctc_decode.h.
 */
#ifndef CTC_NGRAM_H
#define CTC_NGRAM_H

#include "ctc_decode.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  CTC_ARPA_SUCCESS = 0,
  CTC_ARPA_HEADER = 1,   /* a line that is not the header of the order; at the end of the text, no line */
  CTC_ARPA_FIELDS = 2,   /* too few n-grams, or a line with too few or too many fields */
  CTC_ARPA_NUMBER = 3,   /* not a number, or not a finite one up to 1e30 */
  CTC_ARPA_POSITIVE = 4, /* a probability above 1 */
  CTC_ARPA_WORD = 5,     /* a word that is no 1-gram */
  CTC_ARPA_TWICE = 6,    /* a 1-gram that is there already */
} ctc_arpa_status;

/* Words of a text by their place in it, with a hash table over them: `slots` is a power of two above `capacity`, and
 * `table` is filled with -1. */
typedef struct {
  int64_t *starts;  /* [capacity] */
  int32_t *lengths; /* [capacity] bytes */
  int32_t *table;   /* [slots] */
  int64_t slots;
  int32_t capacity, words;
} ctc_arpa_words;

/* Where reading is. */
typedef struct {
  int64_t at;   /* the first byte of the next line */
  int64_t line; /* its number less 1, which is that of the line read last */
  int64_t row;  /* n-grams of this order read */
} ctc_arpa_place;

/* The `count` n-grams of one order, after blank lines and the line \order-grams:. Fields are separated by blanks and
 * tabs, and by nothing else. Orders come one after the other, from 1 on, which fills `words`. Row i of `ngrams`,
 * [count, order], holds numbers of words, `log10_prob` and `log10_backoff` its numbers, 0 where there is no back-off. */
CTC_DECODE_API int ctc_arpa_level(const char *text, int64_t bytes, int32_t order, int64_t count, ctc_arpa_words *words,
                                  ctc_arpa_place *place, int32_t *ngrams, double *log10_prob, double *log10_backoff);

/* The n-grams of one order, as ctc_arpa_level leaves them. */
typedef struct {
  int64_t count;
  const int32_t *ngrams;
  const double *log10_prob, *log10_backoff;
} ctc_ngram_level;

typedef struct {
  int32_t orders, words;
  const ctc_ngram_level *levels; /* row w of the first is word w */
} ctc_ngram_model;

/* Zeroed memory that `ctc_ngram_plan` needs and `ctc_ngram_fill` reads; 0 for a model that is not valid. */
CTC_DECODE_API size_t ctc_ngram_workspace(const ctc_ngram_model *model);

/* How many states and arcs the automaton has. An n-gram that is listed twice is CTC_DECODE_INVALID; `twice` is then its
 * order and its row. */
CTC_DECODE_API int ctc_ngram_plan(const ctc_ngram_model *model, void *workspace, int32_t *states, int64_t *arcs,
                                  int64_t twice[2]);

/* Bytes of `count` numbers of `width` bits, 1 to 57; 0 for other widths and a negative count. */
CTC_DECODE_API size_t ctc_packed_bytes(int64_t count, int32_t width);

/* `values`, each below 2 to the power of `width`, into zeroed memory of ctc_packed_bytes. */
CTC_DECODE_API int ctc_pack(const int64_t *values, int64_t count, int32_t width, uint8_t *bits);

/* The automaton's arrays, to be packed where ctc_ngram has them packed, which `ctc_ngram_plan` of the same workspace gave the sizes of. `end_word` and
 * `unknown_word` are the caller's to set; `start_word`, -1 for none, is the history of a sentence's first word. */
CTC_DECODE_API int ctc_ngram_fill(const ctc_ngram_model *model, void *workspace, int32_t start_word, int64_t *first_arc,
                                  int32_t *arc_word, float *arc_log_prob, int32_t *arc_next, float *backoff,
                                  int32_t *backoff_state, float *word_bound, int32_t *start_state);

#ifdef __cplusplus
}
#endif
#endif
