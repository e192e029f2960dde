/* SPDX-License-Identifier: MIT */
/*
 * A model's files as named tensors and a few facts beside them. In: a path.
 * Out: borrowed views into mapped memory. Knows bytes and formats, nothing of
 * what the tensors are for; names are the format's own (names.c of a family
 * maps them).
 */
#ifndef ASR_WEIGHTS_WEIGHTS_H
#define ASR_WEIGHTS_WEIGHTS_H

#include "engine/tensor/tensor.h"

G_BEGIN_DECLS

typedef struct _AsrWeights AsrWeights;

/**
 * asr_weights_open: recognises the format by its content, maps the file and
 * checks every length in it.
 * @path: a model directory, or the file with the weights; it must not be
 *   written to while it is open (replacing it is fine)
 *
 * Returns: (transfer full): immutable, may be read from several threads
 */
AsrWeights *asr_weights_open (const char *path, GError **error);
void asr_weights_free (AsrWeights *weights);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AsrWeights, asr_weights_free)

/* Returns: (transfer none): "ctranslate2", "safetensors" */
const char *asr_weights_get_format (const AsrWeights *weights);

/* Returns: (transfer none): the file, for messages */
const char *asr_weights_get_path (const AsrWeights *weights);

/**
 * asr_weights_find:
 * Returns: (transfer none) (nullable): valid as long as @weights; NULL
 *   without an error, since many tensors are optional
 */
const AsrTensor *asr_weights_find (const AsrWeights *weights,
    const char *name);

guint asr_weights_get_n_tensors (const AsrWeights *weights);

/* Lets the kernel drop the file's pages that were read so far; views stay
 * valid and are read again from the file when touched. */
void asr_weights_drop_pages (const AsrWeights *weights);

/* Bytes of one token, not terminated; may be empty. */
typedef struct {
  const guint8 *bytes;
  guint32 length;
} AsrTokenBytes;

/**
 * asr_weights_get_vocabulary:
 * @n_tokens: (out)
 *
 * Returns: (transfer none) (nullable): raw bytes by token id; special tokens
 *   as their spelling "<|...|>"; NULL when the model has no vocabulary
 */
const AsrTokenBytes *asr_weights_get_vocabulary (const AsrWeights *weights,
    guint *n_tokens);

/**
 * asr_weights_get_ids: a list of integers from the model's configuration.
 * @key: "suppress_ids", "suppress_ids_begin", "lang_ids", or
 *   "alignment_heads" (pairs layer, head laid out flat)
 *
 * Returns: (transfer none) (nullable): [n] i32, not checked against the
 *   vocabulary or the layers
 */
const gint32 *asr_weights_get_ids (const AsrWeights *weights, const char *key,
    guint *n);

G_END_DECLS

#endif
