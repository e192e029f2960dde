/* SPDX-License-Identifier: MIT */
/*
 * The engine without GStreamer: reads a 16 kHz mono WAV of 16-bit samples and
 * prints each word with its place in seconds.
 *
 *   transcribe MODEL FILE.wav [LANGUAGE]
 *
 *   cc transcribe.c $(pkg-config --cflags --libs asrengine)
 */
#include <stdio.h>
#include <string.h>

#include "engine/asr.h"

/* The samples of a WAV file; NULL with @error where it is another kind. */
static float *
read_wav (const char *path, gsize *n_samples, GError **error)
{
  g_autofree char *data = NULL;
  const guint8 *bytes;
  gsize n_bytes, at = 12;
  float *samples;

  if (!g_file_get_contents (path, &data, &n_bytes, error))
    return NULL;
  bytes = (const guint8 *) data;
  while (at + 8 <= n_bytes && memcmp (bytes + at, "data", 4) != 0)
    at += 8 + (bytes[at + 4] | bytes[at + 5] << 8 | bytes[at + 6] << 16
        | (gsize) bytes[at + 7] << 24);
  if (n_bytes < 44 || memcmp (bytes, "RIFF", 4) != 0 || bytes[22] != 1
      || bytes[24] != 0x80 || bytes[25] != 0x3e || bytes[34] != 16
      || at + 8 > n_bytes) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT,
        "%s is no WAV of 16-bit samples, mono, at 16 kHz", path);
    return NULL;
  }
  at += 8;
  *n_samples = (n_bytes - at) / 2;
  samples = g_new (float, *n_samples);
  for (gsize i = 0; i < *n_samples; i++)
    samples[i]
        = (gint16) (bytes[at + 2 * i] | bytes[at + 2 * i + 1] << 8) / 32768.0f;
  return samples;
}

typedef struct {
  GMutex lock;
  GCond changed;
  gboolean has_news;
} Waiter;

/* In the engine's thread. */
static void
notify (gpointer user_data)
{
  Waiter *waiter = user_data;

  g_mutex_lock (&waiter->lock);
  waiter->has_news = TRUE;
  g_cond_signal (&waiter->changed);
  g_mutex_unlock (&waiter->lock);
}

static void
wait_for_news (Waiter *waiter)
{
  g_mutex_lock (&waiter->lock);
  while (!waiter->has_news)
    g_cond_wait (&waiter->changed, &waiter->lock);
  waiter->has_news = FALSE;
  g_mutex_unlock (&waiter->lock);
}

static void
print_segment (const AsrSegment *segment)
{
  for (guint i = 0; i < segment->n_words; i++)
    printf ("%.2f\t%.2f\t%s\n",
        (double) segment->words[i].start / ASR_SAMPLE_RATE,
        (double) segment->words[i].end / ASR_SAMPLE_RATE,
        segment->words[i].text);
}

/* Pushes all, pulls all. The stream takes what it has room for; notify says
 * when there is more, or text. */
static gboolean
transcribe (AsrStream *stream, const float *samples, gsize n_samples,
    GError **error)
{
  Waiter waiter = { 0 };
  GError *failure = NULL;
  gboolean is_drained = FALSE, is_done = FALSE;
  AsrSegment *segment;

  asr_stream_set_notify (stream, notify, &waiter);
  while (!is_done && failure == NULL) {
    gsize n_taken = asr_stream_push (stream, samples, n_samples);

    samples += n_taken;
    n_samples -= n_taken;
    if (n_samples == 0 && !is_drained) {
      asr_stream_drain (stream);
      is_drained = TRUE;
    }
    while ((segment = asr_stream_pull (stream, &failure))) {
      is_done = segment->type == ASR_SEGMENT_END;
      print_segment (segment);
      asr_segment_free (segment);
    }
    if (!is_done && failure == NULL)
      wait_for_news (&waiter);
  }
  asr_stream_set_notify (stream, NULL, NULL);
  if (failure)
    g_propagate_error (error, failure);
  return failure == NULL;
}

int
main (int argc, char **argv)
{
  AsrEngineParams engine_params = ASR_ENGINE_PARAMS_DEFAULT;
  AsrStreamParams stream_params = ASR_STREAM_PARAMS_DEFAULT;
  g_autoptr (AsrEngine) engine = NULL;
  g_autoptr (AsrStream) stream = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree float *samples = NULL;
  gsize n_samples = 0;
  guint output;

  if (argc < 3) {
    fprintf (stderr, "usage: %s MODEL FILE.wav [LANGUAGE]\n", argv[0]);
    return 2;
  }
  engine_params.model = argv[1];
  stream_params.language = argc > 3 ? argv[3] : "auto";
  if (!(samples = read_wav (argv[2], &n_samples, &error))
      || !(engine = asr_engine_new (&engine_params, NULL, NULL, &error))
      || !(stream = asr_stream_new (engine, &stream_params, &error))
      || !asr_stream_add_output (stream, ASR_TASK_TRANSCRIBE, &output, &error)
      || !transcribe (stream, samples, n_samples, &error)) {
    fprintf (stderr, "%s\n", error->message);
    return 1;
  }
  return 0;
}
