/* SPDX-License-Identifier: MIT */
/*
 * The encoder's attention on AMX tiles: products in bf16 with f32 sums, softmax
 * in f32. In: one head. Out: its columns of the result.
 *
 * Everything is turned: scores are K Q^T and the result is V^T P^T, so that a
 * lane of a vector is a query. Greatest values and sums then need no work
 * across lanes, and K is a left operand just as it lies. Keys go by in blocks
 * that stay in the first cache, with the greatest score and the sum so far
 * (Milakov and Gimelshein 2018, Dao et al. 2022).
 *
 * A tile is 16 rows of 64 bytes; a row of a right operand has two inputs of
 * each of 16 outputs.
 */
#include "engine/backend/cpu/attention_amx.h"

#include <immintrin.h>
#include <string.h>

#define LANES 16             /* of f32; also rows of a tile */
#define TILE (LANES * 32)    /* elements of bf16 in a tile */
#define QUERIES 32           /* of a block: two tiles */
#define KEYS 128             /* of a block */
#define KEY_TILE 32          /* keys of a tile in the second product */
#define ROUND_KEYS(n) (((n) + KEY_TILE - 1) / KEY_TILE * KEY_TILE)

/* Scores are in powers of 2: q k / 8 log2 e. */
#define SCALE (0.125f * 1.44269504f)

/* The shift of the exponents moves only where a score is more than 2^8 above
 * it: sums and results then need not be scaled again for each block. */
#define HEADROOM 8.0f

typedef struct {
  guint16 q[4][TILE];               /* [2 halves of dims][2 of queries] */
  float scores[KEYS][QUERIES];
  guint16 p[2][KEYS / 2 * 32];      /* [2 of queries][pairs of keys][16][2] */
  float out[ASR_HEAD_SIZE][QUERIES];
} Scratch;

/* For 16 queries: what their exponents are less by, and their sums. */
typedef struct {
  __m512 shift, sum;
} Softmax;

/* What tiles load is in memory from here on: GCC's intrinsics do not say what
 * they read (of a configuration, its first eight bytes). */
static inline void
finish_stores (void)
{
  __asm__ volatile ("" : : : "memory");
}

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
    config.n_rows[i] = LANES;
  }
  __asm__ volatile ("" : : "m" (config));
  _tile_loadconfig (&config);
}

/* K: [n_keys, 64] bf16; then V: [n_keys / 32][64 dims][32 keys]. */
gsize
asr_attention_amx_get_pack_bytes (guint n_frames)
{
  return (gsize) ROUND_KEYS (n_frames) * ASR_HEAD_SIZE * 2 * sizeof (guint16);
}

gsize
asr_attention_amx_get_scratch_bytes (guint n_frames)
{
  return (sizeof (Scratch) + 63) / 64 * 64;
}

static inline __m256i
to_bf16 (__m512 x)
{
  return (__m256i) _mm512_cvtneps_pbh (x);
}

/* Element i of the result has bf16 of low[i] below that of high[i]. */
static inline __m512i
pair_bf16 (__m512 low, __m512 high)
{
  __m512i l = _mm512_cvtepu16_epi32 (to_bf16 (low));
  __m512i h = _mm512_cvtepu16_epi32 (to_bf16 (high));

  return _mm512_or_si512 (l, _mm512_slli_epi32 (h, 16));
}

/* Byte offsets of 16 rows @stride bytes apart. */
static inline __m512i
get_offsets (guint stride)
{
  return _mm512_mullo_epi32 (_mm512_set1_epi32 ((int) stride),
      _mm512_setr_epi32 (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
          15));
}

static void
pack_key_row (const float *row, guint16 *k)
{
  for (guint c = 0; c < ASR_HEAD_SIZE; c += LANES)
    _mm256_storeu_si256 ((__m256i *) (k + c),
        to_bf16 (_mm512_loadu_ps (row + c)));
}

void
asr_attention_amx_pack (const AsrAmxHead *head)
{
  guint n = head->n_frames, n_keys = ROUND_KEYS (n), d = head->d;
  guint16 *k = head->packed, *v = k + (gsize) n_keys * ASR_HEAD_SIZE;
  __m512i offsets = get_offsets (KEY_TILE * sizeof (guint16));

  for (guint t = 0; t < n; t++)
    pack_key_row (head->qkv + (gsize) t * 3 * d + d, k + t * ASR_HEAD_SIZE);
  memset (k + n * ASR_HEAD_SIZE, 0,
      (n_keys - n) * ASR_HEAD_SIZE * sizeof (guint16));
  for (guint t = 0; t < n_keys; t += 2) {
    const float *row = head->qkv + (gsize) t * 3 * d + 2 * d;
    guint16 *to = v + t / KEY_TILE * KEY_TILE * ASR_HEAD_SIZE + t % KEY_TILE;

    for (guint c = 0; c < ASR_HEAD_SIZE; c += LANES) {
      __m512 low = t < n ? _mm512_loadu_ps (row + c) : _mm512_setzero_ps ();
      __m512 high = t + 1 < n ? _mm512_loadu_ps (row + 3 * d + c)
                              : _mm512_setzero_ps ();

      _mm512_i32scatter_epi32 (to + c * KEY_TILE, offsets,
          pair_bf16 (low, high), 1);
    }
  }
}

/* Queries from @first on, of which @n are there; the others are zeros. */
static void
pack_queries (const AsrAmxHead *head, guint first, guint n, Scratch *s)
{
  __m512i offsets = get_offsets (LANES * 2 * sizeof (guint16));
  __m512 scale = _mm512_set1_ps (SCALE);

  if (n < QUERIES)
    memset (s->q, 0, sizeof (s->q));
  for (guint r = 0; r < n; r++) {
    const float *row = head->qkv + (gsize) (first + r) * 3 * head->d;

    for (guint half = 0; half < 2; half++) {
      guint16 pairs[32];

      for (guint c = 0; c < 32; c += LANES)
        _mm256_storeu_si256 ((__m256i *) (pairs + c),
            to_bf16 (_mm512_mul_ps (scale,
                _mm512_loadu_ps (row + half * 32 + c))));
      _mm512_i32scatter_epi32 (
          s->q[half * 2 + r / LANES] + r % LANES * 2, offsets,
          _mm512_loadu_si512 (pairs), 1);
    }
  }
}

/* scores [n_keys, 32 queries] = K Q^T */
static void
score_keys (const guint16 *k, guint n_keys, Scratch *s)
{
  finish_stores ();
  _tile_loadd (4, s->q[0], 64);
  _tile_loadd (5, s->q[1], 64);
  _tile_loadd (6, s->q[2], 64);
  _tile_loadd (7, s->q[3], 64);
  for (guint t = 0; t < n_keys; t += LANES) {
    _tile_zero (0);
    _tile_zero (1);
    _tile_loadd (2, k + t * ASR_HEAD_SIZE, ASR_HEAD_SIZE * 2);
    _tile_loadd (3, k + t * ASR_HEAD_SIZE + 32, ASR_HEAD_SIZE * 2);
    _tile_dpbf16ps (0, 2, 4);
    _tile_dpbf16ps (1, 2, 5);
    _tile_dpbf16ps (0, 3, 6);
    _tile_dpbf16ps (1, 3, 7);
    _tile_stored (0, s->scores[t], QUERIES * sizeof (float));
    _tile_stored (1, s->scores[t] + LANES, QUERIES * sizeof (float));
  }
}

/* 2^x within 1e-4 of itself, which bf16 does not see. */
static inline __m512
exp2_rough (__m512 x)
{
  /* x less the integer below it */
  __m512 f = _mm512_reduce_ps (x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 p = _mm512_set1_ps (7.802445852e-2f);

  p = _mm512_fmadd_ps (p, f, _mm512_set1_ps (2.260672467e-1f));
  p = _mm512_fmadd_ps (p, f, _mm512_set1_ps (6.958335092e-1f));
  p = _mm512_fmadd_ps (p, f, _mm512_set1_ps (9.999252200e-1f));
  return _mm512_scalef_ps (p, x); /* by 2 to the integer below x */
}

/* @p without the bits that bf16 lacks. Cutting needs no rounding work, and
 * since sums are made of the same values its bias falls out. */
static inline __m512
cut_to_bf16 (__m512 p)
{
  return _mm512_and_ps (p,
      _mm512_castsi512_ps (_mm512_set1_epi32 ((int) 0xffff0000u)));
}

static inline __m512
weigh (const float *scores, __m512 shift)
{
  return cut_to_bf16 (exp2_rough (
      _mm512_sub_ps (_mm512_loadu_ps (scores), shift)));
}

/* As pair_bf16, of values that were cut. */
static inline __m512i
pair_cut (__m512 low, __m512 high)
{
  return _mm512_or_si512 (_mm512_castps_si512 (high),
      _mm512_srli_epi32 (_mm512_castps_si512 (low), 16));
}

/* Raises the shift where a score is far above it, and scales down what was
 * summed with the old one. */
static void
raise_shift (Softmax *softmax, __m512 top, guint group, Scratch *s)
{
  __mmask16 above = _mm512_cmp_ps_mask (top,
      _mm512_add_ps (softmax->shift, _mm512_set1_ps (HEADROOM)), _CMP_GT_OQ);
  __m512 shift, scale;

  if (above == 0)
    return;
  shift = _mm512_mask_mov_ps (softmax->shift, above, top);
  scale = _mm512_mask_mov_ps (_mm512_set1_ps (1.0f), above,
      exp2_rough (_mm512_sub_ps (softmax->shift, shift)));
  softmax->shift = shift;
  softmax->sum = _mm512_mul_ps (softmax->sum, scale);
  for (guint c = 0; c < ASR_HEAD_SIZE; c++) {
    float *out = s->out[c] + group * LANES;

    _mm512_storeu_ps (out, _mm512_mul_ps (_mm512_loadu_ps (out), scale));
  }
}

/* Of @n keys for 16 queries; four at a time, to hide the latency of each. */
static __m512
find_top (const float *scores, guint n)
{
  __m512 top[4];
  guint t = 0;

  for (guint i = 0; i < 4; i++)
    top[i] = _mm512_loadu_ps (scores);
  for (; t + 4 <= n; t += 4)
    for (guint i = 0; i < 4; i++)
      top[i] = _mm512_max_ps (top[i],
          _mm512_loadu_ps (scores + (t + i) * QUERIES));
  for (; t < n; t++)
    top[0] = _mm512_max_ps (top[0], _mm512_loadu_ps (scores + t * QUERIES));
  return _mm512_max_ps (_mm512_max_ps (top[0], top[1]),
      _mm512_max_ps (top[2], top[3]));
}

/* p = 2^(score - shift) of 16 queries over the first @n of a block's keys,
 * zeros from there to @n_keys. */
static void
weigh_keys (Softmax *softmax, guint n, guint n_keys, guint group, Scratch *s)
{
  const float *scores = s->scores[0] + group * LANES;
  __m512 sum0, sum1 = _mm512_setzero_ps ();
  guint t = 0;

  raise_shift (softmax, find_top (scores, n), group, s);
  sum0 = softmax->sum;
  for (; t + 2 <= n; t += 2) {
    __m512 p0 = weigh (scores + t * QUERIES, softmax->shift);
    __m512 p1 = weigh (scores + (t + 1) * QUERIES, softmax->shift);

    sum0 = _mm512_add_ps (sum0, p0);
    sum1 = _mm512_add_ps (sum1, p1);
    _mm512_storeu_si512 (s->p[group] + t * LANES, pair_cut (p0, p1));
  }
  for (; t < n_keys; t += 2) {
    __m512 p0 = _mm512_setzero_ps ();

    if (t < n)
      p0 = weigh (scores + t * QUERIES, softmax->shift);
    sum0 = _mm512_add_ps (sum0, p0);
    _mm512_storeu_si512 (s->p[group] + t * LANES,
        pair_cut (p0, _mm512_setzero_ps ()));
  }
  softmax->sum = _mm512_add_ps (sum0, sum1);
}

/* out [64, 32 queries] += V^T P^T */
static void
mix_values (const guint16 *v, guint n_keys, Scratch *s)
{
  const gsize stride = QUERIES * sizeof (float);

  finish_stores ();
  for (guint c = 0; c < ASR_HEAD_SIZE; c += 2 * LANES) {
    _tile_loadd (0, s->out[c], stride);
    _tile_loadd (1, s->out[c] + LANES, stride);
    _tile_loadd (2, s->out[c + LANES], stride);
    _tile_loadd (3, s->out[c + LANES] + LANES, stride);
    for (guint t = 0; t < n_keys; t += KEY_TILE) {
      const guint16 *tile = v + (t * ASR_HEAD_SIZE + c * KEY_TILE);

      _tile_loadd (4, tile, 64);
      _tile_loadd (6, s->p[0] + t * LANES, 64);
      _tile_loadd (7, s->p[1] + t * LANES, 64);
      _tile_loadd (5, tile + TILE, 64);
      _tile_dpbf16ps (0, 4, 6);
      _tile_dpbf16ps (1, 4, 7);
      _tile_dpbf16ps (2, 5, 6);
      _tile_dpbf16ps (3, 5, 7);
    }
    _tile_stored (0, s->out[c], stride);
    _tile_stored (1, s->out[c] + LANES, stride);
    _tile_stored (2, s->out[c + LANES], stride);
    _tile_stored (3, s->out[c + LANES] + LANES, stride);
  }
}

/* Turns the result over sums into @n rows of y. */
static void
write_rows (const AsrAmxHead *head, guint first, guint n,
    const Softmax softmax[2], const Scratch *s)
{
  __m512i offsets = get_offsets (head->d * sizeof (float));

  for (guint group = 0; group < 2 && n > group * LANES; group++) {
    guint n_lanes = MIN (n - group * LANES, LANES);
    __mmask16 mask = (__mmask16) ((1u << n_lanes) - 1);
    __m512 scale = _mm512_div_ps (_mm512_set1_ps (1.0f), softmax[group].sum);
    float *y = head->y + (gsize) (first + group * LANES) * head->d;

    for (guint c = 0; c < ASR_HEAD_SIZE; c++)
      _mm512_mask_i32scatter_ps (y + c, mask, offsets,
          _mm512_mul_ps (scale,
              _mm512_loadu_ps (s->out[c] + group * LANES)), 1);
  }
}

void
asr_attention_amx_run (const AsrAmxHead *head, guint begin, guint end,
    void *scratch)
{
  guint n_keys = ROUND_KEYS (head->n_frames);
  const guint16 *k = head->packed, *v = k + (gsize) n_keys * ASR_HEAD_SIZE;
  Scratch *s = scratch;

  configure_tiles ();
  for (guint first = begin; first < end; first += QUERIES) {
    guint n = MIN (QUERIES, end - first);
    Softmax softmax[2];

    for (guint group = 0; group < 2; group++) {
      softmax[group].shift = _mm512_set1_ps (-1e30f);
      softmax[group].sum = _mm512_setzero_ps ();
    }
    pack_queries (head, first, n, s);
    memset (s->out, 0, sizeof (s->out));
    for (guint t = 0; t < n_keys; t += KEYS) {
      guint n_block = MIN (KEYS, n_keys - t);

      score_keys (k + (gsize) t * ASR_HEAD_SIZE, n_block, s);
      for (guint group = 0; group < 2; group++)
        weigh_keys (&softmax[group], MIN (n_block, head->n_frames - t),
            n_block, group, s);
      mix_values (v + (gsize) t * ASR_HEAD_SIZE, n_block, s);
    }
    write_rows (head, first, n, softmax, s);
  }
  _tile_release ();
}
