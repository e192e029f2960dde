/* SPDX-License-Identifier: MIT */
/*
 * Linear kernels for AVX-512 without VNNI. vpmaddubsw adds two products in 16
 * bits and saturates: |w| times x with w's sign on it stays within
 * 2 * 127 * 127, so nothing is lost. |w| serves all rows.
 */
#include "engine/backend/cpu/linear_common.h"

#define MAX_ROWS 4

static void
quantise (const float *x, guint n, guint depth, guint8 *q, float *scale)
{
  quantise_row (x, n, depth, q, scale, 0);
}

/* @n_rows is a constant. */
ALWAYS_INLINE void
multiply_block (const AsrProduct *p, guint row, guint n_rows, guint panel)
{
  guint depth = p->weight->depth;
  const guint8 *x = p->x + (gsize) 2 * row * depth;
  const gint8 *w = p->weight->i8 + (gsize) panel * depth * ASR_PANEL;
  const __m512i zero = _mm512_setzero_si512 ();
  const __m512i ones = _mm512_set1_epi16 (1);
  __m512i sums[2 * MAX_ROWS];

  for (guint i = 0; i < 2 * n_rows; i++)
    sums[i] = zero;
  for (guint k = 0; k < depth; k += 4) {
    __m512i line = _mm512_load_si512 (w + (gsize) k * ASR_PANEL);
    __mmask64 is_negative = _mm512_movepi8_mask (line);
    __m512i magnitude = _mm512_abs_epi8 (line);

    for (guint i = 0; i < 2 * n_rows; i++) {
      gint32 four;
      __m512i spread, pairs;

      memcpy (&four, x + (gsize) i * depth + k, sizeof four);
      spread = _mm512_set1_epi32 (four);
      spread = _mm512_mask_sub_epi8 (spread, is_negative, zero, spread);
      pairs = _mm512_maddubs_epi16 (magnitude, spread);
      sums[i] = _mm512_add_epi32 (sums[i], _mm512_madd_epi16 (pairs, ones));
    }
  }
  for (guint i = 0; i < n_rows; i++) {
    gint32 out[2][ASR_PANEL];

    _mm512_storeu_si512 (out[0], sums[2 * i]);
    _mm512_storeu_si512 (out[1], sums[2 * i + 1]);
    finish_pair (p, row + i, panel, out[0], out[1]);
  }
}

static void
product (const AsrProduct *p, guint begin, guint end)
{
  for (guint panel = begin; panel < end; panel++) {
    guint row = 0;

    for (; row + MAX_ROWS <= p->n_rows; row += MAX_ROWS)
      multiply_block (p, row, MAX_ROWS, panel);
    for (; row < p->n_rows; row++)
      multiply_block (p, row, 1, panel);
  }
}

const AsrLinearKernels asr_linear_kernels_avx512
    = { quantise, product, product_f32, finish_rows };
