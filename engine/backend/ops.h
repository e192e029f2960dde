/* SPDX-License-Identifier: MIT */
/*
 * Parameters of the backend's ops. Every op takes rows, each with its own
 * length and slots: one stream is a batch of one. Pointers named "device"
 * point into memory of the backend, the others into host memory that must
 * stay valid until the queue has been waited for.
 *
 * act: the backend's activation type (AsrDeviceInfo.activation).
 */
#ifndef ASR_BACKEND_OPS_H
#define ASR_BACKEND_OPS_H

#include "engine/backend/rules.h"
#include "engine/tensor/tensor.h"

G_BEGIN_DECLS

#define ASR_HEAD_SIZE 64

/* A weight matrix in whatever layout its backend likes. */
typedef struct _AsrWeight AsrWeight;

typedef enum {
  ASR_WEIGHT_LINEAR, /* [n_out, n_in], for linear */
  ASR_WEIGHT_CONV,   /* [n_out, n_in, 3], for conv */
  ASR_WEIGHT_TABLE,  /* [n, d], for embed and linear (tied projection) */
} AsrWeightUse;

/* y = x W^T + b; bias device [n_out] f32 or NULL */
typedef struct {
  AsrWeight *weight;
  const float *bias;
} AsrLinearWeights;

/* device [d] f32 each */
typedef struct {
  const float *gamma;
  const float *beta;
} AsrNormWeights;

/* One transformer layer, pre-norm. The encoder's has no cross part. */
typedef struct {
  AsrNormWeights self_norm;
  AsrLinearWeights self_qkv;   /* [3d, d]; Q, K, V one below the other */
  AsrLinearWeights self_out;   /* [d, d] */
  AsrNormWeights cross_norm;
  AsrLinearWeights cross_q;    /* [d, d] */
  AsrLinearWeights cross_kv;   /* [2d, d]; K, V */
  AsrLinearWeights cross_out;  /* [d, d] */
  AsrNormWeights ffn_norm;
  AsrLinearWeights ffn_up;     /* [4d, d] */
  AsrLinearWeights ffn_down;   /* [d, 4d] */
} AsrLayerWeights;

/* A pool of key/value slots in one allocation:
 * device [n_slots, n_layers, 2, n_heads, n_ctx, 64] of dtype; K then V. A
 * backend may keep the n_ctx * 64 values of K of a head in another order
 * (the CPU's does): only its attention and cross_kv read or write them. */
typedef struct {
  void *data;
  AsrDType dtype;
  guint n_slots, n_layers, n_heads, n_ctx;
} AsrKvPool;

/* Log-mel as transformers defines it: samples padded with zeros to 30 s,
 * reflected at both ends, maximum taken over the window. */
typedef struct {
  guint n_rows;
  const float *const *samples;  /* n_rows device pointers, [n_samples[r]] */
  const guint *n_samples;       /* [n_rows], each at most 480000 */
  const float *filters;         /* device [n_mels, 201] f32 */
  guint n_mels;
  float *const *mel;            /* n_rows device pointers, [n_mels, 3000] */
} AsrMelParams;

typedef enum {
  ASR_ACTIVATION_NONE,
  ASR_ACTIVATION_GELU, /* exact: x/2 (1 + erf (x / sqrt 2)) */
} AsrActivation;

/* Kernel 3, zero padding 1, GELU. */
typedef struct {
  guint n_rows;                 /* sequences */
  gboolean channels_first;      /* x is mel; else time first */
  const void *const *x;         /* n_rows device pointers: f32 [n_in, n_frames]
                                 * when channels first, else act
                                 * [n_frames, n_in] */
  guint n_frames, n_in, n_out;
  guint stride;                 /* 1 or 2: n_frames / stride frames come out */
  AsrLinearWeights weights;     /* ASR_WEIGHT_CONV */
  const float *positions;       /* device [n_frames / stride, n_out] f32 added
                                 * after the GELU, or NULL */
  void *y;                      /* device act [n_rows, n_frames / stride,
                                 * n_out] */
} AsrConvParams;

typedef struct {
  guint n_rows;
  guint d;
  const void *x;                /* device act [n_x, d] */
  const guint32 *gather;        /* [n_rows] rows of x to take, or NULL: all */
  AsrNormWeights weights;       /* epsilon 1e-5 */
  void *const *y_rows;          /* NULL, or for each sequence of
                                 * rows_per_y rows a device pointer */
  guint rows_per_y;
  void *y;                      /* device act [n_rows, d], unless y_rows */
} AsrNormParams;

typedef struct {
  guint n_rows, n_in, n_out;
  const void *x;                /* device act [n_rows, n_in] */
  AsrLinearWeights weights;
  AsrActivation activation;
  const void *residual;         /* device act [n_rows, n_out] added last, or
                                 * NULL; may be y */
  gboolean y_is_f32;            /* y is f32 whatever act is: logits */
  void *y;                      /* device act [n_rows, n_out] */
} AsrLinearParams;

/* One token of a decoder batch. Rows of one text slot stand in order of
 * position, next to each other. */
typedef struct {
  gint32 token;                 /* or ASR_TOKEN_CHOSEN */
  guint32 position;             /* ignored with ASR_TOKEN_CHOSEN */
  guint16 audio_slot;
  guint16 text_slot;
} AsrRow;

/* Token and position come from the text slot's AsrTextState. */
#define ASR_TOKEN_CHOSEN (-1)

typedef struct {
  guint n_rows;
  const AsrRow *rows;           /* [n_rows] */
  const AsrTextState *states;   /* device [n_text_slots] */
  AsrWeight *table;             /* [n_vocab, d] */
  const float *positions;       /* device [448, d] f32 */
  guint d;
  void *y;                      /* device act [n_rows, d] */
} AsrEmbedParams;

/* Where the cross-attention scores of the alignment heads go. */
typedef struct {
  guint n_heads;
  const guint8 *layers;         /* [n_heads] */
  const guint8 *heads;          /* [n_heads] */
  guint max_rows;               /* rows that scores has room for */
  float *scores;                /* device [n_heads, max_rows, n_ctx] f32:
                                 * q.k / 8 before any softmax */
} AsrAlignHeads;

typedef enum {
  ASR_ATTENTION_ENCODER, /* every frame of a sequence sees all of it */
  ASR_ATTENTION_SELF,    /* appends K, V to the text slot, causal */
  ASR_ATTENTION_CROSS,   /* over all frames of the audio slot */
} AsrAttentionKind;

/* Softmax (q.k / 8) v for each head of 64. */
typedef struct {
  AsrAttentionKind kind;
  guint n_rows;                 /* ENCODER: n_sequences * n_frames */
  guint n_heads;
  guint n_frames;               /* ENCODER: rows of one sequence */
  const void *qkv;              /* device act; ENCODER, SELF [n_rows, 3d],
                                 * CROSS [n_rows, d] */
  const AsrRow *rows;           /* SELF, CROSS: [n_rows] */
  const AsrTextState *states;   /* as in embed */
  AsrKvPool *pool;              /* SELF: text slots; CROSS: audio slots */
  guint layer;
  const AsrAlignHeads *align;   /* CROSS: (nullable) */
  void *y;                      /* device act [n_rows, d] */
} AsrAttentionParams;

/* K and V of encoder frames into an audio slot. */
typedef struct {
  guint n_frames;
  guint d;
  const void *x;                /* device act [n_frames, d] */
  const AsrLayerWeights *layers; /* [pool->n_layers], host */
  AsrKvPool *pool;
  guint slot;
} AsrCrossKvParams;

typedef enum {
  ASR_CHOICE_SAMPLE, /* by the rules and the temperature of its text slot;
                      * advances the slot's state */
  ASR_CHOICE_SCORE,  /* log-probability of target among ids below limit */
  ASR_CHOICE_VERIFY, /* what SAMPLE would choose at temperature 0 in a text
                      * without time marks that has target tokens; a slot's
                      * state is neither read nor changed */
} AsrChoiceKind;

typedef struct {
  AsrChoiceKind kind;
  guint row;                    /* row of the decoder batch to take logits of */
  guint16 text_slot;            /* SAMPLE */
  gint32 target;                /* SCORE, VERIFY */
  gint32 limit;                 /* SCORE */
} AsrChoice;

typedef struct {
  guint n_choices;
  const AsrChoice *choices;     /* [n_choices]; row is ignored here */
  float *logits;                /* device [n_choices, n_vocab] f32; changed */
  const AsrRuleTokens *tokens;
  const guint32 *masks;         /* device [ASR_N_MASKS, (n_vocab + 31) / 32] */
  AsrTextState *states;         /* device [n_text_slots] */
  AsrTokenRecord *records;      /* host (pinned) [n_choices] */
} AsrChooseParams;

/* Frames at which text rows begin (openai/whisper timing.py): softmax over
 * the first n_frames, normalised over rows, median of 7, mean over heads,
 * dynamic time warping of rows first_row .. n_rows - 2. */
typedef struct {
  guint n_heads;
  guint max_rows;               /* stride of scores in rows */
  guint n_rows;                 /* rows of the pass, start sequence and eot */
  guint first_row;              /* the row that predicts the first text token */
  guint n_ctx;                  /* stride of scores in frames: 1500 */
  guint n_frames;               /* real frames */
  float *scores;                /* device [n_heads, max_rows, n_ctx]; changed */
  gint16 *frames;               /* host (pinned) [n_rows - 1 - first_row] */
} AsrAlignParams;

/* ---- fused steps; composite.c builds them from the ops above ---- */

typedef struct {
  guint n_sequences, n_frames, d, n_heads;
  const AsrLayerWeights *weights;
  void *x;                      /* device act [n_sequences * n_frames, d];
                                 * changed in place */
  void *scratch;                /* device act [n_sequences * n_frames, 8d] */
} AsrEncoderLayerParams;

/* The whole decoder for a batch of rows: embedding, layers, last norm,
 * logits of the rows that choices name, and the choices. */
typedef struct {
  guint n_rows;
  const AsrRow *rows;           /* [n_rows] */
  guint d, n_heads, n_layers;
  const AsrLayerWeights *layers; /* [n_layers] */
  AsrWeight *table;             /* [n_vocab, d]; embedding and projection */
  const float *positions;       /* device [448, d] f32 */
  AsrNormWeights norm;
  AsrKvPool *self, *cross;
  const AsrAlignHeads *align;   /* (nullable) */
  AsrChooseParams choose;       /* choices in order of row; logits has room
                                 * for max_logits of them: more are made and
                                 * chosen piece by piece */
  guint max_logits;
  float *host_logits;           /* (nullable): pinned [max_logits, n_vocab];
                                 * each piece of logits goes there and back
                                 * before the choice: the round trip of a
                                 * decoder that is not skipped */
  void *x;                      /* device act [n_rows, d] scratch */
  void *scratch;                /* device act [n_rows, 8d] scratch */
} AsrDecoderStepParams;

G_END_DECLS

#endif
