/* SPDX-License-Identifier: MIT */
/*
 * The encoder's attention on AMX tiles: products in bf16 with f32 sums, softmax
 * in f32. A tile is 16 rows of 64 bytes; a right operand has two inputs of 16
 * outputs in a row. In: one head. Out: its columns of the result.
 */
#include "engine/backend/cpu/attention_amx.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define TILE_ROWS 16

/* All eight tiles as 16 rows of 64 bytes. */
static void
configure_tiles (void)
{
  struct {
    guint8 palette, start_row, reserved[14];
    guint16 n_bytes[16];
    guint8 n_rows[16];
  } config = { 1 };

  for (guint i = 0; i < 8; i++) {
    config.n_bytes[i] = 64;
    config.n_rows[i] = TILE_ROWS;
  }
  _tile_loadconfig (&config);
}

/* A block of query rows, and keys in a tile of the second product. */
#define QUERY_ROWS 32
#define KEY_TILE 32
#define ROUND_KEYS(n) (((n) + KEY_TILE - 1) / KEY_TILE * KEY_TILE)

/* K: [keys / 16][2 halves of 64 dims][16 pairs of dims][16 keys][2] bf16,
 * then V: [keys / 32][4 quarters of dims][16 pairs of keys][16 dims][2]. */
gsize
asr_attention_amx_get_pack_bytes (guint n_frames)
{
  return (gsize) ROUND_KEYS (n_frames) * ASR_HEAD_SIZE * 2 * sizeof (guint16);
}

gsize
asr_attention_amx_get_scratch_bytes (guint n_frames)
{
  gsize n_keys = ROUND_KEYS (n_frames);

  return QUERY_ROWS
      * (n_keys * (sizeof (float) + sizeof (guint16))
          + ASR_HEAD_SIZE * (sizeof (guint16) + sizeof (float)));
}

static inline __m256i
to_bf16 (__m512 x)
{
  return (__m256i) _mm512_cvtneps_pbh (x);
}

/* [64] f32 to bf16; a NULL row is zeros */
static inline void
row_to_bf16 (const float *x, guint16 *out)
{
  for (guint i = 0; i < ASR_HEAD_SIZE; i += 16)
    _mm256_storeu_si256 ((__m256i *) (out + i),
        to_bf16 (x ? _mm512_loadu_ps (x + i) : _mm512_setzero_ps ()));
}

void
asr_attention_amx_pack (const AsrAmxHead *head)
{
  guint n_keys = ROUND_KEYS (head->n_frames), d = head->d;
  guint16 *k = head->packed, *v = k + (gsize) n_keys * ASR_HEAD_SIZE;

  for (guint t = 0; t < n_keys; t++) {
    const float *row = t < head->n_frames
        ? head->qkv + (gsize) t * 3 * d : NULL;
    guint16 k_row[ASR_HEAD_SIZE], v_row[ASR_HEAD_SIZE];
    guint16 *k_tile = k + (gsize) (t / 16) * 2 * 512 + (t % 16) * 2;
    guint16 *v_tile = v + (gsize) (t / 32) * 4 * 512 + (t % 32 / 2) * 32
        + t % 2;

    row_to_bf16 (row ? row + d : NULL, k_row);
    row_to_bf16 (row ? row + 2 * d : NULL, v_row);
    for (guint i = 0; i < ASR_HEAD_SIZE; i += 2)
      memcpy (k_tile + i / 32 * 512 + i % 32 / 2 * 32, k_row + i, 4);
    for (guint i = 0; i < ASR_HEAD_SIZE; i++)
      v_tile[i / 16 * 512 + i % 16 * 2] = v_row[i];
  }
}

/* scores [32, n_keys] = Q K^T */
static void
score_block (const guint16 *q, const guint16 *k, guint n_keys, float *scores)
{
  gsize stride = n_keys * sizeof (float);

  _tile_loadd (4, q, 128);
  _tile_loadd (5, q + 32, 128);
  _tile_loadd (6, q + TILE_ROWS * ASR_HEAD_SIZE, 128);
  _tile_loadd (7, q + TILE_ROWS * ASR_HEAD_SIZE + 32, 128);
  for (guint t = 0; t < n_keys; t += 16, k += 1024) {
    _tile_zero (0);
    _tile_zero (1);
    _tile_loadd (2, k, 64);
    _tile_loadd (3, k + 512, 64);
    _tile_dpbf16ps (0, 4, 2);
    _tile_dpbf16ps (1, 6, 2);
    _tile_dpbf16ps (0, 5, 3);
    _tile_dpbf16ps (1, 7, 3);
    _tile_stored (0, scores + t, stride);
    _tile_stored (1, scores + (gsize) TILE_ROWS * n_keys + t, stride);
  }
}

static inline __m512
exp_vector (__m512 x)
{
  __m512 n, r, p;

  x = _mm512_max_ps (x, _mm512_set1_ps (-87.0f));
  n = _mm512_roundscale_ps (_mm512_mul_ps (x, _mm512_set1_ps (1.44269504f)),
      _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  r = _mm512_fnmadd_ps (n, _mm512_set1_ps (0.693147182f), x);
  p = _mm512_set1_ps (8.3334519073e-3f);
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (4.1665795894e-2f));
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (1.6666665459e-1f));
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (5.0000001201e-1f));
  p = _mm512_fmadd_ps (p, _mm512_mul_ps (r, r),
      _mm512_add_ps (r, _mm512_set1_ps (1.0f)));
  return _mm512_scalef_ps (p, n);
}

/* Of 16 keys from @t on, those below @n. */
static inline __mmask16
get_mask (guint t, guint n)
{
  if (n <= t)
    return 0;
  return n - t >= 16 ? 0xffff : (__mmask16) ((1u << (n - t)) - 1);
}

/* exp ((score - largest) / 8) as bf16; returns the sum. Keys from n on are
 * padding: 0. */
static float
exp_row (const float *scores, guint n, guint n_keys, guint16 *p)
{
  __m512 largest = _mm512_set1_ps (-INFINITY), sum = _mm512_setzero_ps ();
  __m512 scale = _mm512_set1_ps (0.125f), offset;

  for (guint t = 0; t < n_keys; t += 16) {
    __mmask16 mask = get_mask (t, n);

    largest = _mm512_mask_max_ps (largest, mask, largest,
        _mm512_loadu_ps (scores + t));
  }
  offset = _mm512_set1_ps (-0.125f * _mm512_reduce_max_ps (largest));
  for (guint t = 0; t < n_keys; t += 16) {
    __mmask16 mask = get_mask (t, n);
    __m512 e = _mm512_maskz_mov_ps (mask, exp_vector (_mm512_fmadd_ps (
        _mm512_loadu_ps (scores + t), scale, offset)));

    sum = _mm512_add_ps (sum, e);
    _mm256_storeu_si256 ((__m256i *) (p + t), to_bf16 (e));
  }
  return _mm512_reduce_add_ps (sum);
}

/* out [32, 64] = P V */
static void
mix_block (const guint16 *p, const guint16 *v, guint n_keys, float *out)
{
  gsize stride = n_keys * sizeof (guint16);

  for (guint half = 0; half < 2; half++) {
    const guint16 *tile = v + half * 1024;

    _tile_zero (0);
    _tile_zero (1);
    _tile_zero (2);
    _tile_zero (3);
    for (guint t = 0; t < n_keys; t += KEY_TILE, tile += 2048) {
      _tile_loadd (4, p + t, stride);
      _tile_loadd (6, tile, 64);
      _tile_loadd (7, tile + 512, 64);
      _tile_loadd (5, p + (gsize) TILE_ROWS * n_keys + t, stride);
      _tile_dpbf16ps (0, 4, 6);
      _tile_dpbf16ps (1, 4, 7);
      _tile_dpbf16ps (2, 5, 6);
      _tile_dpbf16ps (3, 5, 7);
    }
    _tile_stored (0, out + half * 32, 256);
    _tile_stored (1, out + half * 32 + 16, 256);
    _tile_stored (2, out + TILE_ROWS * ASR_HEAD_SIZE + half * 32, 256);
    _tile_stored (3, out + TILE_ROWS * ASR_HEAD_SIZE + half * 32 + 16, 256);
  }
}

void
asr_attention_amx_run (const AsrAmxHead *head, guint begin, guint end,
    void *scratch)
{
  guint n_keys = ROUND_KEYS (head->n_frames), d = head->d;
  const guint16 *k = head->packed, *v = k + (gsize) n_keys * ASR_HEAD_SIZE;
  float *scores = scratch;
  guint16 *p = (guint16 *) (scores + (gsize) QUERY_ROWS * n_keys);
  guint16 *q = p + (gsize) QUERY_ROWS * n_keys;
  float *out = (float *) (q + QUERY_ROWS * ASR_HEAD_SIZE);

  configure_tiles ();
  for (guint m = begin; m < end; m += QUERY_ROWS) {
    guint n_rows = MIN (QUERY_ROWS, end - m);
    float sums[QUERY_ROWS];

    for (guint r = 0; r < QUERY_ROWS; r++)
      row_to_bf16 (r < n_rows ? head->qkv + (gsize) (m + r) * 3 * d : NULL,
          q + r * ASR_HEAD_SIZE);
    score_block (q, k, n_keys, scores);
    for (guint r = 0; r < QUERY_ROWS; r++)
      sums[r] = exp_row (scores + (gsize) r * n_keys, head->n_frames, n_keys,
          p + (gsize) r * n_keys);
    mix_block (p, v, n_keys, out);
    for (guint r = 0; r < n_rows; r++)
      for (guint i = 0; i < ASR_HEAD_SIZE; i++)
        head->y[(gsize) (m + r) * d + i]
            = out[r * ASR_HEAD_SIZE + i] / sums[r];
  }
  _tile_release ();
}
