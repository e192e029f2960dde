/* SPDX-License-Identifier: MIT */
/* The ops as their definitions say, in double precision. */
#include "tests/backend/suite.h"
#include <math.h>

double
reference_gelu (double x)
{
  return 0.5 * x * (1.0 + erf (x * M_SQRT1_2));
}

void
reference_norm (double *x, guint n_rows, guint d, const float *gamma,
    const float *beta)
{
  for (guint r = 0; r < n_rows; r++, x += d) {
    double mean = 0, variance = 0;

    for (guint i = 0; i < d; i++)
      mean += x[i] / d;
    for (guint i = 0; i < d; i++)
      variance += (x[i] - mean) * (x[i] - mean) / d;
    for (guint i = 0; i < d; i++)
      x[i] = (x[i] - mean) / sqrt (variance + 1e-5) * gamma[i] + beta[i];
  }
}

void
reference_linear (const double *x, guint n_rows, guint n_in, const float *w,
    const float *bias, guint n_out, double *y)
{
  for (guint r = 0; r < n_rows; r++)
    for (guint o = 0; o < n_out; o++) {
      double sum = bias ? bias[o] : 0;

      for (guint i = 0; i < n_in; i++)
        sum += x[(gsize) r * n_in + i] * w[(gsize) o * n_in + i];
      y[(gsize) r * n_out + o] = sum;
    }
}

void
reference_attend (const double *q, const double *k, const double *v,
    gsize stride, guint n_keys, double *scores, double *y)
{
  g_autofree double *p = g_new (double, n_keys);
  double top = -INFINITY, sum = 0;

  for (guint j = 0; j < n_keys; j++) {
    p[j] = 0;
    for (guint i = 0; i < ASR_HEAD_SIZE; i++)
      p[j] += q[i] * k[j * stride + i] / 8;
    if (scores)
      scores[j] = p[j];
    top = MAX (top, p[j]);
  }
  for (guint i = 0; i < ASR_HEAD_SIZE; i++)
    y[i] = 0;
  for (guint j = 0; j < n_keys; j++)
    sum += exp (p[j] - top);
  for (guint j = 0; j < n_keys; j++)
    for (guint i = 0; i < ASR_HEAD_SIZE; i++)
      y[i] += exp (p[j] - top) / sum * v[j * stride + i];
}
