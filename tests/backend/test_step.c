/* SPDX-License-Identifier: MIT */
/*
 * Whole decoder steps: what a backend has for them against composite.c on
 * the same backend, texts that run ahead of the host, and slots that are
 * finished.
 */
#include "engine/backend/composite.h"
#include "tests/backend/tiny.h"
#include <math.h>
#include <string.h>

typedef void (*StepFunc) (const AsrCompute *compute, AsrQueue *queue,
    const AsrDecoderStepParams *params);

/* A batch of two prompts with a choice at the end of each, one of which has
 * its logits taken twice. */
static void
run_prompts (Tiny *tiny, StepFunc step, guint n_more, gboolean round_trip,
    float *logits, AsrTokenRecord *records)
{
  Suite *suite = tiny->suite;
  AsrRow rows[TINY_MAX_ROWS];
  guint n_rows = 8 + n_more;
  AsrChoice choices[] = { { ASR_CHOICE_SCORE, 0, 0, 5, 900 },
    { ASR_CHOICE_SAMPLE, 3, 1, 0, 0 }, { ASR_CHOICE_SAMPLE, 7, 2, 0, 0 } };
  AsrDecoderStepParams params;

  for (guint r = 0; r < n_rows; r++)
    rows[r] = (AsrRow){ (gint32) (r * 31 % 900), r % 4, r / 4 % 2,
      (guint16) (1 + r / 4 % 2) };
  for (guint r = 8; r < n_rows; r++) /* a third, longer one */
    rows[r] = (AsrRow){ (gint32) (r * 17 % 900), r - 8, 3, 3 };
  params = tiny_step (tiny, rows, n_rows, choices, 3, 0);
  if (round_trip)
    params.host_logits = suite_pinned (suite,
        TINY_MAX_LOGITS * TINY_VOCAB * sizeof (float));
  step (suite->compute, suite->queue, &params);
  suite_wait (suite);
  memcpy (logits, suite_download (suite, tiny->logits,
          3 * TINY_VOCAB * sizeof (float)), 3 * TINY_VOCAB * sizeof (float));
  memcpy (records, tiny->records, 3 * sizeof *records);
}

static void
compare_prompts (Tiny *tiny, guint n_more, gboolean round_trip)
{
  g_autofree float *expected = g_new (float, 3 * TINY_VOCAB);
  g_autofree float *got = g_new (float, 3 * TINY_VOCAB);
  g_autofree double *wide = g_new (double, 3 * TINY_VOCAB);
  AsrTokenRecord records[2][3];

  tiny_start (tiny, 0);
  run_prompts (tiny, asr_composite_decoder_step, n_more, FALSE, expected,
      records[0]);
  for (guint twice = 0; twice < 2; twice++) {
    tiny_start (tiny, 0);
    run_prompts (tiny, asr_compute_decoder_step, n_more, round_trip, got,
        records[1]);
    for (guint i = 0; i < 3 * TINY_VOCAB; i++) {
      /* a choice may leave what it suppresses at minus infinity */
      if (isinf (expected[i]) || isinf (got[i]))
        got[i] = expected[i] = 0;
      wide[i] = expected[i];
    }
    suite_compare ("logits of a step", got, wide, 3 * TINY_VOCAB,
        4 * tiny->suite->act_tolerance);
    for (guint i = 0; i < 3; i++) {
      g_assert_cmpint (records[0][i].id, ==, records[1][i].id);
      g_assert_cmpfloat_with_epsilon (records[0][i].log_prob,
          records[1][i].log_prob, tiny->suite->is_f16 ? 0.05 : 1e-3);
    }
  }
}

static void
check_prompts (Suite *suite)
{
  Tiny tiny;

  tiny_init (&tiny, suite);
  compare_prompts (&tiny, 0, FALSE);
  compare_prompts (&tiny, 0, TRUE);
  compare_prompts (&tiny, 8, FALSE);
  compare_prompts (&tiny, 25, FALSE); /* more than the fused kernels take */
}

/* More choices than there is room for logits. */
static void
check_pieces (Suite *suite)
{
  AsrRow rows[32];
  AsrChoice choices[32];
  AsrTokenRecord records[32];
  AsrDecoderStepParams params;
  Tiny tiny;

  tiny_init (&tiny, suite);
  for (guint r = 0; r < 32; r++) {
    rows[r] = (AsrRow){ (gint32) r, r, 0, 0 };
    choices[r] = (AsrChoice){ ASR_CHOICE_SCORE, r, 0, 10 + (gint) r, 900 };
  }
  params = tiny_step (&tiny, rows, 32, choices, 32, 0);
  asr_composite_decoder_step (suite->compute, suite->queue, &params);
  suite_wait (suite);
  memcpy (records, tiny.records, sizeof records);
  params.max_logits = 5;
  asr_compute_decoder_step (suite->compute, suite->queue, &params);
  suite_wait (suite);
  for (guint i = 0; i < 32; i++) {
    g_assert_cmpint (tiny.records[i].id, ==, 10 + (gint) i);
    g_assert_cmpfloat_with_epsilon (tiny.records[i].log_prob,
        records[i].log_prob, suite->is_f16 ? 0.05 : 1e-3);
  }
}

/* Texts of @n_texts slots, @n_steps tokens each. */
static void
run_texts (Tiny *tiny, StepFunc step, guint n_texts, guint n_steps,
    guint n_ahead, gint32 *ids)
{
  Suite *suite = tiny->suite;
  AsrRow prompt[4 * TINY_SLOTS], rows[TINY_SLOTS];
  AsrChoice first[TINY_SLOTS], choices[TINY_SLOTS];
  AsrDecoderStepParams params;

  for (guint i = 0; i < n_texts; i++) {
    for (guint k = 0; k < 4; k++)
      prompt[4 * i + k] = (AsrRow){ (gint32) (20 * i + k), k, (guint16) i,
        (guint16) i };
    first[i] = (AsrChoice){ ASR_CHOICE_SAMPLE, 4 * i + 3, (guint16) i, 0, 0 };
    rows[i] = (AsrRow){ ASR_TOKEN_CHOSEN, 0, (guint16) i, (guint16) i };
    choices[i] = (AsrChoice){ ASR_CHOICE_SAMPLE, i, (guint16) i, 0, 0 };
  }
  params = tiny_step (tiny, prompt, 4 * n_texts, first, n_texts, 0);
  step (suite->compute, suite->queue, &params);
  for (guint s = 1; s < n_steps; s++) {
    params = tiny_step (tiny, rows, n_texts, choices, n_texts, s * n_texts);
    step (suite->compute, suite->queue, &params);
    if (s % n_ahead == 0)
      suite_wait (suite);
  }
  suite_wait (suite);
  for (guint i = 0; i < n_steps * n_texts; i++)
    ids[i] = tiny->records[i].id;
}

static void
check_texts (Suite *suite)
{
  gint32 expected[160], got[160];
  Tiny tiny;

  tiny_init (&tiny, suite);
  for (guint n_texts = 1; n_texts <= TINY_SLOTS; n_texts++)
    for (gint temperature = 0; temperature < 2; temperature++) {
      guint n_same = 0;

      tiny_start (&tiny, temperature);
      run_texts (&tiny, asr_composite_decoder_step, n_texts, 40, 1, expected);
      tiny_start (&tiny, temperature);
      run_texts (&tiny, asr_compute_decoder_step, n_texts, 40, 16, got);
      for (guint i = 0; i < 40 * n_texts; i++)
        n_same += expected[i] == got[i];
      g_test_message ("%u texts: %u of %u tokens", n_texts, n_same,
          40 * n_texts);
      if (!suite->is_f16) /* halfs may turn at a near tie */
        g_assert_cmpuint (n_same, ==, 40 * n_texts);
      else
        g_assert_cmpuint (n_same, >=, 10 * n_texts);
      /* the same again, to the bit */
      tiny_start (&tiny, temperature);
      run_texts (&tiny, asr_compute_decoder_step, n_texts, 40, 3, expected);
      g_assert_cmpmem (got, 40 * n_texts * 4, expected, 40 * n_texts * 4);
    }
}

/* A finished slot, even one that stands behind the end, changes nothing and
 * its neighbours go on. */
static void
check_finished (Suite *suite)
{
  AsrTextState states[TINY_SLOTS], *after;
  AsrRow rows[2] = { { ASR_TOKEN_CHOSEN, 0, 0, 0 },
    { ASR_TOKEN_CHOSEN, 0, 1, 1 } };
  AsrChoice choices[2] = { { ASR_CHOICE_SAMPLE, 0, 0, 0, 0 },
    { ASR_CHOICE_SAMPLE, 1, 1, 0, 0 } };
  AsrDecoderStepParams params;
  Tiny tiny;

  tiny_init (&tiny, suite);
  memcpy (states, suite_download (suite, tiny.states, sizeof states),
      sizeof states);
  states[0].is_finished = TRUE;
  states[0].token = tiny.tokens.eot;
  /* behind the end only where the host runs ahead of the device */
  states[0].position = suite->compute->info->n_steps_ahead > 1 ? 448 : 447;
  states[1].token = 5;
  suite->table->copy (suite->queue, tiny.states, states, sizeof states);
  params = tiny_step (&tiny, rows, 2, choices, 2, 0);
  asr_compute_decoder_step (suite->compute, suite->queue, &params);
  after = suite_download (suite, tiny.states, sizeof states);
  g_assert_cmpuint (tiny.records[0].flags, ==, ASR_TOKEN_SKIPPED);
  g_assert_cmpmem (&after[0], sizeof *after, &states[0], sizeof *after);
  g_assert_cmpuint (tiny.records[1].flags, ==, 0);
  g_assert_cmpuint (after[1].position, ==, states[1].position + 1);
  g_assert_cmpint (after[1].token, ==, tiny.records[1].id);
}

/* Parameters out of range are errors of the queue, once. */
static void
check_errors (Suite *suite)
{
  AsrRow row = { 1, 0, 99, 0 };
  Tiny tiny;
  AsrAttentionParams params = { .kind = ASR_ATTENTION_CROSS, .n_rows = 1,
    .n_heads = TINY_HEADS, .rows = &row };
  g_autoptr (GError) error = NULL;

  tiny_init (&tiny, suite);
  params.pool = &tiny.cross;
  params.qkv = tiny.scratch;
  params.y = tiny.x;
  suite->table->attention (suite->queue, &params);
  g_assert_false (suite->table->queue_wait (suite->queue, &error));
  g_assert_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT);
  suite_wait (suite);
}

static void
check_times (Suite *suite)
{
  Tiny tiny;
  AsrNormParams norm = { .n_rows = TINY_MAX_ROWS, .d = TINY_D };

  tiny_init (&tiny, suite);
  norm.x = tiny.x;
  norm.y = tiny.scratch;
  norm.weights = tiny.norm;
  for (guint i = 0; i < 300; i++) {
    suite->table->time_begin (suite->queue, 2);
    for (guint k = 0; k < 20; k++)
      suite->table->norm (suite->queue, &norm);
    suite->table->time_end (suite->queue, 2);
  }
  suite_wait (suite);
  g_assert_cmpuint (suite->table->time_read_ns (suite->queue, 2), >, 0);
  g_assert_cmpuint (suite->table->time_read_ns (suite->queue, 3), ==, 0);
}

static void
add_all (void)
{
  suite_add ("/step/prompts", check_prompts);
  suite_add ("/step/pieces", check_pieces);
  suite_add ("/step/texts", check_texts);
  suite_add ("/step/finished", check_finished);
  suite_add ("/errors", check_errors);
  suite_add ("/times", check_times);
}

int
main (int argc, char **argv)
{
  return suite_main (argc, argv, add_all);
}
