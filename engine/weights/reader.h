/* SPDX-License-Identifier: MIT */
/*
 * What the readers of weights/ share: the table of formats and the object
 * that they fill. In: mapped bytes of a file that may be hostile. Private to
 * this folder and its tests.
 */
#ifndef ASR_WEIGHTS_READER_H
#define ASR_WEIGHTS_READER_H

#include <json-glib/json-glib.h>
#include "engine/util/bytes.h"
#include "engine/weights/weights.h"

G_BEGIN_DECLS

/* Caps, checked before anything is allocated from a number in a file. The
 * largest Whisper has 1.6 k tensors, 51 866 tokens and 2 MB of vocabulary. */
#define ASR_WEIGHTS_MAX_TENSORS 65536
#define ASR_WEIGHTS_MAX_NAME_BYTES 512
#define ASR_WEIGHTS_MAX_TOKENS (1u << 20)
#define ASR_WEIGHTS_MAX_JSON_BYTES (64u << 20)
#define ASR_WEIGHTS_MAX_JSON_DEPTH 32
#define ASR_WEIGHTS_MAX_JSON_DIGITS 18 /* fit into 64 bits */
#define ASR_WEIGHTS_MAX_IDS 65536

/**
 * AsrWeightsReader: one file format.
 * @name: what asr_weights_get_format returns
 * @sniff: does the file begin like this format? Sees all of it, may be short
 * @read: checks the whole file and adds its tensors; what was added before a
 *   failure is freed with the weights
 */
typedef struct {
  const char *name;
  gboolean (*sniff) (const guint8 *data, gsize n_bytes);
  gboolean (*read) (AsrWeights *weights, AsrBytes *bytes, GError **error);
} AsrWeightsReader;

extern const AsrWeightsReader asr_ctranslate2_reader;
extern const AsrWeightsReader asr_safetensors_reader;

/**
 * asr_weights_read_bytes: as asr_weights_open, of bytes in memory and without
 * the files beside them.
 * @label: stands for the file's name in messages
 * @data: borrowed for the life of the weights
 */
AsrWeights *asr_weights_read_bytes (const char *label, const guint8 *data,
    gsize n_bytes, GError **error);

/**
 * asr_weights_add: for readers.
 * @name: [name_length], not terminated; refused unless it is printable
 *   ASCII, not too long and new
 * @view: copied. The reader has checked that the product of dims times the
 *   element size is n_bytes and that data lies inside the file; no dim is 0
 * @bytes: for the error
 */
gboolean asr_weights_add (AsrWeights *weights, const AsrBytes *bytes,
    const char *name, gsize name_length, const AsrTensor *view,
    GError **error);

/**
 * asr_weights_measure: n_bytes of a view from its dtype, rank and dims.
 * @name: [name_length], for the error
 *
 * Fails where a dim is 0 or the product does not fit.
 */
gboolean asr_weights_measure (const AsrBytes *bytes, const char *name,
    gsize name_length, AsrTensor *view, GError **error);

/**
 * asr_json_parse: json-glib with caps on size, depth and digits, since its
 * parser recurses and lets numbers wrap around.
 * @file: for messages
 * @text: [n_bytes], need not be terminated
 *
 * Returns: (transfer full): or NULL with ASR_ERROR_CORRUPT
 */
JsonNode *asr_json_parse (const char *file, const char *text, gsize n_bytes,
    GError **error);

/* The files beside the weights; text is theirs, file is for messages. */
gboolean asr_weights_read_config (AsrWeights *weights, const char *file,
    const char *text, gsize n_bytes, GError **error);
gboolean asr_weights_read_vocabulary_json (AsrWeights *weights,
    const char *file, const char *text, gsize n_bytes, GError **error);
gboolean asr_weights_read_vocabulary_txt (AsrWeights *weights,
    const char *file, const char *text, gsize n_bytes, GError **error);

/**
 * AsrWeights: filled by a reader, immutable afterwards.
 * @tensors: (element-type utf8 AsrTensor): owns both
 * @scales: (element-type gpointer): aligned copies that views point to
 * @token_bytes: [sum of lengths], what @tokens point into
 * @id_lists: (element-type utf8 GArray)
 * @map: (nullable): the mapping, if it is ours
 */
struct _AsrWeights {
  char *file;
  const AsrWeightsReader *reader;
  GHashTable *tensors;
  GPtrArray *scales;
  guint8 *token_bytes;
  AsrTokenBytes *tokens;
  guint n_tokens;
  GHashTable *id_lists;
  void *map;
  gsize map_bytes;
};

G_END_DECLS

#endif
