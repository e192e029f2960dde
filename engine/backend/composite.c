/* SPDX-License-Identifier: MIT */
/*
 * A transformer layer and a decoder step from plain ops, for backends that
 * have no fused ones and as what those are compared with. Pre-norm:
 * x += attention (norm (x)), and so on (Radford et al. 2022, fig. 1).
 *
 * Scratch of n rows is cut in two: [n, d] and [n, 4d]. Nothing here allocates:
 * ops may run long after these functions have returned.
 */
#include "engine/backend/composite.h"

/* What the blocks of one pass share. */
typedef struct {
  const AsrBackend *table;
  AsrQueue *queue;
  guint n_rows, d;
  void *x;       /* act [n_rows, d], the residual stream */
  void *narrow;  /* act [n_rows, d] */
  void *wide;    /* act [n_rows, 4d] */
  gsize act_bytes;
} Pass;

static Pass
begin_pass (const AsrCompute *compute, AsrQueue *queue, guint n_rows,
    guint d, void *x, void *scratch)
{
  gsize act_bytes = asr_dtype_get_size (compute->info->activation);
  guint8 *wide = (guint8 *) scratch + (gsize) n_rows * d * act_bytes;

  return (Pass){ compute->table, queue, n_rows, d, x, scratch, wide,
    act_bytes };
}

/* Row @row of the residual stream, or of another act [n, d]. */
static void *
get_row (const Pass *pass, void *rows, guint row)
{
  return (guint8 *) rows + (gsize) row * pass->d * pass->act_bytes;
}

static void
normalise (const Pass *pass, const AsrNormWeights *weights)
{
  AsrNormParams params = { .n_rows = pass->n_rows, .d = pass->d,
    .x = pass->x, .weights = *weights, .y = pass->narrow };

  pass->table->norm (pass->queue, &params);
}

/* narrow to wide */
static void
project_up (const Pass *pass, const AsrLinearWeights *weights, guint n_out,
    AsrActivation activation)
{
  AsrLinearParams params = { .n_rows = pass->n_rows, .n_in = pass->d,
    .n_out = n_out, .x = pass->narrow, .weights = *weights,
    .activation = activation, .y = pass->wide };

  pass->table->linear (pass->queue, &params);
}

/* @from is added to x. */
static void
project_back (const Pass *pass, const AsrLinearWeights *weights, guint n_in,
    const void *from)
{
  AsrLinearParams params = { .n_rows = pass->n_rows, .n_in = n_in,
    .n_out = pass->d, .x = from, .weights = *weights, .residual = pass->x,
    .y = pass->x };

  pass->table->linear (pass->queue, &params);
}

static void
run_feed_forward (const Pass *pass, const AsrLayerWeights *weights)
{
  normalise (pass, &weights->ffn_norm);
  project_up (pass, &weights->ffn_up, 4 * pass->d, ASR_ACTIVATION_GELU);
  project_back (pass, &weights->ffn_down, 4 * pass->d, pass->wide);
}

void
asr_composite_encoder_layer (const AsrCompute *compute, AsrQueue *queue,
    const AsrEncoderLayerParams *params)
{
  const AsrLayerWeights *weights = params->weights;
  guint n_rows = params->n_sequences * params->n_frames;
  Pass pass = begin_pass (compute, queue, n_rows, params->d, params->x,
      params->scratch);
  AsrAttentionParams attention = { .kind = ASR_ATTENTION_ENCODER,
    .n_rows = n_rows, .n_heads = params->n_heads,
    .n_frames = params->n_frames, .qkv = pass.wide, .y = pass.narrow };

  normalise (&pass, &weights->self_norm);
  project_up (&pass, &weights->self_qkv, 3 * params->d, ASR_ACTIVATION_NONE);
  pass.table->attention (queue, &attention);
  project_back (&pass, &weights->self_out, params->d, pass.narrow);
  run_feed_forward (&pass, weights);
}

static void
run_decoder_layer (const Pass *pass, const AsrDecoderStepParams *p,
    guint layer)
{
  const AsrLayerWeights *weights = &p->layers[layer];
  AsrAttentionParams attention = { .kind = ASR_ATTENTION_SELF,
    .n_rows = p->n_rows, .n_heads = p->n_heads, .qkv = pass->wide,
    .rows = p->rows, .states = p->choose.states, .pool = p->self,
    .layer = layer, .y = pass->narrow };

  normalise (pass, &weights->self_norm);
  project_up (pass, &weights->self_qkv, 3 * p->d, ASR_ACTIVATION_NONE);
  pass->table->attention (pass->queue, &attention);
  project_back (pass, &weights->self_out, p->d, pass->narrow);

  attention.kind = ASR_ATTENTION_CROSS;
  attention.pool = p->cross;
  attention.align = p->align;
  normalise (pass, &weights->cross_norm);
  project_up (pass, &weights->cross_q, p->d, ASR_ACTIVATION_NONE);
  pass->table->attention (pass->queue, &attention);
  project_back (pass, &weights->cross_out, p->d, pass->narrow);
  run_feed_forward (pass, weights);
}

/* Rows that choices [first, first + n) name, normalised, to narrow: a call
 * for each stretch of neighbours, since a list of rows would have to outlive
 * this function. */
static void
gather_choices (const Pass *pass, const AsrDecoderStepParams *p, guint first,
    guint n)
{
  const AsrChoice *choices = p->choose.choices + first;
  guint begin = 0;

  while (begin < n) {
    guint end = begin + 1;

    while (end < n && choices[end].row == choices[end - 1].row + 1)
      end++;
    {
      AsrNormParams params = { .n_rows = end - begin, .d = p->d,
        .x = get_row (pass, pass->x, choices[begin].row),
        .weights = p->norm, .y = get_row (pass, pass->narrow, begin) };

      pass->table->norm (pass->queue, &params);
    }
    begin = end;
  }
}

static void
choose_piece (const Pass *pass, const AsrDecoderStepParams *p, guint first,
    guint n)
{
  guint n_vocab = p->choose.tokens->n_vocab;
  gsize n_bytes = (gsize) n * n_vocab * sizeof (float);
  AsrLinearParams project = { .n_rows = n, .n_in = p->d, .n_out = n_vocab,
    .x = pass->narrow, .weights = { p->table, NULL }, .y_is_f32 = TRUE,
    .y = p->choose.logits };
  AsrChooseParams choose = p->choose;

  gather_choices (pass, p, first, n);
  pass->table->linear (pass->queue, &project);
  if (p->host_logits) {
    pass->table->copy (pass->queue, p->host_logits, p->choose.logits,
        n_bytes);
    pass->table->copy (pass->queue, p->choose.logits, p->host_logits,
        n_bytes);
  }
  choose.n_choices = n;
  choose.choices += first;
  choose.records += first;
  pass->table->choose (pass->queue, &choose);
}

void
asr_composite_decoder_step (const AsrCompute *compute, AsrQueue *queue,
    const AsrDecoderStepParams *params)
{
  Pass pass = begin_pass (compute, queue, params->n_rows, params->d,
      params->x, params->scratch);
  AsrEmbedParams embed = { params->n_rows, params->rows,
    params->choose.states, params->table, params->positions, params->d,
    params->x };
  guint n_choices = params->choose.n_choices;

  pass.table->embed (queue, &embed);
  for (guint layer = 0; layer < params->n_layers; layer++)
    run_decoder_layer (&pass, params, layer);
  for (guint first = 0; first < n_choices; first += params->max_logits)
    choose_piece (&pass, params, first,
        MIN (params->max_logits, n_choices - first));
}
