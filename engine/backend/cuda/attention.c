/* SPDX-License-Identifier: MIT */
/*
 * Attention: which kernel, how the work is split, and which heads leave
 * their scores.
 */
#include "engine/backend/cuda/cuda.h"

#define MAX_HEADS 32
#define MIN_BLOCKS 264  /* two for each multiprocessor of a large device */
#define MAX_SPLIT 16

static gboolean
check_attention (AsrQueue *queue, const AsrAttentionParams *p)
{
  const AsrKvPool *pool = p->pool;

  if (p->kind == ASR_ATTENTION_ENCODER) {
    if (p->n_frames > 0 && p->n_rows % p->n_frames == 0
        && p->n_heads <= MAX_HEADS)
      return TRUE;
    asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
        "attention: %u rows in sequences of %u, %u heads", p->n_rows,
        p->n_frames, p->n_heads));
    return FALSE;
  }
  if (pool->n_heads == p->n_heads && p->n_heads <= MAX_HEADS
      && p->layer < pool->n_layers
      && pool->dtype == queue->device->info.kv)
    return TRUE;
  asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
      "attention: %u heads of %u, layer %u of %u", p->n_heads,
      pool->n_heads, p->layer, pool->n_layers));
  return FALSE;
}

static gboolean
check_rows (AsrQueue *queue, const AsrAttentionParams *p)
{
  const AsrKvPool *pool = p->pool;

  for (guint r = 0; r < p->n_rows; r++) {
    const AsrRow *row = &p->rows[r];
    guint slot = p->kind == ASR_ATTENTION_SELF ? row->text_slot
                                               : row->audio_slot;

    if (slot < pool->n_slots && (p->kind != ASR_ATTENTION_SELF
            || row->token == ASR_TOKEN_CHOSEN
            || row->position < pool->n_ctx))
      continue;
    asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
        "attention: row %u has slot %u of %u, position %u of %u", r, slot,
        pool->n_slots, row->position, pool->n_ctx));
    return FALSE;
  }
  return TRUE;
}

gboolean
asr_cuda_rows_follow (const AsrRow *rows, guint n_rows)
{
  if (n_rows > ASR_CUDA_MAX_ROWS)
    return FALSE;
  for (guint r = 1; r < n_rows; r++)
    if (rows[r].text_slot == rows[r - 1].text_slot
        && (rows[r].token == ASR_TOKEN_CHOSEN
            || rows[r - 1].token == ASR_TOKEN_CHOSEN
            || rows[r].position != rows[r - 1].position + 1))
      return FALSE;
  return TRUE;
}

static void
find_scores (const AsrAttentionParams *p, AsrCacheAttention *cache)
{
  const AsrAlignHeads *align = p->align;

  if (p->kind != ASR_ATTENTION_CROSS || !align)
    return;
  cache->scores = align->scores;
  cache->max_score_rows = align->max_rows;
  for (guint h = 0; h < MAX_HEADS; h++)
    cache->score_index[h] = -1;
  for (guint i = 0; i < align->n_heads; i++)
    if (align->layers[i] == p->layer && align->heads[i] < MAX_HEADS)
      cache->score_index[align->heads[i]] = (gint16) i;
}

void
asr_cuda_attend (AsrQueue *queue, const AsrAttentionParams *params,
    const AsrRow *rows, gboolean appends, gboolean is_early)
{
  AsrCacheAttention cache = {
    .is_self = params->kind == ASR_ATTENTION_SELF,
    .appends = appends,
    .is_early = is_early,
    .n_rows = params->n_rows,
    .n_heads = params->n_heads,
    .qkv = params->qkv,
    .rows = rows,
    .states = params->states,
    .pool = *params->pool,
    .layer = params->layer,
    .n_parts = 1,
    .parts = queue->parts,
    .counters = queue->counters,
    .y = params->y,
  };

  if (!check_attention (queue, params))
    return;
  find_scores (params, &cache);
  if (cache.is_self && !appends
      && !asr_cuda_try (queue, "append",
          asr_cuda_append (&queue->launch, &cache)))
    return;
  if (!cache.is_self)
    cache.n_parts = CLAMP (MIN_BLOCKS / (cache.n_rows * cache.n_heads), 1,
        MAX_SPLIT);
  asr_cuda_try (queue, "attention",
      asr_cuda_attention_cache (&queue->launch, &cache));
}

void
asr_cuda_op_attention (AsrQueue *queue, const AsrAttentionParams *params)
{
  const AsrRow *rows;

  if (params->n_rows == 0 || !asr_cuda_begin (queue)
      || !check_attention (queue, params))
    return;
  if (params->kind == ASR_ATTENTION_ENCODER) {
    asr_cuda_try (queue, "attention",
        asr_cuda_attention_encoder (&queue->launch, params->qkv, params->y,
            params->n_rows / params->n_frames, params->n_frames,
            params->n_heads));
    return;
  }
  if (!check_rows (queue, params))
    return;
  rows = asr_cuda_stage (queue, params->rows,
      params->n_rows * sizeof (AsrRow));
  if (rows)
    asr_cuda_attend (queue, params, rows,
        asr_cuda_rows_follow (params->rows, params->n_rows), FALSE);
}
