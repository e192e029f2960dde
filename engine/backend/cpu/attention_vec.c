/* SPDX-License-Identifier: MIT */
/*
 * A few decoder rows of one head over one slot's keys. One row reads K and V
 * as fast as memory gives them; more rows share each read.
 */
#include "engine/backend/cpu/kernels_vec.h"

/* Vectors of a block of keys, and of a row of V. */
#define KEY_VECS (ASR_KEY_BLOCK / VEC_N)
#define ROW_VECS (ASR_HEAD_SIZE / VEC_N)

void
TIER (append) (const float *k, const float *v, guint position, guint n_ctx,
    guint16 *k_slot, guint16 *v_slot)
{
  guint in_block = position % ASR_KEY_BLOCK;
  guint block = position - in_block;
  guint width = MIN (ASR_KEY_BLOCK, n_ctx - block);
  guint16 half[ASR_HEAD_SIZE];

  for (guint c = 0; c < ASR_HEAD_SIZE; c += VEC_N) {
    vec_store_f16 (half + c, vec_load (k + c));
    vec_store_f16 (v_slot + (gsize) position * ASR_HEAD_SIZE + c,
        vec_load (v + c));
  }
  k_slot += (gsize) block * ASR_HEAD_SIZE + in_block;
  for (guint c = 0; c < ASR_HEAD_SIZE; c++)
    k_slot[c * width] = half[c];
}

/* p[r][16 block ..] = q . k for @n_rows rows, a constant where this is
 * inlined. @q: [n_rows, 64]. Lanes behind the last key get anything. */
static inline __attribute__ ((always_inline)) void
score_block (const float *q, guint n_rows, const guint16 *k, guint width,
    float *p, gsize p_stride)
{
  Vec sum[ASR_ATTEND_MAX_ROWS][KEY_VECS];

  for (guint r = 0; r < n_rows; r++)
    for (guint j = 0; j < KEY_VECS; j++)
      sum[r][j] = vec_set (0);
  for (guint c = 0; c < ASR_HEAD_SIZE; c++) {
    for (guint j = 0; j < KEY_VECS; j++) {
      Vec key = vec_load_f16 (k + c * width + j * VEC_N);

      for (guint r = 0; r < n_rows; r++)
        sum[r][j] = vec_fma (vec_set (q[r * ASR_HEAD_SIZE + c]), key,
            sum[r][j]);
    }
  }
  for (guint r = 0; r < n_rows; r++)
    for (guint j = 0; j < KEY_VECS; j++)
      vec_store (p + r * p_stride + j * VEC_N, sum[r][j]);
}

/* The same for one row, with sums enough to hide the latency of each. */
static inline void
score_block_1 (const float *q, const guint16 *k, guint width, float *p)
{
  Vec sum[4][KEY_VECS];

  for (guint i = 0; i < 4; i++)
    for (guint j = 0; j < KEY_VECS; j++)
      sum[i][j] = vec_set (0);
  for (guint c = 0; c < ASR_HEAD_SIZE; c += 4)
    for (guint i = 0; i < 4; i++)
      for (guint j = 0; j < KEY_VECS; j++)
        sum[i][j] = vec_fma (vec_set (q[c + i]),
            vec_load_f16 (k + (c + i) * width + j * VEC_N), sum[i][j]);
  for (guint j = 0; j < KEY_VECS; j++)
    vec_store (p + j * VEC_N,
        (sum[0][j] + sum[1][j]) + (sum[2][j] + sum[3][j]));
}

static void
score_keys (const AsrAttend *a, const float *q, guint n_keys)
{
  for (guint t = 0; t < n_keys; t += ASR_KEY_BLOCK) {
    const guint16 *k = a->k + (gsize) t * ASR_HEAD_SIZE;
    guint width = MIN (ASR_KEY_BLOCK, a->n_ctx - t);

    if (a->n_rows == 1)
      score_block_1 (q, k, width, a->p + t);
    else if (a->n_rows <= 4)
      score_block (q, 4, k, width, a->p + t, a->p_stride);
    else
      score_block (q, 8, k, width, a->p + t, a->p_stride);
  }
}

/* p = exp (p - max), zeros from @n to @n_padded; returns the sum's inverse. */
static float
weigh_keys (float *p, guint n, guint n_padded)
{
  Vec top = vec_set (-INFINITY), sum = vec_set (0);
  guint n_vecs = (n + VEC_N - 1) / VEC_N * VEC_N;
  float shift;

  for (guint t = n; t < n_vecs; t++)
    p[t] = -INFINITY;
  for (guint t = 0; t < n_vecs; t += VEC_N)
    top = vec_max (vec_load (p + t), top);
  shift = vec_top (top);
  for (guint t = 0; t < n_vecs; t += VEC_N) {
    Vec e = vec_exp (vec_load (p + t) - shift);

    vec_store (p + t, e);
    sum += e;
  }
  memset (p + n, 0, (n_padded - n) * sizeof (float));
  return 1.0f / vec_sum (sum);
}

/* y = p V for @n_rows rows, a constant where this is inlined. */
static inline __attribute__ ((always_inline)) void
sum_values (const AsrAttend *a, guint first, guint n_rows, guint n_keys,
    const float *scale)
{
  const float *p = a->p + first * a->p_stride;
  Vec sum[4][ROW_VECS];

  for (guint r = 0; r < n_rows; r++)
    for (guint j = 0; j < ROW_VECS; j++)
      sum[r][j] = vec_set (0);
  for (guint t = 0; t < n_keys; t++) {
    const guint16 *v = a->v + (gsize) t * ASR_HEAD_SIZE;

    for (guint j = 0; j < ROW_VECS; j++) {
      Vec value = vec_load_f16 (v + j * VEC_N);

      for (guint r = 0; r < n_rows; r++)
        sum[r][j] = vec_fma (vec_set (p[r * a->p_stride + t]), value,
            sum[r][j]);
    }
  }
  for (guint r = 0; r < n_rows; r++)
    for (guint j = 0; j < ROW_VECS; j++)
      vec_store (a->y + (first + r) * a->y_stride + j * VEC_N,
          sum[r][j] * scale[first + r]);
}

static void
sum_values_1 (const AsrAttend *a, guint first, guint n_keys, float scale)
{
  const float *p = a->p + first * a->p_stride;
  float *y = a->y + first * a->y_stride;
  Vec sum[2][ROW_VECS];
  guint t = 0;

  for (guint j = 0; j < ROW_VECS; j++)
    sum[0][j] = sum[1][j] = vec_set (0);
  for (; t + 2 <= n_keys; t += 2)
    for (guint i = 0; i < 2; i++)
      for (guint j = 0; j < ROW_VECS; j++)
        sum[i][j] = vec_fma (vec_set (p[t + i]),
            vec_load_f16 (a->v + (t + i) * ASR_HEAD_SIZE + j * VEC_N),
            sum[i][j]);
  if (t < n_keys)
    for (guint j = 0; j < ROW_VECS; j++)
      sum[0][j] = vec_fma (vec_set (p[t]),
          vec_load_f16 (a->v + t * ASR_HEAD_SIZE + j * VEC_N), sum[0][j]);
  for (guint j = 0; j < ROW_VECS; j++)
    vec_store (y + j * VEC_N, (sum[0][j] + sum[1][j]) * scale);
}

void
TIER (attend) (const AsrAttend *a)
{
  float q[ASR_ATTEND_MAX_ROWS * ASR_HEAD_SIZE];
  float scale[ASR_ATTEND_MAX_ROWS];
  guint n_keys = 0, n_padded, r = 0;

  /* Rows of q that are not there repeat the first and are not used. */
  for (guint i = 0; i < ASR_ATTEND_MAX_ROWS; i++)
    for (guint c = 0; c < ASR_HEAD_SIZE; c++)
      q[i * ASR_HEAD_SIZE + c]
          = a->q[(i < a->n_rows ? i : 0) * a->q_stride + c] * 0.125f;
  for (guint i = 0; i < a->n_rows; i++)
    n_keys = MAX (n_keys, a->n_keys[i]);
  n_padded = (n_keys + ASR_KEY_BLOCK - 1) / ASR_KEY_BLOCK * ASR_KEY_BLOCK;
  score_keys (a, q, n_keys);
  for (guint i = 0; i < a->n_rows; i++) {
    float *p = a->p + i * a->p_stride;

    if (a->scores != NULL && a->scores[i] != NULL)
      memcpy (a->scores[i], p, a->n_keys[i] * sizeof (float));
    scale[i] = weigh_keys (p, a->n_keys[i], n_padded);
  }
  for (; r + 4 <= a->n_rows; r += 4)
    sum_values (a, r, 4, n_keys, scale);
  if (a->n_rows - r == 3)
    sum_values (a, r, 3, n_keys, scale);
  else if (a->n_rows - r == 2)
    sum_values (a, r, 2, n_keys, scale);
  else if (a->n_rows - r == 1)
    sum_values_1 (a, r, n_keys, scale[r]);
}
