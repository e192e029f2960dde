/* SPDX-License-Identifier: MIT */
/*
 * A Whisper vocabulary: bytes of each token id, the special ids, and text to
 * ids. In: the token bytes that weights/ read. Knows nothing of tensors.
 */
#ifndef ASR_TEXT_VOCAB_H
#define ASR_TEXT_VOCAB_H

#include "engine/weights/weights.h"

G_BEGIN_DECLS

/* Ids of the tokens that are not text; ids from timestamp_begin on are time
 * marks 0.02 s apart, 1501 of them. */
typedef struct {
  gint32 n_vocab;
  gint32 eot, sot;
  gint32 language_begin; /* of n_languages, in asr_language_get_code order */
  guint n_languages;     /* 99 or 100 */
  gint32 translate, transcribe;
  gint32 start_of_lm, start_of_prev, no_speech, no_timestamps;
  gint32 timestamp_begin;
  gboolean multilingual;
} AsrSpecialTokens;

typedef struct _AsrVocab AsrVocab;

/**
 * asr_vocab_new:
 * @tokens: [n_tokens], borrowed for the life of the vocabulary
 * @n_vocab: rows of the embedding; may exceed @n_tokens by special tokens
 *
 * Recognises the three layouts of special ids by @n_vocab (51864 English,
 * 51865, 51866); a model of another size must spell its special tokens.
 * Returns: (transfer full): immutable, thread-safe
 */
AsrVocab *asr_vocab_new (const AsrTokenBytes *tokens, guint n_tokens,
    guint n_vocab, GError **error);
void asr_vocab_free (AsrVocab *vocab);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AsrVocab, asr_vocab_free)

const AsrSpecialTokens *asr_vocab_get_special (const AsrVocab *vocab);

/* Bytes of a text token; length 0 for special tokens and ids out of range. */
AsrTokenBytes asr_vocab_get_bytes (const AsrVocab *vocab, gint32 id);

/**
 * asr_vocab_encode: byte-pair encoding by token rank (tiktoken's way), after
 * GPT-2's splitting into words.
 * @ids: (element-type gint32): appended to
 */
void asr_vocab_encode (const AsrVocab *vocab, const char *text, GArray *ids);

/**
 * asr_vocab_append_text: appends the bytes of text tokens, ids from eot on
 * left out; the result may end or begin inside a character.
 */
void asr_vocab_append_text (const AsrVocab *vocab, const gint32 *ids, guint n,
    GString *bytes);

/* Ids of tokens that stand for sounds or signs and not for speech, for models
 * that bring no list of their own. The special tokens that are suppressed
 * with them (translate, transcribe, sot, start_of_prev, start_of_lm,
 * no_speech) are not among them. Returns: (transfer none): [n], ascending */
const gint32 *asr_vocab_get_non_speech (const AsrVocab *vocab, guint *n);

G_END_DECLS

#endif
