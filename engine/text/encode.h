/* SPDX-License-Identifier: MIT */
/*
 * Text to token ids: GPT-2's splitting into pieces, then byte-pair encoding
 * by rank. Knows no special tokens. Private to this folder.
 */
#ifndef ASR_TEXT_ENCODE_H
#define ASR_TEXT_ENCODE_H

#include "engine/weights/weights.h"

G_BEGIN_DECLS

typedef struct _AsrEncoder AsrEncoder;

/**
 * asr_encoder_new:
 * @tokens: [n_tokens] text tokens, borrowed; the id is the rank
 *
 * Returns: (transfer full): immutable, thread-safe
 */
AsrEncoder *asr_encoder_new (const AsrTokenBytes *tokens, guint n_tokens);
void asr_encoder_free (AsrEncoder *encoder);

/**
 * asr_encoder_encode:
 * @text: invalid UTF-8 counts as U+FFFD
 * @ids: (element-type gint32): appended to; bytes that no token stands for
 *   are left out
 */
void asr_encoder_encode (const AsrEncoder *encoder, const char *text,
    GArray *ids);

/**
 * asr_encode_next_piece: length in bytes of GPT-2's first piece of @text:
 * a contraction, a run of letters, of digits or of other signs, each with a
 * blank before it if there is one, or white space.
 * @text: valid UTF-8, not empty
 */
gsize asr_encode_next_piece (const char *text);

G_END_DECLS

#endif
