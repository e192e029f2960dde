/* SPDX-License-Identifier: MIT */
/* Views of tensors: counting and reading them as f32. */
#include "engine/tensor/dtype.h"
#include <string.h>

/* Elements that are copied out of unaligned memory at a time. */
#define BLOCK 1024

gsize
asr_tensor_get_n_elements (const AsrTensor *tensor)
{
  gsize n = 1;

  for (guint i = 0; i < tensor->rank; i++)
    n *= tensor->dims[i];
  return n;
}

/* A stretch of at most BLOCK elements from unaligned @data, not scaled. */
static void
convert_block (AsrDType dtype, const guint8 *data, gsize n, float *out)
{
  union {
    guint16 u16[BLOCK];
    gint16 i16[BLOCK];
    gint32 i32[BLOCK];
  } block;

  switch (dtype) {
    case ASR_DTYPE_F32:
      memcpy (out, data, n * sizeof (float));
      break;
    case ASR_DTYPE_F16:
      memcpy (block.u16, data, n * sizeof (guint16));
      for (gsize i = 0; i < n; i++)
        out[i] = asr_f16_widen (block.u16[i]);
      break;
    case ASR_DTYPE_BF16:
      memcpy (block.u16, data, n * sizeof (guint16));
      for (gsize i = 0; i < n; i++)
        out[i] = asr_bits_to_f32 ((guint32) block.u16[i] << 16);
      break;
    case ASR_DTYPE_I8:
      for (gsize i = 0; i < n; i++)
        out[i] = (gint8) data[i];
      break;
    case ASR_DTYPE_I16:
      memcpy (block.i16, data, n * sizeof (gint16));
      for (gsize i = 0; i < n; i++)
        out[i] = block.i16[i];
      break;
    case ASR_DTYPE_I32:
      memcpy (block.i32, data, n * sizeof (gint32));
      for (gsize i = 0; i < n; i++)
        out[i] = (float) block.i32[i];
      break;
  }
}

/* Elements from flat index @first up to the next row of dims[0]. */
static gsize
count_to_row_end (const AsrTensor *tensor, gsize first)
{
  gsize row = asr_tensor_get_n_elements (tensor) / tensor->dims[0];

  return row - first % row;
}

void
asr_tensor_to_f32 (const AsrTensor *tensor, gsize first, gsize n, float *out)
{
  gsize size = asr_dtype_get_size (tensor->dtype);
  const guint8 *data = tensor->data;
  gboolean by_row = tensor->scale && tensor->dtype == ASR_DTYPE_I8
      && tensor->rank > 0;

  while (n > 0) {
    gsize step = MIN (n, BLOCK);

    if (by_row)
      step = MIN (step, count_to_row_end (tensor, first));
    convert_block (tensor->dtype, data + first * size, step, out);
    if (tensor->scale) {
      gsize row = 0;

      if (by_row)
        row = first / (asr_tensor_get_n_elements (tensor) / tensor->dims[0]);
      for (gsize i = 0; i < step; i++)
        out[i] /= tensor->scale[row];
    }
    first += step;
    n -= step;
    out += step;
  }
}
