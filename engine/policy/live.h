/* SPDX-License-Identifier: MIT */
/*
 * When to listen again to speech that is still going on, and which words are
 * final: a window grows while somebody speaks, is decoded again every step,
 * and ends with the utterance or where it gets long. Pure: no device, thread
 * or clock; positions in samples.
 *
 * Source of the ideas: LocalAgreement (Polák et al. 2022: a word is final once
 * two hypotheses agree on it) and AlignAtt (Papi et al. 2023: once attention
 * has left the newest audio); both bounded by a promise of latency here.
 */
#ifndef ASR_POLICY_LIVE_H
#define ASR_POLICY_LIVE_H

#include "engine/policy/heard.h"

G_BEGIN_DECLS

/**
 * AsrLiveParams:
 * @max_window_samples: what one encode covers
 * @latency_samples: a word is final this long after its start at the latest
 * @step_samples: new audio that is worth another decode; no less than what
 *   comes in while one decode runs
 * @decode_samples: audio that comes in while one decode runs
 * @may_skip: the source does not wait: where the machine can't keep up, the
 *   oldest audio is left out rather than that the text lags ever more
 * @needs_agreement: a word is final once two decodes gave it; else once it
 *   lies far enough behind the newest audio
 */
typedef struct {
  gint64 max_window_samples;
  gint64 latency_samples;
  gint64 step_samples;
  gint64 decode_samples;
  gboolean needs_agreement;
  gboolean may_skip;
} AsrLiveParams;

typedef enum {
  ASR_LIVE_WAIT,    /* for more audio */
  ASR_LIVE_SILENCE, /* nothing was said from start to end */
  ASR_LIVE_SKIP,    /* there is no time for what was said from start to end */
  ASR_LIVE_DECODE,  /* the window from start to end */
  ASR_LIVE_END,     /* all is told */
} AsrLiveAction;

/**
 * AsrLiveStep:
 * @is_last: the speaker paused, or nothing follows: every word is final
 * @is_anew: the window was left behind: what was final in it is no longer
 *   part of it
 */
typedef struct {
  AsrLiveAction action;
  gint64 start;
  gint64 end;
  gboolean is_last;
  gboolean is_anew;
} AsrLiveStep;

/* Zero-filled is the state at the start of a timeline. */
typedef struct {
  gint64 position;   /* everything before is told */
  gint64 start;      /* of the window */
  gint64 decoded;    /* end of the window when it was last decoded */
  gint64 speech_end; /* of the last utterance */
} AsrLive;

AsrLiveStep asr_live_next (const AsrLive *live, const AsrLiveParams *params,
    const AsrHeard *heard);

/* Silence, or that audio was skipped, has been told up to @step's end. */
void asr_live_take_silence (AsrLive *live, const AsrLiveStep *step);

/**
 * asr_live_take_text: a window was decoded.
 * @words: [n_words] places of the words that were not final before
 * @n_agreed: how many of them the decode before gave as well
 *
 * Returns: how many of them are final now. The position moves to the end of
 *   the last of them, and on where the promise of latency demands it.
 */
guint asr_live_take_text (AsrLive *live, const AsrLiveParams *params,
    const AsrHeard *heard, const AsrLiveStep *step, const AsrSpan *words,
    guint n_words, guint n_agreed);

/* Whether the window has become so long that it should begin later, at the
 * end of a word that is final. */
gboolean asr_live_is_long (const AsrLive *live, const AsrLiveParams *params);
/* ... so long that any word will do. */
gboolean asr_live_is_too_long (const AsrLive *live,
    const AsrLiveParams *params);
void asr_live_shorten (AsrLive *live, gint64 start);

/* Audio before this sample is in no window to come. */
gint64 asr_live_get_needed (const AsrLive *live);

G_END_DECLS

#endif
