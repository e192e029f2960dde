/* SPDX-License-Identifier: MIT */
/* Attention over slots, cross K/V, choices and alignment. */
#include "tests/backend/suite.h"
#include <math.h>
#include <string.h>

#define HEAD ASR_HEAD_SIZE

/* ---- key/value slots ---- */

typedef struct {
  AsrKvPool pool;
  gsize n;      /* elements */
  double *kept; /* what the pool should hold */
} Pool;

/* These look into pools. */
static gboolean
skip_pools (Suite *suite)
{
  if (suite->has_plain_kv)
    return FALSE;
  g_test_skip ("pools have the backend's own order");
  return TRUE;
}

static Pool
new_pool (Suite *suite, guint n_slots, guint n_layers, guint n_heads,
    guint n_ctx)
{
  Pool pool = { { NULL, suite->compute->info->kv, n_slots, n_layers, n_heads,
    n_ctx } };
  float *x;

  pool.n = (gsize) n_slots * n_layers * 2 * n_heads * n_ctx * HEAD;
  x = suite_random (suite, pool.n, 1);
  pool.kept = suite_doubles (suite, pool.n);
  for (gsize i = 0; i < pool.n; i++)
    pool.kept[i] = x[i];
  pool.pool.data = suite_upload_kv (suite, x, pool.n);
  return pool;
}

static double *
get_kept (Pool *pool, guint slot, guint layer, guint is_v, guint head)
{
  const AsrKvPool *p = &pool->pool;

  return pool->kept + ((((gsize) slot * p->n_layers + layer) * 2 + is_v)
          * p->n_heads + head) * p->n_ctx * HEAD;
}

static guint
get_position (const AsrRow *row, const AsrTextState *states)
{
  return row->token == ASR_TOKEN_CHOSEN ? states[row->text_slot].position
                                        : row->position;
}

/* One call of SELF; the pool's copy is kept up to date. */
static void
check_rows (Suite *suite, Pool *pool, guint layer, const AsrRow *rows,
    guint n_rows, const AsrTextState *states)
{
  guint n_heads = pool->pool.n_heads, d = n_heads * HEAD;
  float *qkv = suite_random (suite, n_rows * 3 * d, 1.5);
  double *x = suite_doubles (suite, n_rows * 3 * d);
  double *expected = suite_doubles (suite, n_rows * d);
  AsrAttentionParams params = { .kind = ASR_ATTENTION_SELF,
    .n_rows = n_rows, .n_heads = n_heads,
    .qkv = suite_upload_act (suite, qkv, n_rows * 3 * d), .rows = rows,
    .states = suite_upload (suite, states, 3 * sizeof *states),
    .pool = &pool->pool, .layer = layer,
    .y = suite_new_act (suite, n_rows * d) };

  for (guint i = 0; i < n_rows * 3 * d; i++)
    x[i] = qkv[i];
  for (guint r = 0; r < n_rows; r++)
    for (guint h = 0; h < n_heads; h++) {
      const double *q = x + r * 3 * d + h * HEAD;
      double *k = get_kept (pool, rows[r].text_slot, layer, 0, h);
      double *v = get_kept (pool, rows[r].text_slot, layer, 1, h);
      guint position = get_position (&rows[r], states);

      memcpy (k + position * HEAD, q + d, HEAD * sizeof (double));
      memcpy (v + position * HEAD, q + 2 * d, HEAD * sizeof (double));
      reference_attend (q, k, v, HEAD, position + 1, NULL,
          expected + r * d + h * HEAD);
    }
  suite->table->attention (suite->queue, &params);
  suite_compare ("self attention",
      suite_download_act (suite, params.y, n_rows * d), expected, n_rows * d,
      MAX (suite->act_tolerance, suite->kv_tolerance));
  suite_compare ("pool after self attention",
      suite_download_kv (suite, pool->pool.data, pool->n), pool->kept,
      pool->n, 1e-7);
}

static void
check_self (Suite *suite)
{
  Pool pool;
  AsrTextState states[3] = { { .token = 1, .position = 5 },
    { .token = 1, .position = 447 }, { .token = 1, .position = 0 } };
  AsrRow prompt[] = { { 1, 0, 0, 2 }, { 1, 1, 0, 2 }, { 1, 2, 0, 2 },
    { 1, 3, 0, 2 }, { 1, 4, 0, 2 } };
  AsrRow mixed[] = { { ASR_TOKEN_CHOSEN, 0, 0, 1 }, { 7, 5, 0, 2 },
    { 7, 6, 0, 2 }, { ASR_TOKEN_CHOSEN, 9, 0, 0 } };
  AsrRow many[230];

  if (skip_pools (suite))
    return;
  pool = new_pool (suite, 3, 2, 3, 448);
  check_rows (suite, &pool, 0, prompt, 5, states);
  check_rows (suite, &pool, 1, prompt, 5, states);
  check_rows (suite, &pool, 1, mixed, 4, states);
  for (guint r = 0; r < 230; r++)
    many[r] = (AsrRow){ 1, r, 0, 1 };
  check_rows (suite, &pool, 0, many, 230, states);
}

static void
check_one_cross (Suite *suite, Pool *pool, const AsrRow *rows, guint n_rows)
{
  guint n_heads = pool->pool.n_heads, d = n_heads * HEAD;
  guint n_ctx = pool->pool.n_ctx, max_rows = 3, layer = 1;
  guint8 layers[] = { 1, 0, 1 }, heads[] = { 2, 1, 0 };
  gsize n_scores = (gsize) 3 * max_rows * n_ctx;
  float *q = suite_random (suite, n_rows * d, 1.5);
  double *x = suite_doubles (suite, n_rows * d);
  double *expected = suite_doubles (suite, n_rows * d);
  double *scores = suite_doubles (suite, n_ctx);
  AsrAlignHeads align = { 3, layers, heads, max_rows,
    suite_device (suite, n_scores * sizeof (float)) };
  AsrAttentionParams params = { .kind = ASR_ATTENTION_CROSS,
    .n_rows = n_rows, .n_heads = n_heads,
    .qkv = suite_upload_act (suite, q, n_rows * d), .rows = rows,
    .pool = &pool->pool, .layer = layer, .align = &align,
    .y = suite_new_act (suite, n_rows * d) };
  const float *got;

  for (guint i = 0; i < n_rows * d; i++)
    x[i] = q[i];
  suite->table->attention (suite->queue, &params);
  got = suite_download (suite, align.scores, n_scores * sizeof (float));
  for (guint r = 0; r < n_rows; r++)
    for (guint h = 0; h < n_heads; h++) {
      reference_attend (x + r * d + h * HEAD,
          get_kept (pool, rows[r].audio_slot, layer, 0, h),
          get_kept (pool, rows[r].audio_slot, layer, 1, h), HEAD, n_ctx,
          scores, expected + r * d + h * HEAD);
      if (r < max_rows && h == 2)
        suite_compare ("scores", got + r * n_ctx, scores, n_ctx,
            suite->kv_tolerance);
      if (r < max_rows && h == 0)
        suite_compare ("scores", got + (2 * max_rows + r) * n_ctx, scores,
            n_ctx, suite->kv_tolerance);
    }
  for (gsize i = max_rows * n_ctx; i < 2 * max_rows * n_ctx; i++)
    g_assert_true (isnan (got[i])); /* a head of another layer */
  suite_compare ("cross attention",
      suite_download_act (suite, params.y, n_rows * d), expected, n_rows * d,
      MAX (suite->act_tolerance, suite->kv_tolerance));
}

static void
check_cross (Suite *suite)
{
  AsrRow rows[120] = { { 1, 0, 2, 0 }, { 1, 0, 0, 1 }, { 1, 0, 2, 2 } };
  Pool pool;

  if (skip_pools (suite))
    return;
  pool = new_pool (suite, 3, 2, 3, 1500);
  check_one_cross (suite, &pool, rows, 1);
  check_one_cross (suite, &pool, rows, 3);
  for (guint r = 3; r < 120; r++)
    rows[r].audio_slot = r % 3;
  check_one_cross (suite, &pool, rows, 120);
}

static void
check_cross_kv (Suite *suite)
{
  guint n_heads = 2, d = n_heads * HEAD, n_frames = 75;
  Pool pool;
  AsrLayerWeights layers[2] = { { .self_qkv = { NULL } } };
  float *x = suite_random (suite, n_frames * d, 1);
  double *expected = suite_doubles (suite, 2 * d * n_frames);
  double *in = suite_doubles (suite, n_frames * d);
  AsrCrossKvParams params = { n_frames, d,
    suite_upload_act (suite, x, n_frames * d), layers, &pool.pool, 1 };

  if (skip_pools (suite))
    return;
  pool = new_pool (suite, 3, 2, n_heads, n_frames);
  for (guint i = 0; i < n_frames * d; i++)
    in[i] = x[i];
  for (guint l = 0; l < 2; l++) {
    float *w = suite_random (suite, 2 * d * d, 0.1);
    float *bias = suite_random (suite, 2 * d, 0.5);

    layers[l].cross_kv = (AsrLinearWeights){
      suite_weight (suite, w, 2 * d, d, 1),
      suite_upload (suite, bias, 2 * d * sizeof (float)),
    };
    reference_linear (in, n_frames, d, w, bias, 2 * d, expected);
    for (guint is_v = 0; is_v < 2; is_v++)
      for (guint h = 0; h < n_heads; h++)
        for (guint t = 0; t < n_frames; t++)
          memcpy (get_kept (&pool, 1, l, is_v, h) + t * HEAD,
              expected + (t * 2 + is_v) * d + h * HEAD,
              HEAD * sizeof (double));
  }
  suite->table->cross_kv (suite->queue, &params);
  suite_compare ("cross K/V",
      suite_download_kv (suite, pool.pool.data, pool.n), pool.kept, pool.n,
      MAX (suite->act_tolerance, suite->kv_tolerance));
}

/* ---- choices ---- */

enum { N_VOCAB = 51865, EOT = 50257, TIME_BEGIN = 50364, N_SLOTS = 8 };

static const AsrRuleTokens tokens = { N_VOCAB, EOT, 50259, 50358, TIME_BEGIN,
  TIME_BEGIN + 50 };

static gboolean
is_masked (const guint32 *masks, gint mask, gint id)
{
  return masks[mask * ((N_VOCAB + 31) / 32) + id / 32] >> id % 32 & 1;
}

/* openai/whisper decoding.py, with what is not allowed at minus infinity. */
static void
reference_choose (const float *logits, const guint32 *masks,
    const AsrTextState *state, AsrTokenRecord *record)
{
  AsrAllowed a = asr_rules_get_allowed (&tokens, &state->rules);
  g_autofree double *x = g_new (double, N_VOCAB);
  double text_top = -INFINITY, times = 0, sum = 0, best = -INFINITY;

  for (gint id = 0; id < N_VOCAB; id++) {
    gboolean is_text = id >= a.text_begin && id < a.text_end;
    gboolean is_time = id >= a.timestamp_begin && id < a.timestamp_end;

    x[id] = (is_text || is_time) && !is_masked (masks, a.mask, id)
        ? logits[id]
        : -INFINITY;
    if (is_text)
      text_top = MAX (text_top, x[id]);
    if (is_time)
      times += exp (x[id]);
  }
  if (log (times) > text_top)
    for (gint id = a.text_begin; id < a.text_end; id++)
      x[id] = -INFINITY;
  record->id = EOT;
  for (gint id = 0; id < N_VOCAB; id++) {
    double value = x[id];

    sum += exp (x[id]);
    if (state->temperature > 0)
      value = value / state->temperature - log (-log (asr_rules_uniform (
          state->seed, state->rules.n_sampled, id)));
    if (value > best) {
      best = value;
      record->id = id;
    }
  }
  record->log_prob = x[record->id] - log (sum);
}

static void
fill_states (AsrTextState *states)
{
  for (guint i = 0; i < N_SLOTS; i++) {
    states[i].rules = asr_rules_start (ASR_RULES_TIMESTAMPS);
    states[i].position = 3;
    states[i].seed = 1234 + i;
  }
  states[1].rules = asr_rules_start (ASR_RULES_TEXT);
  states[2].rules = asr_rules_start (ASR_RULES_LANGUAGE);
  states[3].rules = (AsrRuleState){ ASR_RULES_TIMESTAMPS, 5, 400,
    TIME_BEGIN + 7, TIME_BEGIN + 7 };
  states[4].rules = (AsrRuleState){ ASR_RULES_TIMESTAMPS, 6,
    TIME_BEGIN + 99, 400, TIME_BEGIN + 99 };
  states[5].is_finished = TRUE;
  states[5].token = EOT;
  states[6].temperature = 0.6f;
  states[6].rules = states[3].rules;
  states[7].temperature = 1.0f;
  states[7].rules = asr_rules_start (ASR_RULES_TEXT);
}

static void
check_choose (Suite *suite)
{
  guint n_words = (N_VOCAB + 31) / 32, n_scored = N_SLOTS + 3;
  guint n_choices = n_scored + 2;
  g_autofree guint32 *masks = g_new0 (guint32, ASR_N_MASKS * n_words);
  AsrTextState states[N_SLOTS] = { { .token = 0 } }, *device_states, *after;
  AsrChoice choices[N_SLOTS + 5] = { { 0 } };
  float *logits = suite_random (suite, (gsize) n_choices * N_VOCAB, 2);
  AsrTokenRecord *records
      = suite_pinned (suite, n_choices * sizeof *records);
  AsrChooseParams params = { n_choices, choices, NULL, &tokens, NULL, NULL,
    records };

  fill_states (states);
  for (gint id = 0; id < N_VOCAB; id += 7)
    masks[ASR_MASK_STEP * n_words + id / 32] |= 1u << id % 32;
  memcpy (masks + ASR_MASK_FIRST * n_words, masks + ASR_MASK_STEP * n_words,
      n_words * 4);
  masks[ASR_MASK_FIRST * n_words + EOT / 32] |= 1u << EOT % 32;
  for (guint i = 0; i < N_SLOTS; i++)
    choices[i] = (AsrChoice){ ASR_CHOICE_SAMPLE, 99, (guint16) i, 0, 0 };
  for (guint i = N_SLOTS; i < n_scored; i++)
    choices[i] = (AsrChoice){ ASR_CHOICE_SCORE, 99, 0, 100 * (gint) i,
      i == N_SLOTS ? 500 : EOT };
  /* of a slot that is finished, and warm: neither counts */
  choices[n_scored] = (AsrChoice){ ASR_CHOICE_VERIFY, 99, 5, 0 };
  choices[n_scored + 1] = (AsrChoice){ ASR_CHOICE_VERIFY, 99, 7, 4 };
  logits[(gsize) n_scored * N_VOCAB + EOT] = 30; /* not as a first token */
  logits[(gsize) (n_scored + 1) * N_VOCAB + EOT] = 30;
  logits[(gsize) 3 * N_VOCAB + 777] = 25; /* text clearly */
  logits[(gsize) 3 * N_VOCAB + 778] = 25; /* and a tie */

  device_states = suite_upload (suite, states, sizeof states);
  params.states = device_states;
  params.masks = suite_upload (suite, masks, ASR_N_MASKS * n_words * 4);
  params.logits = suite_upload (suite, logits,
      (gsize) n_choices * N_VOCAB * sizeof (float));
  suite->table->choose (suite->queue, &params);
  after = suite_download (suite, device_states, sizeof states);

  for (guint i = 0; i < N_SLOTS; i++) {
    AsrTokenRecord expected = { 0 };
    AsrRuleState rules = states[i].rules;

    if (states[i].is_finished) {
      g_assert_cmpuint (records[i].flags, ==, ASR_TOKEN_SKIPPED);
      g_assert_cmpmem (&after[i], sizeof after[i], &states[i],
          sizeof states[i]);
      continue;
    }
    reference_choose (logits + (gsize) i * N_VOCAB, masks, &states[i],
        &expected);
    asr_rules_advance (&tokens, &rules, expected.id);
    g_assert_cmpint (records[i].id, ==, expected.id);
    g_assert_cmpfloat_with_epsilon (records[i].log_prob, expected.log_prob,
        1e-4);
    g_assert_cmpuint (records[i].flags, ==,
        expected.id == EOT ? ASR_TOKEN_EOT : 0);
    g_assert_cmpint (after[i].token, ==, expected.id);
    g_assert_cmpuint (after[i].position, ==, 4);
    g_assert_cmpmem (&after[i].rules, sizeof rules, &rules, sizeof rules);
  }
  g_assert_cmpint (records[3].id, ==, 778); /* 777 is masked */
  g_assert_true (isinf (records[N_SLOTS].log_prob)); /* behind its limit */
  for (guint i = N_SLOTS + 1; i < n_scored; i++) {
    const float *x = logits + (gsize) i * N_VOCAB;
    double sum = 0;

    for (gint id = 0; id < EOT; id++)
      sum += exp (x[id]);
    g_assert_cmpfloat_with_epsilon (records[i].log_prob,
        x[100 * i] - log (sum), 1e-4);
  }
  for (guint i = n_scored; i < n_choices; i++) {
    AsrTextState plain = { .rules = asr_rules_start (ASR_RULES_TEXT) };
    AsrTokenRecord expected = { 0 };

    plain.rules.n_sampled = choices[i].target;
    reference_choose (logits + (gsize) i * N_VOCAB, masks, &plain, &expected);
    g_assert_cmpint (records[i].id, ==, expected.id);
    g_assert_cmpfloat_with_epsilon (records[i].log_prob, expected.log_prob,
        1e-4);
    g_assert_cmpuint (records[i].flags, ==,
        i == n_scored ? 0 : ASR_TOKEN_EOT);
  }
}

/* Everything suppressed: the text can only end. */
static void
check_choose_nothing (Suite *suite)
{
  guint n_words = (N_VOCAB + 31) / 32;
  g_autofree guint32 *masks = g_new (guint32, ASR_N_MASKS * n_words);
  AsrTextState state = { .rules = asr_rules_start (ASR_RULES_TEXT) };
  AsrChoice choice = { ASR_CHOICE_SAMPLE, 0, 0, 0, 0 };
  AsrTokenRecord *record = suite_pinned (suite, sizeof *record);
  AsrChooseParams params = { 1, &choice, NULL, &tokens, NULL, NULL, record };
  float *logits = suite_random (suite, N_VOCAB, 1);

  memset (masks, 0xff, ASR_N_MASKS * n_words * 4);
  params.masks = suite_upload (suite, masks, ASR_N_MASKS * n_words * 4);
  params.logits = suite_upload (suite, logits, N_VOCAB * sizeof (float));
  params.states = suite_upload (suite, &state, sizeof state);
  suite->table->choose (suite->queue, &params);
  suite_wait (suite);
  g_assert_cmpint (record->id, ==, EOT);
  g_assert_true (isinf (record->log_prob));
  g_assert_cmpuint (record->flags, ==, ASR_TOKEN_EOT);
}

/* ---- alignment ---- */

static int
compare_doubles (gconstpointer a, gconstpointer b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

static double
get_median (const double *x, gint n, gint t)
{
  double v[7];

  for (gint k = 0; k < 7; k++) {
    gint i = ABS (t + k - 3);

    v[k] = x[i >= n ? 2 * (n - 1) - i : i];
  }
  qsort (v, 7, sizeof *v, compare_doubles);
  return v[3];
}

/* openai/whisper timing.py: costs of -matrix, then the path backwards. */
static void
reference_warp (const double *matrix, guint n, guint m, gint *frames)
{
  g_autofree double *cost = g_new (double, (n + 1) * (m + 1));
  g_autofree guint8 *step = g_new0 (guint8, (n + 1) * (m + 1));
  guint w = m + 1, i = n, j = m;

  for (guint k = 0; k < (n + 1) * w; k++)
    cost[k] = INFINITY;
  cost[0] = 0;
  for (guint c = 1; c <= m; c++)
    for (guint r = 1; r <= n; r++) {
      double c0 = cost[(r - 1) * w + c - 1], c1 = cost[(r - 1) * w + c];
      double c2 = cost[r * w + c - 1], best = c2;

      step[r * w + c] = 2;
      if (c0 < c1 && c0 < c2) {
        best = c0;
        step[r * w + c] = 0;
      } else if (c1 < c0 && c1 < c2) {
        best = c1;
        step[r * w + c] = 1;
      }
      cost[r * w + c] = best - matrix[(r - 1) * m + c - 1];
    }
  for (guint c = 0; c <= m; c++)
    step[c] = 2;
  for (guint r = 0; r <= n; r++)
    step[r * w] = 1;
  while (i > 0 || j > 0) {
    guint8 s = step[i * w + j];

    if (i > 0)
      frames[i - 1] = (gint) j - 1;
    i -= s != 2;
    j -= s != 1;
  }
}

static void
check_one_align (Suite *suite, guint n_heads, guint n_rows, guint first_row,
    guint n_frames)
{
  guint max_rows = n_rows + 2, n_ctx = 1500, n = n_rows - 1 - first_row;
  float *scores = suite_random (suite, (gsize) n_heads * max_rows * n_ctx, 1);
  double *matrix = suite_doubles (suite, (gsize) n * n_frames);
  double *x = suite_doubles (suite, (gsize) n_rows * n_frames);
  g_autofree gint *expected = g_new0 (gint, n);
  AsrAlignParams params = { n_heads, max_rows, n_rows, first_row, n_ctx,
    n_frames, NULL, suite_pinned (suite, n * sizeof (gint16)) };
  guint n_same = 0;

  for (guint h = 0; h < n_heads; h++) {
    for (guint r = 0; r < n_rows; r++) {
      float *row = scores + ((gsize) h * max_rows + r) * n_ctx;
      double sum = 0;

      /* rows look at one place after the other */
      for (guint t = 0; t < n_frames; t++) {
        double away = (t + 0.5) / n_frames - (r + 0.5) / n_rows;

        row[t] += (float) (8 * exp (-away * away * 1000));
        sum += exp (row[t]);
      }
      for (guint t = 0; t < n_frames; t++)
        x[r * n_frames + t] = exp (row[t]) / sum;
    }
    for (guint t = 0; t < n_frames; t++) {
      double mean = 0, variance = 0;

      for (guint r = 0; r < n_rows; r++)
        mean += x[r * n_frames + t] / n_rows;
      for (guint r = 0; r < n_rows; r++)
        variance += pow (x[r * n_frames + t] - mean, 2) / n_rows;
      for (guint r = 0; r < n_rows; r++)
        x[r * n_frames + t] = (x[r * n_frames + t] - mean) / sqrt (variance);
    }
    for (guint r = 0; r < n; r++)
      for (guint t = 0; t < n_frames; t++)
        matrix[r * n_frames + t]
            += get_median (x + (gsize) (first_row + r) * n_frames,
                   (gint) n_frames, (gint) t) / n_heads;
  }
  reference_warp (matrix, n, n_frames, expected);
  params.scores = suite_upload (suite, scores,
      (gsize) n_heads * max_rows * n_ctx * sizeof (float));
  suite->table->align (suite->queue, &params);
  suite_wait (suite);
  for (guint r = 0; r < n; r++) {
    g_assert_cmpint (params.frames[r], >=, 0);
    g_assert_cmpint (params.frames[r], <, n_frames);
    n_same += params.frames[r] == expected[r];
  }
  /* in float two paths of nearly one cost may change places */
  g_test_message ("%u of %u frames", n_same, n);
  g_assert_cmpuint (n_same * 50, >=, n * 49);
}

static void
check_align (Suite *suite)
{
  check_one_align (suite, 6, 40, 3, 700);
  check_one_align (suite, 1, 5, 3, 1500);
  check_one_align (suite, 10, 200, 4, 1499);
  check_one_align (suite, 3, 30, 4, 20);
}

static void
add_all (void)
{
  suite_add ("/attention/self", check_self);
  suite_add ("/attention/cross", check_cross);
  suite_add ("/cross-kv", check_cross_kv);
  suite_add ("/choose", check_choose);
  suite_add ("/choose/nothing", check_choose_nothing);
  suite_add ("/align", check_align);
}

int
main (int argc, char **argv)
{
  return suite_main (argc, argv, add_all);
}
