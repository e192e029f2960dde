/* SPDX-License-Identifier: MIT */
/*
 * Check of choose beside choices that numpy made from the rules as published
 * (make_choose_cases.py), and at its borders.
 */
#include "tests/kernels/harness.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 2e-5

typedef struct {
  Check *check;
  AsrRuleTokens tokens;
  guint32 *masks; /* [ASR_N_MASKS, n_words] */
  guint n_words;
  guint n_cases;
} Model;

static guint64
read_u64 (const char *field)
{
  return g_ascii_strtoull (field, NULL, 10);
}

static gint32
read_i32 (const char *field)
{
  return (gint32) g_ascii_strtoll (field, NULL, 10);
}

static void
set_mask (Model *model, AsrMaskId mask, const char *ids)
{
  g_auto (GStrv) list = g_strsplit (ids, ",", -1);

  for (guint i = 0; list[i] != NULL; i++) {
    guint id = (guint) read_i32 (list[i]);

    model->masks[mask * model->n_words + id / 32] |= 1u << id % 32;
  }
}

static void
set_model (Model *model, GStrv fields)
{
  model->tokens = (AsrRuleTokens){ read_i32 (fields[1]), read_i32 (fields[2]),
    read_i32 (fields[3]), read_i32 (fields[4]), read_i32 (fields[5]),
    read_i32 (fields[6]) };
  model->n_words = ((guint) model->tokens.n_vocab + 31) / 32;
  g_free (model->masks);
  model->masks = g_new0 (guint32, ASR_N_MASKS * model->n_words);
}

/* splitmix64, as make_choose_cases.py has it. */
static void
fill_logits (const Model *model, guint64 seed, float scale, float offset,
    float *logits)
{
  for (gint32 i = 0; i < model->tokens.n_vocab; i++) {
    guint64 x = seed + 0x9e3779b97f4a7c15u * ((guint64) i + 1);
    float u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    u = (float) (2 * ((double) (x >> 40) / 0x1p24) - 1);
    logits[i] = u * scale;
    if (i >= model->tokens.timestamp_begin)
      logits[i] += offset;
  }
}

static AsrTokenRecord
choose (const Model *model, const AsrChoice *choice, float *logits,
    AsrTextState *states)
{
  AsrTokenRecord record = { 0 };
  AsrChooseParams params = { 1, choice, logits, &model->tokens, model->masks,
    states, &record };

  model->check->table->choose (model->check->queue, &params);
  check_wait (model->check, "choose");
  return record;
}

static void
expect_record (const Model *model, const AsrTokenRecord *record, gint32 id,
    double log_prob, guint32 flags)
{
  Check *check = model->check;

  check->n_compared++;
  if (record->id != id || record->flags != flags
      || !(fabs (record->log_prob - log_prob)
          <= TOLERANCE * (1 + fabs (log_prob))))
    check_fail (check, "choose",
        "case %u of vocabulary %d: id %d, %.7f, flags %u, not %d, %.7f, %u",
        model->n_cases, model->tokens.n_vocab, record->id, record->log_prob,
        record->flags, id, log_prob, flags);
}

static void
expect_state (const Model *model, const AsrTextState *state,
    const AsrRuleState *rules, gint32 token, guint32 position,
    guint32 is_finished)
{
  if (memcmp (&state->rules, rules, sizeof (*rules)) != 0
      || state->token != token || state->position != position
      || state->is_finished != is_finished)
    check_fail (model->check, "state", "case %u: token %d at %u, finished %u",
        model->n_cases, state->token, state->position, state->is_finished);
}

/* sample mode temperature noise_seed logit_seed scale offset id log_prob
 * past */
static void
check_sample (Model *model, GStrv fields)
{
  const AsrRuleTokens *tokens = &model->tokens;
  g_autofree float *logits = g_new (float, tokens->n_vocab);
  g_auto (GStrv) past = g_strsplit (fields[9], ",", -1);
  AsrChoice choice = { ASR_CHOICE_SAMPLE, 3, 1 };
  AsrTextState states[2] = { { .token = 77 } };
  AsrTextState *state = &states[1], before = states[0];
  gint32 id = read_i32 (fields[7]);
  guint32 is_eot = id == tokens->eot;
  AsrTokenRecord record;
  AsrRuleState rules;

  state->rules = asr_rules_start ((AsrRuleMode) read_i32 (fields[1]));
  for (guint i = 0; past[i] != NULL; i++)
    asr_rules_advance (tokens, &state->rules, read_i32 (past[i]));
  state->token = state->rules.last;
  state->position = 4 + state->rules.n_sampled;
  state->temperature = (float) g_ascii_strtod (fields[2], NULL);
  state->seed = read_u64 (fields[3]);
  rules = state->rules;
  asr_rules_advance (tokens, &rules, id);
  fill_logits (model, read_u64 (fields[4]),
      (float) g_ascii_strtod (fields[5], NULL),
      (float) g_ascii_strtod (fields[6], NULL), logits);
  record = choose (model, &choice, logits, states);
  expect_record (model, &record, id, g_ascii_strtod (fields[8], NULL),
      is_eot ? ASR_TOKEN_EOT : 0);
  expect_state (model, state, &rules, id, (guint32) rules.n_sampled + 4,
      is_eot);
  if (memcmp (&before, &states[0], sizeof (before)) != 0)
    check_fail (model->check, "state", "another slot has changed");
}

/* score logit_seed scale limit target log_prob */
static void
check_score (Model *model, GStrv fields)
{
  g_autofree float *logits = g_new (float, model->tokens.n_vocab);
  AsrChoice choice = { ASR_CHOICE_SCORE, 0, 0, read_i32 (fields[4]),
    read_i32 (fields[3]) };
  AsrTokenRecord record;

  fill_logits (model, read_u64 (fields[1]),
      (float) g_ascii_strtod (fields[2], NULL), 0, logits);
  record = choose (model, &choice, logits, NULL);
  expect_record (model, &record, choice.target,
      g_ascii_strtod (fields[5], NULL), 0);
}

/* The record of a slot in its first step whose logits are all @x, save one
 * time mark with @mark. */
static void
check_logits (Model *model, float x, float mark, gint32 id, double log_prob,
    guint32 flags)
{
  g_autofree float *logits = g_new (float, model->tokens.n_vocab);
  AsrTextState state = { asr_rules_start (ASR_RULES_TIMESTAMPS), -1, 3 };
  AsrChoice choice = { ASR_CHOICE_SAMPLE, 0, 0 };
  AsrTokenRecord record;

  for (gint32 i = 0; i < model->tokens.n_vocab; i++)
    logits[i] = x;
  logits[model->tokens.timestamp_begin + 2] = mark;
  record = choose (model, &choice, logits, &state);
  if (isinf (log_prob) && isinf (record.log_prob)) {
    record.log_prob = 0;
    log_prob = 0;
  }
  expect_record (model, &record, id, log_prob, flags);
}

static void
check_borders (Model *model)
{
  const AsrRuleTokens *tokens = &model->tokens;
  gint32 first = tokens->timestamp_begin;
  guint n = (guint) (tokens->max_initial_timestamp - first) + 1;
  g_autofree float *logits = g_new0 (float, tokens->n_vocab);
  AsrTextState state = { asr_rules_start (ASR_RULES_TEXT), 9, 30, TRUE };
  AsrTextState before = state;
  AsrChoice choice = { ASR_CHOICE_SAMPLE, 0, 0 };
  AsrTokenRecord record = choose (model, &choice, logits, &state);

  expect_record (model, &record, -1, 0, ASR_TOKEN_SKIPPED);
  if (memcmp (&before, &state, sizeof (state)) != 0)
    check_fail (model->check, "state", "a finished slot has changed");
  check_logits (model, 1, 1, first, -log (n), 0); /* the lowest of equals */
  check_logits (model, -INFINITY, 5, first + 2, 0, 0);
  check_logits (model, NAN, 5, first + 2, -INFINITY, 0);
  check_logits (model, NAN, NAN, tokens->eot, -INFINITY, ASR_TOKEN_EOT);
  check_logits (model, -INFINITY, -INFINITY, tokens->eot, -INFINITY,
      ASR_TOKEN_EOT);
  check_logits (model, 1e30f, 2e30f, first + 2, 0, 0);
  choice = (AsrChoice){ ASR_CHOICE_SCORE, 0, 0, 12, 12 };
  record = choose (model, &choice, logits, NULL);
  if (record.log_prob != -INFINITY)
    check_fail (model->check, "score", "a target that is no candidate");
}

/* Choices of a batch go to their own slots, whatever thread makes them. */
static void
check_batch (Model *model)
{
  gsize n_vocab = (gsize) model->tokens.n_vocab;
  g_autofree float *logits = g_new (float, 40 * n_vocab);
  AsrChoice choices[40];
  AsrTextState states[40], alone;
  AsrTokenRecord records[40];
  AsrChooseParams params = { 40, choices, logits, &model->tokens,
    model->masks, states, records };

  for (guint i = 0; i < 40; i++) {
    choices[i] = (AsrChoice){ ASR_CHOICE_SAMPLE, i, (guint16) (39 - i) };
    states[39 - i] = (AsrTextState){ asr_rules_start (ASR_RULES_TEXT), -1, 3,
      i % 7 == 6, 0.5f, 0, i };
    fill_logits (model, i + 1, 6, 0, logits + i * n_vocab);
  }
  model->check->table->choose (model->check->queue, &params);
  check_wait (model->check, "batch");
  for (guint i = 0; i < 40; i++) {
    AsrChoice choice = { ASR_CHOICE_SAMPLE, 0, 0 };
    AsrTokenRecord record;

    alone = (AsrTextState){ asr_rules_start (ASR_RULES_TEXT), -1, 3,
      i % 7 == 6, 0.5f, 0, i };
    fill_logits (model, i + 1, 6, 0, logits);
    record = choose (model, &choice, logits, &alone);
    expect_record (model, &records[i], record.id, record.log_prob,
        record.flags);
    expect_state (model, &states[39 - i], &alone.rules, alone.token,
        alone.position, alone.is_finished);
  }
}

typedef struct {
  Model *model;
  float *logits;
  float temperature;
} Bench;

static void
run_bench (gpointer data)
{
  Bench *bench = data;
  AsrTextState state = { asr_rules_start (ASR_RULES_TIMESTAMPS), -1, 3, 0,
    bench->temperature, 0, 1 };
  AsrChoice choice = { ASR_CHOICE_SAMPLE, 0, 0 };

  /* in a text: all of the vocabulary counts */
  asr_rules_advance (&bench->model->tokens, &state.rules,
      bench->model->tokens.timestamp_begin);
  asr_rules_advance (&bench->model->tokens, &state.rules, 400);
  choose (bench->model, &choice, bench->logits, &state);
}

static void
bench_choose (Model *model)
{
  gsize n_vocab = (gsize) model->tokens.n_vocab;
  Bench bench = { model, check_new_f32 (model->check, n_vocab, 4.0), 0 };

  check_bench (model->check, "choose", 0, 4.0 * n_vocab, run_bench, &bench);
  bench.temperature = 0.4f;
  check_bench (model->check, "choose at a temperature", 0, 4.0 * n_vocab,
      run_bench, &bench);
  check_free (bench.logits);
}

static void
check_choose (Check *check)
{
  const char *folder = g_getenv ("G_TEST_SRCDIR");
  g_autofree char *path
      = g_build_filename (folder ? folder : "tests/data", "choose.tsv", NULL);
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) lines = NULL;
  Model model = { check };

  if (!g_file_get_contents (path, &text, NULL, &error))
    g_error ("%s", error->message);
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL && lines[i][0] != '\0'; i++) {
    g_auto (GStrv) fields = g_strsplit (lines[i], "\t", -1);

    model.n_cases++;
    if (g_str_equal (fields[0], "model"))
      set_model (&model, fields);
    else if (g_str_equal (fields[0], "mask")) {
      set_mask (&model, ASR_MASK_FIRST, fields[2]);
      if (g_str_equal (fields[1], "1"))
        set_mask (&model, ASR_MASK_STEP, fields[2]);
    } else if (g_str_equal (fields[0], "sample"))
      check_sample (&model, fields);
    else
      check_score (&model, fields);
  }
  check_borders (&model);
  check_batch (&model);
  if (check->is_bench)
    bench_choose (&model);
  g_free (model.masks);
}

int
main (int argc, char **argv)
{
  return check_main (argc, argv, check_choose);
}
