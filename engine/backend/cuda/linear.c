/* SPDX-License-Identifier: MIT */
/*
 * Products with weights: a few rows through our own kernel, which reads the
 * weights once and has everything fused, more of them through cuBLASLt and
 * what it lacks behind it. Also what is made of products: the convolutions
 * and cross K and V.
 */
#include "engine/backend/cuda/cuda.h"
#include <string.h>

static void *
get_row (const AsrQueue *queue, const void *rows, gsize index, gsize n_row,
    gboolean is_f32)
{
  gsize size = is_f32 ? sizeof (float)
                      : asr_dtype_get_size (queue->device->info.activation);

  return (guint8 *) rows + index * n_row * size;
}

static gboolean
check_linear (AsrQueue *queue, const AsrLinearParams *p)
{
  const AsrWeight *weight = p->weights.weight;

  if (weight->n_in == p->n_in && weight->n_out == p->n_out
      && weight->n_taps == 1)
    return TRUE;
  asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
      "linear: %u to %u with a weight of [%u, %u]", p->n_in, p->n_out,
      weight->n_out, weight->n_in));
  return FALSE;
}

static void
run_few_rows (AsrQueue *queue, const AsrLinearParams *p,
    const AsrNormWeights *norm, const guint32 *gather)
{
  for (guint first = 0; first < p->n_rows; first += ASR_CUDA_MAX_ROWS) {
    AsrRowsLinear rows = {
      .n_rows = MIN (ASR_CUDA_MAX_ROWS, p->n_rows - first),
      .n_in = p->n_in,
      .n_out = p->n_out,
      .x = gather ? p->x : get_row (queue, p->x, first, p->n_in, FALSE),
      .gather = gather ? gather + first : NULL,
      .gamma = norm ? norm->gamma : NULL,
      .beta = norm ? norm->beta : NULL,
      .weight = p->weights.weight->data,
      .bias = p->weights.bias,
      .gelu = p->activation == ASR_ACTIVATION_GELU,
      .residual = p->residual
          ? get_row (queue, p->residual, first, p->n_out, FALSE)
          : NULL,
      .y_is_f32 = p->y_is_f32,
      .y = get_row (queue, p->y, first, p->n_out, p->y_is_f32),
    };

    if (!asr_cuda_try (queue, "linear",
            asr_cuda_rows_linear (&queue->launch, &rows)))
      return;
  }
}

static void
run_many_rows (AsrQueue *queue, const AsrLinearParams *p)
{
  gboolean has_gelu = p->activation == ASR_ACTIVATION_GELU;
  gsize n = (gsize) p->n_rows * p->n_out;
  const void *bias = p->weights.bias;
  void *y = p->y;
  AsrBlasShape shape;

  memset (&shape, 0, sizeof shape); /* compared as bytes */
  shape.n_rows = p->n_rows;
  shape.n_in = p->n_in;
  shape.n_out = p->n_out;
  shape.n_batches = 1;
  shape.has_bias = bias != NULL;
  shape.adds = p->residual && !has_gelu;
  if (bias && !queue->device->is_f32) {
    bias = asr_cuda_weight_get_bias (queue, p->weights.weight, bias);
    if (!bias)
      return;
  }
  /* what is added behind the GELU may be y */
  if (has_gelu && p->residual == p->y)
    y = asr_cuda_get_scratch (queue, ASR_SCRATCH_LINEAR,
        n * asr_dtype_get_size (queue->device->info.activation));
  if (y && asr_cuda_blas (queue, &shape, p->x, p->weights.weight->data, bias,
          p->residual, y) && has_gelu)
    asr_cuda_try (queue, "GELU",
        asr_cuda_gelu (&queue->launch, queue->device->is_f32, y, p->residual,
            NULL, n, p->y));
}

void
asr_cuda_linear (AsrQueue *queue, const AsrLinearParams *params,
    const AsrNormWeights *norm, const guint32 *gather, void *normalised)
{
  gboolean is_f32 = queue->device->is_f32;
  AsrLinearParams p = *params;

  if (!check_linear (queue, params))
    return;
  /* cuBLASLt wants rows of logits aligned, and a vocabulary is odd */
  if (!is_f32 && asr_cuda_rows_linear_fits (p.n_in, norm != NULL)
      && (p.y_is_f32 || (p.n_rows <= ASR_CUDA_MAX_ROWS && p.n_out % 2 == 0))
      && !(p.y_is_f32 && p.residual)) {
    run_few_rows (queue, &p, norm, gather);
    return;
  }
  if (p.y_is_f32 && !is_f32) {
    asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_UNSUPPORTED,
        "linear: %u values in f16 to %u in f32%s", p.n_in, p.n_out,
        p.residual ? ", with a residual" : ""));
    return;
  }
  if (p.n_out % 8 != 0 && p.activation == ASR_ACTIVATION_GELU) {
    asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_UNSUPPORTED,
        "linear: GELU of %u columns, not a multiple of 8", p.n_out));
    return;
  }
  if (norm) {
    if (!asr_cuda_try (queue, "norm",
            asr_cuda_norm (&queue->launch, p.n_rows, p.n_in, p.x, gather,
                norm, NULL, 1, normalised)))
      return;
    p.x = normalised;
  }
  run_many_rows (queue, &p);
}

void
asr_cuda_op_linear (AsrQueue *queue, const AsrLinearParams *params)
{
  if (params->n_rows > 0 && asr_cuda_begin (queue))
    asr_cuda_linear (queue, params, NULL, NULL, NULL);
}

/* One sequence; @unfolded: scratch for what is under the kernel. */
static gboolean
convolve (AsrQueue *queue, const AsrConvParams *p, guint r, void *unfolded)
{
  guint n_rows = p->n_frames / p->stride;
  gsize n = (gsize) n_rows * p->n_out;
  void *y = get_row (queue, p->y, r, n, FALSE);
  const void *bias = p->weights.bias;
  AsrBlasShape shape;

  memset (&shape, 0, sizeof shape);
  shape.n_rows = n_rows;
  shape.n_in = 3 * p->n_in;
  shape.n_out = p->n_out;
  shape.n_batches = 1;
  shape.has_bias = bias != NULL;
  if (bias && !queue->device->is_f32) {
    bias = asr_cuda_weight_get_bias (queue, p->weights.weight, bias);
    if (!bias)
      return FALSE;
  }
  return asr_cuda_try (queue, "conv",
             asr_cuda_unfold (&queue->launch, p->channels_first, p->x[r],
                 p->n_frames, p->n_in, p->stride, unfolded))
      && asr_cuda_blas (queue, &shape, unfolded, p->weights.weight->data, bias,
          NULL, y)
      && asr_cuda_try (queue, "GELU",
          asr_cuda_gelu (&queue->launch, queue->device->is_f32, y, NULL,
              p->positions, n, y));
}

void
asr_cuda_op_conv (AsrQueue *queue, const AsrConvParams *params)
{
  const AsrWeight *weight = params->weights.weight;
  gsize n = (gsize) (params->n_frames / params->stride) * 3 * params->n_in;
  void *unfolded;

  if (params->n_rows == 0 || !asr_cuda_begin (queue))
    return;
  if (weight->n_in != params->n_in || weight->n_out != params->n_out
      || weight->n_taps != 3 || params->n_out % 8 != 0) {
    asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
        "conv: %u to %u with a weight of [%u, %u, %u]", params->n_in,
        params->n_out, weight->n_out, weight->n_in, weight->n_taps));
    return;
  }
  unfolded = asr_cuda_get_scratch (queue, ASR_SCRATCH_OP,
      n * asr_dtype_get_size (queue->device->info.activation));
  for (guint r = 0; unfolded && r < params->n_rows; r++)
    if (!convolve (queue, params, r, unfolded))
      return;
}

/* The slot's layout is that of a product for each of K and V and head. */
static gboolean
fill_layer (AsrQueue *queue, const AsrCrossKvParams *p, guint layer)
{
  const AsrLinearWeights *weights = &p->layers[layer].cross_kv;
  const AsrKvPool *pool = p->pool;
  const void *bias = weights->bias;
  gsize n_layer = (gsize) 2 * pool->n_heads * pool->n_ctx * ASR_HEAD_SIZE;
  AsrBlasShape shape;

  memset (&shape, 0, sizeof shape);
  shape.n_rows = p->n_frames;
  shape.n_in = p->d;
  shape.n_out = ASR_HEAD_SIZE;
  shape.n_batches = 2 * pool->n_heads;
  shape.has_bias = bias != NULL;
  if (bias && !queue->device->is_f32) {
    bias = asr_cuda_weight_get_bias (queue, weights->weight, bias);
    if (!bias)
      return FALSE;
  }
  return asr_cuda_blas (queue, &shape, p->x, weights->weight->data, bias,
      NULL, get_row (queue, pool->data,
          (gsize) p->slot * pool->n_layers + layer, n_layer, FALSE));
}

void
asr_cuda_op_cross_kv (AsrQueue *queue, const AsrCrossKvParams *params)
{
  const AsrKvPool *pool = params->pool;

  if (!asr_cuda_begin (queue))
    return;
  if (params->slot >= pool->n_slots || params->n_frames != pool->n_ctx
      || params->d != pool->n_heads * ASR_HEAD_SIZE
      || pool->dtype != queue->device->info.kv) {
    asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
        "cross K/V: slot %u of %u, %u frames of %u, %u for %u heads",
        params->slot, pool->n_slots, params->n_frames, pool->n_ctx,
        params->d, pool->n_heads));
    return;
  }
  for (guint layer = 0; layer < pool->n_layers; layer++)
    if (!fill_layer (queue, params, layer))
      return;
}
