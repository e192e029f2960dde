/* SPDX-License-Identifier: MIT */
/* Rows and columns of the alignment heads' scores. */
#include "engine/backend/cpu/kernels_vec.h"

void
TIER (softmax) (float *x, guint n)
{
  Vec top = vec_set (-INFINITY), sum = vec_set (0);
  guint n_whole = n / VEC_N * VEC_N;
  guint n_rest = n - n_whole;
  float shift, scale;

  for (guint i = 0; i < n_whole; i += VEC_N)
    top = vec_max (vec_load (x + i), top);
  if (n_rest > 0)
    top = vec_max (vec_load_n (x + n_whole, n_rest, -INFINITY), top);
  shift = vec_top (top);
  for (guint i = 0; i < n_whole; i += VEC_N) {
    Vec e = vec_exp (vec_load (x + i) - shift);

    vec_store (x + i, e);
    sum += e;
  }
  if (n_rest > 0) {
    Vec e = vec_exp (vec_load_n (x + n_whole, n_rest, -INFINITY) - shift);

    memcpy (x + n_whole, &e, n_rest * sizeof (float));
    sum += e;
  }
  scale = 1.0f / vec_sum (sum);
  for (guint i = 0; i < n; i++)
    x[i] *= scale;
}

/* One vector of columns, of which @n are there. A column without spread has
 * nothing to say and becomes zeros. */
static inline void
standardise_columns (float *x, guint n_rows, gsize stride, guint n)
{
  Vec mean = vec_set (0), variance = vec_set (0), scale;

  for (guint r = 0; r < n_rows; r++)
    mean += n == VEC_N ? vec_load (x + r * stride)
                       : vec_load_n (x + r * stride, n, 0);
  mean /= (float) n_rows;
  for (guint r = 0; r < n_rows; r++) {
    Vec diff = (n == VEC_N ? vec_load (x + r * stride)
                           : vec_load_n (x + r * stride, n, 0))
        - mean;

    variance = vec_fma (diff, diff, variance);
  }
  variance /= (float) n_rows;
  for (guint i = 0; i < VEC_N; i++)
    scale[i] = variance[i] > 0 ? 1.0f / sqrtf (variance[i]) : 0.0f;
  for (guint r = 0; r < n_rows; r++) {
    float *row = x + r * stride;
    Vec value = n == VEC_N ? vec_load (row) : vec_load_n (row, n, 0);

    value = (value - mean) * scale;
    memcpy (row, &value, n * sizeof (float));
  }
}

void
TIER (standardise) (float *x, guint n_rows, gsize stride, guint n_columns)
{
  guint i = 0;

  for (; i + VEC_N <= n_columns; i += VEC_N)
    standardise_columns (x + i, n_rows, stride, VEC_N);
  if (i < n_columns)
    standardise_columns (x + i, n_rows, stride, n_columns - i);
}

static inline void
order (Vec *a, Vec *b)
{
  Vec low = vec_min (*a, *b);

  *b = vec_max (*a, *b);
  *a = low;
}

/* Median of seven: thirteen exchanges leave it in the middle (all 128 inputs
 * of zeros and ones come out right, so every input does). */
static inline Vec
find_median (Vec v[7])
{
  order (&v[0], &v[5]);
  order (&v[0], &v[3]);
  order (&v[1], &v[6]);
  order (&v[2], &v[4]);
  order (&v[0], &v[1]);
  order (&v[3], &v[5]);
  order (&v[2], &v[6]);
  order (&v[2], &v[3]);
  order (&v[3], &v[6]);
  order (&v[4], &v[5]);
  order (&v[1], &v[4]);
  order (&v[1], &v[3]);
  order (&v[3], &v[4]);
  return v[3];
}

/* x[@i], reflected at both ends of [0, n). */
static inline float
get_reflected (const float *x, gint n, gint i)
{
  if (i < 0)
    i = -i;
  if (i >= n)
    i = 2 * (n - 1) - i;
  return x[i];
}

static void
add_edge (const float *x, guint n, guint i, float *sum)
{
  Vec v[7];

  for (gint k = 0; k < 7; k++)
    v[k] = vec_set (get_reflected (x, n, (gint) i + k - 3));
  sum[i] += find_median (v)[0];
}

void
TIER (add_median) (const float *x, guint n, float *sum)
{
  guint i = 3;

  if (n <= 3) { /* too short to be reflected: as it is */
    for (i = 0; i < n; i++)
      sum[i] += x[i];
    return;
  }
  for (guint k = 0; k < 3; k++)
    add_edge (x, n, k, sum);
  for (; i + VEC_N + 3 <= n; i += VEC_N) {
    Vec v[7];

    for (guint k = 0; k < 7; k++)
      v[k] = vec_load (x + i + k - 3);
    vec_store (sum + i, vec_load (sum + i) + find_median (v));
  }
  for (; i < n; i++)
    add_edge (x, n, i, sum);
}
