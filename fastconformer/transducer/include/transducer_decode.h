/* Greedy decoding of transducers, RNN-T and TDT, on the CPU: one call for a batch, however long.
 *
 * Every utterance has a pointer of its own into its frames. A step evaluates the joint for rows that are not finished,
 * and the prediction network for rows that emitted a label; finished rows are replaced by utterances that wait. Tokens,
 * frames, durations and numbers of an utterance are bitwise the same in every batch, on any number of threads.
 *
 * The library allocates nothing, prints nothing, throws nothing and keeps no state.
 */
#ifndef TRANSDUCER_DECODE_H
#define TRANSDUCER_DECODE_H

#include "ctc_decode.h"
#include "transducer_loss.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Prediction network and joint. Widths H, J and 4 x H count padded to a multiple of 32, with zeros; C does not. A packed
 * matrix of n rows and k columns lies as [n / 32][k][32]: 32 rows beside each other, column after column. */
typedef struct {
    int64_t classes;                 /* labels and, behind them, the blank */
    int64_t encoder;                 /* C, width of an encoder frame */
    int64_t hidden;                  /* H, of the prediction network */
    int64_t joint;                   /* J */
    int64_t layers;                  /* of LSTM */
    int64_t duration_count;          /* 0: RNN-T */
    const int32_t* durations;        /* ascending */
    const float* first_gates;        /* [classes][4 H]: what the first layer makes of each label, with both biases; the
                                      * gates are input, forget, cell, output */
    const float* const* gate_weights; /* per layer, packed: [4 H][H] of the first, of its state; [4 H][2 H] of others, of
                                      * their input and of their state */
    const float* const* gate_biases; /* per layer [4 H]; of the first nothing */
    const float* encoder_weights;    /* packed [J][C] */
    const float* encoder_bias;       /* [J], both projections' sum */
    const float* prediction_weights; /* packed [J][H] */
    const float* output_weights;     /* packed [classes padded to 32, then durations padded to 32][J] */
    const float* output_bias;        /* the same rows; -infinity for those that pad */
    const float* output_rows;        /* [classes][J], the same unpacked, for single logits; NULL where no internal weight
                                      * is used */
    int32_t activation;              /* transducerActivation of the joint */
} transducerNetwork;

typedef struct {
    int64_t max_symbols;     /* labels on a frame, 1 or more */
    int64_t slots;           /* utterances of a thread that are decoded at once */
    int64_t window;          /* so many frames of an utterance, at most, go through the joint at once */
    int64_t window_rows;     /* and of all slots together, unless that is less than one of each */
    int32_t threads;
    int32_t instruction_set; /* transducerInstructionSet */
    double internal_weight;  /* of the internal language model, at least 0: see below */
    double internal_most;    /* difference of internal logits that counts, at most */
} transducerDecodeOptions;

/* Where an utterance goes on, for those whose frames come in pieces. All 0 before the first. */
typedef struct {
    int64_t next_frame; /* of the frames to come, the first that is not jumped over */
    int64_t symbols;    /* labels on it already */
    int64_t started;
} transducerPosition;

/* Floats of the state of one utterance: H and C of every layer, and the projected output. */
TRANSDUCER_API transducerStatus transducer_state_floats(const transducerNetwork* network, int64_t* count);

TRANSDUCER_API transducerStatus transducer_decode_workspace(const transducerNetwork* network,
                                                            const transducerDecodeOptions* options, size_t* bytes);

/* Frame t of utterance n is at encoded + n * batch_stride + t * frame_stride, its C numbers adjacent. What is found goes
 * to rows of `capacity` elements: tokens, the frames they are emitted at, durations (unless NULL), probabilities among
 * labels and blank, and the entropies of those in nats (unless NULL); and counts. No utterance finds more than
 * max_symbols times its frames. `states` and `positions` are NULL, or those of every utterance, which are updated; then
 * frames are numbered from the first of this call.
 *
 * `scorers`: NULL, or of every utterance NULL or tables of ctc_decode.h, whose labels are those of the network and the
 * blank: once a label is more probable than blank, the one is emitted whose logit with what they add is largest.
 * What the network knows of the language itself is then taken off: the joint of the prediction network and a frame of zeros
 * gives logits of its own, internal ones. A label gains `internal_weight` times the difference of the internal logit of the
 * label that is best by the network to its own, which counts up to `internal_most` either way.
 * `scorer_states`: NULL, or three numbers of every utterance, which go with `positions`.
 *
 * TRANSDUCER_INVALID_VALUE: an argument does not fit; or, with its number in `invalid`, an utterance has a length that
 * does not fit, or NaN in a frame: other utterances are then decoded all the same.
 */
TRANSDUCER_API transducerStatus transducer_decode(const transducerNetwork* network,
                                                  const transducerDecodeOptions* options, const float* encoded,
                                                  int64_t batch, int64_t batch_stride, int64_t frame_stride,
                                                  const int64_t* frame_counts, int64_t capacity, int32_t* tokens,
                                                  int32_t* frames, int32_t* durations, float* confidences,
                                                  float* entropies, int64_t* counts, float* states,
                                                  transducerPosition* positions, const ctc_scorer* const* scorers,
                                                  int32_t* scorer_states, void* workspace, int64_t* invalid);

/* ---- On a CUDA device, with the kernels that transducer_cuda_use says. What a network and a batch point to is memory of the device, but
 * for `durations`, `gate_weights` and `gate_biases` themselves, which are arrays of the host. Calls launch kernels on
 * `stream` and return: nothing waits for the device, so that they may be captured in a graph. At most
 * TRANSDUCER_MOST_DURATIONS durations, TRANSDUCER_MOST_LAYERS layers, J up to TRANSDUCER_MOST_JOINT, C a multiple of 32. ---- */

#define TRANSDUCER_MOST_LAYERS 8
#define TRANSDUCER_MOST_JOINT 1024

/* A scorer of ctc_decode.h as kernels read it: bytes that the caller copies to the device. */
#define TRANSDUCER_SCORER_BYTES 64

typedef struct {
    int64_t batch;
    int64_t frames;              /* of the padded batch: no utterance has more */
    int64_t capacity;            /* of an utterance's results, at least max_symbols x frames */
    int64_t max_symbols;         /* labels on a frame, 1 or more */
    int64_t window;              /* frames that go through the joint at once: 1, 2, 4 or 8 */
    const float* encoded;        /* [batch][frames][C]; aligned to 16 bytes, as are states and pending */
    float* projected;            /* [batch][frames][J], room */
    const int64_t* frame_counts; /* [batch] */
    int32_t* tokens;             /* [batch][capacity], as all results but the counts */
    int32_t* found_frames;
    int32_t* durations;
    float* confidences;
    float* entropies;
    int64_t* counts;             /* [batch]; transducerUndecoded where something is wrong with an utterance */
    float* states;               /* [batch][transducer_state_floats] */
    transducerPosition* positions; /* [batch]; when all is decoded, next_frame still counts from the first frame of the batch */
    int32_t* is_active;          /* [batch], written: whether there are frames left */
    int32_t* emitted;            /* [batch], room: labels that the prediction network has not been told of */
    float* pending;              /* [batch][layers][H], room */
    float* logits;               /* [batch][window][classes padded to 32, then durations padded to 32], room */
    const void* const* scorers;  /* NULL, or [batch] of NULL or what transducer_scorer_for_device makes; as `scorers` above */
    int32_t* scorer_states;      /* [batch][3], where there are scorers */
    double internal_weight;      /* as in transducerDecodeOptions */
    double internal_most;
    int32_t weight_type;         /* transducerType of all packed weights, which are TRANSDUCER_FLOAT64 never */
} transducerDeviceBatch;

/* `made`: TRANSDUCER_SCORER_BYTES. `scorer`: tables of the host; `on_device`: the same, all of whose pointers are to memory of
 * the device, where itself it lies. */
TRANSDUCER_API transducerStatus transducer_scorer_for_device(const ctc_scorer* scorer, const ctc_scorer* on_device,
                                                             int64_t vocabulary, void* made);

typedef enum { TRANSDUCER_HAS_NAN = -1, TRANSDUCER_HAS_WRONG_LENGTH = -2 } transducerUndecoded;

/* Looks at the lengths; the prediction network begins where positions have not started. */
TRANSDUCER_API transducerStatus transducer_decode_begin_cuda(const transducerNetwork* network,
                                                             const transducerDeviceBatch* batch,
                                                             struct CUstream_st* stream);

/* So many steps, each of them to the next label of every active utterance, or to the end of its window. All is decoded
 * once none is active, at the latest after (max_symbols + 1) x frames steps; more of them change nothing. */
TRANSDUCER_API transducerStatus transducer_decode_steps_cuda(const transducerNetwork* network,
                                                             const transducerDeviceBatch* batch, int64_t steps,
                                                             struct CUstream_st* stream);

#ifdef __cplusplus
}
#endif

#endif
