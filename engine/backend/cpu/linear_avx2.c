/* SPDX-License-Identifier: MIT */
/*
 * Linear kernels for AVX2. vpmaddubsw adds two products in 16 bits and
 * saturates: |w| times x with w's sign on it stays within 2 * 127 * 127, so
 * nothing is lost. |w| serves all rows.
 */
#include "engine/backend/cpu/linear_common.h"
#include <immintrin.h>

static void
quantise (const float *x, guint n, guint depth, guint8 *q, float *scale)
{
  quantise_row (x, n, depth, q, scale, 0);
}

ALWAYS_INLINE __m256i
add_products (__m256i sum, __m256i x, __m256i w)
{
  __m256i pairs
      = _mm256_maddubs_epi16 (_mm256_abs_epi8 (w), _mm256_sign_epi8 (x, w));

  return _mm256_add_epi32 (sum,
      _mm256_madd_epi16 (pairs, _mm256_set1_epi16 (1)));
}

/* @n_rows is a constant of at most 2. */
ALWAYS_INLINE void
multiply_block (const AsrProduct *p, guint row, guint n_rows, guint panel)
{
  guint depth = p->weight->depth;
  const guint8 *x = p->x + (gsize) 2 * row * depth;
  const gint8 *w = p->weight->i8 + (gsize) panel * depth * ASR_PANEL;
  __m256i sums[4][2];

  for (guint i = 0; i < 2 * n_rows; i++)
    sums[i][0] = sums[i][1] = _mm256_setzero_si256 ();
  for (guint k = 0; k < depth; k += 4) {
    const __m256i *line = (const __m256i *) (w + (gsize) k * ASR_PANEL);
    __m256i low = _mm256_load_si256 (line);
    __m256i high = _mm256_load_si256 (line + 1);

    for (guint i = 0; i < 2 * n_rows; i++) {
      gint32 four;
      __m256i spread;

      memcpy (&four, x + (gsize) i * depth + k, sizeof four);
      spread = _mm256_set1_epi32 (four);
      sums[i][0] = add_products (sums[i][0], spread, low);
      sums[i][1] = add_products (sums[i][1], spread, high);
    }
  }
  for (guint i = 0; i < n_rows; i++) {
    gint32 out[2][ASR_PANEL];

    for (guint j = 0; j < 2; j++) {
      _mm256_storeu_si256 ((__m256i *) out[j], sums[2 * i + j][0]);
      _mm256_storeu_si256 ((__m256i *) (out[j] + 8), sums[2 * i + j][1]);
    }
    finish_pair (p, row + i, panel, out[0], out[1]);
  }
}

static void
product (const AsrProduct *p, guint begin, guint end)
{
  for (guint panel = begin; panel < end; panel++) {
    guint row = 0;

    for (; row + 2 <= p->n_rows; row += 2)
      multiply_block (p, row, 2, panel);
    if (row < p->n_rows)
      multiply_block (p, row, 1, panel);
  }
}

const AsrLinearKernels asr_linear_kernels_avx2
    = { quantise, product, product_f32, finish_rows };
