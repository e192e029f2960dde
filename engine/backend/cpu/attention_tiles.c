/* SPDX-License-Identifier: MIT */
/*
 * Attention of the encoder where the processor has tiles and the device need
 * not be exact: splits heads and query rows over the threads.
 */
#include "engine/backend/cpu/attention.h"
#include "engine/backend/cpu/attention_amx.h"

typedef struct {
  const AsrAttentionParams *params;
  char *packed;      /* [n_sequences * n_heads] of pack_bytes */
  gsize pack_bytes;
  char *scratch;     /* [n_threads] of scratch_bytes */
  gsize scratch_bytes;
  guint n_parts;     /* of a head's query rows */
} TileJob;

static AsrAmxHead
get_head (const TileJob *job, guint index)
{
  const AsrAttentionParams *p = job->params;
  guint d = p->n_heads * ASR_HEAD_SIZE;
  gsize first = (gsize) (index / p->n_heads) * p->n_frames;
  guint column = index % p->n_heads * ASR_HEAD_SIZE;

  return (AsrAmxHead){ p->n_frames, d,
    (const float *) p->qkv + first * 3 * d + column,
    (float *) p->y + first * d + column,
    job->packed + index * job->pack_bytes };
}

static void
run_pack (gpointer data, guint begin, guint end, guint thread)
{
  const TileJob *job = data;

  for (guint i = begin; i < end; i++) {
    AsrAmxHead head = get_head (job, i);

    asr_attention_amx_pack (&head);
  }
}

static void
run_parts (gpointer data, guint begin, guint end, guint thread)
{
  const TileJob *job = data;

  for (guint i = begin; i < end; i++) {
    AsrAmxHead head = get_head (job, i / job->n_parts);
    guint first = i % job->n_parts * ASR_AMX_QUERY_PART;

    asr_attention_amx_run (&head, first,
        MIN (first + ASR_AMX_QUERY_PART, head.n_frames),
        job->scratch + thread * job->scratch_bytes);
  }
}

void
asr_cpu_attention_tiles (AsrQueue *queue, const AsrAttentionParams *params)
{
  AsrThreads *threads = queue->device->threads;
  TileJob job = { params };
  guint n_heads;

  if (params->n_rows == 0 || params->n_frames == 0)
    return;
  n_heads = params->n_rows / params->n_frames * params->n_heads;
  job.pack_bytes = asr_attention_amx_get_pack_bytes (params->n_frames);
  job.scratch_bytes = asr_attention_amx_get_scratch_bytes (params->n_frames);
  job.n_parts
      = (params->n_frames + ASR_AMX_QUERY_PART - 1) / ASR_AMX_QUERY_PART;
  job.packed = asr_cpu_get_scratch (queue, ASR_SCRATCH_OP,
      n_heads * job.pack_bytes);
  job.scratch = asr_cpu_get_scratch (queue, ASR_SCRATCH_OUTER,
      asr_threads_get_n (threads) * job.scratch_bytes);
  if (job.packed == NULL || job.scratch == NULL)
    return;
  asr_threads_run (threads, n_heads, 1, run_pack, &job);
  asr_threads_run (threads, n_heads * job.n_parts, 1, run_parts, &job);
}
