/* SPDX-License-Identifier: MIT */
/* Layer norm of one row: epsilon 1e-5, biased variance in a second pass. */
#include "engine/backend/cpu/kernels_vec.h"

static float
sum_row (const float *x, guint d)
{
  Vec sum = vec_set (0);
  guint i = 0;

  for (; i + VEC_N <= d; i += VEC_N)
    sum += vec_load (x + i);
  if (i < d)
    sum += vec_load_n (x + i, d - i, 0);
  return vec_sum (sum);
}

static float
sum_squares (const float *x, guint d, float mean)
{
  Vec sum = vec_set (0);
  guint i = 0;

  for (; i + VEC_N <= d; i += VEC_N) {
    Vec diff = vec_load (x + i) - mean;

    sum = vec_fma (diff, diff, sum);
  }
  if (i < d) {
    Vec diff = vec_load_n (x + i, d - i, mean) - mean;

    sum = vec_fma (diff, diff, sum);
  }
  return vec_sum (sum);
}

void
TIER (norm) (const float *x, guint d, const float *gamma, const float *beta,
    float *y)
{
  float mean = sum_row (x, d) / d;
  float scale = 1.0f / sqrtf (sum_squares (x, d, mean) / d + 1e-5f);
  guint i = 0;

  for (; i + VEC_N <= d; i += VEC_N) {
    Vec unit = (vec_load (x + i) - mean) * scale;

    vec_store (y + i,
        vec_fma (unit, vec_load (gamma + i), vec_load (beta + i)));
  }
  for (; i < d; i++)
    y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
}
