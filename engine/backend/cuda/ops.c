/* SPDX-License-Identifier: MIT */
/*
 * The ops that are a kernel or two: parameters are checked, host arrays go
 * to the device, kernels are launched.
 */
#include "engine/backend/cuda/cuda.h"

#define MAX_SAMPLES 480000
#define MAX_NORM 2048

void
asr_cuda_op_mel (AsrQueue *queue, const AsrMelParams *params)
{
  if (params->n_rows == 0 || !asr_cuda_begin (queue))
    return;
  for (guint r = 0; r < params->n_rows; r++)
    if (!asr_cuda_try (queue, "mel",
            asr_cuda_mel (&queue->launch, params->samples[r],
                MIN (params->n_samples[r], MAX_SAMPLES), params->filters,
                params->n_mels, queue->top, params->mel[r])))
      return;
}

void
asr_cuda_op_norm (AsrQueue *queue, const AsrNormParams *params)
{
  const guint32 *gather = NULL;
  void *const *y_rows = NULL;
  guint rows_per_y = MAX (params->rows_per_y, 1);

  if (params->n_rows == 0 || !asr_cuda_begin (queue))
    return;
  if (params->d % 8 != 0 || params->d > MAX_NORM) {
    asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_UNSUPPORTED,
        "norm of %u: at most %d and a multiple of 8", params->d, MAX_NORM));
    return;
  }
  if (params->gather) {
    gather = asr_cuda_stage (queue, params->gather,
        params->n_rows * sizeof (guint32));
    if (!gather)
      return;
  }
  if (params->y_rows) {
    y_rows = asr_cuda_stage (queue, params->y_rows,
        (params->n_rows + rows_per_y - 1) / rows_per_y * sizeof (void *));
    if (!y_rows)
      return;
  }
  asr_cuda_try (queue, "norm",
      asr_cuda_norm (&queue->launch, params->n_rows, params->d, params->x,
          gather, &params->weights, y_rows, rows_per_y, params->y));
}

void
asr_cuda_op_embed (AsrQueue *queue, const AsrEmbedParams *params)
{
  AsrEmbedArgument argument = { .embed = {
      .n_rows = params->n_rows,
      .d = params->d,
      .n_vocab = params->table->n_out,
      .states = params->states,
      .table = params->table->data,
      .positions = params->positions,
      .y = params->y,
  } };

  if (params->n_rows == 0 || !asr_cuda_begin (queue))
    return;
  argument.embed.rows = asr_cuda_stage (queue, params->rows,
      params->n_rows * sizeof (AsrRow));
  if (argument.embed.rows)
    asr_cuda_try (queue, "embed",
        asr_cuda_embed (&queue->launch, &argument));
}

void
asr_cuda_choose_from (AsrQueue *queue, const AsrChooseParams *params,
    const AsrChoice *choices, const AsrStepInput *input, gboolean is_early)
{
  for (guint first = 0; first < params->n_choices;
       first += ASR_CUDA_CHOICES_AT_ONCE) {
    AsrChoose choose = {
      .is_early = is_early,
      .n_choices = MIN (ASR_CUDA_CHOICES_AT_ONCE, params->n_choices - first),
      .choices = choices + first,
      .logits = params->logits + (gsize) first * params->tokens->n_vocab,
      .tokens = *params->tokens,
      .masks = params->masks,
      .states = params->states,
      .records = input ? NULL : params->records + first,
      .input = input,
      .pieces = queue->pieces,
      .counters = queue->choice_counters,
    };

    if (!asr_cuda_try (queue, "choose",
            asr_cuda_choose (&queue->launch, &choose)))
      return;
  }
}

void
asr_cuda_op_choose (AsrQueue *queue, const AsrChooseParams *params)
{
  const AsrChoice *choices;

  if (params->n_choices == 0 || !asr_cuda_begin (queue))
    return;
  choices = asr_cuda_stage (queue, params->choices,
      params->n_choices * sizeof (AsrChoice));
  if (choices)
    asr_cuda_choose_from (queue, params, choices, NULL, FALSE);
}

void
asr_cuda_op_align (AsrQueue *queue, const AsrAlignParams *params)
{
  gsize n_rows, n_cells, n_words;
  float *matrix;

  if (params->n_rows < params->first_row + 2 || !asr_cuda_begin (queue))
    return; /* no row is asked for */
  n_rows = params->n_rows - 1 - params->first_row;
  if (params->n_heads == 0 || params->n_rows > params->max_rows
      || n_rows > ASR_CUDA_MAX_WARP_ROWS || params->n_frames == 0
      || params->n_frames > MIN (params->n_ctx, G_MAXINT16)) {
    asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
        "align: %u heads, %u rows of %u, %u frames of %u", params->n_heads,
        params->n_rows, params->max_rows, params->n_frames, params->n_ctx));
    return;
  }
  n_cells = n_rows * params->n_frames;
  n_words = n_rows * ((params->n_frames + 15) / 16);
  matrix = asr_cuda_get_scratch (queue, ASR_SCRATCH_OP,
      n_cells * sizeof (float) + n_words * sizeof (guint32));
  if (matrix)
    asr_cuda_try (queue, "align",
        asr_cuda_align (&queue->launch, params, matrix,
            (guint32 *) (matrix + n_cells)));
}
