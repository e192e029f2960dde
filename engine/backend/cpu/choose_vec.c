/* SPDX-License-Identifier: MIT */
/* Passes over a row of logits. */
#include "engine/backend/cpu/kernels_vec.h"
#include "engine/backend/rules.h"

#define UNROLL 4

float
TIER (find_max) (const float *x, guint n, guint *index)
{
  Vec top[UNROLL];
  float best;
  guint i = 0;

  for (guint j = 0; j < UNROLL; j++)
    top[j] = vec_set (-INFINITY);
  for (; i + UNROLL * VEC_N <= n; i += UNROLL * VEC_N)
    for (guint j = 0; j < UNROLL; j++)
      top[j] = vec_max (vec_load (x + i + j * VEC_N), top[j]);
  for (; i < n; i += VEC_N)
    top[0] = vec_max (i + VEC_N <= n ? vec_load (x + i)
                                     : vec_load_n (x + i, n - i, -INFINITY),
        top[0]);
  best = vec_top (vec_max (vec_max (top[0], top[1]),
      vec_max (top[2], top[3])));
  for (i = 0; i < n && x[i] != best; i++)
    ;
  *index = i;
  return best;
}

double
TIER (sum_exp) (const float *x, guint n, float shift)
{
  double total = 0;

  /* f32 sums of stretches, so that 50000 small terms are not lost */
  for (guint begin = 0; begin < n; begin += 1024) {
    guint end = MIN (n, begin + 1024);
    Vec sum = vec_set (0);
    guint i = begin;

    for (; i + VEC_N <= end; i += VEC_N)
      sum += vec_exp (vec_load (x + i) - shift);
    if (i < end)
      sum += vec_exp (vec_load_n (x + i, end - i, -INFINITY) - shift);
    total += vec_sum (sum);
  }
  return total;
}

float
TIER (find_gumbel) (const float *x, guint n, float temperature, guint64 seed,
    guint32 step, guint32 first_id, guint *index)
{
  float best = -INFINITY;

  *index = n;
  for (guint i = 0; i < n; i += VEC_N) {
    guint n_lanes = MIN (VEC_N, n - i);
    float u[VEC_N], score[VEC_N];
    Vec noise;

    for (guint j = 0; j < VEC_N; j++)
      u[j] = asr_rules_uniform (seed, step, first_id + i + j);
    noise = vec_log (-vec_log (vec_load (u)));
    vec_store (score, vec_load_n (x + i, n_lanes, -INFINITY) / temperature
        - noise);
    for (guint j = 0; j < n_lanes; j++)
      if (score[j] > best) {
        best = score[j];
        *index = i + j;
      }
  }
  return best;
}
