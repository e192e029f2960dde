/* SPDX-License-Identifier: MIT */
/* Element types in messages, and their conversion inside loops. */
#ifndef ASR_TENSOR_DTYPE_H
#define ASR_TENSOR_DTYPE_H

#include "engine/tensor/tensor.h"

G_BEGIN_DECLS

/* Returns: (transfer none): "f32", "i8", ... */
const char *asr_dtype_get_name (AsrDType dtype);

static inline float
asr_bits_to_f32 (guint32 bits)
{
  union {
    guint32 u;
    float f;
  } value = { bits };

  return value.f;
}

static inline float
asr_f16_widen (guint16 half)
{
  guint32 sign = (guint32) (half & 0x8000) << 16;
  guint32 magnitude = half & 0x7fff;
  /* Both ways are computed and one chosen: no branch in a loop. */
  float small = (float) (gint32) magnitude * 0x1p-24f;
  guint32 wide = (magnitude << 13) + 0x38000000;
  union {
    float f;
    guint32 u;
  } subnormal = { small };

  /* Infinity and NaN: the exponent goes to the top. */
  wide += magnitude >= 0x7c00 ? 0x38000000 : 0;
  return asr_bits_to_f32 (sign | (magnitude < 0x400 ? subnormal.u : wide));
}

G_END_DECLS

#endif
