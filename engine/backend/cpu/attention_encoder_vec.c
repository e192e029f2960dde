/* SPDX-License-Identifier: MIT */
/*
 * The encoder's attention in f32: scores of a few rows over all panels of
 * keys, softmax, and the sum of values. Both products are the same tile of
 * TILE_ROWS x TILE_COLUMNS in registers.
 */
#include "engine/backend/cpu/kernels_vec.h"

void
TIER (encoder_pack) (const AsrEncoderHead *head, guint panel)
{
  guint first = panel * TILE_COLUMNS;
  guint n = MIN (TILE_COLUMNS, head->n_frames - first);
  guint n_keys = (head->n_frames + TILE_COLUMNS - 1) / TILE_COLUMNS
      * TILE_COLUMNS;
  float *k = head->k + (gsize) first * ASR_HEAD_SIZE;
  const float *row = head->qkv + first * head->stride;

  for (guint i = 0; i < TILE_COLUMNS; i++, row += head->stride) {
    float *v = head->v + (gsize) (first + i) * TILE_COLUMNS;

    for (guint c = 0; c < ASR_HEAD_SIZE; c++) {
      gsize at = c / TILE_COLUMNS * ((gsize) n_keys * TILE_COLUMNS)
          + c % TILE_COLUMNS;

      k[c * TILE_COLUMNS + i] = i < n ? row[head->d + c] : 0;
      v[at] = i < n ? row[2 * head->d + c] : 0;
    }
  }
}

/* c[r][0 .. TILE_COLUMNS) = scale[r] * a[r][0 .. n) b, b [n, TILE_COLUMNS]. */
static inline void
multiply_tile (const float *a, gsize a_stride, const float *b, guint n,
    const float *scale, float *c, gsize c_stride, guint n_rows)
{
  Vec sum[TILE_ROWS][TILE_VECS];

  for (guint r = 0; r < TILE_ROWS; r++)
    for (guint j = 0; j < TILE_VECS; j++)
      sum[r][j] = vec_set (0);
  for (guint i = 0; i < n; i++, b += TILE_COLUMNS) {
    Vec column[TILE_VECS];

    for (guint j = 0; j < TILE_VECS; j++)
      column[j] = vec_load (b + j * VEC_N);
#pragma GCC unroll 12
    for (guint r = 0; r < TILE_ROWS; r++) {
      Vec x = vec_set (a[r * a_stride + i]);

      for (guint j = 0; j < TILE_VECS; j++)
        sum[r][j] = vec_fma (x, column[j], sum[r][j]);
    }
  }
  for (guint r = 0; r < TILE_ROWS; r++)
    if (r < n_rows)
      for (guint j = 0; j < TILE_VECS; j++)
        vec_store (c + r * c_stride + j * VEC_N, sum[r][j] * scale[r]);
}

/* p = exp (p - max) of [n_keys], of which @n count; returns the sum. */
static float
weigh_row (float *p, guint n, guint n_keys)
{
  Vec top = vec_set (-INFINITY), sum = vec_set (0);
  float shift;

  for (guint t = n; t < n_keys; t++)
    p[t] = -INFINITY;
  for (guint t = 0; t < n_keys; t += VEC_N)
    top = vec_max (vec_load (p + t), top);
  shift = vec_top (top);
  for (guint t = 0; t < n_keys; t += VEC_N) {
    Vec e = vec_exp (vec_load (p + t) - shift);

    vec_store (p + t, e);
    sum += e;
  }
  return vec_sum (sum);
}

void
TIER (encoder_attend) (const AsrEncoderHead *head, guint first, guint n,
    float *p, float *y, gsize y_stride)
{
  guint n_keys = (head->n_frames + TILE_COLUMNS - 1) / TILE_COLUMNS
      * TILE_COLUMNS;
  float q[TILE_ROWS * ASR_HEAD_SIZE], scale[TILE_ROWS];

  for (guint r = 0; r < TILE_ROWS; r++) { /* rows behind the last: zeros */
    const float *row = head->qkv + (first + r) * head->stride;

    for (guint c = 0; c < ASR_HEAD_SIZE; c++)
      q[r * ASR_HEAD_SIZE + c] = r < n ? row[c] : 0;
    scale[r] = 0.125f;
  }
  for (guint t = 0; t < n_keys; t += TILE_COLUMNS)
    multiply_tile (q, ASR_HEAD_SIZE, head->k + (gsize) t * ASR_HEAD_SIZE,
        ASR_HEAD_SIZE, scale, p + t, n_keys, TILE_ROWS);
  for (guint r = 0; r < TILE_ROWS; r++)
    scale[r] = 1.0f / weigh_row (p + (gsize) r * n_keys, head->n_frames,
        n_keys);
  for (guint c = 0; c < ASR_HEAD_SIZE; c += TILE_COLUMNS)
    multiply_tile (p, n_keys, head->v + (gsize) c * n_keys, n_keys, scale,
        y + c, y_stride, n);
}
