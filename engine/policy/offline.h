/* SPDX-License-Identifier: MIT */
/*
 * Which stretch of a recording to decode next: windows that begin where
 * speech begins or where the text before ended, that never reach over a long
 * pause, and that end in a pause where they can. Pure: no device, thread or
 * clock; positions in samples.
 */
#ifndef ASR_POLICY_OFFLINE_H
#define ASR_POLICY_OFFLINE_H

#include "engine/policy/heard.h"

G_BEGIN_DECLS

/**
 * AsrOfflineParams:
 * @max_window_samples: what one encode covers
 * @use_gate: FALSE: decode everything, the detector is not asked
 */
typedef struct {
  gint64 max_window_samples;
  gboolean use_gate;
} AsrOfflineParams;

typedef enum {
  ASR_OFFLINE_WAIT,    /* for more audio */
  ASR_OFFLINE_SILENCE, /* nothing was said from start to end */
  ASR_OFFLINE_DECODE,  /* the window from start to end */
  ASR_OFFLINE_END,     /* all is told */
} AsrOfflineAction;

/**
 * AsrOfflineStep:
 * @is_doubtful: the detector heard no speech here or for long before: its
 *   word is not taken for it, but neither is a weak guess of the model
 * @is_cut: the window ends at a pause: what its text leaves over is no speech
 */
typedef struct {
  AsrOfflineAction action;
  gint64 start;
  gint64 end;
  gboolean is_doubtful;
  gboolean is_cut;
} AsrOfflineStep;

/* Zero-filled is the state at the start of a timeline. */
typedef struct {
  gint64 position;      /* everything before is told */
  gint64 silence_start; /* from here to position is silence */
  gint64 quiet_start;   /* no speech to speak of since */
  AsrSpan hole;         /* the last one found: is decoded by itself, once */
} AsrOffline;

AsrOfflineStep asr_offline_next (const AsrOffline *offline,
    const AsrOfflineParams *params, const AsrHeard *heard);

/* Audio before this sample is in no window to come. */
gint64 asr_offline_get_needed (const AsrOffline *offline);

/* Silence up to @end has been told. */
void asr_offline_take_silence (AsrOffline *offline, gint64 end);

/**
 * asr_offline_find_hole: looks for speech that the model skipped, which it
 * does now and then with whole sentences.
 * @from, @to: a stretch of a decoded window without a word in it
 * Returns: where the skipped speech begins, which asr_offline_take_text takes
 *   for @reached: the next window is the hole alone. -1: there is too little
 *   speech for that, or it was decoded by itself already.
 */
gint64 asr_offline_find_hole (AsrOffline *offline, const AsrHeard *heard,
    gint64 from, gint64 to);

/**
 * asr_offline_take_text: a window was decoded.
 * @reached: sample that its text covers, within the window
 * Returns: where the next window may begin: @reached, or later where the
 *   rest is too short to hold a word
 */
gint64 asr_offline_take_text (AsrOffline *offline,
    const AsrOfflineParams *params, const AsrHeard *heard,
    const AsrOfflineStep *step, gint64 reached);

/**
 * asr_offline_snap: moves a word's ends into speech, since alignment smears
 * words over the pauses beside them.
 * @begins_phrase: of several spans that it touches, the word belongs to the
 *   last, since it was smeared over the pause before it; else to the one that
 *   holds most of it
 * @start, @end: (inout): changed; a word that touches no span moves to the
 *   nearer end of the nearest; one without length may stay in a span
 */
void asr_offline_snap (const AsrSpan *spans, guint n_spans,
    gboolean begins_phrase, gint64 *start, gint64 *end);

G_END_DECLS

#endif
