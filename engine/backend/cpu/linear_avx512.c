/* SPDX-License-Identifier: MIT */
/*
 * Linear kernels for AVX-512 without VNNI. Bytes are widened to 16 bits once
 * for several rows, and vpmaddwd adds pairs of products in 32 bits: exact,
 * and each output has its sum in two halves until the end.
 */
#include "engine/backend/cpu/linear_common.h"
#include <immintrin.h>

#define MAX_ROWS 8

static void
quantise (const float *x, guint n, guint depth, guint8 *q, float *scale)
{
  quantise_row (x, n, depth, q, scale, 0);
}

/* Outputs 0 to 7 in @low, 8 to 15 in @high, as pairs of halves. */
ALWAYS_INLINE void
finish_halves (const AsrProduct *p, guint row, guint panel, __m512i low,
    __m512i high)
{
  gint32 halves[2 * ASR_PANEL], out[ASR_PANEL];

  _mm512_storeu_si512 (halves, low);
  _mm512_storeu_si512 (halves + 16, high);
  for (guint i = 0; i < ASR_PANEL; i++)
    out[i] = halves[2 * i] + halves[2 * i + 1];
  finish_panel (p, row, panel, out);
}

/* @n_rows is a constant. */
ALWAYS_INLINE void
multiply_block (const AsrProduct *p, guint row, guint n_rows, guint panel)
{
  guint depth = p->weight->depth;
  const guint8 *x = p->x + (gsize) row * depth;
  const gint8 *w = p->weight->i8 + (gsize) panel * depth * ASR_PANEL;
  __m512i sums[MAX_ROWS][2];

  for (guint i = 0; i < n_rows; i++)
    sums[i][0] = sums[i][1] = _mm512_setzero_si512 ();
  for (guint k = 0; k < depth; k += 4) {
    const __m256i *line = (const __m256i *) (w + (gsize) k * ASR_PANEL);
    __m512i low = _mm512_cvtepi8_epi16 (_mm256_load_si256 (line));
    __m512i high = _mm512_cvtepi8_epi16 (_mm256_load_si256 (line + 1));

    for (guint i = 0; i < n_rows; i++) {
      __m512i spread = _mm512_broadcastq_epi64 (_mm_cvtepi8_epi16 (
          _mm_loadu_si32 (x + (gsize) i * depth + k)));

      sums[i][0] = _mm512_add_epi32 (sums[i][0],
          _mm512_madd_epi16 (spread, low));
      sums[i][1] = _mm512_add_epi32 (sums[i][1],
          _mm512_madd_epi16 (spread, high));
    }
  }
  for (guint i = 0; i < n_rows; i++)
    finish_halves (p, row + i, panel, sums[i][0], sums[i][1]);
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
    = { quantise, product, product_f32, finish_rows, 0 };
