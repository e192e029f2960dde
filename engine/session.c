/* SPDX-License-Identifier: MIT */
/*
 * The worker's side of a stream; see session.h. Ties the pure machines
 * together: fifo, voice detector and gate, the policy, the decodings. Knows
 * neither the device nor the other streams.
 */
#include "engine/session_private.h"

#include <string.h>

#include "engine/segment.h"
#include "engine/text/language.h"

/* Voice detector frames in one update: the worker also has other streams. */
#define MAX_LISTEN_FRAMES 128
/* Speech ends at a lower probability than it begins; Silero's own. */
#define VAD_HYSTERESIS 0.15f
AsrSession *
asr_session_new (AsrStream *stream, const AsrModel *model,
    const AsrVadModel *vad_model)
{
  AsrSession *session = g_new0 (AsrSession, 1);
  AsrGateParams gate_params = ASR_GATE_PARAMS_DEFAULT;
  const AsrModelInfo *info = asr_model_get_info (model);

  session->stream = stream;
  session->model = model;
  session->vocab = asr_model_get_vocab (model);
  session->generation = -1;
  session->vad = asr_vad_new (vad_model);
  gate_params.threshold = stream->vad_threshold;
  gate_params.end_threshold = MAX (stream->vad_threshold - VAD_HYSTERESIS,
      VAD_HYSTERESIS / 15);
  gate_params.min_silence_samples = stream->min_silence_samples;
  session->gate = asr_gate_new (&gate_params);
  session->params
      = (AsrOfflineParams){ info->max_window_samples, stream->use_vad };
  session->audio = (AsrSlotHolder) ASR_SLOT_HOLDER_INIT;
  session->window = g_new (float, info->max_window_samples);
  session->prompt = g_array_new (FALSE, FALSE, sizeof (gint32));
  if (stream->prompt) {
    g_autofree char *stripped = g_strstrip (g_strdup (stream->prompt));
    g_autofree char *text = g_strconcat (" ", stripped, NULL);

    if (*stripped != '\0')
      asr_vocab_encode (session->vocab, text, session->prompt);
  }
  for (guint i = 0; i < ASR_MAX_OUTPUTS; i++)
    session->outputs[i].text = (AsrSlotHolder) ASR_SLOT_HOLDER_INIT;
  return session;
}

void
asr_session_free (AsrSession *session)
{
  if (session == NULL)
    return;
  for (guint i = 0; i < ASR_MAX_OUTPUTS; i++) {
    asr_decoding_free (session->outputs[i].decoding);
    g_clear_pointer (&session->outputs[i].previous, g_array_unref);
  }
  asr_session_live_free (session->live);
  asr_vad_free (session->vad);
  asr_gate_free (session->gate);
  g_array_unref (session->prompt);
  g_free (session->window);
  g_free (session);
}

gboolean
asr_session_is_stale (const AsrSession *session)
{
  return g_atomic_int_get (&session->stream->generation)
      != session->generation;
}

static void
release_slots (AsrSession *session, AsrSlots *audio_slots,
    AsrSlots *text_slots)
{
  asr_slots_release (audio_slots, &session->audio);
  for (guint i = 0; i < ASR_MAX_OUTPUTS; i++)
    asr_slots_release (text_slots, &session->outputs[i].text);
}

/* What the stream has in device memory now. */
static void
tell_retained (AsrSession *session)
{
  guint n_slots = asr_model_get_limits (session->model)->n_audio_slots;

  g_mutex_lock (&session->stream->lock);
  for (guint m = 0; m < ASR_N_METHODS; m++) {
    gsize slot_bytes = asr_model_get_slot_bytes (session->model, m);

    session->stream->stats.methods[m].retained_bytes
        = session->audio.slot >= 0 ? slot_bytes : 0;
    session->stream->stats.methods[m].allocated_bytes = slot_bytes * n_slots;
  }
  g_mutex_unlock (&session->stream->lock);
}

/* ---- what users said ---- */

/* With the stream's lock held. */
static void
start_anew (AsrSession *session)
{
  AsrStream *stream = session->stream;

  session->generation = g_atomic_int_get (&stream->generation);
  session->epoch = stream->epoch;
  session->is_dead = stream->is_cancelled;
  session->is_ended = FALSE;
  session->is_complete = FALSE;
  session->heard_until = 0;
  session->is_speaking = FALSE;
  session->offline = (AsrOffline){ 0 };
  session->state = ASR_SESSION_IDLE;
  session->language = session->wished_language = stream->language;
  if (stream->policy == ASR_POLICY_OFFLINE) {
    g_clear_pointer (&session->live, asr_session_live_free);
  } else {
    if (session->live == NULL)
      session->live = asr_session_live_new ();
    asr_session_live_reset (session);
  }
  asr_vad_reset (session->vad);
  asr_gate_reset (session->gate);
  for (guint i = 0; i < stream->n_outputs; i++) {
    AsrSessionOutput *output = &session->outputs[i];

    output->told = 0;
    output->last_speech_s = 0;
    if (output->previous)
      g_array_set_size (output->previous, 0);
  }
}

static void
add_outputs (AsrSession *session)
{
  while (session->n_outputs < session->stream->n_outputs) {
    AsrSessionOutput *output = &session->outputs[session->n_outputs++];

    output->decoding = asr_decoding_new (session->vocab);
    output->previous = g_array_new (FALSE, FALSE, sizeof (gint32));
  }
}

static gint64
get_position (const AsrSession *session)
{
  return session->live ? asr_session_live_get_position (session->live)
                       : session->offline.position;
}

/* Takes over wishes and how much audio there is. Returns: whether to go on */
static gboolean
take_wishes (AsrSession *session, AsrSlots *audio_slots, AsrSlots *text_slots)
{
  AsrStream *stream = session->stream;
  gboolean is_stale, wants_clear;

  g_mutex_lock (&stream->lock);
  is_stale = stream->generation != session->generation;
  if (is_stale)
    start_anew (session);
  add_outputs (session);
  wants_clear = stream->wants_clear && session->state == ASR_SESSION_IDLE;
  if (wants_clear)
    stream->wants_clear = FALSE;
  session->audio_end = asr_fifo_get_end (stream->fifo);
  session->is_draining = session->is_complete = stream->is_draining;
  if (stream->commit_until > get_position (session)) {
    session->audio_end = stream->commit_until;
    session->is_complete = TRUE;
  }
  session->skip_copy = stream->skip_copy;
  session->tap = stream->tap;
  if (session->live)
    asr_session_live_set_latency (session->live, stream->latency_samples);
  if (stream->language != session->wished_language)
    session->language = session->wished_language = stream->language;
  g_mutex_unlock (&stream->lock);
  if (is_stale || wants_clear)
    release_slots (session, audio_slots, text_slots);
  return !session->is_dead;
}

/* ---- listening ---- */

/* Speech that begins or ends is told when it is known. */
static void
tell_voice (AsrSession *session)
{
  guint n;
  const AsrSpan *spans = asr_gate_get_spans (session->gate, &n);
  gboolean is_speaking = n > 0 && spans[n - 1].end == G_MAXINT64;

  if (is_speaking == session->is_speaking)
    return;
  session->is_speaking = is_speaking;
  asr_session_tell_event (session,
      is_speaking ? ASR_SEGMENT_SPEECH_START : ASR_SEGMENT_SPEECH_END,
      is_speaking ? spans[n - 1].start
          : n > 0 ? spans[n - 1].end
                  : session->heard_until);
}

/* Moves the voice detector over audio and gaps. Returns: whether more waits */
static gboolean
listen_on (AsrSession *session)
{
  AsrStream *stream = session->stream;
  float frame[ASR_VAD_FRAME_SAMPLES];
  guint64 n_speech = 0;
  guint n = 0;

  if (!session->params.use_gate)
    return FALSE;
  for (; n < MAX_LISTEN_FRAMES; n++) {
    gint64 left = session->audio_end - session->heard_until;
    guint n_frame = MIN (left, ASR_VAD_FRAME_SAMPLES);
    gint64 audio;
    float probability;

    if (left <= 0 || (left < ASR_VAD_FRAME_SAMPLES && !session->is_complete))
      break;
    g_mutex_lock (&stream->lock);
    if (asr_session_is_stale (session)) {
      /* reset meanwhile: the audio is gone */
      g_mutex_unlock (&stream->lock);
      break;
    }
    audio = MIN (asr_fifo_find_audio (stream->fifo, session->heard_until),
        session->audio_end);
    if (audio == session->heard_until) {
      memset (frame, 0, sizeof frame);
      asr_fifo_read (stream->fifo, session->heard_until, n_frame, frame);
    }
    g_mutex_unlock (&stream->lock);
    if (audio > session->heard_until) {
      asr_gate_skip (session->gate, audio - session->heard_until);
      asr_vad_reset (session->vad);
      session->heard_until = audio;
      continue;
    }
    probability = asr_vad_run (session->vad, frame);
    asr_gate_push (session->gate, probability, n_frame);
    session->heard_until += n_frame;
    if (probability >= 0.5f)
      n_speech += n_frame;
    tell_voice (session);
  }
  if (n > 0) {
    g_mutex_lock (&stream->lock);
    stream->stats.speech_samples += n_speech;
    g_mutex_unlock (&stream->lock);
  }
  return n == MAX_LISTEN_FRAMES;
}

AsrHeard
asr_session_get_heard (AsrSession *session)
{
  AsrHeard heard = { session->audio_end, session->audio_end, NULL, 0,
    session->is_complete };

  if (session->params.use_gate) {
    heard.decided = asr_gate_get_decided (session->gate);
    heard.is_complete &= session->heard_until >= session->audio_end;
    heard.spans = asr_gate_get_spans (session->gate, &heard.n_spans);
  }
  return heard;
}

/* ---- segments ---- */

const char *
asr_session_get_language (const AsrSession *session, guint index)
{
  const char *code = NULL;

  if (session->stream->tasks[index] == ASR_TASK_TRANSLATE)
    return "en";
  if (session->language >= 0)
    code = asr_language_get_code (session->language);
  return code ? code : "";
}

/* Nothing was said up to @end. */
void
asr_session_tell_silence (AsrSession *session, guint index, gint64 end)
{
  AsrSessionOutput *output = &session->outputs[index];

  if (end <= output->told)
    return;
  asr_stream_take_segment (session->stream,
      asr_segment_new (ASR_SEGMENT_TEXT, index, session->epoch, output->told,
          end, NULL, 0, asr_session_get_language (session, index)));
  output->told = end;
}

void
asr_session_tell_event (AsrSession *session, AsrSegmentType type, gint64 at)
{
  asr_stream_take_segment (session->stream,
      asr_segment_new (type, 0, session->epoch, at, at, NULL, 0, ""));
  asr_stream_notify (session->stream);
}

void
asr_session_tell_end (AsrSession *session)
{
  for (guint i = session->n_outputs; i-- > 0;) {
    asr_session_tell_silence (session, i, session->audio_end);
    asr_stream_take_segment (session->stream,
        asr_segment_new (ASR_SEGMENT_END, i, session->epoch,
            session->audio_end, session->audio_end, NULL, 0,
            asr_session_get_language (session, i)));
  }
  session->is_ended = TRUE;
}

void
asr_session_move_on (AsrSession *session, gint64 position, gint64 needed)
{
  AsrStream *stream = session->stream;

  if (session->params.use_gate)
    needed = MIN (needed, session->heard_until);
  g_mutex_lock (&stream->lock);
  if (!asr_session_is_stale (session)) {
    asr_fifo_drop (stream->fifo, needed);
    stream->stats.decoded_samples = position;
    stream->wants_room = FALSE;
  }
  g_mutex_unlock (&stream->lock);
  asr_gate_forget (session->gate, position);
  asr_stream_notify (stream);
}

gboolean
asr_session_update (AsrSession *session, AsrSlots *audio_slots,
    AsrSlots *text_slots)
{
  gboolean changed, goes_on = take_wishes (session, audio_slots, text_slots);

  tell_retained (session);
  if (!goes_on || session->state != ASR_SESSION_IDLE || session->n_outputs == 0)
    return FALSE;
  changed = listen_on (session);
  if (!changed && session->is_complete
      && session->heard_until >= session->audio_end
      && session->is_draining)
    asr_gate_finish (session->gate);
  return (session->live ? asr_session_live_update (session)
                        : asr_session_offline_update (session))
      || changed;
}

AsrSessionState
asr_session_get_state (const AsrSession *session)
{
  return session->state;
}

/* ---- windows ---- */

AsrSlotHolder *
asr_session_get_audio_holder (AsrSession *session)
{
  return &session->audio;
}

AsrMethodCost *
asr_session_get_costs (AsrSession *session)
{
  return session->costs;
}

guint
asr_session_get_skip_copy (const AsrSession *session)
{
  return session->skip_copy;
}

gboolean
asr_session_is_tapped (const AsrSession *session, AsrMethod method)
{
  return (session->tap & ~session->skip_copy & ASR_METHOD_MASK (method)) != 0;
}

float *
asr_session_make_output (const AsrSession *session, AsrMethod method,
    guint n_rows, guint n_columns, AsrSegment **segment)
{
  float *data;

  *segment = asr_segment_new_output (session->epoch, session->step.start,
      session->step.end, method, n_rows, n_columns, &data);
  return data;
}

void
asr_session_tell_output (AsrSession *session, AsrSegment *segment)
{
  asr_stream_take_segment (session->stream, segment);
  asr_stream_notify (session->stream);
}

AsrSessionOutput *
asr_session_get_outputs (AsrSession *session, guint *n)
{
  *n = session->n_outputs;
  if (session->live == NULL || *n < 2)
    return session->outputs;
  /* the first is decoded while speech goes on, the others afterwards */
  if (asr_session_live_is_translating (session->live)) {
    *n -= 1;
    return session->outputs + 1;
  }
  *n = 1;
  return session->outputs;
}

guint
asr_session_get_n_mel_frames (const AsrSession *session)
{
  return MAX (1,
      (session->step.end - session->step.start) / ASR_MEL_FRAME_SAMPLES);
}

gboolean
asr_session_get_window (AsrSession *session, AsrEncodeRow *row)
{
  guint n = session->step.end - session->step.start;

  g_mutex_lock (&session->stream->lock);
  if (asr_session_is_stale (session)) {
    g_mutex_unlock (&session->stream->lock);
    return FALSE;
  }
  asr_fifo_read (session->stream->fifo, session->step.start, n,
      session->window);
  g_mutex_unlock (&session->stream->lock);
  if (session->live == NULL && asr_session_offline_take_silence (session)) {
    session->state = ASR_SESSION_IDLE;
    return FALSE;
  }
  *row = (AsrEncodeRow){ session->window, n, session->audio.slot,
    session->skip_copy, session->costs };
  return TRUE;
}

gboolean
asr_session_is_encoded (const AsrSession *session)
{
  /* elsewhere the same window never comes twice */
  return session->live && asr_session_live_is_translating (session->live)
      && session->encoded.start == session->step.start
      && session->encoded.end == session->step.end;
}

void
asr_session_start_decoding (AsrSession *session, gboolean is_reused)
{
  session->state = ASR_SESSION_DECODE;
  session->encoded = (AsrSpan){ session->step.start, session->step.end };
  session->is_reused = is_reused;
  for (guint i = 0; i < session->n_outputs; i++)
    session->outputs[i].is_unprompted = FALSE;
}

void
asr_session_start_output (AsrSession *session, AsrSessionOutput *output)
{
  g_autoptr (GArray) prompt = g_array_new (FALSE, FALSE, sizeof (gint32));
  AsrDecodingParams params = { session->language };

  if (!output->is_unprompted) {
    g_array_append_vals (prompt, session->prompt->data, session->prompt->len);
    g_array_append_vals (prompt, output->previous->data,
        output->previous->len);
  }
  params.task = session->stream->tasks[output - session->outputs];
  params.prompt = (const gint32 *) prompt->data;
  params.n_prompt = prompt->len;
  params.n_mel_frames = asr_session_get_n_mel_frames (session);
  params.audio_slot = session->audio.slot;
  params.text_slot = output->text.slot;
  params.seed = session->step.start;
  if (session->live && output == session->outputs)
    asr_session_live_get_params (session, &params, prompt);
  asr_decoding_start (output->decoding, &params);
}

void
asr_session_add_stats (AsrSession *session)
{
  AsrStats *stats = &session->stream->stats;
  guint64 runs[ASR_N_METHODS] = { 1, 1, 0 };
  guint n_outputs;
  AsrSessionOutput *outputs = asr_session_get_outputs (session, &n_outputs);

  if (session->is_reused)
    runs[ASR_METHOD_MEL] = runs[ASR_METHOD_ENCODER] = 0;
  g_mutex_lock (&session->stream->lock);
  for (guint i = 0; i < n_outputs; i++) {
    AsrDecodingResult result;

    asr_decoding_get_result (outputs[i].decoding, &result);
    stats->n_tokens += result.n_sampled;
    stats->n_fallbacks += result.n_attempts - 1;
    stats->n_skipped_windows += asr_session_is_silence (session, &result);
    runs[ASR_METHOD_DECODER] += result.n_sampled;
  }
  stats->n_windows++;
  for (guint m = 0; m < ASR_N_METHODS; m++) {
    stats->methods[m].n_runs += runs[m];
    stats->methods[m].time_ns += session->costs[m].time_ns;
    stats->methods[m].to_host_bytes += session->costs[m].to_host_bytes;
    stats->methods[m].to_device_bytes += session->costs[m].to_device_bytes;
  }
  g_mutex_unlock (&session->stream->lock);
  memset (session->costs, 0, sizeof session->costs);
}

void
asr_session_finish_window (AsrSession *session, AsrSlots *audio_slots,
    AsrSlots *text_slots)
{
  if (session->live)
    asr_session_live_finish (session);
  else if (!asr_session_offline_finish (session))
    return; /* some output is decoded again */
  for (guint i = 0; i < session->n_outputs; i++)
    asr_slots_release (text_slots, &session->outputs[i].text);
  asr_slots_rest (audio_slots, &session->audio);
  session->state = ASR_SESSION_IDLE;
}

void
asr_session_fail (AsrSession *session, const GError *error)
{
  session->is_dead = TRUE;
  session->state = ASR_SESSION_IDLE;
  asr_stream_fail (session->stream, error);
}
