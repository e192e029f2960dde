/* SPDX-License-Identifier: MIT */
/*
 * What the files of the worker's side share: session.c is what every stream
 * does, session_offline.c the way of a recording, session_live.c that of speech
 * that goes on.
 */
#ifndef ASR_ENGINE_SESSION_PRIVATE_H
#define ASR_ENGINE_SESSION_PRIVATE_H

#include "engine/audio/gate.h"
#include "engine/policy/live.h"
#include "engine/policy/offline.h"
#include "engine/session.h"

G_BEGIN_DECLS

typedef struct _AsrSessionLive AsrSessionLive;

struct _AsrSession {
  AsrStream *stream;
  const AsrModel *model;
  const AsrVocab *vocab;
  gint generation;
  guint epoch;
  gboolean is_dead;          /* cancelled or failed, until the next reset */
  gboolean is_ended;

  AsrVad *vad;
  AsrGate *gate;
  gint64 heard_until;        /* the voice detector's position */
  gboolean is_speaking;      /* as it was last told */
  gboolean is_complete;      /* no audio follows, or all is to be final */
  gboolean is_draining;      /* no audio follows */
  gint64 audio_end;          /* as of the last update */
  AsrOfflineParams params;
  AsrOffline offline;
  AsrOfflineStep step;
  AsrSessionLive *live;      /* (owned) (nullable): where speech is decoded
                              * while it goes on */
  AsrSessionState state;

  GArray *prompt;            /* gint32, of what the user said */
  gint language;             /* index, -1: not known yet */
  gint wished_language;      /* what the user last said */
  guint skip_copy;
  guint tap;
  AsrSlotHolder audio;
  AsrSpan encoded;           /* what the slot holds, unless it was lost */
  gboolean is_reused;        /* the window was in its slot already */
  AsrSessionOutput outputs[ASR_MAX_OUTPUTS];
  guint n_outputs;
  AsrMethodCost costs[ASR_N_METHODS];
  float *window;             /* [max_window_samples] */
};

/* ---- session.c ---- */

/* What is known of the audio now; borrowed from the gate. */
AsrHeard asr_session_get_heard (AsrSession *session);

/* Code of the language of an output's text, "" where it is not known yet. */
const char *asr_session_get_language (const AsrSession *session,
    guint index);

/* Nothing was said up to @end. */
void asr_session_tell_silence (AsrSession *session, guint index, gint64 end);

/* Something happened at a sample. */
void asr_session_tell_event (AsrSession *session, AsrSegmentType type,
    gint64 at);

/* Everything is told. */
void asr_session_tell_end (AsrSession *session);

/* Audio before @position is told, and before @needed in no window to come:
 * pushers may have room now. */
void asr_session_move_on (AsrSession *session, gint64 position,
    gint64 needed);

/* Counts the window that was decoded. */
void asr_session_add_stats (AsrSession *session);

/* Mel frames of the window. */
#define ASR_MEL_FRAME_SAMPLES 160
guint asr_session_get_n_mel_frames (const AsrSession *session);

/* ---- session_offline.c ---- */

/* Asks the policy. Returns: whether there was something to do */
gboolean asr_session_offline_update (AsrSession *session);

/* Whether the window that was read is too quiet to be decoded; then it was
 * told as silence. */
gboolean asr_session_offline_take_silence (AsrSession *session);

/* The window is decoded. Returns: FALSE where some output is once more */
gboolean asr_session_offline_finish (AsrSession *session);

/* Whether a window had no words that are to be believed. */
gboolean asr_session_is_silence (const AsrSession *session,
    const AsrDecodingResult *result);

/**
 * asr_session_take_output: text of one output of a window that is complete.
 * @reached, @hole: (inout): output 0 decides for all: sample that the text of
 *   the window reaches, and where it ends early since speech was skipped there
 *
 * Returns: (transfer full) (nullable) (element-type AsrPhraseText)
 */
GArray *asr_session_take_output (AsrSession *session, guint index,
    const AsrDecodingResult *result, gint64 *reached, gint64 *hole);

/* @phrases: (nullable) (element-type AsrPhraseText) */
void asr_session_tell_phrases (AsrSession *session, guint index,
    GArray *phrases);

/* ---- session_live.c ---- */

AsrSessionLive *asr_session_live_new (void);
void asr_session_live_free (AsrSessionLive *live);
void asr_session_live_reset (AsrSession *session);

/* What is promised from the next decode on. */
void asr_session_live_set_latency (AsrSessionLive *live,
    guint64 latency_samples);

/* Asks the policy. Returns: whether there was something to do */
gboolean asr_session_live_update (AsrSession *session);

/* How the window is to be decoded. */
void asr_session_live_get_params (const AsrSession *session,
    AsrDecodingParams *params, GArray *prompt);

/* The window's text is there: words that are final go to the user, and the
 * others as a guess; or the translation of a window that was left. */
void asr_session_live_finish (AsrSession *session);

/* Whether the window that runs is for the outputs behind the first. */
gboolean asr_session_live_is_translating (const AsrSessionLive *live);

/* Everything before this sample is told. */
gint64 asr_session_live_get_position (const AsrSessionLive *live);

G_END_DECLS

#endif
