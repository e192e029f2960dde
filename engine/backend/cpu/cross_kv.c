/* SPDX-License-Identifier: MIT */
/*
 * Cross K and V of an encoder output into an audio slot: a product for each
 * layer, then its rows go into the slot's layout as f16.
 */
#include "engine/backend/cpu/attention.h"

typedef struct {
  const AsrKernels *kernels;
  const AsrCrossKvParams *params;
  guint layer;
  const float *kv;    /* [n_frames, 2d] */
} CrossKvJob;

static void
run_frames (gpointer data, guint begin, guint end, guint thread)
{
  const CrossKvJob *job = data;
  const AsrCrossKvParams *params = job->params;
  const AsrKvPool *pool = params->pool;

  for (guint h = 0; h < pool->n_heads; h++) {
    guint16 *k = asr_cpu_get_kv (pool, params->slot, job->layer, 0, h);
    guint16 *v = asr_cpu_get_kv (pool, params->slot, job->layer, 1, h);

    for (guint t = begin; t < end; t++) {
      const float *row = job->kv + (gsize) t * 2 * params->d
          + (gsize) h * ASR_HEAD_SIZE;

      job->kernels->append (row, row + params->d, t, pool->n_ctx, k, v);
    }
  }
}

void
asr_cpu_cross_kv (AsrQueue *queue, const AsrCrossKvParams *params)
{
  CrossKvJob job = { asr_kernels_get (queue->device->isa), params };
  float *kv;

  if (params->slot >= params->pool->n_slots
      || params->n_frames > params->pool->n_ctx) {
    asr_cpu_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
        "cross K/V: slot %u of %u, %u frames of %u", params->slot,
        params->pool->n_slots, params->n_frames, params->pool->n_ctx));
    return;
  }
  kv = asr_cpu_get_scratch (queue, ASR_SCRATCH_OUTER,
      (gsize) params->n_frames * 2 * params->d * sizeof (float));
  if (kv == NULL)
    return;
  job.kv = kv;
  for (job.layer = 0; job.layer < params->pool->n_layers; job.layer++) {
    const AsrLinearParams linear = {
      .n_rows = params->n_frames,
      .n_in = params->d,
      .n_out = 2 * params->d,
      .x = params->x,
      .weights = params->layers[job.layer].cross_kv,
      .y = kv,
    };

    asr_cpu_linear (queue, &linear);
    /* Whole blocks of keys, so that no two threads write one line. */
    asr_threads_run (queue->device->threads, params->n_frames, 64,
        run_frames, &job);
  }
}
