/* SPDX-License-Identifier: MIT */
/*
 * Launchers of the CUDA kernels, callable from C. They check nothing but the
 * launch: shapes were checked by whoever calls. All pointers are device
 * memory unless named otherwise; act is half, or float in f32 mode.
 */
#ifndef ASR_BACKEND_CUDA_KERNELS_H
#define ASR_BACKEND_CUDA_KERNELS_H

#include "engine/backend/ops.h"
#include <cuda_runtime_api.h>

G_BEGIN_DECLS

/* Where and how kernels are launched. */
typedef struct {
  cudaStream_t stream;
  gboolean is_f32;   /* act is float */
  gboolean overlaps; /* a kernel may begin before the one ahead has ended
                      * (programmatic dependent launch) */
} AsrLaunch;

/* Rows of a decoder batch that the fused kernels take at once. */
#define ASR_CUDA_MAX_ROWS 16

/* Partial results of split attention: for each part 64 sums, the greatest
 * score and the sum of exponentials. */
#define ASR_CUDA_MAX_PARTS 512
#define ASR_CUDA_PART_SIZE 66

/* ---- weights.cu ---- */

/* @from: [n_out, n_in * n_taps] f32 or f16 or bf16, taps fastest; @to: act
 * [n_out, n_taps, n_in] */
cudaError_t asr_cuda_convert (const AsrLaunch *launch, AsrDType dtype,
    const void *from, gsize n_out, guint n_in, guint n_taps, void *to);

/* @from: f32 [n]; @to: half [n] */
cudaError_t asr_cuda_convert_bias (const AsrLaunch *launch,
    const float *from, guint n, void *to);

/* ---- mel.cu ---- */

/* @top: room for one float; @mel: [n_mels, 3000] f32 */
cudaError_t asr_cuda_mel (const AsrLaunch *launch, const float *samples,
    guint n_samples, const float *filters, guint n_mels, float *top,
    float *mel);

/* ---- conv.cu ---- */

/* @x: f32 [n_in, n_frames] when @channels_first, else act [n_frames, n_in];
 * @unfolded: act [n_frames / stride, 3, n_in], zeros outside x */
cudaError_t asr_cuda_unfold (const AsrLaunch *launch,
    gboolean channels_first, const void *x, guint n_frames, guint n_in,
    guint stride, void *unfolded);

/* y = GELU (x) + positions + residual; @x, @y, @residual: (nullable): act
 * [n], or floats if @is_f32; @positions: (nullable): f32 [n]; @n: a multiple
 * of 8. Any of them may be the same. */
cudaError_t asr_cuda_gelu (const AsrLaunch *launch, gboolean is_f32,
    const void *x, const void *residual, const float *positions, gsize n,
    void *y);

/* ---- norm.cu ---- */

/* @gather: (nullable): [n_rows]; @y_rows: (nullable): pointers, in device
 * memory like @gather */
cudaError_t asr_cuda_norm (const AsrLaunch *launch, guint n_rows, guint d,
    const void *x, const guint32 *gather, const AsrNormWeights *weights,
    void *const *y_rows, guint rows_per_y, void *y);

/* ---- rows.cu ---- */

/* A product for at most ASR_CUDA_MAX_ROWS rows of halfs that reads the
 * weights once, with the norm before it and the residual after it. */
typedef struct {
  guint n_rows, n_in, n_out; /* n_out: even, unless y is f32 */
  const void *x;          /* half [n_rows, n_in] */
  const guint32 *gather;  /* (nullable): rows of x to take */
  const float *gamma;     /* (nullable): norm of x, [n_in] */
  const float *beta;
  const void *weight;     /* half [n_out, n_in] */
  const float *bias;      /* (nullable): [n_out] */
  gboolean gelu;
  const void *residual;   /* (nullable): half [n_rows, n_out], may be y */
  gboolean y_is_f32;
  void *y;                /* [n_rows, n_out] */
} AsrRowsLinear;

/* Whether there is a kernel for rows of @n_in. */
gboolean asr_cuda_rows_linear_fits (guint n_in, gboolean has_norm);
cudaError_t asr_cuda_rows_linear (const AsrLaunch *launch,
    const AsrRowsLinear *params);

/* ---- embed.cu ---- */

/* What changes from one decoder step to the next; goes to the device as the
 * argument of a step's first kernel. */
typedef struct {
  AsrRow rows[ASR_CUDA_MAX_ROWS];
  AsrChoice choices[ASR_CUDA_MAX_ROWS];
  guint32 gather[ASR_CUDA_MAX_ROWS]; /* choices' rows */
  AsrTokenRecord *records;           /* pinned */
} AsrStepInput;

typedef struct {
  guint n_rows;
  guint d, n_vocab;
  const AsrRow *rows;     /* (nullable): device; NULL: those of input */
  const AsrTextState *states;
  const void *table;      /* act [n_vocab, d] */
  const float *positions; /* [448, d] */
  void *y;                /* act [n_rows, d] */
  AsrStepInput *kept;     /* (nullable): device copy of input */
} AsrEmbed;

/* The one argument of the kernel, so that a graph can change it. */
typedef struct {
  AsrEmbed embed;
  AsrStepInput input;
} AsrEmbedArgument;

cudaError_t asr_cuda_embed (const AsrLaunch *launch,
    const AsrEmbedArgument *argument);

/* ---- attention_encoder.cu ---- */

/* @qkv: act [n_sequences * n_frames, 3 d]; @y: act [.., d] */
cudaError_t asr_cuda_attention_encoder (const AsrLaunch *launch,
    const void *qkv, void *y, guint n_sequences, guint n_frames,
    guint n_heads);

/* ---- attention_cache.cu ---- */

typedef struct {
  gboolean is_self;
  gboolean appends;      /* SELF: these rows' K, V come from qkv and go into
                          * the pool; else they are in the pool already.
                          * Needs n_rows <= ASR_CUDA_MAX_ROWS, and positions
                          * of a slot's rows without a gap */
  gboolean is_early;     /* rows, states and what is in the pool were written
                          * at least two kernels ahead: they are read before
                          * the one ahead has ended */
  guint n_rows, n_heads;
  const void *qkv;       /* act [n_rows, 3d] (SELF) or [n_rows, d] */
  const AsrRow *rows;
  const AsrTextState *states;
  AsrKvPool pool;
  guint layer;
  guint n_parts;         /* CROSS: the frames are split into */
  float *parts;          /* [n_rows, n_heads, n_parts, ASR_CUDA_PART_SIZE] */
  guint *counters;       /* zeros, [n_rows * n_heads], and zeros again */
  float *scores;         /* (nullable): as in AsrAlignHeads */
  guint max_score_rows;
  gint16 score_index[32]; /* for each head its place in scores, or -1 */
  void *y;               /* act [n_rows, d] */
} AsrCacheAttention;

/* K and V of rows into their text slots. */
cudaError_t asr_cuda_append (const AsrLaunch *launch,
    const AsrCacheAttention *params);
cudaError_t asr_cuda_attention_cache (const AsrLaunch *launch,
    const AsrCacheAttention *params);

/* ---- choose.cu ---- */

/* Each choice's logits are reduced in pieces by several blocks. */
#define ASR_CUDA_CHOICE_PIECES 64
#define ASR_CUDA_CHOICE_SIZE 12

typedef struct {
  gboolean is_early;      /* choices and states were written at least two
                           * kernels ahead */
  guint n_choices;
  const AsrChoice *choices;
  const float *logits;    /* [n_choices, n_vocab] */
  AsrRuleTokens tokens;
  const guint32 *masks;
  AsrTextState *states;
  AsrTokenRecord *records; /* pinned, or NULL: @input's */
  const AsrStepInput *input;
  float *pieces;          /* [n_choices, PIECES, SIZE] */
  guint *counters;        /* zeros, [n_choices], and zeros again */
} AsrChoose;

cudaError_t asr_cuda_choose (const AsrLaunch *launch,
    const AsrChoose *params);

/* ---- align.cu ---- */

/* Rows that the warping kernel takes. */
#define ASR_CUDA_MAX_WARP_ROWS 1024

/* @matrix: [n_rows - 1 - first_row, n_frames] f32 scratch; @steps: a word for
 * each 16 frames of a row, the last ones begun; the params' scores are device
 * memory, frames pinned. */
cudaError_t asr_cuda_align (const AsrLaunch *launch,
    const AsrAlignParams *params, float *matrix, guint32 *steps);

G_END_DECLS

#endif
