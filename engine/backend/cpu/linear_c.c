/* SPDX-License-Identifier: MIT */
/* Linear kernels in portable C. */
#include "engine/backend/cpu/linear_common.h"

static void
quantise (const float *x, guint n, guint depth, guint8 *q, float *scale)
{
  quantise_row (x, n, depth, q, scale, 0);
}

static void
multiply_line (const gint8 *x, const gint8 *w, guint depth, gint32 *sums)
{
  memset (sums, 0, ASR_PANEL * sizeof (gint32));
  for (guint k = 0; k < depth; k += 4) {
    for (guint i = 0; i < ASR_PANEL; i++) {
      const gint8 *four = w + (gsize) k * ASR_PANEL + i * 4;

      sums[i] += four[0] * x[k] + four[1] * x[k + 1] + four[2] * x[k + 2]
          + four[3] * x[k + 3];
    }
  }
}

static void
product (const AsrProduct *p, guint begin, guint end)
{
  guint depth = p->weight->depth;
  gint32 sums[2][ASR_PANEL];

  for (guint panel = begin; panel < end; panel++) {
    const gint8 *w = p->weight->i8 + (gsize) panel * depth * ASR_PANEL;

    for (guint row = 0; row < p->n_rows; row++) {
      const gint8 *x = (const gint8 *) p->x + (gsize) 2 * row * depth;

      multiply_line (x, w, depth, sums[0]);
      multiply_line (x + depth, w, depth, sums[1]);
      finish_pair (p, row, panel, sums[0], sums[1]);
    }
  }
}

const AsrLinearKernels asr_linear_kernels_c
    = { quantise, product, product_f32, finish_rows };
