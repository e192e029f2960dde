/* SPDX-License-Identifier: MIT */
/* Layer norm of rows, wherever they stand and wherever they go. */
#include "engine/backend/cpu/kernels.h"

typedef struct {
  const AsrKernels *kernels;
  const AsrNormParams *params;
} NormJob;

static void
run_norm_rows (gpointer data, guint begin, guint end, guint thread)
{
  const NormJob *job = data;
  const AsrNormParams *p = job->params;

  for (guint r = begin; r < end; r++) {
    gsize from = p->gather ? p->gather[r] : r;
    float *y = (float *) p->y + (gsize) r * p->d;

    if (p->y_rows != NULL)
      y = (float *) p->y_rows[r / p->rows_per_y]
          + (gsize) (r % p->rows_per_y) * p->d;
    job->kernels->norm ((const float *) p->x + from * p->d, p->d,
        p->weights.gamma, p->weights.beta, y);
  }
}

void
asr_cpu_norm (AsrQueue *queue, const AsrNormParams *params)
{
  NormJob job = { asr_kernels_get (queue->device->isa), params };

  asr_threads_run (queue->device->threads, params->n_rows, 16, run_norm_rows,
      &job);
}
