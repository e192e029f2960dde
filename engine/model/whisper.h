/* SPDX-License-Identifier: MIT */
/* What the files of the Whisper family share; included by engine/model. */
#ifndef ASR_MODEL_WHISPER_H
#define ASR_MODEL_WHISPER_H

#include "engine/model/model.h"

G_BEGIN_DECLS

#define WHISPER_MEL_FRAMES 3000
#define WHISPER_AUDIO_CTX 1500
#define WHISPER_TEXT_CTX 448
#define WHISPER_WINDOW_SAMPLES 480000
#define WHISPER_FFT_BINS 201
#define WHISPER_MAX_LAYERS 128
/* Rows whose logits are made at once: bounds the logits buffer. */
#define WHISPER_MAX_LOGITS 32

struct _AsrModel {
  const AsrCompute *compute;
  AsrModelInfo info;
  AsrModelLimits limits;
  AsrVocab *vocab;
  AsrRuleTokens rule_tokens;
  guint n_heads;

  /* weights */
  AsrMemory vectors;             /* biases, norms, positions, filters: f32 */
  AsrMemory masks;               /* [ASR_N_MASKS, (n_vocab + 31) / 32] u32 */
  const float *filters;          /* [n_mels, 201] */
  const float *audio_positions;  /* [1500, d] */
  const float *text_positions;   /* [448, d] */
  AsrLinearWeights conv[2];
  AsrLayerWeights *encoder;      /* [n_encoder_layers] */
  AsrLayerWeights *decoder;      /* [n_decoder_layers] */
  AsrNormWeights encoder_norm, decoder_norm;
  AsrWeight *table;              /* [n_vocab, d] */
  GPtrArray *owned_weights;      /* every AsrWeight, freed with the model */
  guint8 *align_layers, *align_heads; /* [n_align] */
  guint n_align;

  /* slots */
  AsrMemory mel;                 /* [n_audio_slots, n_mels, 3000] f32 */
  AsrMemory encoded;             /* [n_audio_slots, 1500, d] act */
  AsrMemory cross_memory, self_memory;
  AsrKvPool cross, self;
  AsrMemory states;              /* [n_text_slots] AsrTextState */

  /* scratch, device */
  AsrQueue *queue;
  AsrMemory samples;             /* [max_sequences, 480000] f32 */
  AsrMemory frames;              /* [max_sequences * 3000, d] act */
  AsrMemory x;                   /* [max (rows, sequences * 1500), d] act */
  AsrMemory wide;                /* the same rows, 8d, act */
  AsrMemory logits;              /* [WHISPER_MAX_LOGITS, n_vocab] f32 */
  AsrMemory scores;              /* [n_align, max_rows, 1500] f32 */

  /* scratch, pinned */
  AsrMemory staged_samples;      /* [max_sequences, 480000] f32 */
  AsrMemory staged_states;       /* [n_text_slots] AsrTextState */
  AsrMemory staged_output;       /* round trip of a method's output */
  AsrMemory records;             /* [max_rows * steps ahead] */
  AsrMemory align_frames;        /* [max_rows] i16 */
};

/* whisper_load.c: shapes, tensors by name, and alignment heads. */
gboolean asr_whisper_load_weights (AsrModel *model, const AsrWeights *weights,
    AsrProgressFunc progress, gpointer user_data, GError **error);

/* Size of one activation in bytes. */
gsize asr_whisper_get_act_size (const AsrModel *model);

G_END_DECLS

#endif
