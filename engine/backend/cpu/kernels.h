/* SPDX-License-Identifier: MIT */
/*
 * The inner loops of the CPU backend that a library does poorly: one table
 * for each tier of instructions, picked once from AsrDevice.isa. All are pure
 * functions of their arguments; the ops around them split the work over
 * threads. The bodies are in *_vec.c.
 */
#ifndef ASR_BACKEND_CPU_KERNELS_H
#define ASR_BACKEND_CPU_KERNELS_H

#include "engine/backend/cpu/cpu.h"

G_BEGIN_DECLS

#define ASR_MEL_FRAMES 3000
#define ASR_MEL_BINS 201     /* 0 to 8 kHz, 40 Hz apart */
#define ASR_MEL_FFT 400
#define ASR_MEL_HOP 160
#define ASR_MEL_SAMPLES 480000

/**
 * AsrMelBlock: frames of one window.
 * @circle: [400, 2] f32: cos, sin of 2 pi n / 400
 * @bins: [n_mels, 2]: first bin of each filter, and the one after its last
 * @mel: [n_mels, 3000]; gets log10 of the filters' energies
 */
typedef struct {
  const float *samples;
  guint n_samples;
  const float *circle;
  const float *filters;
  const guint16 *bins;
  guint n_mels;
  float *mel;
} AsrMelBlock;

/* K of a slot's layer and head is kept in blocks of this many positions,
 * each block [64, 16] (the last one of the context may be narrower), so that
 * scores of neighbours come out of one vector without a sum across lanes. */
#define ASR_KEY_BLOCK 16
#define ASR_ATTEND_MAX_ROWS 8

/**
 * AsrAttend: some rows of one head over one slot's keys.
 * @q, @y: row r is at q + r * stride, [64] each
 * @n_keys: [n_rows]: row r sees positions below n_keys[r], at least one
 * @p: scratch [n_rows, p_stride], p_stride a multiple of 16 and at least the
 *   largest n_keys
 * @scores: (nullable): for each row NULL or [n_keys]: gets q.k / 8
 */
typedef struct {
  const float *q;
  gsize q_stride;
  guint n_rows;
  const guint *n_keys;
  const guint16 *k; /* [n_ctx / 16][64][16] f16 */
  const guint16 *v; /* [n_ctx, 64] f16 */
  guint n_ctx;
  float *p;
  gsize p_stride;
  float *const *scores;
  float *y;
  gsize y_stride;
} AsrAttend;

/* Some panels of the encoder's products are this many columns wide; rows are
 * taken this many at a time. */
typedef struct {
  guint n_columns, n_rows;
} AsrTileSize;

/**
 * AsrEncoderHead: one head of one sequence, its K and V packed by
 * encoder_pack.
 * @qkv: row t is at qkv + t * stride; Q of this head is its first 64, K and V
 *   stand @d and 2 @d further
 * @k: [n_panels][64][n_columns], @v: [64 / n_columns][n_keys][n_columns],
 *   where n_keys is n_frames rounded up to whole panels of zeros
 */
typedef struct {
  const float *qkv;
  gsize stride, d;
  guint n_frames;
  float *k, *v;
} AsrEncoderHead;

typedef struct {
  const char *name;
  AsrTileSize tile;

  /* Frames [first, first + n) into block->mel; returns the greatest value. */
  float (*mel_frames) (const AsrMelBlock *block, guint first, guint n);
  /* y = (max (x, floor) + 4) / 4, in place */
  void (*mel_scale) (float *x, gsize n, float floor);

  void (*norm) (const float *x, guint d, const float *gamma,
      const float *beta, float *y);

  /* K and V of one row and head into a slot. */
  void (*append) (const float *k, const float *v, guint position, guint n_ctx,
      guint16 *k_slot, guint16 *v_slot);
  void (*attend) (const AsrAttend *attend);

  /* Panel @panel of K and the same frames of V. */
  void (*encoder_pack) (const AsrEncoderHead *head, guint panel);
  /* Rows [first, first + n) of y, n at most tile.n_rows; @p: scratch
   * [tile.n_rows, n_keys]. */
  void (*encoder_attend) (const AsrEncoderHead *head, guint first, guint n,
      float *p, float *y, gsize y_stride);

  /* Greatest of x[0] .. x[n - 1] (-INFINITY if none), and where it first is
   * (n if nowhere). Not-a-numbers are passed over. */
  float (*find_max) (const float *x, guint n, guint *index);
  /* sum of exp (x - shift) */
  double (*sum_exp) (const float *x, guint n, float shift);
  /* As find_max, of x / temperature - log (-log (u)), u for ids from
   * @first_id on. */
  float (*find_gumbel) (const float *x, guint n, float temperature,
      guint64 seed, guint32 step, guint32 first_id, guint *index);

  /* x = softmax (x), in place */
  void (*softmax) (float *x, guint n);
  /* Each column of x [n_rows, stride] less its mean, over its deviation. */
  void (*standardise) (float *x, guint n_rows, gsize stride, guint n_columns);
  /* sum[i] += median of x[i - 3] .. x[i + 3], reflected at the ends */
  void (*add_median) (const float *x, guint n, float *sum);
} AsrKernels;

/* The best table for @isa that was built for this machine. */
const AsrKernels *asr_kernels_get (AsrIsa isa);

G_END_DECLS

#endif
