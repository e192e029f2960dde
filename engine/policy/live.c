/* SPDX-License-Identifier: MIT */
/* When to decode live speech, and what is final; see live.h. */
#include "engine/policy/live.h"

/* Silence before an utterance that its window has as well. */
#define MARGIN_SAMPLES (3 * 16000 / 10)
/* After a pause this long an utterance begins anew, without the words before:
 * long enough that a breath does not take the context away. */
#define ANEW_SAMPLES (3 * 16000 / 2)
/* The newest audio, in which words are still half heard: this part of the
 * latency, and no more than this long. Twice as much where no second decode
 * confirms a word. */
#define HELD_BACK_PART 0.25
#define MAX_HELD_BACK_SAMPLES (7 * 16000 / 10)
/* Part of the longest window from which it should become shorter. */
#define LONG_PART 0.4
#define TOO_LONG_PART 0.7
/* Speech that waits longer than this is skipped. */
#define MAX_LAG_SAMPLES (20 * 16000)
/* Time from a word that is final to its buffer. */
#define RESERVE_SAMPLES (3 * 16000 / 20)

static AsrLiveStep
next_silence (const AsrLive *live, const AsrHeard *heard, gint64 until)
{
  AsrLiveStep step = { ASR_LIVE_SILENCE, live->position, until };

  step.is_anew = until - live->speech_end >= ANEW_SAMPLES;
  if (until <= live->position)
    step.action = heard->is_complete ? ASR_LIVE_END : ASR_LIVE_WAIT;
  return step;
}

AsrLiveStep
asr_live_next (const AsrLive *live, const AsrLiveParams *params,
    const AsrHeard *heard)
{
  guint i = asr_heard_find_span (heard, live->position);
  gint64 known = heard->is_complete ? heard->end : heard->decided;
  AsrLiveStep step = { ASR_LIVE_WAIT, live->start, heard->end };
  const AsrSpan *span;

  if (heard->is_complete && live->position >= heard->end) {
    step.action = ASR_LIVE_END;
    return step;
  }
  if (params->may_skip && heard->end - live->position > MAX_LAG_SAMPLES)
    return (AsrLiveStep){ ASR_LIVE_SKIP, live->position,
      heard->end - MIN (params->latency_samples, MAX_LAG_SAMPLES / 2), FALSE,
      TRUE };
  if (i == heard->n_spans)
    return next_silence (live, heard, known);
  span = &heard->spans[i];
  if (span->start > live->position)
    return next_silence (live, heard, span->start);
  step.is_last = heard->is_complete || span->end <= known;
  step.end = MIN (step.end, live->start + params->max_window_samples);
  if (span->end <= known)
    step.end = MIN (step.end, span->end + MARGIN_SAMPLES);
  if (step.end > step.start
      && (step.is_last
          || heard->end - MAX (live->decoded, span->start)
              >= params->step_samples))
    step.action = ASR_LIVE_DECODE;
  return step;
}

void
asr_live_take_silence (AsrLive *live, const AsrLiveStep *step)
{
  live->position = MAX (live->position, step->end);
  if (step->is_anew)
    live->start = MAX (live->start, live->position - MARGIN_SAMPLES);
}

/* How far behind the newest audio everything must be final, so that the next
 * decode, a step later and twice as slow, still keeps the promise. */
static gint64
get_deadline (const AsrLiveParams *params)
{
  return params->latency_samples - params->step_samples
      - 2 * params->decode_samples - RESERVE_SAMPLES;
}

/* Whether a word stays: agreed on and out of the newest audio, or old. */
static gboolean
is_final (const AsrLiveParams *params, const AsrLiveStep *step,
    const AsrSpan *word, gboolean is_agreed)
{
  gint64 held_back = MIN (MAX_HELD_BACK_SAMPLES,
      (gint64) (HELD_BACK_PART * params->latency_samples));

  if (step->is_last || step->end - word->start >= get_deadline (params))
    return TRUE;
  if (params->needs_agreement)
    return is_agreed && step->end - word->end >= held_back;
  return step->end - word->end >= 2 * held_back;
}

guint
asr_live_take_text (AsrLive *live, const AsrLiveParams *params,
    const AsrHeard *heard, const AsrLiveStep *step, const AsrSpan *words,
    guint n_words, guint n_agreed)
{
  gint64 promised = step->end - get_deadline (params);
  guint n_final = 0, i;

  while (n_final < n_words
      && is_final (params, step, &words[n_final], n_final < n_agreed))
    n_final++;
  live->decoded = step->end;
  if (n_final > 0)
    live->position = MAX (live->position, words[n_final - 1].end);
  live->position = MAX (live->position, MIN (promised, step->end));
  if (!step->is_last)
    return n_final;
  i = asr_heard_find_span (heard, step->start);
  while (i < heard->n_spans && heard->spans[i].start < step->end) {
    live->position = MAX (live->position, MIN (heard->spans[i].end, step->end));
    i++;
  }
  if (heard->is_complete && step->end >= heard->end)
    live->position = heard->end;
  live->speech_end = live->position;
  return n_final;
}

gboolean
asr_live_is_long (const AsrLive *live, const AsrLiveParams *params)
{
  return live->decoded - live->start > LONG_PART * params->max_window_samples;
}

gboolean
asr_live_is_too_long (const AsrLive *live, const AsrLiveParams *params)
{
  return live->decoded - live->start
      > TOO_LONG_PART * params->max_window_samples;
}

void
asr_live_shorten (AsrLive *live, gint64 start)
{
  live->start = CLAMP (start, live->start, live->decoded);
}

gint64
asr_live_get_needed (const AsrLive *live)
{
  return MIN (live->start, live->position);
}
