/* SPDX-License-Identifier: MIT */
/*
 * Attention of the encoder: every frame of a sequence sees all of it. K and V
 * of a head are packed into panels first, then each block of rows goes over
 * all panels.
 */
#include "engine/backend/cpu/attention.h"

typedef struct {
  const AsrKernels *kernels;
  const AsrAttentionParams *params;
  gsize d;
  guint sequence;
  guint n_panels, n_keys;
  float *packed;     /* [n_heads, 2, n_keys * 64]: K, V */
  float *p;          /* [n_threads, tile.n_rows, n_keys] */
} EncoderJob;

static AsrEncoderHead
get_head (const EncoderJob *job, guint head)
{
  gsize n = (gsize) job->n_keys * ASR_HEAD_SIZE;
  gsize first = (gsize) job->sequence * job->params->n_frames;

  return (AsrEncoderHead) {
    .qkv = (const float *) job->params->qkv + first * 3 * job->d
        + (gsize) head * ASR_HEAD_SIZE,
    .stride = 3 * job->d,
    .d = job->d,
    .n_frames = job->params->n_frames,
    .k = job->packed + 2 * head * n,
    .v = job->packed + (2 * head + 1) * n,
  };
}

static void
run_pack (gpointer data, guint begin, guint end, guint thread)
{
  const EncoderJob *job = data;

  for (guint i = begin; i < end; i++) {
    AsrEncoderHead head = get_head (job, i / job->n_panels);

    job->kernels->encoder_pack (&head, i % job->n_panels);
  }
}

static void
run_blocks (gpointer data, guint begin, guint end, guint thread)
{
  const EncoderJob *job = data;
  guint n_frames = job->params->n_frames;
  guint n_rows = job->kernels->tile.n_rows;
  guint n_blocks = (n_frames + n_rows - 1) / n_rows;
  float *p = job->p + (gsize) thread * n_rows * job->n_keys;

  for (guint i = begin; i < end; i++) {
    guint head = i / n_blocks, first = i % n_blocks * n_rows;
    AsrEncoderHead packed = get_head (job, head);
    gsize row = (gsize) job->sequence * n_frames + first;

    job->kernels->encoder_attend (&packed, first,
        MIN (n_rows, n_frames - first), p,
        (float *) job->params->y + row * job->d
            + (gsize) head * ASR_HEAD_SIZE,
        job->d);
  }
}

void
asr_cpu_attention_encoder (AsrQueue *queue, const AsrAttentionParams *params)
{
  AsrThreads *threads = queue->device->threads;
  EncoderJob job = { asr_kernels_get (queue->device->isa), params };
  AsrTileSize tile = job.kernels->tile;
  guint n_blocks = (params->n_frames + tile.n_rows - 1) / tile.n_rows;
  gsize n_packed;

  if (params->n_rows == 0 || params->n_frames == 0)
    return;
  job.d = (gsize) params->n_heads * ASR_HEAD_SIZE;
  job.n_panels = (params->n_frames + tile.n_columns - 1) / tile.n_columns;
  job.n_keys = job.n_panels * tile.n_columns;
  n_packed = job.d * 2 * job.n_keys;
  job.packed = asr_cpu_get_scratch (queue, ASR_SCRATCH_OP,
      (n_packed + (gsize) asr_threads_get_n (threads) * tile.n_rows
              * job.n_keys) * sizeof (float));
  if (job.packed == NULL)
    return;
  job.p = job.packed + n_packed;
  for (guint s = 0; s < params->n_rows / params->n_frames; s++) {
    job.sequence = s;
    asr_threads_run (threads, params->n_heads * job.n_panels, 8, run_pack,
        &job);
    asr_threads_run (threads, params->n_heads * n_blocks, 4, run_blocks,
        &job);
  }
}
