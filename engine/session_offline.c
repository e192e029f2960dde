/* SPDX-License-Identifier: MIT */
/*
 * The worker's side of a recording: asks the offline policy for windows, and
 * tells what was said in one when all of it is decoded.
 */
#include <math.h>
#include <string.h>

#include "engine/decode/phrases.h"
#include "engine/segment.h"
#include "engine/session_private.h"
#include "engine/session_text.h"

/* A window that never gets louder holds no speech (-80 dB); where the detector
 * heard none either, it must be a little louder (-60 dB). */
#define SILENCE_PEAK 1e-4f
#define DOUBTFUL_SILENCE_PEAK 1e-3f
/* A text where the detector heard nothing must be this likely. */
#define MIN_DOUBTFUL_LOG_PROB (-0.7)
#define MAX_DOUBTFUL_NO_SPEECH 0.6
/* Text of earlier windows is no context any more above this temperature. */
#define MAX_CONTEXT_TEMPERATURE 0.5f

/* ---- what to do next ---- */

static void
move_on (AsrSession *session)
{
  asr_session_move_on (session, session->offline.position,
      asr_offline_get_needed (&session->offline));
}

/* Nothing was said up to @end. */
static void
take_silence (AsrSession *session, gint64 end)
{
  asr_offline_take_silence (&session->offline, end);
  for (guint i = session->n_outputs; i-- > 0;)
    asr_session_tell_silence (session, i, end);
  move_on (session);
}

gboolean
asr_session_offline_update (AsrSession *session)
{
  AsrHeard heard = asr_session_get_heard (session);
  AsrOfflineStep step
      = asr_offline_next (&session->offline, &session->params, &heard);

  switch (step.action) {
    case ASR_OFFLINE_WAIT:
      return FALSE;
    case ASR_OFFLINE_SILENCE:
      take_silence (session, step.end);
      return TRUE;
    case ASR_OFFLINE_DECODE:
      session->step = step;
      session->state = ASR_SESSION_ENCODE;
      return TRUE;
    case ASR_OFFLINE_END:
      break;
  }
  /* a commit ends nothing: more audio may follow it */
  if (session->is_ended || !session->is_draining)
    return FALSE;
  asr_session_tell_end (session);
  asr_stream_notify (session->stream);
  return FALSE;
}

gboolean
asr_session_offline_take_silence (AsrSession *session)
{
  float peak = 0;

  for (gint64 i = 0; i < session->step.end - session->step.start; i++)
    peak = MAX (peak, fabsf (session->window[i]));
  if (peak >= (session->step.is_doubtful ? DOUBTFUL_SILENCE_PEAK
                                         : SILENCE_PEAK))
    return FALSE;
  take_silence (session, session->step.end);
  return TRUE;
}

/* ---- the end of a window ---- */

gboolean
asr_session_is_silence (const AsrSession *session,
    const AsrDecodingResult *result)
{
  return result->is_silence || result->n_text == 0
      || (session->step.is_doubtful
          && (result->score.avg_log_prob < MIN_DOUBTFUL_LOG_PROB
              || result->score.no_speech_prob > MAX_DOUBTFUL_NO_SPEECH));
}

void
asr_session_tell_phrases (AsrSession *session, guint index, GArray *phrases)
{
  AsrSessionOutput *output = &session->outputs[index];
  const char *language = asr_session_get_language (session, index);

  for (guint i = 0; phrases != NULL && i < phrases->len; i++) {
    GArray *words = g_array_index (phrases, AsrPhraseText, i).words;
    const AsrWord *last = &g_array_index (words, AsrWord, words->len - 1);

    asr_stream_take_segment (session->stream,
        asr_segment_new (ASR_SEGMENT_TEXT, index, session->epoch,
            output->told, last->end, (const AsrWord *) words->data,
            words->len, language));
    output->told = last->end;
  }
}

/* Text as context for the windows to come, where that is wanted. */
static void
keep_context (AsrSession *session, AsrSessionOutput *output,
    const AsrDecodingResult *result)
{
  if (!session->stream->condition_on_previous)
    return;
  for (guint i = 0; i < result->phrases->len; i++) {
    const AsrPhrase *phrase = &g_array_index (result->phrases, AsrPhrase, i);

    g_array_append_vals (output->previous, result->tokens + phrase->first,
        phrase->n_tokens);
  }
  if (result->temperature > MAX_CONTEXT_TEMPERATURE)
    g_array_set_size (output->previous, 0);
}

/* Returns: where speech begins that the model skipped, or G_MAXINT64 */
static gint64
find_hole (AsrSession *session, const AsrHeard *heard, GArray *phrases,
    gint64 reached)
{
  gint64 at = session->step.start, hole = -1;

  for (guint i = 0; i < phrases->len; i++) {
    GArray *words = g_array_index (phrases, AsrPhraseText, i).words;

    for (guint k = 0; k < words->len; k++) {
      const AsrWord *word = &g_array_index (words, AsrWord, k);

      hole = asr_offline_find_hole (&session->offline, heard, at,
          word->start);
      if (hole >= 0)
        return hole;
      at = MAX (at, word->end);
    }
  }
  hole = asr_offline_find_hole (&session->offline, heard, at, reached);
  return hole >= 0 ? hole : G_MAXINT64;
}

GArray *
asr_session_take_output (AsrSession *session, guint index,
    const AsrDecodingResult *result, gint64 *reached, gint64 *hole)
{
  AsrSessionOutput *output = &session->outputs[index];
  /* spans of what is told may be forgotten already */
  gboolean is_heard = session->params.use_gate && !session->step.is_doubtful
      && session->live == NULL;
  AsrHeard heard = asr_session_get_heard (session);
  GArray *phrases = NULL;
  gint64 end = session->step.end, frames = result->advance_frames;
  double reached_s;

  if (result->language >= 0)
    session->language = result->language;
  if (!asr_session_is_silence (session, result)) {
    phrases = asr_text_from_result (session->vocab, result,
        asr_session_get_language (session, index),
        session->step.start, heard.spans, is_heard ? heard.n_spans : 0,
        output->told, &output->last_speech_s, &reached_s);
    if (!result->is_whole && reached_s > 0)
      frames = llrint (100 * reached_s);
    if (frames < asr_session_get_n_mel_frames (session))
      end = session->step.start + frames * ASR_MEL_FRAME_SAMPLES;
    /* the times of a translation's words say nothing of holes */
    if (index == 0 && is_heard
        && session->stream->tasks[0] == ASR_TASK_TRANSCRIBE)
      *hole = find_hole (session, &heard, phrases, end);
  }
  if (index == 0)
    *reached = MIN (end, *hole);
  if (phrases == NULL)
    return NULL;
  asr_text_cut (phrases, *hole);
  keep_context (session, output, result);
  return phrases;
}

/* An output whose text is its prompt is decoded once more without it. */
static gboolean
retry_without_prompt (AsrSession *session, AsrSessionOutput *output)
{
  AsrDecodingResult result;

  if (session->stream->prompt == NULL || output->is_unprompted)
    return FALSE;
  asr_decoding_get_result (output->decoding, &result);
  if (result.is_silence
      || !asr_text_is_prompt (session->vocab, &result,
          session->stream->prompt))
    return FALSE;
  output->is_unprompted = TRUE;
  asr_session_start_output (session, output);
  return TRUE;
}

gboolean
asr_session_offline_finish (AsrSession *session)
{
  GArray *phrases[ASR_MAX_OUTPUTS] = { NULL };
  gint64 reached = 0, hole = G_MAXINT64;
  gboolean is_again = FALSE;
  AsrHeard heard;

  for (guint i = 0; i < session->n_outputs; i++)
    is_again |= retry_without_prompt (session, &session->outputs[i]);
  if (is_again)
    return FALSE;
  for (guint i = 0; i < session->n_outputs; i++) {
    AsrDecodingResult result;

    asr_decoding_get_result (session->outputs[i].decoding, &result);
    phrases[i] = asr_session_take_output (session, i, &result, &reached,
        &hole);
  }
  asr_session_add_stats (session);
  heard = asr_session_get_heard (session);
  reached = asr_offline_take_text (&session->offline, &session->params,
      &heard, &session->step, reached);
  for (guint i = session->n_outputs; i-- > 0;) {
    asr_session_tell_phrases (session, i, phrases[i]);
    asr_session_tell_silence (session, i, reached);
    g_clear_pointer (&phrases[i], g_array_unref);
  }
  move_on (session);
  return TRUE;
}
