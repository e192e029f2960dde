/* SPDX-License-Identifier: MIT */
/*
 * From logits to tokens: the rules of engine/backend/rules.h, the suppress
 * masks, the test of the time marks' mass, and the choice. In: a row of
 * logits for each choice, which is changed. Out: records, and the states of
 * the text slots one token further.
 */
#include "engine/backend/cpu/kernels.h"
#include <math.h>

typedef struct {
  const AsrKernels *kernels;
  const AsrChooseParams *params;
} ChooseJob;

/* Half-open range of ids, and its greatest logit. */
typedef struct {
  guint begin, end;
  float top;
} IdRange;

static void
find_top (const AsrKernels *kernels, const float *logits, IdRange *range)
{
  guint index;

  range->top = range->end > range->begin
      ? kernels->find_max (logits + range->begin, range->end - range->begin,
          &index)
      : -INFINITY;
}

/* log of the sum of exp over @range */
static double
sum_range (const AsrKernels *kernels, const float *logits,
    const IdRange *range)
{
  if (range->top == -INFINITY)
    return -INFINITY;
  return range->top
      + log (kernels->sum_exp (logits + range->begin,
          range->end - range->begin, range->top));
}

static double
add_logs (double a, double b)
{
  double top = MAX (a, b);

  if (top == -INFINITY)
    return top;
  return top + log1p (exp (MIN (a, b) - top));
}

static void
suppress (const AsrChooseParams *params, gint32 mask, float *logits)
{
  guint n_vocab = params->tokens->n_vocab;
  guint n_words = (n_vocab + 31) / 32;
  const guint32 *words = params->masks + (gsize) mask * n_words;

  if (mask == ASR_MASK_NONE)
    return;
  for (guint w = 0; w < n_words; w++)
    for (guint32 bits = words[w]; bits != 0; bits &= bits - 1) {
      guint id = 32 * w + g_bit_nth_lsf (bits, -1);

      if (id < n_vocab)
        logits[id] = -INFINITY;
    }
}

static IdRange
make_range (gint32 begin, gint32 end, gint32 n_vocab)
{
  begin = CLAMP (begin, 0, n_vocab);
  return (IdRange) { begin, CLAMP (end, begin, n_vocab), -INFINITY };
}

/* The id in both ranges, or n_vocab if nothing may follow. */
static guint
pick (const AsrKernels *kernels, const float *logits, guint n_vocab,
    const IdRange ranges[2], const AsrTextState *state)
{
  float best = -INFINITY;
  guint id = n_vocab;

  for (guint i = 0; i < 2; i++) {
    const IdRange *range = &ranges[i];
    guint n = range->end - range->begin, index = n;
    float top;

    if (range->top == -INFINITY)
      continue;
    if (state->temperature > 0)
      top = kernels->find_gumbel (logits + range->begin, n,
          state->temperature, state->seed, state->rules.n_sampled,
          range->begin, &index);
    else
      top = kernels->find_max (logits + range->begin, n, &index);
    if (index < n && top > best) {
      best = top;
      id = range->begin + index;
    }
  }
  return id;
}

static void
sample (const ChooseJob *job, AsrTextState *state, float *logits,
    AsrTokenRecord *record)
{
  const AsrKernels *kernels = job->kernels;
  const AsrRuleTokens *tokens = job->params->tokens;
  AsrAllowed allowed = asr_rules_get_allowed (tokens, &state->rules);
  IdRange ranges[2] = {
    make_range (allowed.text_begin, allowed.text_end, tokens->n_vocab),
    make_range (allowed.timestamp_begin, allowed.timestamp_end,
        tokens->n_vocab),
  };
  double text, times;
  guint id;

  suppress (job->params, allowed.mask, logits);
  for (guint i = 0; i < 2; i++)
    find_top (kernels, logits, &ranges[i]);
  times = sum_range (kernels, logits, &ranges[1]);
  if (times > ranges[0].top)
    ranges[0].top = -INFINITY; /* only time marks remain */
  text = sum_range (kernels, logits, &ranges[0]);

  id = pick (kernels, logits, tokens->n_vocab, ranges, state);
  if (id < (guint) tokens->n_vocab) {
    record->id = id;
    record->log_prob = logits[id] - add_logs (text, times);
  } else { /* all suppressed, or not numbers: the text can only end */
    record->id = tokens->eot;
    record->log_prob = -INFINITY;
  }
  if (isnan (record->log_prob))
    record->log_prob = -INFINITY;
  asr_rules_advance (tokens, &state->rules, record->id);
  state->token = record->id;
  state->position++;
  state->is_finished = record->id == tokens->eot;
  record->flags = state->is_finished ? ASR_TOKEN_EOT : 0;
}

static void
score (const ChooseJob *job, const AsrChoice *choice, const float *logits,
    AsrTokenRecord *record)
{
  IdRange range = make_range (0, choice->limit, job->params->tokens->n_vocab);

  record->id = choice->target;
  record->log_prob = -INFINITY;
  if (choice->target < 0 || (guint) choice->target >= range.end)
    return;
  find_top (job->kernels, logits, &range);
  record->log_prob = logits[choice->target]
      - sum_range (job->kernels, logits, &range);
  if (isnan (record->log_prob))
    record->log_prob = -INFINITY;
}

static void
verify (const ChooseJob *job, const AsrChoice *choice, float *logits,
    AsrTokenRecord *record)
{
  AsrTextState state = { asr_rules_start (ASR_RULES_TEXT) };

  state.rules.n_sampled = choice->target;
  sample (job, &state, logits, record);
}

static void
run_choices (gpointer data, guint begin, guint end, guint thread)
{
  const ChooseJob *job = data;
  const AsrChooseParams *params = job->params;

  for (guint i = begin; i < end; i++) {
    const AsrChoice *choice = &params->choices[i];
    float *logits = params->logits + (gsize) i * params->tokens->n_vocab;
    AsrTokenRecord record = { .id = -1 };

    if (choice->kind == ASR_CHOICE_SCORE)
      score (job, choice, logits, &record);
    else if (choice->kind == ASR_CHOICE_VERIFY)
      verify (job, choice, logits, &record);
    else if (params->states[choice->text_slot].is_finished)
      record.flags = ASR_TOKEN_SKIPPED;
    else
      sample (job, &params->states[choice->text_slot], logits, &record);
    params->records[i] = record;
  }
}

void
asr_cpu_choose (AsrQueue *queue, const AsrChooseParams *params)
{
  ChooseJob job = { asr_kernels_get (queue->device->isa), params };

  asr_threads_run (queue->device->threads, params->n_choices, 1, run_choices,
      &job);
}
