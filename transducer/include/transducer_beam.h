/* Beam search for transducers, RNN-T and TDT, on the CPU: the most probable label sequences, each summed over its
 * alignments, with a language model and phrases.
 *
 * An alignment goes from frame to frame as greedy decoding does: blank moves on by its duration, by 1 at least (in RNN-T
 * by 1); a label by its duration (in RNN-T not at all), but the label number `max_symbols` on a frame by 1 at least; the
 * recording is over when it leads past the last frame. So the probabilities of all label sequences sum to 1, and with a
 * beam that holds everything, a sequence's score is its log-probability plus what the scorer adds. Only the labels on a
 * frame, for `max_symbols`, are counted on the best alignment of a sequence alone.
 *
 * The library allocates nothing, prints nothing, throws nothing and keeps no state. Results of an utterance are the same
 * in every batch, on any number of threads.
 */
#ifndef TRANSDUCER_BEAM_H
#define TRANSDUCER_BEAM_H

#include "transducer_decode.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In place of a count: the utterance needs more `nodes` than the options allow. */
#define TRANSDUCER_BEAM_MORE_NODES (-1)

typedef struct {
    int64_t beam;            /* label sequences kept */
    int64_t n_best;          /* label sequences returned, at most `beam` */
    double drop;             /* sequences, and alignments, whose score is this far below the best are dropped; at most 0 */
    int64_t max_symbols;     /* labels on a frame, 1 or more */
    int64_t slots;           /* utterances of a thread that are decoded at once */
    int64_t nodes;           /* labels of all kept sequences of an utterance that there is room for, those that several begin
                              * with counted once; 0: a million, more than speech needs */
    int32_t threads;
    int32_t instruction_set; /* transducerInstructionSet */
} transducerBeamOptions;

/* For utterances of at most `frames` frames. */
TRANSDUCER_API transducerStatus transducer_beam_workspace(const transducerNetwork* network,
                                                          const transducerBeamOptions* options, int64_t frames,
                                                          size_t* bytes);

/* Frames, `scorers` and `invalid` are as for transducer_decode. Sequence i of utterance n, best first, has
 * lengths[n * n_best + i] labels, at most `capacity`, at tokens + (n * n_best + i) * capacity, and there, on its most
 * probable alignment, the frames, durations (0 in RNN-T), probabilities among labels and blank, and entropies (unless NULL).
 * `acoustic` and `external` add up to its score; counts[n] are found, or TRANSDUCER_BEAM_MORE_NODES. */
TRANSDUCER_API transducerStatus transducer_beam(const transducerNetwork* network, const transducerBeamOptions* options,
                                                const float* encoded, int64_t batch, int64_t batch_stride,
                                                int64_t frame_stride, const int64_t* frame_counts,
                                                const ctc_scorer* const* scorers, int64_t capacity, int32_t* tokens,
                                                int32_t* frames, int32_t* durations, float* confidences,
                                                float* entropies, int64_t* lengths, double* acoustic, double* external,
                                                int64_t* counts, void* workspace, int64_t* invalid);

#ifdef __cplusplus
}
#endif

#endif
