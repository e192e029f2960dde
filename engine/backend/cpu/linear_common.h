/* SPDX-License-Identifier: MIT */
/*
 * The parts of the linear kernels that are the same C for every instruction
 * set, on vectors of 16 floats that the compiler maps to what the set has.
 * Included once by each linear_<set>.c, which is compiled with its flags.
 */
#ifndef ASR_BACKEND_CPU_LINEAR_COMMON_H
#define ASR_BACKEND_CPU_LINEAR_COMMON_H

#include "engine/backend/cpu/linear.h"
#include <math.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#define LANES 16
#define ALWAYS_INLINE static inline __attribute__ ((always_inline))

typedef float V16 __attribute__ ((vector_size (64)));
typedef gint32 V16i __attribute__ ((vector_size (64)));
typedef guint8 V16b __attribute__ ((vector_size (16)));

ALWAYS_INLINE V16
load_16 (const float *from)
{
  V16 v;

  memcpy (&v, from, sizeof v);
  return v;
}

ALWAYS_INLINE void
store_16 (float *to, V16 v)
{
  memcpy (to, &v, sizeof v);
}

ALWAYS_INLINE V16
splat_16 (float value)
{
  return value - (V16){ 0 };
}

/* x/2 (1 + erf (x / sqrt 2)), within 6e-7: relu (x) - |x|/2 erfc (|x| /
 * sqrt 2), the last factor as 1/p^16 (the form of Abramowitz and Stegun
 * 7.1.28, fitted anew for this use; p may grow to infinity). */
ALWAYS_INLINE V16
gelu_16 (V16 x)
{
  V16i bits = (V16i) x & 0x7fffffff;
  V16 a = (V16) bits;
  V16 p = 4.13836933e-5f + a * 6.3330067e-6f;

  p = 5.97182043e-5f + a * p;
  p = 3.24931554e-3f + a * p;
  p = 2.11572964e-2f + a * p;
  p = 4.98641394e-2f + a * p;
  p = 1.0f + a * p;
  p *= p;
  p *= p;
  p *= p;
  p *= p;
#ifdef __AVX512F__
  /* Half of a division's time; infinity would become NaN in the step. */
  p = (V16) _mm512_min_ps (_mm512_set1_ps (1e30f), (__m512) p);
  V16 r = (V16) _mm512_rcp14_ps ((__m512) p);
  return 0.5f * ((x + a) - a * (r * (2.0f - p * r)));
#else
  return 0.5f * ((x + a) - a / p);
#endif
}

ALWAYS_INLINE V16
apply_finish_16 (V16 sum, const float *bias, gboolean gelu,
    const float *residual)
{
  if (bias)
    sum += load_16 (bias);
  if (gelu)
    sum = gelu_16 (sum);
  if (residual)
    sum += load_16 (residual);
  return sum;
}

/* Up to LANES outputs of @row from @column on. */
ALWAYS_INLINE void
finish_16 (const AsrEpilogue *finish, guint row, guint column, V16 sum)
{
  gboolean gelu = finish->activation == ASR_ACTIVATION_GELU;
  gsize at = (gsize) row * finish->n_out + column;
  const float *bias = finish->bias ? finish->bias + column : NULL;
  const float *residual = finish->residual ? finish->residual + at : NULL;
  float padded[2][LANES] = { { 0 } }, out[LANES];
  guint n = finish->n_out - column;

  if (n >= LANES) {
    store_16 (finish->y + at, apply_finish_16 (sum, bias, gelu, residual));
    return;
  }
  if (bias)
    memcpy (padded[0], bias, n * sizeof (float));
  if (residual)
    memcpy (padded[1], residual, n * sizeof (float));
  store_16 (out, apply_finish_16 (sum, padded[0], gelu, padded[1]));
  memcpy (finish->y + at, out, n * sizeof (float));
}

/* A panel's 16 outputs of one row, from the integer sums of its pair. */
ALWAYS_INLINE void
finish_pair (const AsrProduct *p, guint row, guint panel, const gint32 *sums,
    const gint32 *rest_sums)
{
  V16 scales = load_16 (p->weight->scales + panel * ASR_PANEL);
  V16i integers, rest;

  memcpy (&integers, sums, sizeof integers);
  memcpy (&rest, rest_sums, sizeof rest);
  finish_16 (&p->finish, row, panel * ASR_PANEL,
      (__builtin_convertvector (integers, V16)
          + __builtin_convertvector (rest, V16) * ASR_REST_STEP)
          * (scales * p->x_scales[row]));
}

static void
finish_rows (const float *sums, const AsrEpilogue *finish, guint n_rows)
{
  for (guint row = 0; row < n_rows; row++) {
    const float *from = sums + (gsize) row * finish->n_out;
    guint column = 0;

    for (; column + LANES <= finish->n_out; column += LANES)
      finish_16 (finish, row, column, load_16 (from + column));
    if (column < finish->n_out) {
      float rest[LANES] = { 0 };

      memcpy (rest, from + column, (finish->n_out - column) * sizeof (float));
      finish_16 (finish, row, column, load_16 (rest));
    }
  }
}

/* To the nearest integers, halves to even: the same on every tier, which a
 * multiplication fused with an addition would not give. */
ALWAYS_INLINE V16i
round_16 (V16 v)
{
  V16i out;
#if defined __AVX512F__
  out = (V16i) _mm512_cvtps_epi32 ((__m512) v);
#elif defined __AVX2__
  __m256 halves[2];
  __m256i rounded[2];

  memcpy (halves, &v, sizeof v);
  rounded[0] = _mm256_cvtps_epi32 (halves[0]);
  rounded[1] = _mm256_cvtps_epi32 (halves[1]);
  memcpy (&out, rounded, sizeof out);
#else
  for (guint i = 0; i < LANES; i++)
    out[i] = (gint32) lrintf (v[i]);
#endif
  return out;
}

ALWAYS_INLINE float
find_greatest (const float *x, guint n)
{
  guint32 greatest = 0;
  float out;

  /* Bits of absolute values order as the values do; NaN above all. */
  for (guint i = 0; i < n; i++) {
    guint32 bits;

    memcpy (&bits, x + i, sizeof bits);
    bits &= 0x7fffffff;
    greatest = bits > greatest ? bits : greatest;
  }
  memcpy (&out, &greatest, sizeof out);
  return out;
}

/* @flip: 0x80 shifts by 128 what is stored, 0 keeps it signed. A row that is
 * not finite gets a scale that is not finite either. */
ALWAYS_INLINE void
quantise_row (const float *x, guint n, guint depth, guint8 *q, float *scale,
    guint8 flip)
{
  float greatest = find_greatest (x, n);
  float inverse = greatest > 0.0f ? 127.0f / greatest : 0.0f;

  for (guint i = 0; i < depth; i += LANES) {
    V16 v = { 0 };
    V16i steps, rest;
    V16b bytes;

    if (i < n)
      memcpy (&v, x + i, MIN (LANES, n - i) * sizeof (float));
    v *= inverse;
    steps = round_16 (v);
    rest = round_16 (
        (v - __builtin_convertvector (steps, V16)) / ASR_REST_STEP);
    bytes = __builtin_convertvector (steps, V16b) ^ flip;
    memcpy (q + i, &bytes, sizeof bytes);
    bytes = __builtin_convertvector (rest, V16b) ^ flip;
    memcpy (q + depth + i, &bytes, sizeof bytes);
  }
  *scale = greatest / 127.0f;
}

ALWAYS_INLINE float
add_lanes (V16 v)
{
  float lanes[LANES];

  store_16 (lanes, v);
  for (guint width = LANES / 2; width > 0; width /= 2) {
    for (guint i = 0; i < width; i++)
      lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

/* One output of @n_rows rows; weights are read once. */
ALWAYS_INLINE void
dot_rows (const float *w, guint n, const float *x, gsize ldx, guint n_rows,
    float *sums)
{
  V16 totals[4] = { { 0 } };
  guint i = 0;

  for (; i + LANES <= n; i += LANES) {
    V16 weights = load_16 (w + i);

    for (guint row = 0; row < n_rows; row++)
      totals[row] += weights * load_16 (x + row * ldx + i);
  }
  for (guint row = 0; row < n_rows; row++) {
    sums[row] = add_lanes (totals[row]);
    for (guint j = i; j < n; j++)
      sums[row] += w[j] * x[row * ldx + j];
  }
}

/* Panels [begin, end) of outputs for up to 4 rows from @first on. */
ALWAYS_INLINE void
multiply_f32 (const float *x, gsize ldx, guint first, guint n_rows,
    const AsrWeight *weight, const AsrEpilogue *finish, guint begin,
    guint end)
{
  for (guint panel = begin; panel < end; panel++) {
    guint column = panel * ASR_PANEL;
    guint n = MIN (ASR_PANEL, weight->n_out - column);
    float sums[4][ASR_PANEL] = { { 0 } };

    for (guint i = 0; i < n; i++) {
      float one[4];

      dot_rows (weight->f32 + (gsize) (column + i) * weight->n_in,
          weight->n_in, x + first * ldx, ldx, n_rows, one);
      for (guint row = 0; row < n_rows; row++)
        sums[row][i] = one[row];
    }
    for (guint row = 0; row < n_rows; row++)
      finish_16 (finish, first + row, column, load_16 (sums[row]));
  }
}

static void
product_f32 (const float *x, gsize ldx, guint n_rows,
    const AsrWeight *weight, const AsrEpilogue *finish, guint begin,
    guint end)
{
  guint row = 0;

  for (; row + 4 <= n_rows; row += 4)
    multiply_f32 (x, ldx, row, 4, weight, finish, begin, end);
  for (; row < n_rows; row++)
    multiply_f32 (x, ldx, row, 1, weight, finish, begin, end);
}

#endif
