/* Beam search for transducers, RNN-T and TDT, on the CPU: the most probable label sequences, each summed over its
 * alignments, with a language model and phrases.
 *
 * An alignment goes from frame to frame as greedy decoding does: blank moves on by its duration, by 1 at least (in RNN-T
 * by 1); a label by its duration (in RNN-T not at all), but the label number `max_symbols` on a frame by 1 at least; the
 * recording is over when it leads past the last frame. So the probabilities of all label sequences sum to 1, and with a
 * beam that holds everything, a sequence's score is its log-probability plus what the scorer adds. Only the labels on a
 * frame, for `max_symbols`, are counted on the best alignment of a sequence alone.
 *
 * Memory does not depend on how many frames there are: labels that all alignments have at the same place are settled, and
 * forgotten once they are written.
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
/* The same: its frames hold NaN, which transducer_beam answers with TRANSDUCER_INVALID_VALUE, too. */
#define TRANSDUCER_BEAM_HAS_NAN (-2)

typedef struct {
    int64_t beam;            /* label sequences kept */
    int64_t n_best;          /* label sequences returned, at most `beam` */
    double drop;             /* sequences, and alignments, whose score is this far below the best are dropped; at most 0 */
    int64_t max_symbols;     /* labels on a frame, 1 or more */
    int64_t slots;           /* utterances of a thread that are decoded at once */
    int64_t nodes;           /* labels of all kept sequences of an utterance that are remembered, those that several
                              * begin with counted once; more than 2 x `beam` */
    int32_t threads;
    int32_t instruction_set; /* transducerInstructionSet */
    double internal_weight;  /* at least 0: so many times the log-probability of a label among labels, by the prediction
                              * network and a frame of zeros, is taken off its score, where there are `scorers` */
} transducerBeamOptions;

/* Durations of the network are at most this. */
enum { TRANSDUCER_LONGEST_JUMP = 4096 };

TRANSDUCER_API transducerStatus transducer_beam_workspace(const transducerNetwork* network,
                                                          const transducerBeamOptions* options, size_t* bytes);

/* Of the state of an utterance whose frames come in pieces: memory aligned to 64 bytes, all 0 before the first. It may be
 * copied, for frames that may yet change. */
TRANSDUCER_API transducerStatus transducer_beam_state(const transducerNetwork* network,
                                                      const transducerBeamOptions* options, size_t* bytes);

/* Frames, `scorers` and `invalid` are as for transducer_decode. Sequence i of utterance n, best first, has
 * lengths[n * n_best + i] labels, at most `capacity`, at tokens + (n * n_best + i) * capacity, and there, on its most
 * probable alignment, the frames, durations (0 in RNN-T), probabilities among labels and blank, and entropies (unless NULL).
 * `acoustic` and `external` add up to its score; counts[n] are found, or TRANSDUCER_BEAM_MORE_NODES.
 *
 * `states`: NULL, or that of every utterance, which is updated; `is_over` then says whether the frames are the last ones,
 * so that scores have what the scorer adds at the end. Frames are numbered from the very first, and sequences begin with the
 * first label that was not settled before this call. All of them have the same first settled[n] labels (unless NULL), which
 * never change and are not given again. Where more labels than `nodes` are open, the most probable alignment settles its first.
 * A capacity of `nodes` and max_symbols times the frames is never too small. */
TRANSDUCER_API transducerStatus transducer_beam(const transducerNetwork* network, const transducerBeamOptions* options,
                                                const float* encoded, int64_t batch, int64_t batch_stride,
                                                int64_t frame_stride, const int64_t* frame_counts, void* const* states,
                                                int32_t is_over, const ctc_scorer* const* scorers, int64_t capacity,
                                                int32_t* tokens, int32_t* frames, int32_t* durations,
                                                float* confidences, float* entropies, int64_t* lengths,
                                                int64_t* settled, double* acoustic, double* external, int64_t* counts,
                                                void* workspace, int64_t* invalid);

/* ---- On a CUDA device, as transducer_decode_begin_cuda. What is found is that of transducer_beam but for the last digits of
 * its scores. ---- */

typedef struct {
    int64_t batch, frames;       /* of the padded batch: no utterance has more */
    int64_t capacity;            /* labels of a sequence, at least max_symbols x frames */
    const float* encoded;        /* [batch][frames][C]; aligned to 16 bytes */
    const int64_t* frame_counts; /* [batch] */
    int32_t* tokens;             /* [batch][n_best][capacity], as all results of labels, which are those of transducer_beam */
    int32_t* found_frames;
    int32_t* durations;
    float* confidences;
    float* entropies;
    int64_t* lengths;            /* [batch][n_best], as acoustic and external */
    double* acoustic;
    double* external;
    int64_t* counts;             /* [batch]: sequences, TRANSDUCER_BEAM_MORE_NODES or TRANSDUCER_BEAM_HAS_NAN */
    int32_t* is_active;          /* [batch], written: whether there are frames left */
    const void* const* scorers;  /* NULL, or [batch] of NULL or what transducer_scorer_for_device makes */
    void* workspace;             /* aligned to 64 bytes */
    int32_t weight_type;         /* as in transducerDeviceBatch */
} transducerDeviceBeam;

/* `slots`, `threads` and `instruction_set` of the options have no effect. */
TRANSDUCER_API transducerStatus transducer_beam_workspace_cuda(const transducerNetwork* network,
                                                               const transducerBeamOptions* options,
                                                               const transducerDeviceBeam* beam, size_t* bytes);

TRANSDUCER_API transducerStatus transducer_beam_begin_cuda(const transducerNetwork* network,
                                                           const transducerBeamOptions* options,
                                                           const transducerDeviceBeam* beam, struct CUstream_st* stream);

/* So many steps, each to the entries of the next frame of every active utterance. More than it takes change nothing. */
TRANSDUCER_API transducerStatus transducer_beam_steps_cuda(const transducerNetwork* network,
                                                           const transducerBeamOptions* options,
                                                           const transducerDeviceBeam* beam, int64_t steps,
                                                           struct CUstream_st* stream);

#ifdef __cplusplus
}
#endif

#endif
