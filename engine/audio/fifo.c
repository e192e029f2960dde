/* SPDX-License-Identifier: MIT */
/*
 * Samples of one timeline by absolute index; see fifo.h. Audio is stored end
 * to end in chunks, whatever lies between, and a list of runs says where on
 * the timeline each stretch of it belongs: many small gaps cost a run each
 * and not a chunk.
 */
#include "engine/audio/fifo.h"

#include <math.h>
#include <string.h>

#define CHUNK_SAMPLES 16000

/**
 * Run: audio without a gap.
 * @start: on the timeline
 * @stored_at: of its first sample; counts all samples ever pushed
 */
typedef struct {
  gint64 start;
  guint64 stored_at;
  gsize n;
} Run;

struct _AsrFifo {
  GPtrArray *chunks;   /* (element-type float[CHUNK_SAMPLES]) */
  guint64 chunks_from; /* stored_at of the first chunk's first sample */
  GArray *runs;        /* Run, oldest first */
  guint64 n_pushed;
  gsize n_stored;
  gint64 start;
  gint64 end;
};

AsrFifo *
asr_fifo_new (void)
{
  AsrFifo *fifo = g_new0 (AsrFifo, 1);

  fifo->chunks = g_ptr_array_new_with_free_func (g_free);
  fifo->runs = g_array_new (FALSE, FALSE, sizeof (Run));
  return fifo;
}

void
asr_fifo_reset (AsrFifo *fifo)
{
  g_ptr_array_set_size (fifo->chunks, 0);
  g_array_set_size (fifo->runs, 0);
  fifo->chunks_from = fifo->n_pushed = 0;
  fifo->n_stored = 0;
  fifo->start = fifo->end = 0;
}

void
asr_fifo_free (AsrFifo *fifo)
{
  if (fifo == NULL)
    return;
  g_ptr_array_unref (fifo->chunks);
  g_array_unref (fifo->runs);
  g_free (fifo);
}

static Run *
get_run (const AsrFifo *fifo, guint i)
{
  return &g_array_index (fifo->runs, Run, i);
}

/* The first run that reaches beyond @sample, or the number of runs. */
static guint
find_run (const AsrFifo *fifo, gint64 sample)
{
  guint low = 0, high = fifo->runs->len;

  while (low < high) {
    guint middle = low + (high - low) / 2;
    const Run *run = get_run (fifo, middle);

    if (run->start + (gint64) run->n > sample)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* Where a stored sample is. @n: (out): samples from there in its chunk */
static float *
get_stored (const AsrFifo *fifo, guint64 stored_at, gsize *n)
{
  guint64 at = stored_at - fifo->chunks_from;

  *n = CHUNK_SAMPLES - at % CHUNK_SAMPLES;
  return (float *) g_ptr_array_index (fifo->chunks, at / CHUNK_SAMPLES)
      + at % CHUNK_SAMPLES;
}

static void
store (AsrFifo *fifo, const float *samples, gsize n_samples)
{
  while (n_samples > 0) {
    float *out;
    gsize n;

    if (fifo->n_pushed - fifo->chunks_from
        == (guint64) fifo->chunks->len * CHUNK_SAMPLES)
      g_ptr_array_add (fifo->chunks, g_new (float, CHUNK_SAMPLES));
    out = get_stored (fifo, fifo->n_pushed, &n);
    n = MIN (n, n_samples);
    for (gsize i = 0; i < n; i++)
      out[i] = isfinite (samples[i]) ? samples[i] : 0;
    fifo->n_pushed += n;
    samples += n;
    n_samples -= n;
  }
}

void
asr_fifo_push (AsrFifo *fifo, const float *samples, gsize n_samples)
{
  Run *last = fifo->runs->len > 0 ? get_run (fifo, fifo->runs->len - 1) : NULL;

  if (n_samples == 0)
    return;
  if (last != NULL && last->start + (gint64) last->n == fifo->end) {
    last->n += n_samples;
  } else {
    Run run = { fifo->end, fifo->n_pushed, n_samples };

    g_array_append_val (fifo->runs, run);
  }
  store (fifo, samples, n_samples);
  fifo->end += n_samples;
  fifo->n_stored += n_samples;
}

void
asr_fifo_skip (AsrFifo *fifo, guint64 n_samples)
{
  /* half of the range is out of reach of any addition here */
  if (fifo->end < G_MAXINT64 / 2)
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
  gboolean has_audio = FALSE;
  gint64 end;

  g_return_val_if_fail (start >= fifo->start && start <= fifo->end
          && n_samples <= (guint64) (fifo->end - start), FALSE);
  end = start + (gint64) n_samples;
  memset (out, 0, n_samples * sizeof (float));
  for (guint i = find_run (fifo, start); i < fifo->runs->len; i++) {
    const Run *run = get_run (fifo, i);
    gint64 from = MAX (start, run->start);
    gint64 to = MIN (end, run->start + (gint64) run->n);

    if (from >= to)
      break;
    has_audio = TRUE;
    while (from < to) {
      gsize n;
      const float *stored
          = get_stored (fifo, run->stored_at + (from - run->start), &n);

      n = MIN (n, (gsize) (to - from));
      memcpy (out + (from - start), stored, n * sizeof (float));
      from += n;
    }
  }
  return has_audio;
}

gint64
asr_fifo_find_audio (const AsrFifo *fifo, gint64 from)
{
  guint i = find_run (fifo, from);

  return i < fifo->runs->len ? MAX (from, get_run (fifo, i)->start)
                             : MAX (from, fifo->end);
}

/* Frees the chunks in front of the oldest run. */
static void
free_chunks (AsrFifo *fifo)
{
  guint64 needed
      = fifo->runs->len > 0 ? get_run (fifo, 0)->stored_at : fifo->n_pushed;
  guint n = (needed - fifo->chunks_from) / CHUNK_SAMPLES;

  if (n == 0)
    return;
  g_ptr_array_remove_range (fifo->chunks, 0, n);
  fifo->chunks_from += (guint64) n * CHUNK_SAMPLES;
}

void
asr_fifo_drop (AsrFifo *fifo, gint64 sample)
{
  guint n_dropped;

  fifo->start = CLAMP (sample, fifo->start, fifo->end);
  n_dropped = find_run (fifo, fifo->start);
  for (guint i = 0; i < n_dropped; i++)
    fifo->n_stored -= get_run (fifo, i)->n;
  if (n_dropped > 0)
    g_array_remove_range (fifo->runs, 0, n_dropped);
  if (fifo->runs->len > 0 && get_run (fifo, 0)->start < fifo->start) {
    Run *run = get_run (fifo, 0);
    gsize cut = fifo->start - run->start;

    run->start += cut;
    run->stored_at += cut;
    run->n -= cut;
    fifo->n_stored -= cut;
  }
  free_chunks (fifo);
}
