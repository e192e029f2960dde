/* SPDX-License-Identifier: MIT */
/*
 * One text from one encoded window, as a state machine without a device: it
 * asks for rows of a decoder batch and is fed the records that come back.
 * Phases: the language where it is not known; the prompt; a token a step; the
 * gates and perhaps the next temperature; a pass that aligns the text.
 *
 * Source of the procedure: openai/whisper decoding.py, transcribe.py, and
 * timing.py (MIT).
 */
#ifndef ASR_DECODE_DECODING_H
#define ASR_DECODE_DECODING_H

#include "engine/decode/fallback.h"
#include "engine/model/model.h"

G_BEGIN_DECLS

typedef enum {
  ASR_DECODING_LANGUAGE,
  ASR_DECODING_PROMPT,
  ASR_DECODING_STEP,
  ASR_DECODING_ALIGN,
  ASR_DECODING_DONE,
} AsrDecodingPhase;

/**
 * AsrDecodingParams:
 * @language: index in the model's languages, -1: detect
 * @prompt: (nullable): [n_prompt] ids of earlier text; the last 223 count
 * @n_mel_frames: of real audio in the window, 1 to 3000
 * @audio_slot, @text_slot: held until the text is done
 * @is_growing: the window is still being spoken: one pass without time marks
 *   and without other temperatures, which goes on after @prefix
 * @prefix: (nullable): [n_prefix] text ids that the window begins with and
 *   that stay; at most ASR_DECODING_MAX_PREFIX
 * @draft: (nullable): [n_draft] text ids that probably follow the prefix:
 *   verified in the batch of the prompt, so that only what differs takes a
 *   step a token. Changes how fast the text comes, not the text
 */
typedef struct {
  gint language;
  AsrTask task;
  const gint32 *prompt;
  guint n_prompt;
  guint n_mel_frames;
  guint audio_slot;
  guint text_slot;
  guint64 seed;
  gboolean is_growing;
  const gint32 *prefix;
  guint n_prefix;
  const gint32 *draft;
  guint n_draft;
} AsrDecodingParams;

#define ASR_DECODING_MAX_PREFIX 160

typedef struct _AsrDecoding AsrDecoding;

AsrDecoding *asr_decoding_new (const AsrVocab *vocab);
void asr_decoding_free (AsrDecoding *decoding);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AsrDecoding, asr_decoding_free)

/* Forgets the text before and starts a new one; copies the prompt. */
void asr_decoding_start (AsrDecoding *decoding,
    const AsrDecodingParams *params);

AsrDecodingPhase asr_decoding_get_phase (const AsrDecoding *decoding);

/**
 * asr_decoding_get_rows: what the phase needs of the next batch.
 * @rows: (element-type AsrRow): appended to
 * @choices: (element-type AsrChoice): appended to, with row numbers in @rows
 * @state: (out): sampling state that the text slot must have before
 *
 * Returns: TRUE if @state was set; else the slot goes on as it is
 */
gboolean asr_decoding_get_rows (const AsrDecoding *decoding, GArray *rows,
    GArray *choices, AsrTextState *state);

/* The records of this decoding's own choices, in their order. Of several
 * steps, feed each in turn: what follows the end of a text is ignored. */
void asr_decoding_feed (AsrDecoding *decoding, const AsrTokenRecord *records,
    guint n_records);

/* In phase ALIGN: row that predicts the first text token, of those that
 * get_rows gave; and the encoder frames that are real. */
guint asr_decoding_get_first_row (const AsrDecoding *decoding);
guint asr_decoding_get_n_frames (const AsrDecoding *decoding);

/* Ends phase ALIGN. @frames: [text tokens + 1], copied */
void asr_decoding_feed_frames (AsrDecoding *decoding, const gint16 *frames);

/**
 * AsrDecodingResult: valid until the next start.
 * @language: index, -1 for a model of one language
 * @is_silence: no speech by the model's own judgement; no tokens count
 * @tokens: [n_tokens] sampled ids, time marks included, eot not
 * @phrases: (element-type AsrPhrase)
 * @advance_frames, @is_whole: see asr_phrases_cut
 * @text: [n_text] ids of the phrases below eot, after those of the prefix
 * @frames: [n_text + 1] encoder frames
 * @probabilities: [n_text] as they were sampled; 1 for those of the prefix
 * @n_attempts: temperatures that were tried
 * @n_sampled: tokens of all attempts
 */
typedef struct {
  gint language;
  gboolean is_silence;
  const gint32 *tokens;
  guint n_tokens;
  const GArray *phrases;
  guint advance_frames;
  gboolean is_whole;
  const gint32 *text;
  guint n_text;
  const gint16 *frames;
  const float *probabilities;
  AsrPassScore score;
  float temperature;
  guint n_attempts;
  guint n_sampled;
} AsrDecodingResult;

/* In phase DONE. */
void asr_decoding_get_result (const AsrDecoding *decoding,
    AsrDecodingResult *result);

G_END_DECLS

#endif
