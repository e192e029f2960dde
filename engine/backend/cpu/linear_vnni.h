/* SPDX-License-Identifier: MIT */
/* The VNNI product, which the AMX tier uses for few rows; compiled with the
 * flags of whoever includes it. */
#ifndef ASR_BACKEND_CPU_LINEAR_VNNI_H
#define ASR_BACKEND_CPU_LINEAR_VNNI_H

#include "engine/backend/cpu/linear_common.h"
#include <immintrin.h>

/* Memory is what few rows wait for, and the processor's own prefetching stops
 * at each page: a tenth of the time. */
#define AHEAD_BYTES 512

static void
quantise_shifted (const float *x, guint n, guint depth, guint8 *q,
    float *scale)
{
  quantise_row (x, n, depth, q, scale, 0x80);
}

/* Pairs of @n_rows by @n_panels sums in registers; both are constants. */
ALWAYS_INLINE void
vnni_block (const AsrProduct *p, guint row, guint n_rows, guint panel,
    guint n_panels)
{
  guint depth = p->weight->depth;
  gsize stride = (gsize) depth * ASR_PANEL;
  const guint8 *x = p->x + (gsize) 2 * row * depth;
  const gint8 *w = p->weight->i8 + panel * stride;
  __m512i sums[6][4];

  for (guint j = 0; j < n_panels; j++) {
    __m512i start = _mm512_loadu_si512 (
        p->weight->corrections + (panel + j) * ASR_PANEL);

    for (guint i = 0; i < 2 * n_rows; i++)
      sums[i][j] = start;
  }
  for (guint k = 0; k < depth; k += 4) {
    __m512i weights[4];

    for (guint j = 0; j < n_panels; j++) {
      const gint8 *line = w + j * stride + (gsize) k * ASR_PANEL;

      if (n_rows == 1)
        _mm_prefetch ((const char *) line + AHEAD_BYTES, _MM_HINT_T0);
      weights[j] = _mm512_load_si512 (line);
    }
    for (guint i = 0; i < 2 * n_rows; i++) {
      gint32 four;
      __m512i spread;

      memcpy (&four, x + (gsize) i * depth + k, sizeof four);
      spread = _mm512_set1_epi32 (four);
      for (guint j = 0; j < n_panels; j++)
        sums[i][j] = _mm512_dpbusd_epi32 (sums[i][j], spread, weights[j]);
    }
  }
  for (guint i = 0; i < n_rows; i++) {
    for (guint j = 0; j < n_panels; j++) {
      gint32 out[2][ASR_PANEL];

      _mm512_storeu_si512 (out[0], sums[2 * i][j]);
      _mm512_storeu_si512 (out[1], sums[2 * i + 1][j]);
      finish_pair (p, row + i, panel + j, out[0], out[1]);
    }
  }
}

ALWAYS_INLINE void
vnni_rows (const AsrProduct *p, guint panel, guint n_panels)
{
  guint row = 0;

  for (; row + 3 <= p->n_rows; row += 3)
    vnni_block (p, row, 3, panel, n_panels);
  for (; row < p->n_rows; row++)
    vnni_block (p, row, 1, panel, n_panels);
}

static void
vnni_product (const AsrProduct *p, guint begin, guint end)
{
  guint panel = begin;

  for (; panel + 4 <= end; panel += 4)
    vnni_rows (p, panel, 4);
  for (; panel < end; panel++)
    vnni_rows (p, panel, 1);
}

#endif
