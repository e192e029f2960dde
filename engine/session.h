/* SPDX-License-Identifier: MIT */
/*
 * The worker's side of a stream: voice detection, the policy that chooses
 * windows, the decodings of a window, and their way back into segments. Used
 * by the worker thread alone.
 */
#ifndef ASR_ENGINE_SESSION_H
#define ASR_ENGINE_SESSION_H

#include "engine/audio/vad.h"
#include "engine/decode/decoding.h"
#include "engine/model/slots.h"
#include "engine/stream.h"

G_BEGIN_DECLS

typedef enum {
  ASR_SESSION_IDLE,   /* waits for audio */
  ASR_SESSION_ENCODE, /* a window waits to be encoded */
  ASR_SESSION_DECODE, /* the decodings of a window run */
} AsrSessionState;

typedef struct {
  AsrDecoding *decoding;  /* (owned) */
  AsrSlotHolder text;
  gint64 told;            /* sample up to which segments were made */
  double last_speech_s;
  GArray *previous;       /* gint32: text of windows before, as a prompt */
  gboolean is_unprompted; /* decodes again without the prompt */
} AsrSessionOutput;

AsrSession *asr_session_new (AsrStream *stream, const AsrModel *model,
    const AsrVadModel *vad_model);
void asr_session_free (AsrSession *session);

/* Whether what the session works at is no longer wanted. Any thread. */
gboolean asr_session_is_stale (const AsrSession *session);

/**
 * asr_session_update: takes over what users said and pushed: starts anew
 * after a reset, listens to new audio, and asks the policy for a window.
 * @audio_slots, @text_slots: get back what a stale session held
 *
 * Returns: whether anything changed, so that it is worth to ask again
 */
gboolean asr_session_update (AsrSession *session, AsrSlots *audio_slots,
    AsrSlots *text_slots);

AsrSessionState asr_session_get_state (const AsrSession *session);

/* In state ENCODE: the window, and its slot once the holder has one.
 * Returns: FALSE where the window need not be encoded: it is silence */
gboolean asr_session_get_window (AsrSession *session, AsrEncodeRow *row);
AsrSlotHolder *asr_session_get_audio_holder (AsrSession *session);

/* The window is in its slot: ENCODE becomes DECODE.
 * @is_reused: it was there from the run before */
void asr_session_start_decoding (AsrSession *session, gboolean is_reused);

/* In state ENCODE: whether a slot that was kept holds this window. */
gboolean asr_session_is_encoded (const AsrSession *session);

/* In state DECODE: [n]; a decoding takes part once its holder has a slot. */
AsrSessionOutput *asr_session_get_outputs (AsrSession *session, guint *n);

/* Gives a decoding its text slot: it starts. */
void asr_session_start_output (AsrSession *session, AsrSessionOutput *output);

/* Counters that the worker adds to: [ASR_N_METHODS]. */
AsrMethodCost *asr_session_get_costs (AsrSession *session);
guint asr_session_get_skip_copy (const AsrSession *session);

/* Whether the output of a method is wanted by the user: it is not skipped,
 * and tapped. */
gboolean asr_session_is_tapped (const AsrSession *session, AsrMethod method);

/* Tells the output of a method run on the window: f32 [n_rows, n_columns].
 * Returns: (transfer none): where the caller puts it, before
 * asr_session_tell_output hands it on; @segment: (out) (transfer full) */
float *asr_session_make_output (const AsrSession *session, AsrMethod method,
    guint n_rows, guint n_columns, AsrSegment **segment);
void asr_session_tell_output (AsrSession *session, AsrSegment *segment);

/* All decodings are done: segments for the user, and on to the next window;
 * or once more for an output that only gave its prompt back. */
void asr_session_finish_window (AsrSession *session, AsrSlots *audio_slots,
    AsrSlots *text_slots);

void asr_session_fail (AsrSession *session, const GError *error);

G_END_DECLS

#endif
