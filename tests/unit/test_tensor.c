/* SPDX-License-Identifier: MIT */
/*
 * Element conversions against the definition of the format (ldexp), and
 * reading views: unaligned, in part, scaled.
 */
#include "engine/tensor/dtype.h"
#include <math.h>
#include <string.h>

/* What the bits of a finite half mean, by IEEE 754. */
static double
define_half (guint half)
{
  gint exponent = (half >> 10) & 0x1f;
  gint mantissa = half & 0x3ff;
  double magnitude = exponent == 0 ? ldexp (mantissa, -24)
                                   : ldexp (1024 + mantissa, exponent - 25);

  return half & 0x8000 ? -magnitude : magnitude;
}

static void
test_widen (void)
{
  for (guint half = 0; half < 0x10000; half++) {
    float value = asr_f16_to_f32 (half);

    if ((half & 0x7fff) > 0x7c00) {
      g_assert_true (isnan (value));
    } else if ((half & 0x7fff) == 0x7c00) {
      g_assert_true (isinf (value));
      g_assert_true (!!signbit (value) == !!(half & 0x8000));
    } else {
      g_assert_true (value == (float) define_half (half));
      g_assert_true (!!signbit (value) == !!(half & 0x8000));
    }
  }
}

/* Every half comes back, and what lies between two goes to the nearer one,
 * exactly in the middle to the even one. */
static void
test_narrow (void)
{
  for (guint half = 0; half < 0x7c00; half++) {
    float low = (float) define_half (half);
    float high = half + 1 == 0x7c00 ? 65536.0f
                                    : (float) define_half (half + 1);
    float middle = low + (high - low) / 2;
    guint even = half & 1 ? half + 1 : half;

    g_assert_cmphex (asr_f32_to_f16 (low), ==, half);
    g_assert_cmphex (asr_f32_to_f16 (-low), ==, half | 0x8000);
    g_assert_cmphex (asr_f32_to_f16 (middle), ==, even);
    g_assert_cmphex (asr_f32_to_f16 (-middle), ==, even | 0x8000);
    g_assert_cmphex (asr_f32_to_f16 (nextafterf (middle, 0)), ==, half);
    g_assert_cmphex (asr_f32_to_f16 (nextafterf (middle, 1e9f)), ==,
        half + 1);
  }
  g_assert_cmphex (asr_f32_to_f16 (1e9f), ==, 0x7c00);
  g_assert_cmphex (asr_f32_to_f16 (-INFINITY), ==, 0xfc00);
  g_assert_cmphex (asr_f32_to_f16 (1e-30f), ==, 0);
  g_assert_cmphex (asr_f32_to_f16 (-1e-45f), ==, 0x8000);
  g_assert_true (isnan (asr_f16_to_f32 (asr_f32_to_f16 (NAN))));
  /* A NaN whose upper mantissa is empty must not become infinity. */
  g_assert_true (isnan (
      asr_f16_to_f32 (asr_f32_to_f16 (asr_bits_to_f32 (0x7f800001)))));
}

static void
test_sizes (void)
{
  static const AsrTensor scalar = { ASR_DTYPE_I16 };
  static const AsrTensor cube = { ASR_DTYPE_F32, 3, { 2, 3, 5 } };
  static const AsrTensor large
      = { ASR_DTYPE_I8, 2, { 0x10000, 0x20000 } };

  g_assert_cmpuint (asr_dtype_get_size (ASR_DTYPE_F32), ==, 4);
  g_assert_cmpuint (asr_dtype_get_size (ASR_DTYPE_F16), ==, 2);
  g_assert_cmpuint (asr_dtype_get_size (ASR_DTYPE_BF16), ==, 2);
  g_assert_cmpuint (asr_dtype_get_size (ASR_DTYPE_I8), ==, 1);
  g_assert_cmpuint (asr_dtype_get_size (ASR_DTYPE_I16), ==, 2);
  g_assert_cmpuint (asr_dtype_get_size (ASR_DTYPE_I32), ==, 4);
  g_assert_cmpuint (asr_tensor_get_n_elements (&scalar), ==, 1);
  g_assert_cmpuint (asr_tensor_get_n_elements (&cube), ==, 30);
  g_assert_cmpuint (asr_tensor_get_n_elements (&large), ==, 0x200000000);
}

#define ROWS 5
#define COLUMNS 700 /* so that a read of several rows takes several blocks */
#define N (ROWS * COLUMNS)

/* Small whole numbers, exact in every type. */
static gint
get_value (guint i)
{
  return (gint) (i * 37 % 251) - 125;
}

static void
store_value (AsrDType dtype, guint8 *to, gint value)
{
  union {
    float f;
    guint32 u;
  } single = { (float) value };
  guint16 bits;
  gint32 wide = value;

  switch (dtype) {
    case ASR_DTYPE_F32:
      memcpy (to, &single.f, 4);
      break;
    case ASR_DTYPE_F16:
      bits = asr_f32_to_f16 (single.f);
      memcpy (to, &bits, 2);
      break;
    case ASR_DTYPE_BF16:
      bits = single.u >> 16;
      memcpy (to, &bits, 2);
      break;
    case ASR_DTYPE_I8:
      *to = (guint8) value;
      break;
    case ASR_DTYPE_I16:
      bits = (guint16) value;
      memcpy (to, &bits, 2);
      break;
    case ASR_DTYPE_I32:
      memcpy (to, &wide, 4);
      break;
  }
}

/* Any part of a view at any alignment; @scale as in AsrTensor. */
static void
check_reads (AsrDType dtype, const float *scale)
{
  static const struct {
    gsize first, n;
  } parts[] = { { 0, N }, { 0, 0 }, { 0, 1 }, { N - 1, 1 }, { 1, COLUMNS },
    { COLUMNS, COLUMNS }, { COLUMNS - 1, 2 }, { 13, 2900 } };
  gsize size = asr_dtype_get_size (dtype);
  g_autofree guint8 *memory = g_malloc (N * size + 3);
  g_autofree float *out = g_new (float, N + 1);
  AsrTensor view = { dtype, 2, { ROWS, COLUMNS }, NULL, N * size, scale };

  for (guint shift = 0; shift < 4; shift++) {
    view.data = memory + shift;
    for (guint i = 0; i < N; i++)
      store_value (dtype, memory + shift + i * size, get_value (i));
    for (guint p = 0; p < G_N_ELEMENTS (parts); p++) {
      out[parts[p].n] = -777.0f;
      asr_tensor_to_f32 (&view, parts[p].first, parts[p].n, out);
      g_assert_true (out[parts[p].n] == -777.0f);
      for (gsize i = 0; i < parts[p].n; i++) {
        gsize at = parts[p].first + i;
        guint row = dtype == ASR_DTYPE_I8 ? at / COLUMNS : 0;
        float expected = (float) get_value (at);

        g_assert_true (
            out[i] == (scale ? expected / scale[row] : expected));
      }
    }
  }
}

static void
test_reads (void)
{
  static const float scales[ROWS] = { 2.0f, 3.5f, 0.25f, 127.0f, 1e-3f };

  for (guint dtype = ASR_DTYPE_F32; dtype <= ASR_DTYPE_I32; dtype++)
    check_reads (dtype, NULL);
  check_reads (ASR_DTYPE_I8, scales);
  check_reads (ASR_DTYPE_I16, scales);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/tensor/widen", test_widen);
  g_test_add_func ("/tensor/narrow", test_narrow);
  g_test_add_func ("/tensor/sizes", test_sizes);
  g_test_add_func ("/tensor/reads", test_reads);
  return g_test_run ();
}
