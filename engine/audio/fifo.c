/* SPDX-License-Identifier: MIT */
/*
 * Samples of one timeline by absolute index; see fifo.h. A queue of chunks,
 * each with its own start: what lies between two chunks is a gap.
 */
#include "engine/audio/fifo.h"

#include <math.h>
#include <string.h>

#define CHUNK_SAMPLES 16000

typedef struct {
  gint64 start;
  guint n;
  float samples[CHUNK_SAMPLES];
} Chunk;

struct _AsrFifo {
  GQueue chunks;   /* Chunk, oldest first */
  gint64 start;
  gint64 end;
  gsize n_stored;
};

AsrFifo *
asr_fifo_new (void)
{
  AsrFifo *fifo = g_new0 (AsrFifo, 1);

  g_queue_init (&fifo->chunks);
  return fifo;
}

void
asr_fifo_reset (AsrFifo *fifo)
{
  g_queue_clear_full (&fifo->chunks, g_free);
  fifo->start = fifo->end = 0;
  fifo->n_stored = 0;
}

void
asr_fifo_free (AsrFifo *fifo)
{
  if (fifo == NULL)
    return;
  asr_fifo_reset (fifo);
  g_free (fifo);
}

/* The chunk that takes the next sample. */
static Chunk *
get_open_chunk (AsrFifo *fifo)
{
  Chunk *chunk = g_queue_peek_tail (&fifo->chunks);

  if (chunk == NULL || chunk->n == CHUNK_SAMPLES
      || chunk->start + chunk->n != fifo->end) {
    chunk = g_new (Chunk, 1);
    chunk->start = fifo->end;
    chunk->n = 0;
    g_queue_push_tail (&fifo->chunks, chunk);
  }
  return chunk;
}

void
asr_fifo_push (AsrFifo *fifo, const float *samples, gsize n_samples)
{
  while (n_samples > 0) {
    Chunk *chunk = get_open_chunk (fifo);
    guint n = MIN (n_samples, CHUNK_SAMPLES - chunk->n);

    for (guint i = 0; i < n; i++)
      chunk->samples[chunk->n + i] = isfinite (samples[i]) ? samples[i] : 0;
    chunk->n += n;
    fifo->end += n;
    fifo->n_stored += n;
    samples += n;
    n_samples -= n;
  }
}

void
asr_fifo_skip (AsrFifo *fifo, guint64 n_samples)
{
  fifo->end += MIN (n_samples, (guint64) (G_MAXINT64 / 2 - fifo->end));
}

gint64
asr_fifo_get_start (const AsrFifo *fifo)
{
  return fifo->start;
}

gint64
asr_fifo_get_end (const AsrFifo *fifo)
{
  return fifo->end;
}

gsize
asr_fifo_get_n_stored (const AsrFifo *fifo)
{
  return fifo->n_stored;
}

gboolean
asr_fifo_read (const AsrFifo *fifo, gint64 start, gsize n_samples, float *out)
{
  gint64 end = start + n_samples;
  gboolean has_audio = FALSE;

  g_return_val_if_fail (start >= fifo->start && end <= fifo->end, FALSE);
  memset (out, 0, n_samples * sizeof (float));
  for (const GList *l = fifo->chunks.head; l != NULL; l = l->next) {
    const Chunk *chunk = l->data;
    gint64 from = MAX (start, chunk->start);
    gint64 to = MIN (end, chunk->start + chunk->n);

    if (chunk->start >= end)
      break;
    if (from >= to)
      continue;
    memcpy (out + (from - start), chunk->samples + (from - chunk->start),
        (to - from) * sizeof (float));
    has_audio = TRUE;
  }
  return has_audio;
}

gint64
asr_fifo_find_audio (const AsrFifo *fifo, gint64 from)
{
  for (const GList *l = fifo->chunks.head; l != NULL; l = l->next) {
    const Chunk *chunk = l->data;

    if (chunk->start + chunk->n > from)
      return MAX (from, chunk->start);
  }
  return MAX (from, fifo->end);
}

void
asr_fifo_drop (AsrFifo *fifo, gint64 sample)
{
  const Chunk *chunk;

  fifo->start = CLAMP (sample, fifo->start, fifo->end);
  while ((chunk = g_queue_peek_head (&fifo->chunks)) != NULL
      && chunk->start + chunk->n <= fifo->start) {
    fifo->n_stored -= chunk->n;
    g_free (g_queue_pop_head (&fifo->chunks));
  }
}
