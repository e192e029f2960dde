/* SPDX-License-Identifier: MIT */
/*
 * Frames at which tokens begin, from the cross-attention scores of the
 * alignment heads: softmax over the real frames, columns normalised over
 * rows, median filter, mean over heads, dynamic time warping. Source:
 * openai/whisper timing.py (MIT); for its ties, the CPU form of dtw there.
 */
#include "engine/backend/cpu/kernels.h"
#include <math.h>
#include <string.h>

typedef struct {
  const AsrKernels *kernels;
  const AsrAlignParams *params;
  guint n_rows;     /* that are warped */
  float *matrix;    /* [n_rows, n_frames]: sum over heads */
} AlignJob;

typedef enum {
  STEP_DIAGONAL,
  STEP_DOWN,  /* next row, same frame */
  STEP_RIGHT, /* same row, next frame */
} Step;

static void
run_heads (gpointer data, guint begin, guint end, guint thread)
{
  const AlignJob *job = data;
  const AsrAlignParams *p = job->params;

  for (guint h = begin; h < end; h++) {
    float *scores = p->scores + (gsize) h * p->max_rows * p->n_ctx;

    for (guint r = 0; r < p->n_rows; r++)
      job->kernels->softmax (scores + (gsize) r * p->n_ctx, p->n_frames);
    job->kernels->standardise (scores, p->n_rows, p->n_ctx, p->n_frames);
  }
}

static void
run_rows (gpointer data, guint begin, guint end, guint thread)
{
  const AlignJob *job = data;
  const AsrAlignParams *p = job->params;

  for (guint r = begin; r < end; r++) {
    float *sum = job->matrix + (gsize) r * p->n_frames;
    gsize row = p->first_row + r;

    memset (sum, 0, p->n_frames * sizeof (float));
    for (guint h = 0; h < p->n_heads; h++)
      job->kernels->add_median (p->scores
              + ((gsize) h * p->max_rows + row) * p->n_ctx,
          p->n_frames, sum);
    for (guint t = 0; t < p->n_frames; t++)
      sum[t] /= p->n_heads;
  }
}

/* One row of the cost of the best path to each frame. @above: [n + 1], the
 * row before, with the border at 0; @cost: [n + 1] likewise. */
static void
warp_row (const float *x, guint n, const float *above, float *cost,
    guint8 *steps)
{
  cost[0] = INFINITY;
  for (guint j = 1; j <= n; j++) {
    float diagonal = above[j - 1], down = above[j], right = cost[j - 1];
    float best = right;

    steps[j - 1] = STEP_RIGHT;
    if (diagonal < down && diagonal < right) {
      best = diagonal;
      steps[j - 1] = STEP_DIAGONAL;
    } else if (down < diagonal && down < right) {
      best = down;
      steps[j - 1] = STEP_DOWN;
    }
    cost[j] = best - x[j - 1];
  }
}

/* From the last cell back to the first: the first row only right, the first
 * frame only down. */
static void
trace_path (const guint8 *steps, guint n_rows, guint n_frames, gint16 *frames)
{
  guint row = n_rows - 1, t = n_frames - 1;

  frames[row] = t;
  while (row > 0 || t > 0) {
    Step step = steps[(gsize) row * n_frames + t];

    if (row == 0)
      step = STEP_RIGHT;
    else if (t == 0)
      step = STEP_DOWN;
    row -= step != STEP_RIGHT;
    t -= step != STEP_DOWN;
    frames[row] = t;
  }
}

static void
warp (const AlignJob *job, float *costs, guint8 *steps)
{
  guint n = job->params->n_frames;
  float *above = costs, *cost = costs + n + 1;

  above[0] = 0;
  for (guint j = 1; j <= n; j++)
    above[j] = INFINITY;
  for (guint r = 0; r < job->n_rows; r++) {
    float *swap = above;

    warp_row (job->matrix + (gsize) r * n, n, above, cost,
        steps + (gsize) r * n);
    above = cost;
    cost = swap;
  }
  trace_path (steps, job->n_rows, n, job->params->frames);
}

static gboolean
check_params (AsrQueue *queue, const AsrAlignParams *p)
{
  if (p->n_heads > 0 && p->n_rows <= p->max_rows && p->n_frames > 0
      && p->n_frames <= MIN (p->n_ctx, G_MAXINT16))
    return TRUE;
  asr_cpu_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
      "align: %u heads, %u rows of %u, %u frames of %u", p->n_heads,
      p->n_rows, p->max_rows, p->n_frames, p->n_ctx));
  return FALSE;
}

void
asr_cpu_align (AsrQueue *queue, const AsrAlignParams *params)
{
  AsrThreads *threads = queue->device->threads;
  AlignJob job = { asr_kernels_get (queue->device->isa), params };
  gsize n_cells, n_costs = 2 * ((gsize) params->n_frames + 1);

  if (params->n_rows < params->first_row + 2)
    return; /* no row is asked for */
  if (!check_params (queue, params))
    return;
  job.n_rows = params->n_rows - 1 - params->first_row;
  n_cells = (gsize) job.n_rows * params->n_frames;
  job.matrix = asr_cpu_get_scratch (queue, ASR_SCRATCH_OP,
      (n_cells + n_costs) * sizeof (float) + n_cells);
  if (job.matrix == NULL)
    return;
  asr_threads_run (threads, params->n_heads, 1, run_heads, &job);
  asr_threads_run (threads, job.n_rows, 4, run_rows, &job);
  warp (&job, job.matrix + n_cells,
      (guint8 *) (job.matrix + n_cells + n_costs));
}
