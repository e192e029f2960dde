/* SPDX-License-Identifier: MIT */
/*
 * Check of attention and cross_kv. Pools are written by the ops alone, since
 * how K lies in them is the backend's own business; what they should hold is
 * kept beside them in double.
 */
#include "tests/kernels/harness.h"
#include <math.h>
#include <string.h>

#define HEAD ASR_HEAD_SIZE
/* f32 with f16 in the pools; bf16 where the device need not be exact: 8 bits
 * of q, k, v and of the weights. */
#define EXACT 2e-5
#define CACHED 2e-3
#define ROUGH 4e-2

/* y [64] = softmax (q k / 8) v over @n keys @stride apart. */
static void
attend (const double *q, const double *k, const double *v, guint n,
    gsize stride, double *y, double *scores)
{
  double top = -INFINITY, sum = 0;

  for (guint t = 0; t < n; t++) {
    scores[t] = 0;
    for (guint c = 0; c < HEAD; c++)
      scores[t] += q[c] * k[t * stride + c] / 8;
    top = fmax (top, scores[t]);
  }
  memset (y, 0, HEAD * sizeof (double));
  for (guint t = 0; t < n; t++) {
    double weight = exp (scores[t] - top);

    sum += weight;
    for (guint c = 0; c < HEAD; c++)
      y[c] += weight * v[t * stride + c];
  }
  for (guint c = 0; c < HEAD; c++)
    y[c] /= sum;
}

static double *
widen (const float *x, gsize n)
{
  double *out = g_new (double, n);

  for (gsize i = 0; i < n; i++)
    out[i] = x[i];
  return out;
}

static void
check_encoder (Check *check, guint n_sequences, guint n_frames, guint n_heads,
    double amplitude, double tolerance)
{
  gsize d = (gsize) n_heads * HEAD, n = (gsize) n_sequences * n_frames;
  float *qkv = check_new_f32 (check, n * 3 * d, amplitude);
  float *y = check_new (n * d * sizeof (float));
  g_autofree double *wide = widen (qkv, n * 3 * d);
  g_autofree double *expected = g_new (double, n * d);
  g_autofree double *scores = g_new (double, n_frames);
  AsrAttentionParams params = { .kind = ASR_ATTENTION_ENCODER,
    .n_rows = (guint) n, .n_heads = n_heads, .n_frames = n_frames,
    .qkv = qkv, .y = y };

  for (gsize r = 0; r < n; r++)
    for (guint h = 0; h < n_heads; h++) {
      const double *first = wide + r / n_frames * n_frames * 3 * d + h * HEAD;

      attend (wide + r * 3 * d + h * HEAD, first + d, first + 2 * d, n_frames,
          3 * d, expected + r * d + h * HEAD, scores);
    }
  check->table->attention (check->queue, &params);
  if (check_wait (check, "encoder"))
    check_compare (check, "encoder", y, expected, n * d,
        tolerance * amplitude, 0);
  check_free (qkv);
  check_free (y);
}

/* ---- self-attention: several slots, prefill and single rows ---- */

#define N_SLOTS 3
#define N_LAYERS 2

typedef struct {
  AsrKvPool pool;
  guint n_heads;
  gsize d;
  double *kv;                /* [N_SLOTS, N_LAYERS, n_ctx, 2d]: the truth */
  AsrTextState states[N_SLOTS];
  guint n_filled[N_SLOTS];   /* positions of a slot that are written */
} Cache;

static void
begin_cache (Cache *cache, guint n_heads, guint n_ctx)
{
  gsize d = (gsize) n_heads * HEAD;
  gsize n_bytes = (gsize) N_SLOTS * N_LAYERS * 2 * d * n_ctx * 2;

  *cache = (Cache){ { check_new (n_bytes), ASR_DTYPE_F16, N_SLOTS, N_LAYERS,
      n_heads, n_ctx }, n_heads, d };
  /* What was never written must not matter: not-a-numbers. */
  memset (cache->pool.data, 0xff, n_bytes);
  cache->kv = g_new0 (double, N_SLOTS * N_LAYERS * n_ctx * 2 * d);
}

static void
end_cache (Cache *cache)
{
  check_free (cache->pool.data);
  g_free (cache->kv);
}

static double *
get_kv (Cache *cache, guint slot, guint layer, guint position)
{
  return cache->kv
      + (((gsize) slot * N_LAYERS + layer) * cache->pool.n_ctx + position)
          * 2 * cache->d;
}

/* What one row appends and what it then sees. */
static void
expect_self_row (Cache *cache, const float *qkv, guint slot, guint layer,
    guint position, double *expected)
{
  gsize d = cache->d;
  g_autofree double *q = widen (qkv, d);
  g_autofree double *scores = g_new (double, position + 1);
  double *kv = get_kv (cache, slot, layer, position);

  for (gsize i = 0; i < 2 * d; i++)
    kv[i] = asr_f16_to_f32 (asr_f32_to_f16 (qkv[d + i]));
  for (guint h = 0; h < cache->n_heads; h++)
    attend (q + h * HEAD, get_kv (cache, slot, layer, 0) + h * HEAD,
        get_kv (cache, slot, layer, 0) + d + h * HEAD, position + 1, 2 * d,
        expected + h * HEAD, scores);
}

/* Appends n_new[slot] rows to each slot in one batch; where it is one, its
 * position comes from the state. */
static void
check_self_step (Check *check, Cache *cache, const guint *n_new)
{
  guint n_rows = n_new[0] + n_new[1] + n_new[2], row = 0;
  gsize d = cache->d;
  float *qkv = check_new_f32 (check, n_rows * 3 * d, 1.0);
  float *y = check_new (n_rows * d * sizeof (float));
  g_autofree double *expected = g_new (double, n_rows * d);
  g_autofree AsrRow *rows = g_new0 (AsrRow, n_rows);
  AsrAttentionParams params = { .kind = ASR_ATTENTION_SELF, .n_rows = n_rows,
    .n_heads = cache->n_heads, .qkv = qkv, .rows = rows,
    .states = cache->states, .pool = &cache->pool, .layer = 1, .y = y };

  for (guint slot = 0; slot < N_SLOTS; slot++)
    for (guint i = 0; i < n_new[slot]; i++, row++) {
      guint position = cache->n_filled[slot]++;

      rows[row] = (AsrRow){ n_new[slot] == 1 ? ASR_TOKEN_CHOSEN : 5, position,
        7, (guint16) slot };
      cache->states[slot].position = position;
      if (n_new[slot] == 1)
        rows[row].position = 12345; /* to be ignored */
      expect_self_row (cache, qkv + row * 3 * d, slot, 1, position,
          expected + row * d);
    }
  check->table->attention (check->queue, &params);
  if (check_wait (check, "self"))
    check_compare (check, "self", y, expected, n_rows * d, EXACT, EXACT);
  check_free (qkv);
  check_free (y);
}

static void
check_self (Check *check, guint n_heads, guint n_ctx)
{
  guint steps[][N_SLOTS] = { { 4, 0, 1 }, { 1, 9, 1 }, { 1, 1, 1 },
    { 7, 1, 2 }, { 3, 1, 0 }, { 0, 20, 17 } };
  Cache cache;

  begin_cache (&cache, n_heads, n_ctx);
  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    check_self_step (check, &cache, steps[i]);
  /* to the last position of a slot */
  steps[0][0] = n_ctx - cache.n_filled[0];
  steps[0][2] = 0;
  check_self_step (check, &cache, steps[0]);
  end_cache (&cache);
}

static void
check_self_borders (Check *check)
{
  AsrRow row = { 1, 40, 0, 0 };
  float *qkv = check_new_f32 (check, 3 * HEAD, 1.0);
  AsrAttentionParams params = { .kind = ASR_ATTENTION_SELF, .n_rows = 1,
    .n_heads = 1, .qkv = qkv, .rows = &row, .y = qkv };
  Cache cache;

  begin_cache (&cache, 1, 40);
  params.pool = &cache.pool;
  params.states = cache.states;
  for (guint i = 0; i < 3; i++) {
    g_autoptr (GError) error = NULL;

    check->table->attention (check->queue, &params);
    if (check->table->queue_wait (check->queue, &error))
      check_fail (check, "self", "no error in case %u", i);
    row.token = i == 0 ? ASR_TOKEN_CHOSEN : 1;
    cache.states[0].position = 40;
    if (i == 1)
      row = (AsrRow){ 1, 0, 0, N_SLOTS };
  }
  end_cache (&cache);
  check_free (qkv);
}

/* ---- cross-attention over what cross_kv made ---- */

typedef struct {
  Cache cache;
  AsrLayerWeights layers[N_LAYERS];
  float *bias;
} Cross;

/* K and V of all frames of @slot, by the op and in double. */
static void
fill_slot (Cross *cross, Check *check, float *const *w, guint slot)
{
  Cache *cache = &cross->cache;
  guint n_ctx = cache->pool.n_ctx;
  gsize d = cache->d;
  float *x = check_new_f32 (check, n_ctx * d, 1.0);
  AsrCrossKvParams params = { n_ctx, (guint) d, x, cross->layers,
    &cache->pool, slot };

  for (guint layer = 0; layer < N_LAYERS; layer++)
    for (guint t = 0; t < n_ctx; t++)
      for (gsize i = 0; i < 2 * d; i++) {
        double sum = cross->bias[i];

        for (gsize c = 0; c < d; c++)
          sum += (double) x[t * d + c] * w[layer][i * d + c];
        get_kv (cache, slot, layer, t)[i] = sum;
      }
  check->table->cross_kv (check->queue, &params);
  check_wait (check, "cross_kv");
  check_free (x);
}

static void
begin_cross (Cross *cross, Check *check, guint n_heads, guint n_ctx)
{
  guint d = n_heads * HEAD;
  float *w[N_LAYERS];

  begin_cache (&cross->cache, n_heads, n_ctx);
  cross->bias = check_new_f32 (check, 2 * d, 0.5);
  for (guint layer = 0; layer < N_LAYERS; layer++) {
    AsrTensor tensor = { ASR_DTYPE_F32, 2, { 2 * d, d }, NULL,
      (gsize) 2 * d * d * sizeof (float) };
    g_autoptr (GError) error = NULL;

    tensor.data = w[layer] = check_new_f32 (check, 2 * d * d, 1 / sqrt (d));
    cross->layers[layer].cross_kv.bias = cross->bias;
    cross->layers[layer].cross_kv.weight = check->table->weight_new (
        check->device, &tensor, ASR_WEIGHT_LINEAR, &error);
    if (cross->layers[layer].cross_kv.weight == NULL)
      g_error ("weight: %s", error->message);
  }
  for (guint slot = 0; slot < N_SLOTS; slot++)
    fill_slot (cross, check, w, slot);
  for (guint layer = 0; layer < N_LAYERS; layer++)
    check_free (w[layer]);
}

static void
end_cross (Cross *cross, Check *check)
{
  for (guint layer = 0; layer < N_LAYERS; layer++)
    check->table->weight_free (check->device,
        cross->layers[layer].cross_kv.weight);
  check_free (cross->bias);
  end_cache (&cross->cache);
}

/* The alignment heads: the last head of layer 1, and one of layer 0, which
 * must not be written here. */
#define SCORE_MARK 12345.0f

static void
compare_scores (Check *check, const AsrAlignHeads *align, guint n_rows,
    guint n_ctx, const double *expected)
{
  gsize n_head = (gsize) align->max_rows * n_ctx;
  guint n_seen = MIN (n_rows, align->max_rows);

  check_compare (check, "scores", align->scores + n_head, expected,
      (gsize) n_seen * n_ctx, CACHED, CACHED);
  for (gsize i = 0; i < 2 * n_head; i++)
    if ((i < n_head || i >= n_head + (gsize) n_seen * n_ctx)
        && align->scores[i] != SCORE_MARK) {
      check_fail (check, "scores", "[%zu] was written", i);
      return;
    }
}

/* @slots: [n_rows] */
static void
check_cross_rows (Check *check, Cross *cross, guint n_rows,
    const guint *slots)
{
  Cache *cache = &cross->cache;
  guint n_ctx = cache->pool.n_ctx, max_rows = 40;
  guint8 layers[] = { 0, 1 }, heads[] = { 0, (guint8) (cache->n_heads - 1) };
  gsize d = cache->d;
  float *q = check_new_f32 (check, n_rows * d, 1.0);
  float *y = check_new (n_rows * d * sizeof (float));
  AsrAlignHeads align = { 2, layers, heads, max_rows,
    check_new (2 * (gsize) max_rows * n_ctx * sizeof (float)) };
  g_autofree AsrRow *rows = g_new0 (AsrRow, n_rows);
  g_autofree double *wide = widen (q, n_rows * d);
  g_autofree double *expected = g_new (double, n_rows * d);
  g_autofree double *scores = g_new (double, (gsize) n_rows * n_ctx);
  AsrAttentionParams params = { .kind = ASR_ATTENTION_CROSS,
    .n_rows = n_rows, .n_heads = cache->n_heads, .qkv = q, .rows = rows,
    .pool = &cache->pool, .layer = 1, .align = &align, .y = y };

  for (gsize i = 0; i < 2 * (gsize) max_rows * n_ctx; i++)
    align.scores[i] = SCORE_MARK;
  for (guint r = 0; r < n_rows; r++) {
    const double *kv = get_kv (cache, slots[r], 1, 0);

    rows[r] = (AsrRow){ 1, r, (guint16) slots[r], 9 };
    for (guint h = 0; h < cache->n_heads; h++)
      attend (wide + r * d + h * HEAD, kv + h * HEAD, kv + d + h * HEAD,
          n_ctx, 2 * d, expected + r * d + h * HEAD,
          scores + (gsize) r * n_ctx);
  }
  check->table->attention (check->queue, &params);
  if (check_wait (check, "cross")) {
    check_compare (check, "cross", y, expected, n_rows * d, CACHED, CACHED);
    compare_scores (check, &align, n_rows, n_ctx, scores);
  }
  check_free (q);
  check_free (y);
  check_free (align.scores);
}

static void
check_cross (Check *check, guint n_heads, guint n_ctx)
{
  guint slots[70];
  Cross cross;

  begin_cross (&cross, check, n_heads, n_ctx);
  for (guint n = 1; n <= 9; n++) { /* rows of one slot */
    for (guint r = 0; r < n; r++)
      slots[r] = n % N_SLOTS;
    check_cross_rows (check, &cross, n, slots);
  }
  for (guint r = 0; r < 70; r++) /* more rows than scores have room for */
    slots[r] = r < 50 ? 2 : check_random_range (check, 0, N_SLOTS - 1);
  check_cross_rows (check, &cross, 70, slots);
  end_cross (&cross, check);
}

static void
check_cross_borders (Check *check)
{
  AsrRow row = { 1, 0, N_SLOTS, 0 };
  float *x = check_new_f32 (check, 100 * HEAD, 1.0);
  AsrAttentionParams params = { .kind = ASR_ATTENTION_CROSS, .n_rows = 1,
    .n_heads = 1, .qkv = x, .rows = &row, .y = x };
  AsrCrossKvParams kv = { 41, HEAD, x, NULL, NULL, 0 };
  Cache cache;

  begin_cache (&cache, 1, 40);
  params.pool = kv.pool = &cache.pool;
  for (guint i = 0; i < 3; i++) {
    g_autoptr (GError) error = NULL;

    if (i == 0)
      check->table->attention (check->queue, &params);
    else
      check->table->cross_kv (check->queue, &kv);
    if (check->table->queue_wait (check->queue, &error))
      check_fail (check, "cross", "no error in case %u", i);
    if (i == 1) {
      kv.n_frames = 40;
      kv.slot = N_SLOTS;
    }
  }
  end_cache (&cache);
  check_free (x);
}

/* ---- speed, with base's shapes ---- */

typedef struct {
  Check *check;
  AsrAttentionParams params;
} Bench;

static void
run_bench (gpointer data)
{
  Bench *bench = data;

  bench->check->table->attention (bench->check->queue, &bench->params);
}

static void
bench_encoder (Check *check, const char *name)
{
  float *qkv = check_new_f32 (check, 1500 * 1536, 1.0);
  float *y = check_new (1500 * 512 * sizeof (float));
  Bench bench = { check, { .kind = ASR_ATTENTION_ENCODER, .n_rows = 1500,
      .n_heads = 8, .n_frames = 1500, .qkv = qkv, .y = y } };

  check_bench (check, name, 4.0 * 1500 * 1500 * 512, 1500 * 2048 * 4.0,
      run_bench, &bench);
  check_free (qkv);
  check_free (y);
}

/* One layer of six, so that the pool is not in the cache. */
static void
run_cross_layers (gpointer data)
{
  Bench *bench = data;

  for (guint layer = 0; layer < 6; layer++) {
    bench->params.layer = layer;
    run_bench (bench);
  }
}

static void
bench_cross (Check *check, guint n_rows)
{
  gsize n_kv = (gsize) 6 * 2 * 1500 * 512;
  guint16 *pool_data = check_new (n_kv * 2);
  AsrKvPool pool = { pool_data, ASR_DTYPE_F16, 1, 6, 8, 1500 };
  float *q = check_new_f32 (check, n_rows * 512, 1.0);
  float *y = check_new (n_rows * 512 * sizeof (float));
  g_autofree AsrRow *rows = g_new0 (AsrRow, n_rows);
  g_autofree char *name = g_strdup_printf ("cross, six layers, %u rows",
      n_rows);
  Bench bench = { check, { .kind = ASR_ATTENTION_CROSS, .n_rows = n_rows,
      .n_heads = 8, .qkv = q, .rows = rows, .pool = &pool, .y = y } };

  for (gsize i = 0; i < n_kv; i++)
    pool_data[i] = asr_f32_to_f16 ((float) (i % 97) / 97 - 0.5f);
  check_bench (check, name, 4.0 * n_kv / 2 * n_rows, 2.0 * n_kv,
      run_cross_layers, &bench);
  check_free (pool_data);
  check_free (q);
  check_free (y);
}

static void
check_attention (Check *check)
{
  check_open (check, ASR_COMPUTE_F32, check->n_threads);
  check_encoder (check, 1, 1, 1, 1.0, EXACT);
  check_encoder (check, 2, 100, 2, 1.0, EXACT);
  check_encoder (check, 1, 1500, 1, 1.0, EXACT);
  check_encoder (check, 1, 33, 1, 10.0, 20 * EXACT); /* sharp */
  for (guint i = 0; i < 4; i++)
    check_encoder (check, check_random_range (check, 1, 3),
        check_random_range (check, 1, 200), check_random_range (check, 1, 3),
        1.0, EXACT);
  check_self (check, 1, 40);
  check_self (check, 3, 448);
  check_self_borders (check);
  check_cross (check, 1, 44);
  check_cross (check, 2, 100);
  check_cross (check, 1, 96);
  check_cross_borders (check);
  if (check->is_bench)
    bench_encoder (check, "encoder layer, f32");
  check_open (check, ASR_COMPUTE_INT8, check->n_threads);
  check_encoder (check, 2, 101, 2, 1.0, ROUGH);
  check_encoder (check, 1, 1500, 1, 1.0, ROUGH);
  check_encoder (check, 1, check_random_range (check, 1, 200), 3, 1.0, ROUGH);
  if (check->is_bench) {
    bench_encoder (check, "encoder layer");
    for (guint n = 1; n <= 128; n = n == 1 ? 4 : n == 4 ? 100 : 999)
      bench_cross (check, n);
  }
}

int
main (int argc, char **argv)
{
  return check_main (argc, argv, check_attention);
}
