/* SPDX-License-Identifier: MIT */
/*
 * The user's side of a stream: audio in, segments out, and wishes for the
 * worker, all behind one lock. Computes nothing.
 */
#include "engine/stream.h"

#include "engine/engine.h"
#include "engine/session.h"
#include "engine/text/language.h"

/* Index of a language that the model knows, -1 for "auto". */
static gboolean
find_language (AsrEngine *engine, const char *name, gint *index,
    GError **error)
{
  const AsrModelInfo *info = asr_engine_get_info (engine);
  gint found = -1;

  if (name != NULL && *name != '\0' && g_ascii_strcasecmp (name, "auto") != 0) {
    found = asr_language_find (name);
    if (found < 0 || (guint) found >= asr_engine_get_n_languages (engine)) {
      g_set_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT,
          "the model knows no language \"%s\": use a code such as \"en\" or "
          "\"es\", or \"auto\"", name);
      return FALSE;
    }
    if (!info->multilingual && found != 0) {
      g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
          "the model only knows English, not \"%s\": use a model whose name "
          "does not end in .en", name);
      return FALSE;
    }
  }
  *index = info->multilingual ? found : 0;
  return TRUE;
}

AsrStream *
asr_stream_new (AsrEngine *engine, const AsrStreamParams *params,
    GError **error)
{
  const AsrModelInfo *info = asr_engine_get_info (engine);
  gsize window = info->max_window_samples;
  gint language;
  AsrStream *stream;

  if (!find_language (engine, params->language, &language, error))
    return NULL;
  stream = g_new0 (AsrStream, 1);
  stream->engine = asr_engine_ref (engine);
  stream->prompt = g_strdup (params->prompt);
  stream->use_vad = params->vad;
  stream->vad_threshold = CLAMP (params->vad_threshold, 0.01f, 0.99f);
  stream->min_silence_samples = params->min_silence_samples;
  stream->condition_on_previous = params->condition_on_previous;
  /* less than a window and what the voice detector waits for never fills */
  stream->max_backlog_samples = params->max_backlog_samples == 0
      ? window + window / 2
      : MAX (params->max_backlog_samples, window + ASR_SAMPLE_RATE);
  stream->skip_copy = params->skip_copy & ASR_METHOD_MASK_ALL;
  stream->language = language;
  stream->fifo = asr_fifo_new ();
  g_queue_init (&stream->segments);
  g_mutex_init (&stream->lock);
  g_mutex_init (&stream->notify_lock);
  asr_engine_add_stream (engine, stream);
  return stream;
}

static void
free_segments (AsrStream *stream)
{
  AsrSegment *segment;

  while ((segment = g_queue_pop_head (&stream->segments)))
    asr_segment_free (segment);
}

void
asr_stream_free (AsrStream *stream)
{
  if (stream == NULL)
    return;
  asr_stream_cancel (stream);
  asr_engine_remove_stream (stream->engine, stream);
  free_segments (stream);
  asr_fifo_free (stream->fifo);
  g_clear_error (&stream->error);
  g_mutex_clear (&stream->lock);
  g_mutex_clear (&stream->notify_lock);
  asr_engine_unref (stream->engine);
  g_free (stream->prompt);
  g_free (stream);
}

gboolean
asr_stream_add_output (AsrStream *stream, AsrTask task, guint *index,
    GError **error)
{
  const AsrModelInfo *info = asr_engine_get_info (stream->engine);

  if (task == ASR_TASK_TRANSLATE && !info->can_translate) {
    g_set_error_literal (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
        "this model can't translate: use a multilingual model other than "
        "turbo");
    return FALSE;
  }
  if (stream->n_outputs == ASR_MAX_OUTPUTS) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT,
        "a stream has at most %d outputs", ASR_MAX_OUTPUTS);
    return FALSE;
  }
  g_mutex_lock (&stream->lock);
  stream->tasks[stream->n_outputs] = task;
  *index = stream->n_outputs++;
  g_mutex_unlock (&stream->lock);
  return TRUE;
}

static void
wake_worker (AsrStream *stream)
{
  asr_engine_wake (stream->engine);
}

gsize
asr_stream_push (AsrStream *stream, const float *samples, gsize n_samples)
{
  gsize n_stored, n_taken = 0;

  g_mutex_lock (&stream->lock);
  n_stored = asr_fifo_get_n_stored (stream->fifo);
  if (!stream->is_draining && !stream->is_cancelled
      && n_stored < stream->max_backlog_samples)
    n_taken = MIN (n_samples, stream->max_backlog_samples - n_stored);
  asr_fifo_push (stream->fifo, samples, n_taken);
  stream->stats.pushed_samples += n_taken;
  stream->wants_room = n_taken < n_samples;
  g_mutex_unlock (&stream->lock);
  if (n_taken > 0)
    wake_worker (stream);
  return n_taken;
}

void
asr_stream_skip (AsrStream *stream, guint64 n_samples)
{
  g_mutex_lock (&stream->lock);
  if (!stream->is_draining && !stream->is_cancelled) {
    asr_fifo_skip (stream->fifo, n_samples);
    stream->stats.pushed_samples += n_samples;
  }
  g_mutex_unlock (&stream->lock);
  wake_worker (stream);
}

AsrSegment *
asr_stream_pull (AsrStream *stream, GError **error)
{
  AsrSegment *segment;

  g_mutex_lock (&stream->lock);
  segment = g_queue_pop_head (&stream->segments);
  if (segment == NULL && stream->error != NULL)
    g_propagate_error (error, g_error_copy (stream->error));
  g_mutex_unlock (&stream->lock);
  return segment;
}

void
asr_stream_set_notify (AsrStream *stream, AsrNotifyFunc func,
    gpointer user_data)
{
  g_mutex_lock (&stream->notify_lock);
  stream->notify = func;
  stream->notify_data = user_data;
  g_mutex_unlock (&stream->notify_lock);
}

void
asr_stream_notify (AsrStream *stream)
{
  g_mutex_lock (&stream->notify_lock);
  if (stream->notify)
    stream->notify (stream->notify_data);
  g_mutex_unlock (&stream->notify_lock);
}

void
asr_stream_take_segment (AsrStream *stream, AsrSegment *segment)
{
  g_mutex_lock (&stream->lock);
  if (segment->epoch == stream->epoch && !stream->is_cancelled)
    g_queue_push_tail (&stream->segments, g_steal_pointer (&segment));
  g_mutex_unlock (&stream->lock);
  asr_segment_free (segment);
}

void
asr_stream_fail (AsrStream *stream, const GError *error)
{
  g_mutex_lock (&stream->lock);
  if (stream->error == NULL)
    stream->error = g_error_copy (error);
  stream->is_cancelled = TRUE;
  g_atomic_int_inc (&stream->generation);
  g_mutex_unlock (&stream->lock);
  asr_stream_notify (stream);
}

void
asr_stream_commit (AsrStream *stream)
{
  g_mutex_lock (&stream->lock);
  stream->commit_until = asr_fifo_get_end (stream->fifo);
  g_mutex_unlock (&stream->lock);
  wake_worker (stream);
}

void
asr_stream_drain (AsrStream *stream)
{
  g_mutex_lock (&stream->lock);
  stream->is_draining = TRUE;
  g_mutex_unlock (&stream->lock);
  wake_worker (stream);
}

void
asr_stream_reset (AsrStream *stream)
{
  g_mutex_lock (&stream->lock);
  stream->epoch++;
  stream->is_draining = FALSE;
  stream->is_cancelled = FALSE;
  stream->wants_room = FALSE;
  stream->commit_until = 0;
  asr_fifo_reset (stream->fifo);
  free_segments (stream);
  /* a failed device stays failed: the worker tells so again */
  g_clear_error (&stream->error);
  g_atomic_int_inc (&stream->generation);
  g_mutex_unlock (&stream->lock);
  wake_worker (stream);
}

void
asr_stream_cancel (AsrStream *stream)
{
  g_mutex_lock (&stream->lock);
  stream->is_cancelled = TRUE;
  free_segments (stream);
  g_atomic_int_inc (&stream->generation);
  g_mutex_unlock (&stream->lock);
  wake_worker (stream);
}

void
asr_stream_set_skip_copy (AsrStream *stream, guint mask)
{
  g_mutex_lock (&stream->lock);
  stream->skip_copy = mask & ASR_METHOD_MASK_ALL;
  g_mutex_unlock (&stream->lock);
}

void
asr_stream_set_policy (AsrStream *stream, AsrPolicy policy,
    guint64 latency_samples, gboolean is_live)
{
  g_mutex_lock (&stream->lock);
  stream->latency_samples = latency_samples;
  if (stream->policy != policy || stream->is_live != is_live) {
    stream->policy = policy;
    stream->is_live = is_live;
    /* where nothing was heard yet it holds at once */
    if (asr_fifo_get_end (stream->fifo) == 0)
      g_atomic_int_inc (&stream->generation);
  }
  g_mutex_unlock (&stream->lock);
}

void
asr_stream_set_output_tap (AsrStream *stream, guint mask)
{
  g_mutex_lock (&stream->lock);
  stream->tap = mask & ASR_METHOD_MASK_ALL;
  g_mutex_unlock (&stream->lock);
}

void
asr_stream_clear_outputs (AsrStream *stream)
{
  g_mutex_lock (&stream->lock);
  stream->wants_clear = TRUE;
  g_mutex_unlock (&stream->lock);
  wake_worker (stream);
}

gboolean
asr_stream_set_language (AsrStream *stream, const char *language,
    GError **error)
{
  gint index;

  if (!find_language (stream->engine, language, &index, error))
    return FALSE;
  g_mutex_lock (&stream->lock);
  stream->language = index;
  g_mutex_unlock (&stream->lock);
  return TRUE;
}

void
asr_stream_get_stats (AsrStream *stream, AsrStats *stats)
{
  g_mutex_lock (&stream->lock);
  *stats = stream->stats;
  stats->backlog_samples = asr_fifo_get_n_stored (stream->fifo);
  g_mutex_unlock (&stream->lock);
}
