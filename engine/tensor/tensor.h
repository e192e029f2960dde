/* SPDX-License-Identifier: MIT */
/*
 * Element types and the borrowed view of a tensor in host memory. Views own
 * nothing: whoever made one says what keeps the bytes alive.
 */
#ifndef ASR_TENSOR_TENSOR_H
#define ASR_TENSOR_TENSOR_H

#include <glib.h>

G_BEGIN_DECLS

#define ASR_MAX_RANK 4

typedef enum {
  ASR_DTYPE_F32,
  ASR_DTYPE_F16,
  ASR_DTYPE_BF16,
  ASR_DTYPE_I8,
  ASR_DTYPE_I16,
  ASR_DTYPE_I32,
} AsrDType;

/**
 * AsrTensor: row-major, dims[0] varies slowest; rank 0 is one element.
 * @data: little-endian; a view into a file may be unaligned: read it with
 *   memcpy or asr_tensor_to_f32
 * @scale: (nullable): for I8 [dims[0]], for I16 [1]: value = stored / scale
 */
typedef struct {
  AsrDType dtype;
  guint rank;
  guint32 dims[ASR_MAX_RANK];
  const void *data;
  gsize n_bytes;
  const float *scale;
} AsrTensor;

/* Size of one element in bytes. */
gsize asr_dtype_get_size (AsrDType dtype);

/* Product of dims; 1 for rank 0. Readers have checked that it fits. */
gsize asr_tensor_get_n_elements (const AsrTensor *tensor);

/**
 * asr_tensor_to_f32: reads @n elements from flat index @first, dequantised.
 * @out: [n] f32
 */
void asr_tensor_to_f32 (const AsrTensor *tensor, gsize first, gsize n,
    float *out);

/* Conversions of one element, round to nearest even. */
float asr_f16_to_f32 (guint16 half);
guint16 asr_f32_to_f16 (float value);

G_END_DECLS

#endif
