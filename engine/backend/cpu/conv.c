/* SPDX-License-Identifier: MIT */
/*
 * The convolutions of the stem as matrix products. With time first, the three
 * frames under a kernel are neighbours in memory: rows that overlap need no
 * copy but the zero frames at both ends.
 */
#include "engine/backend/cpu/linear.h"
#include <string.h>

#define N_TAPS 3
#define BLOCK 16 /* of the transposition: a cache line */

typedef struct {
  const float *x;    /* [n_in, n_frames] */
  float *to;         /* [n_frames, n_in] */
  guint n_in, n_frames;
} Transposition;

static void
transpose_frames (gpointer data, guint begin, guint end, guint thread)
{
  const Transposition *t = data;

  for (guint first = begin; first < end; first += BLOCK) {
    guint last = MIN (first + BLOCK, end);

    for (guint i = 0; i < t->n_in; i++) {
      for (guint frame = first; frame < last; frame++)
        t->to[(gsize) frame * t->n_in + i]
            = t->x[(gsize) i * t->n_frames + frame];
    }
  }
}

/* Time first, a frame of zeros at either end: padded [n_frames + 2, n_in]. */
static void
pad_frames (AsrQueue *queue, const AsrConvParams *p, const float *x,
    float *padded)
{
  gsize n = (gsize) p->n_frames * p->n_in;
  Transposition t = { x, padded + p->n_in, p->n_in, p->n_frames };

  memset (padded, 0, p->n_in * sizeof (float));
  memset (padded + p->n_in + n, 0, p->n_in * sizeof (float));
  if (p->channels_first)
    asr_threads_run (queue->device->threads, p->n_frames, BLOCK,
        transpose_frames, &t);
  else
    memcpy (padded + p->n_in, x, n * sizeof (float));
}

typedef struct {
  const float *padded;
  float *rows;       /* [n_out_frames, N_TAPS * n_in] */
  gsize ldx, n_row;
} Expansion;

static void
expand_rows (gpointer data, guint begin, guint end, guint thread)
{
  const Expansion *e = data;

  for (guint t = begin; t < end; t++)
    memcpy (e->rows + t * e->n_row, e->padded + t * e->ldx,
        e->n_row * sizeof (float));
}

/* The library refuses rows that overlap: for it they are written out.
 * Returns: rows with the stride *ldx, or NULL after it has set the error */
static const float *
get_rows (AsrQueue *queue, const AsrConvParams *params, const float *padded,
    gsize *ldx)
{
  guint n_out_frames = params->n_frames / params->stride;
  Expansion e = { padded, NULL, *ldx, (gsize) N_TAPS * params->n_in };

  if (params->weights.weight->f32 == NULL)
    return padded;
  e.rows = asr_cpu_get_scratch (queue, ASR_SCRATCH_OP,
      n_out_frames * e.n_row * sizeof (float));
  if (e.rows == NULL)
    return NULL;
  asr_threads_run (queue->device->threads, n_out_frames, 64, expand_rows, &e);
  *ldx = e.n_row;
  return e.rows;
}

void
asr_cpu_conv (AsrQueue *queue, const AsrConvParams *params)
{
  guint n_out_frames = params->n_frames / params->stride;
  gsize n_padded = ((gsize) params->n_frames + 2) * params->n_in;
  float *padded = asr_cpu_get_scratch (queue, 1, n_padded * sizeof (float));

  if (!padded)
    return;
  for (guint r = 0; r < params->n_rows; r++) {
    AsrEpilogue finish = { params->weights.bias, ASR_ACTIVATION_GELU,
      params->positions,
      (float *) params->y + (gsize) r * n_out_frames * params->n_out,
      params->n_out };

    gsize ldx = (gsize) params->stride * params->n_in;
    const float *rows;

    pad_frames (queue, params, params->x[r], padded);
    rows = get_rows (queue, params, padded, &ldx);
    if (rows == NULL)
      return;
    asr_cpu_linear_run (queue, rows, ldx, n_out_frames,
        params->weights.weight, &finish);
  }
}
