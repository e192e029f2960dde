/* SPDX-License-Identifier: MIT */
/*
 * A decoder step: one kernel for each norm with its product, attention,
 * product with its residual, so eight a layer. What a step is given reaches
 * the device as the argument of its first kernel; all else is the same from
 * step to step. So a step of few rows is recorded once as a graph and
 * launched again with another argument, and the host runs ahead.
 */
#include "engine/backend/cuda/cuda.h"
#include <string.h>

#define MAX_GRAPHS 32

/* All that a recorded step depends on. Compared as bytes: made from zeros. */
typedef struct {
  AsrDecoderStepParams params; /* without what changes */
  AsrKvPool self, cross;
  AsrAlignHeads align;
  AsrRuleTokens tokens;
  void *table, *first_weight;
  gboolean appends;
} StepKey;

struct _AsrStepGraph {
  StepKey key;
  cudaGraphExec_t exec;
  cudaGraph_t graph;      /* its nodes name those of exec */
  cudaGraphNode_t first;
  struct cudaKernelNodeParams node;
};

/* What the parts of one step share. */
typedef struct {
  AsrQueue *queue;
  const AsrDecoderStepParams *p;
  const AsrRow *rows;        /* device */
  const AsrChoice *choices;  /* device */
  const guint32 *gather;     /* device: rows that choices name */
  const AsrStepInput *input; /* (nullable): device: has the records */
  gboolean appends;
  void *narrow;              /* act [n_rows, d] */
  void *wide;                /* act [n_rows, 4d] */
} Step;

void
asr_cuda_step_graph_free (AsrStepGraph *graph)
{
  if (!graph)
    return;
  if (graph->exec)
    cudaGraphExecDestroy (graph->exec);
  if (graph->graph)
    cudaGraphDestroy (graph->graph);
  g_free (graph);
}

/* @norm: (nullable): of @x first */
static void
project (const Step *step, const void *x, const AsrNormWeights *norm,
    const AsrLinearWeights *weights, guint n_in, guint n_out,
    AsrActivation activation, void *residual, void *y)
{
  AsrLinearParams linear = {
    .n_rows = step->p->n_rows,
    .n_in = n_in,
    .n_out = n_out,
    .x = x,
    .weights = *weights,
    .activation = activation,
    .residual = residual,
    .y = y,
  };

  if (!step->queue->error)
    asr_cuda_linear (step->queue, &linear, norm, NULL, step->narrow);
}

static void
attend (const Step *step, AsrAttentionKind kind, guint layer)
{
  const AsrDecoderStepParams *p = step->p;
  AsrAttentionParams attention = {
    .kind = kind,
    .n_rows = p->n_rows,
    .n_heads = p->n_heads,
    .qkv = step->wide,
    .rows = p->rows,
    .states = p->choose.states,
    .pool = kind == ASR_ATTENTION_SELF ? p->self : p->cross,
    .layer = layer,
    .align = kind == ASR_ATTENTION_CROSS ? p->align : NULL,
    .y = step->narrow,
  };

  if (!step->queue->error)
    asr_cuda_attend (step->queue, &attention, step->rows, step->appends,
        TRUE);
}

static void
run_layer (const Step *step, guint layer)
{
  const AsrDecoderStepParams *p = step->p;
  const AsrLayerWeights *w = &p->layers[layer];
  guint d = p->d;

  project (step, p->x, &w->self_norm, &w->self_qkv, d, 3 * d,
      ASR_ACTIVATION_NONE, NULL, step->wide);
  attend (step, ASR_ATTENTION_SELF, layer);
  project (step, step->narrow, NULL, &w->self_out, d, d,
      ASR_ACTIVATION_NONE, p->x, p->x);
  project (step, p->x, &w->cross_norm, &w->cross_q, d, d,
      ASR_ACTIVATION_NONE, NULL, step->wide);
  attend (step, ASR_ATTENTION_CROSS, layer);
  project (step, step->narrow, NULL, &w->cross_out, d, d,
      ASR_ACTIVATION_NONE, p->x, p->x);
  project (step, p->x, &w->ffn_norm, &w->ffn_up, d, 4 * d,
      ASR_ACTIVATION_GELU, NULL, step->wide);
  project (step, step->wide, NULL, &w->ffn_down, 4 * d, d,
      ASR_ACTIVATION_NONE, p->x, p->x);
}

static void
take_round_trip (const Step *step, gsize n_bytes)
{
  AsrQueue *queue = step->queue;
  const AsrDecoderStepParams *p = step->p;

  if (!queue->error
      && asr_cuda_try (queue, "copy of logits",
          cudaMemcpyAsync (p->host_logits, p->choose.logits, n_bytes,
              cudaMemcpyDefault, queue->stream)))
    asr_cuda_try (queue, "copy of logits",
        cudaMemcpyAsync (p->choose.logits, p->host_logits, n_bytes,
            cudaMemcpyDefault, queue->stream));
}

/* Choices [first, first + n) */
static void
choose_piece (const Step *step, guint first, guint n)
{
  const AsrDecoderStepParams *p = step->p;
  guint n_vocab = p->choose.tokens->n_vocab;
  AsrChooseParams choose = p->choose;
  AsrLinearParams logits = {
    .n_rows = n,
    .n_in = p->d,
    .n_out = n_vocab,
    .x = p->x,
    .weights = { p->table, NULL },
    .y_is_f32 = TRUE,
    .y = p->choose.logits,
  };

  if (step->queue->error)
    return;
  asr_cuda_linear (step->queue, &logits, &p->norm, step->gather + first,
      step->wide);
  if (p->host_logits)
    take_round_trip (step, (gsize) n * n_vocab * sizeof (float));
  choose.n_choices = n;
  choose.records += first;
  if (!step->queue->error)
    asr_cuda_choose_from (step->queue, &choose, step->choices + first,
        step->input, TRUE);
}

/* Everything behind the embedding. */
static void
run_step (const Step *step)
{
  const AsrDecoderStepParams *p = step->p;
  guint n_choices = p->choose.n_choices;

  for (guint layer = 0; layer < p->n_layers; layer++)
    run_layer (step, layer);
  for (guint first = 0; first < n_choices; first += p->max_logits)
    choose_piece (step, first, MIN (p->max_logits, n_choices - first));
}

static Step
make_step (AsrQueue *queue, const AsrDecoderStepParams *p)
{
  gsize n_narrow = (gsize) p->n_rows * p->d
      * asr_dtype_get_size (queue->device->info.activation);

  return (Step){ .queue = queue, .p = p, .narrow = p->scratch,
    .wide = (guint8 *) p->scratch + n_narrow };
}

static AsrEmbed
make_embed (const AsrDecoderStepParams *p)
{
  return (AsrEmbed){ .n_rows = p->n_rows, .d = p->d,
    .n_vocab = p->table->n_out, .states = p->choose.states,
    .table = p->table->data, .positions = p->positions, .y = p->x };
}

/* ---- many rows, or logits that go to the host ---- */

static void
run_plain (AsrQueue *queue, const AsrDecoderStepParams *p)
{
  AsrEmbedArgument argument = { .embed = make_embed (p) };
  guint n_choices = p->choose.n_choices;
  Step step = make_step (queue, p);

  step.rows = asr_cuda_stage (queue, p->rows, p->n_rows * sizeof (AsrRow));
  if (!step.rows)
    return;
  if (n_choices > 0) {
    g_autofree guint32 *gather = g_new (guint32, n_choices);

    for (guint i = 0; i < n_choices; i++)
      gather[i] = p->choose.choices[i].row;
    step.gather = asr_cuda_stage (queue, gather, n_choices * sizeof *gather);
    step.choices = asr_cuda_stage (queue, p->choose.choices,
        n_choices * sizeof (AsrChoice));
    if (!step.gather || !step.choices)
      return;
  }
  step.appends = asr_cuda_rows_follow (p->rows, p->n_rows);
  argument.embed.rows = step.rows;
  if (asr_cuda_try (queue, "embed",
          asr_cuda_embed (&queue->launch, &argument)))
    run_step (&step);
}

/* ---- few rows: a graph ---- */

static void
fill_key (StepKey *key, const AsrDecoderStepParams *p)
{
  memset (key, 0, sizeof *key);
  key->params.n_rows = p->n_rows;
  key->params.d = p->d;
  key->params.n_heads = p->n_heads;
  key->params.n_layers = p->n_layers;
  key->params.layers = p->layers;
  key->params.positions = p->positions;
  key->params.norm = p->norm;
  key->params.choose.n_choices = p->choose.n_choices;
  key->params.choose.logits = p->choose.logits;
  key->params.choose.masks = p->choose.masks;
  key->params.choose.states = p->choose.states;
  key->params.x = p->x;
  key->params.scratch = p->scratch;
  memcpy (&key->self, p->self, sizeof key->self);
  memcpy (&key->cross, p->cross, sizeof key->cross);
  memcpy (&key->tokens, p->choose.tokens, sizeof key->tokens);
  if (p->align)
    memcpy (&key->align, p->align, sizeof key->align);
  key->table = p->table->data;
  key->first_weight = p->layers[0].self_qkv.weight->data;
  key->appends = asr_cuda_rows_follow (p->rows, p->n_rows);
}

static void
fill_input (AsrStepInput *input, const AsrDecoderStepParams *p)
{
  memcpy (input->rows, p->rows, p->n_rows * sizeof (AsrRow));
  if (p->choose.n_choices > 0)
    memcpy (input->choices, p->choose.choices,
        p->choose.n_choices * sizeof (AsrChoice));
  for (guint i = 0; i < p->choose.n_choices; i++)
    input->gather[i] = p->choose.choices[i].row;
  input->records = p->choose.records;
}

/* The step as kernels of the stream, the embedding first. */
static void
launch_step (AsrQueue *queue, const AsrDecoderStepParams *p,
    const AsrEmbedArgument *argument, gboolean appends)
{
  Step step = make_step (queue, p);
  AsrLaunch first = queue->launch;

  first.overlaps = FALSE;
  step.rows = queue->input->rows;
  step.choices = queue->input->choices;
  step.gather = queue->input->gather;
  step.input = queue->input;
  step.appends = appends;
  if (asr_cuda_try (queue, "embed", asr_cuda_embed (&first, argument)))
    run_step (&step);
}

static gboolean
instantiate (AsrQueue *queue, AsrStepGraph *graph)
{
  size_t n_roots = 1;

  return asr_cuda_try (queue, "cudaGraphInstantiate",
             cudaGraphInstantiate (&graph->exec, graph->graph, 0))
      && asr_cuda_keep (queue,
          cudaGraphGetRootNodes (graph->graph, &graph->first, &n_roots),
          "cudaGraphGetRootNodes")
      && asr_cuda_keep (queue,
          cudaGraphKernelNodeGetParams (graph->first, &graph->node),
          "cudaGraphKernelNodeGetParams");
}

static AsrStepGraph *
record (AsrQueue *queue, const AsrDecoderStepParams *p, const StepKey *key,
    const AsrEmbedArgument *argument)
{
  AsrStepGraph *graph = g_new0 (AsrStepGraph, 1);
  cudaError_t result;

  memcpy (&graph->key, key, sizeof *key);
  if (!asr_cuda_try (queue, "cudaStreamBeginCapture",
          cudaStreamBeginCapture (queue->stream,
              cudaStreamCaptureModeThreadLocal))) {
    asr_cuda_step_graph_free (graph);
    return NULL;
  }
  launch_step (queue, p, argument, key->appends);
  result = cudaStreamEndCapture (queue->stream, &graph->graph);
  if (queue->error || !asr_cuda_keep (queue, result, "cudaStreamEndCapture")
      || !instantiate (queue, graph)) {
    asr_cuda_step_graph_free (graph);
    return NULL;
  }
  if (queue->graphs->len == MAX_GRAPHS)
    g_ptr_array_remove_index (queue->graphs, 0);
  g_ptr_array_add (queue->graphs, graph);
  return graph;
}

static AsrStepGraph *
find_graph (AsrQueue *queue, const StepKey *key)
{
  for (guint i = queue->graphs->len; i-- > 0;) {
    AsrStepGraph *graph = g_ptr_array_index (queue->graphs, i);

    if (memcmp (&graph->key, key, sizeof *key) != 0)
      continue;
    if (i + 1 < queue->graphs->len) { /* used last stands last */
      graph = g_ptr_array_steal_index (queue->graphs, i);
      g_ptr_array_add (queue->graphs, graph);
    }
    return graph;
  }
  return NULL;
}

static void
run_graph (AsrQueue *queue, const AsrDecoderStepParams *p)
{
  AsrEmbedArgument argument = { .embed = make_embed (p) };
  void *arguments[] = { &argument };
  AsrStepGraph *graph;
  StepKey key;

  fill_key (&key, p);
  fill_input (&argument.input, p);
  argument.embed.kept = queue->input;
  graph = find_graph (queue, &key);
  if (!graph)
    graph = record (queue, p, &key, &argument);
  if (!graph)
    return;
  graph->node.kernelParams = arguments;
  graph->node.extra = NULL;
  if (asr_cuda_keep (queue,
          cudaGraphExecKernelNodeSetParams (graph->exec, graph->first,
              &graph->node),
          "cudaGraphExecKernelNodeSetParams"))
    asr_cuda_try (queue, "cudaGraphLaunch",
        cudaGraphLaunch (graph->exec, queue->stream));
}

/* Slots and positions, which no kernel checks. */
static gboolean
check_step (AsrQueue *queue, const AsrDecoderStepParams *p)
{
  for (guint r = 0; r < p->n_rows; r++) {
    const AsrRow *row = &p->rows[r];

    if (row->text_slot < p->self->n_slots
        && row->audio_slot < p->cross->n_slots
        && (row->token == ASR_TOKEN_CHOSEN
            || (row->token >= 0 && (guint) row->token < p->table->n_out
                && row->position < p->self->n_ctx)))
      continue;
    asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
        "decoder step: row %u has token %d at %u, text slot %u of %u, audio "
        "slot %u of %u", r, row->token, row->position, row->text_slot,
        p->self->n_slots, row->audio_slot, p->cross->n_slots));
    return FALSE;
  }
  for (guint i = 0; i < p->choose.n_choices; i++)
    if (p->choose.choices[i].row >= p->n_rows) {
      asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
          "decoder step: choice %u takes row %u of %u", i,
          p->choose.choices[i].row, p->n_rows));
      return FALSE;
    }
  return TRUE;
}

/* What cuBLASLt computes may allocate and wait, which no recording can; so do
 * all products in f32, which are for comparison. */
static gboolean
can_record (const AsrQueue *queue, const AsrDecoderStepParams *p)
{
  return !queue->device->is_f32 && p->n_layers > 0
      && asr_cuda_rows_linear_fits (p->d, TRUE)
      && asr_cuda_rows_linear_fits (4 * p->d, FALSE);
}

void
asr_cuda_decoder_step (AsrQueue *queue, const AsrDecoderStepParams *params)
{
  guint n_choices = params->choose.n_choices;

  if (params->n_rows == 0 || !asr_cuda_begin (queue)
      || !check_step (queue, params))
    return;
  if (params->n_rows <= ASR_CUDA_MAX_ROWS && n_choices <= ASR_CUDA_MAX_ROWS
      && n_choices <= params->max_logits && !params->host_logits
      && can_record (queue, params))
    run_graph (queue, params);
  else
    run_plain (queue, params);
}
