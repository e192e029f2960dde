/* SPDX-License-Identifier: MIT */
/*
 * Weights from a model's file in the layout of the kernels; see linear.h.
 * In: a tensor of any type. Out: f32 rows, or int8 panels with a scale for
 * each output row. One row at a time is f32 in between.
 */
#include "engine/backend/cpu/linear.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64
#define N_TAPS 3 /* of a convolution */

static void *
alloc_array (gsize n, gsize size, GError **error)
{
  void *memory = NULL;

  if (posix_memalign (&memory, ALIGNMENT, n * size) == 0)
    return memory;
  g_set_error (error, ASR_ERROR, ASR_ERROR_MEMORY,
      "no memory for a weight of %" G_GSIZE_FORMAT " bytes", n * size);
  return NULL;
}

void
asr_cpu_weight_free (AsrDevice *device, AsrWeight *weight)
{
  if (!weight)
    return;
  free (weight->f32);
  free (weight->i8);
  free (weight->scales);
  free (weight->corrections);
  g_free (weight);
}

static gboolean
check_shape (const AsrTensor *tensor, AsrWeightUse use, GError **error)
{
  guint rank = use == ASR_WEIGHT_CONV ? 3 : 2;
  gboolean is_right = tensor->rank == rank && tensor->dims[0] > 0
      && tensor->dims[1] > 0 && tensor->dims[0] < G_MAXINT32 / 2
      && tensor->dims[1] < G_MAXUINT16 * 4;

  if (is_right && use == ASR_WEIGHT_CONV)
    is_right = tensor->dims[2] == N_TAPS;
  if (!is_right) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT,
        "a weight of rank %u, [%u, %u, ...], where the CPU backend needs "
        "rank %u%s and dimensions above 0", tensor->rank,
        tensor->rank > 0 ? tensor->dims[0] : 0,
        tensor->rank > 1 ? tensor->dims[1] : 0, rank,
        use == ASR_WEIGHT_CONV ? ", kernel 3" : "");
  }
  return is_right;
}

/* Row @row as f32; a convolution's taps come before its channels.
 * @raw: room for one more row */
static void
read_row (const AsrTensor *tensor, const AsrWeight *weight, guint row,
    float *raw, float *out)
{
  gsize first = (gsize) row * weight->n_in;
  guint n_channels = weight->n_in / N_TAPS;

  if (weight->use != ASR_WEIGHT_CONV) {
    asr_tensor_to_f32 (tensor, first, weight->n_in, out);
    return;
  }
  asr_tensor_to_f32 (tensor, first, weight->n_in, raw);
  for (guint tap = 0; tap < N_TAPS; tap++) {
    for (guint i = 0; i < n_channels; i++)
      out[tap * n_channels + i] = raw[i * N_TAPS + tap];
  }
}

static gboolean
alloc_panels (AsrWeight *weight, GError **error)
{
  gsize n_rows = (gsize) weight->n_panels * ASR_PANEL;

  weight->i8 = alloc_array (n_rows, weight->depth, error);
  if (weight->i8)
    weight->scales = alloc_array (n_rows, sizeof (float), error);
  if (weight->scales)
    weight->corrections = alloc_array (n_rows, sizeof (gint32), error);
  return weight->corrections != NULL;
}

/* @values: [depth], zero past n_in */
static void
pack_row (AsrWeight *weight, guint row, const float *values)
{
  gint8 *to = weight->i8 + asr_panel_index (weight, row, 0);
  float greatest = 0.0f, inverse;
  gint32 sum = 0;

  for (guint i = 0; i < weight->n_in; i++)
    greatest = MAX (greatest, fabsf (values[i]));
  inverse = greatest > 0.0f ? 127.0f / greatest : 0.0f;
  for (guint i = 0; i < weight->depth; i += 4) {
    for (guint j = 0; j < 4; j++) {
      gint8 value = (gint8) lrintf (values[i + j] * inverse);

      to[j] = value;
      sum += value;
    }
    to += 4 * ASR_PANEL;
  }
  weight->scales[row] = greatest / 127.0f;
  weight->corrections[row] = -128 * sum;
}

static gboolean
fill_i8 (AsrWeight *weight, const AsrTensor *tensor, GError **error)
{
  g_autofree float *values = g_new0 (float, weight->depth);
  g_autofree float *raw = g_new (float, weight->n_in);

  if (!alloc_panels (weight, error))
    return FALSE;
  for (guint row = 0; row < weight->n_panels * ASR_PANEL; row++) {
    if (row < weight->n_out)
      read_row (tensor, weight, row, raw, values);
    else if (row == weight->n_out)
      memset (values, 0, weight->depth * sizeof (float));
    pack_row (weight, row, values);
  }
  return TRUE;
}

static gboolean
fill_f32 (AsrWeight *weight, const AsrTensor *tensor, GError **error)
{
  g_autofree float *raw = g_new (float, weight->n_in);

  weight->f32
      = alloc_array ((gsize) weight->n_out * weight->n_in, sizeof (float),
          error);
  if (!weight->f32)
    return FALSE;
  for (guint row = 0; row < weight->n_out; row++)
    read_row (tensor, weight, row, raw,
        weight->f32 + (gsize) row * weight->n_in);
  return TRUE;
}

AsrWeight *
asr_cpu_weight_new (AsrDevice *device, const AsrTensor *tensor,
    AsrWeightUse use, GError **error)
{
  AsrWeight *weight;
  gboolean is_filled;

  if (!check_shape (tensor, use, error))
    return NULL;
  weight = g_new0 (AsrWeight, 1);
  weight->use = use;
  weight->n_out = tensor->dims[0];
  weight->n_in = tensor->dims[1] * (use == ASR_WEIGHT_CONV ? N_TAPS : 1);
  weight->depth = (weight->n_in + ASR_DEPTH - 1) / ASR_DEPTH * ASR_DEPTH;
  weight->n_panels = (weight->n_out + ASR_PANEL - 1) / ASR_PANEL;
  /* The two convolutions are a thousandth of the work and stand before
   * everything else: they stay exact. */
  if (device->info.compute_type == ASR_COMPUTE_INT8
      && use != ASR_WEIGHT_CONV)
    is_filled = fill_i8 (weight, tensor, error);
  else
    is_filled = fill_f32 (weight, tensor, error);
  if (!is_filled) {
    asr_cpu_weight_free (device, weight);
    return NULL;
  }
  return weight;
}
