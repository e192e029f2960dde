/* SPDX-License-Identifier: MIT */
/*
 * Attention of decoder rows over what their slots keep: SELF appends each
 * row's K and V to its text slot first, CROSS reads the audio slot. Rows of
 * one slot that stand next to each other go together, so that K and V are
 * read once for several of them.
 */
#include "engine/backend/cpu/attention.h"

#define MAX_RUNS 64 /* that are gathered before they are run */

/* Rows [first, first + n) of one slot. */
typedef struct {
  guint first, n;
  guint slot;
} RowRun;

typedef struct {
  const AsrKernels *kernels;
  const AsrAttentionParams *params;
  gsize d, q_stride;
  float *p;          /* [n_threads, ASR_ATTEND_MAX_ROWS, p_stride] */
  gsize p_stride;
  RowRun runs[MAX_RUNS];
  guint n_runs;
} CacheJob;

static guint
get_position (const AsrAttentionParams *params, guint row)
{
  const AsrRow *r = params->rows + row;

  return r->token == ASR_TOKEN_CHOSEN ? params->states[r->text_slot].position
                                      : r->position;
}

static guint
get_slot (const AsrAttentionParams *params, guint row)
{
  return params->kind == ASR_ATTENTION_SELF ? params->rows[row].text_slot
                                            : params->rows[row].audio_slot;
}

/* Where the scores of row @row and @head go for each alignment head that is
 * this one; a model lists a head once. */
static float *
find_scores (const AsrAttentionParams *params, guint row, guint head)
{
  const AsrAlignHeads *align = params->align;

  if (params->kind != ASR_ATTENTION_CROSS || align == NULL
      || row >= align->max_rows)
    return NULL;
  for (guint i = 0; i < align->n_heads; i++)
    if (align->layers[i] == params->layer && align->heads[i] == head)
      return align->scores
          + ((gsize) i * align->max_rows + row) * params->pool->n_ctx;
  return NULL;
}

static void
append_rows (const CacheJob *job, const RowRun *run, guint head)
{
  const AsrAttentionParams *params = job->params;
  const AsrKvPool *pool = params->pool;
  guint16 *k = asr_cpu_get_kv (pool, run->slot, params->layer, 0, head);
  guint16 *v = asr_cpu_get_kv (pool, run->slot, params->layer, 1, head);

  for (guint r = run->first; r < run->first + run->n; r++) {
    const float *row = (const float *) params->qkv + (gsize) r * job->q_stride
        + (gsize) head * ASR_HEAD_SIZE;

    job->kernels->append (row + job->d, row + 2 * job->d,
        get_position (params, r), pool->n_ctx, k, v);
  }
}

/* Rows [first, first + n) of a run. */
static void
attend_rows (const CacheJob *job, guint slot, guint head, guint first,
    guint n, float *p)
{
  const AsrAttentionParams *params = job->params;
  gsize column = (gsize) head * ASR_HEAD_SIZE;
  float *scores[ASR_ATTEND_MAX_ROWS];
  guint n_keys[ASR_ATTEND_MAX_ROWS];
  AsrAttend attend = {
    .q = (const float *) params->qkv + first * job->q_stride + column,
    .q_stride = job->q_stride,
    .n_rows = n,
    .n_keys = n_keys,
    .k = asr_cpu_get_kv (params->pool, slot, params->layer, 0, head),
    .v = asr_cpu_get_kv (params->pool, slot, params->layer, 1, head),
    .n_ctx = params->pool->n_ctx,
    .p = p,
    .p_stride = job->p_stride,
    .scores = scores,
    .y = (float *) params->y + first * job->d + column,
    .y_stride = job->d,
  };

  for (guint r = 0; r < n; r++) {
    n_keys[r] = params->kind == ASR_ATTENTION_SELF
        ? get_position (params, first + r) + 1
        : params->pool->n_ctx;
    scores[r] = find_scores (params, first + r, head);
  }
  job->kernels->attend (&attend);
}

/* Items are run by run, head by head. */
static void
run_heads (gpointer data, guint begin, guint end, guint thread)
{
  const CacheJob *job = data;
  guint n_heads = job->params->n_heads;
  float *p = job->p + (gsize) thread * ASR_ATTEND_MAX_ROWS * job->p_stride;

  for (guint i = begin; i < end; i++) {
    const RowRun *run = job->runs + i / n_heads;
    guint head = i % n_heads;

    if (job->params->kind == ASR_ATTENTION_SELF)
      append_rows (job, run, head);
    for (guint r = 0; r < run->n; r += ASR_ATTEND_MAX_ROWS)
      attend_rows (job, run->slot, head, run->first + r,
          MIN (ASR_ATTEND_MAX_ROWS, run->n - r), p);
  }
}

static gboolean
check_rows (AsrQueue *queue, const AsrAttentionParams *params)
{
  const AsrKvPool *pool = params->pool;

  for (guint r = 0; r < params->n_rows; r++) {
    guint slot = get_slot (params, r);

    if (slot >= pool->n_slots) {
      asr_cpu_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
          "attention: row %u names slot %u of %u", r, slot, pool->n_slots));
      return FALSE;
    }
    if (params->kind == ASR_ATTENTION_SELF
        && get_position (params, r) >= pool->n_ctx) {
      asr_cpu_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
          "attention: row %u has position %u, its slot has room for %u", r,
          get_position (params, r), pool->n_ctx));
      return FALSE;
    }
  }
  return TRUE;
}

/* CROSS may cut a run anywhere: each thread then gets a share of many rows.
 * SELF may not, since later rows see what earlier ones append. */
static guint
gather_run (const AsrAttentionParams *params, guint first, RowRun *run)
{
  guint max = params->n_rows - first;

  if (params->kind == ASR_ATTENTION_CROSS)
    max = MIN (max, 4 * ASR_ATTEND_MAX_ROWS);
  run->first = first;
  run->slot = get_slot (params, first);
  run->n = 1;
  while (run->n < max && get_slot (params, first + run->n) == run->slot)
    run->n++;
  return run->n;
}

void
asr_cpu_attention_cache (AsrQueue *queue, const AsrAttentionParams *params)
{
  AsrThreads *threads = queue->device->threads;
  CacheJob job = { asr_kernels_get (queue->device->isa), params };
  guint first = 0;

  if (!check_rows (queue, params))
    return;
  job.d = (gsize) params->n_heads * ASR_HEAD_SIZE;
  job.q_stride = params->kind == ASR_ATTENTION_SELF ? 3 * job.d : job.d;
  job.p_stride = (params->pool->n_ctx + ASR_KEY_BLOCK - 1) / ASR_KEY_BLOCK
      * ASR_KEY_BLOCK;
  job.p = asr_cpu_get_scratch (queue, ASR_SCRATCH_OP,
      asr_threads_get_n (threads) * ASR_ATTEND_MAX_ROWS * job.p_stride
          * sizeof (float));
  if (job.p == NULL)
    return;
  while (first < params->n_rows) {
    job.n_runs = 0;
    while (first < params->n_rows && job.n_runs < MAX_RUNS)
      first += gather_run (params, first, &job.runs[job.n_runs++]);
    asr_threads_run (threads, job.n_runs * params->n_heads, 1, run_heads,
        &job);
  }
}
