/* SPDX-License-Identifier: MIT */
/*
 * A speech model on a backend: the methods mel, encoder and decoder over
 * pools of slots. In: samples and token rows. Out: token records and frame
 * numbers. Knows no streams, windows or rules of when to stop.
 *
 * A model belongs to one thread at a time, apart from what is immutable after
 * loading: info, vocabulary and limits.
 */
#ifndef ASR_MODEL_MODEL_H
#define ASR_MODEL_MODEL_H

#include "engine/backend/backend.h"
#include "engine/text/vocab.h"

G_BEGIN_DECLS

typedef struct _AsrModel AsrModel;

/* Sizes of the pools; device memory is taken once, at load. */
typedef struct {
  guint n_audio_slots;  /* encoder outputs with their cross K/V */
  guint n_text_slots;   /* self K/V and sampling state */
  guint max_sequences;  /* windows in one encode */
  guint max_rows;       /* rows in one decoder batch */
} AsrModelLimits;

#define ASR_MODEL_LIMITS_DEFAULT { 8, 16, 1, 512 }

/**
 * asr_model_describe: what a model can do, from the shapes in its files.
 * Fails with CORRUPT or UNSUPPORTED where tensors are missing or misshapen.
 */
gboolean asr_model_describe (const AsrWeights *weights, AsrModelInfo *info,
    GError **error);

/**
 * asr_model_load: brings the weights onto the device.
 * @compute: must outlive the model
 * @weights: borrowed for the life of the model (its vocabulary)
 * @progress: (nullable)
 */
AsrModel *asr_model_load (const AsrCompute *compute,
    const AsrWeights *weights, const AsrModelLimits *limits,
    AsrProgressFunc progress, gpointer user_data, GError **error);
void asr_model_free (AsrModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AsrModel, asr_model_free)

const AsrModelInfo *asr_model_get_info (const AsrModel *model);
const AsrModelLimits *asr_model_get_limits (const AsrModel *model);
const AsrVocab *asr_model_get_vocab (const AsrModel *model);

/* Traffic and time of one method run; whoever passes it adds it up. */
typedef struct {
  guint64 time_ns;
  guint64 to_host_bytes;
  guint64 to_device_bytes;
} AsrMethodCost;

/**
 * AsrEncodeRow: one window.
 * @samples: host [n_samples] f32 at 16 kHz, at most max_window_samples
 * @skip_copy: mask; a method that is not in it goes to the host and back
 * @cost: (out): [ASR_N_METHODS], added to
 */
typedef struct {
  const float *samples;
  guint n_samples;
  guint audio_slot;
  guint skip_copy;
  AsrMethodCost *cost;
} AsrEncodeRow;

/* Returns: TRUE when the work need not be finished */
typedef gboolean (*AsrCancelFunc) (gpointer user_data);

/**
 * asr_model_encode: mel, encoder and cross K/V of up to max_sequences
 * windows into their slots. Waits for the device.
 * @cancel: (nullable) (scope call): asked between layers; a cancelled encode
 *   returns TRUE and leaves the slots without meaning
 */
gboolean asr_model_encode (AsrModel *model, const AsrEncodeRow *rows,
    guint n_rows, AsrCancelFunc cancel, gpointer user_data, GError **error);

/* Shape of the output of mel, [n_mels, frames], or encoder, [frames, d_model],
 * for one window. */
void asr_model_get_output_shape (const AsrModel *model, AsrMethod method,
    guint shape[2]);

/* Host copies of what a slot holds, for taps and tests.
 * @out: f32 of that shape */
gboolean asr_model_read_output (AsrModel *model, AsrMethod method,
    guint audio_slot, float *out, GError **error);

/* Puts the sampling state of a text slot before the batch that needs it. */
void asr_model_set_text_state (AsrModel *model, guint text_slot,
    const AsrTextState *state);

/**
 * asr_model_decode: one decoder batch and @n_steps - 1 more in which every
 * row that sampled goes on with what it chose. Waits for the device.
 * @rows: [n_rows], at most max_rows
 * @choices: [n_choices], at most max_rows; several may name one row
 * @n_steps: more than 1 only where each row is a SAMPLE of its own
 * @skip_copy: whether logits stay on the device
 * @records: (out): [n_steps, n_choices]
 * @cost: (out): added to
 */
gboolean asr_model_decode (AsrModel *model, const AsrRow *rows, guint n_rows,
    const AsrChoice *choices, guint n_choices, guint n_steps, guint skip_copy,
    AsrTokenRecord *records, AsrMethodCost *cost, GError **error);

/* Logits of the last step of asr_model_decode whose skip_copy did not name the
 * decoder: host f32 [n_choices, n_vocab] of up to 32 choices, two for each of
 * the text slots; valid until the next run. */
const float *asr_model_get_host_logits (const AsrModel *model);

/**
 * asr_model_align: a decoder pass over a whole text in which nothing is
 * chosen: what it attends to tells when each token is said.
 * @rows: [n_rows] of one text slot: start sequence, text, eot
 * @first_row: the row that predicts the first text token
 * @n_frames: encoder frames that are real audio
 * @frames: (out): [n_rows - 1 - first_row] first frame of each text token,
 *   then the end
 */
gboolean asr_model_align (AsrModel *model, const AsrRow *rows, guint n_rows,
    guint first_row, guint n_frames, gint16 *frames, AsrMethodCost *cost,
    GError **error);

/* Runs every method once, on silence: what a device does at the first use of
 * its libraries and kernels is over before audio waits for it. */
gboolean asr_model_warm_up (AsrModel *model, GError **error);

/* Bytes of device memory that one slot of a method takes. */
gsize asr_model_get_slot_bytes (const AsrModel *model, AsrMethod method);

/* How many steps are worth enqueuing before the host looks. */
guint asr_model_get_steps_ahead (const AsrModel *model);

G_END_DECLS

#endif
