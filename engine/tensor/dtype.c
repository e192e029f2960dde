/* SPDX-License-Identifier: MIT */
/*
 * Element types: sizes and conversions of one element. Written without
 * branches where a compiler vectorises, and without subnormal f32 in between,
 * so that a thread that flushes those to zero gets the same values.
 */
#include "engine/tensor/dtype.h"

gsize
asr_dtype_get_size (AsrDType dtype)
{
  switch (dtype) {
    case ASR_DTYPE_F32:
    case ASR_DTYPE_I32:
      return 4;
    case ASR_DTYPE_F16:
    case ASR_DTYPE_BF16:
    case ASR_DTYPE_I16:
      return 2;
    case ASR_DTYPE_I8:
      return 1;
  }
  g_return_val_if_reached (1);
}

const char *
asr_dtype_get_name (AsrDType dtype)
{
  static const char *const names[]
      = { "f32", "f16", "bf16", "i8", "i16", "i32" };

  g_return_val_if_fail ((guint) dtype < G_N_ELEMENTS (names), NULL);
  return names[dtype];
}

float
asr_f16_to_f32 (guint16 half)
{
  return asr_f16_widen (half);
}

guint16
asr_f32_to_f16 (float value)
{
  union {
    float f;
    guint32 u;
  } bits = { value };
  guint16 sign = (bits.u >> 16) & 0x8000;
  guint32 magnitude = bits.u & 0x7fffffff;
  guint32 mantissa, shift, half, rest, middle;

  if (magnitude > 0x7f800000) /* NaN: kept, and made quiet */
    return sign | 0x7e00 | ((magnitude >> 13) & 0x3ff);
  if (magnitude >= 0x477ff000) /* rounds to 65536 or more */
    return sign | 0x7c00;
  if (magnitude < 0x33000000) /* below half of the smallest subnormal */
    return sign;
  if (magnitude >= 0x38800000) { /* normal: 2^-14 and up */
    half = (magnitude - 0x38000000) >> 13;
    rest = magnitude & 0x1fff;
    middle = 0x1000;
  } else { /* subnormal: units of 2^-24 */
    shift = 126 - (magnitude >> 23);
    mantissa = (magnitude & 0x7fffff) | 0x800000;
    half = mantissa >> shift;
    rest = mantissa & ((1u << shift) - 1);
    middle = 1u << (shift - 1);
  }
  /* A carry out of the mantissa lands in the exponent, as it should. */
  half += rest > middle || (rest == middle && (half & 1));
  return sign | half;
}
