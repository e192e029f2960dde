/* SPDX-License-Identifier: MIT */
/*
 * Tokens to words: joins tokens until they are whole characters, splits at
 * blanks and punctuation, and joins punctuation to its word. In: ids and the
 * frame at which each begins. Out: words. Pure; whisper-timing rules from
 * openai/whisper timing.py (MIT).
 */
#ifndef ASR_TEXT_WORDS_H
#define ASR_TEXT_WORDS_H

#include "engine/text/vocab.h"

G_BEGIN_DECLS

/**
 * AsrTimedWord:
 * @text: bytes with the leading blank if there is one; valid UTF-8
 * @first_token, @n_tokens: of the ids given; punctuation that was joined
 *   counts with its word
 * @start_s, @end_s: seconds from the start of the window
 * @probability: mean of its own tokens' probabilities
 */
typedef struct {
  char *text;
  guint first_token;
  guint n_tokens;
  double start_s;
  double end_s;
  float probability;
} AsrTimedWord;

/**
 * asr_words_from_tokens:
 * @ids: [n] text tokens of a window (ids below eot)
 * @frames: [n + 1] first frame of each token, 0.02 s apart; the last is the
 *   end of the text
 * @probabilities: [n]
 * @language: code; decides whether blanks separate words
 * @typical_s: (out): median length of a word, at most 0.7, 0 without words
 *
 * Returns: (transfer full) (element-type AsrTimedWord): in order, freed with
 *   their texts by g_array_unref; over-long words at sentence ends are cut as
 *   openai/whisper does
 */
GArray *asr_words_from_tokens (const AsrVocab *vocab, const gint32 *ids,
    guint n, const gint16 *frames, const float *probabilities,
    const char *language, double *typical_s);

/**
 * asr_words_fit_segments: the per-segment corrections of openai/whisper: a
 * first word after a pause is shortened, and the ends of segments and words
 * are brought together. Times in seconds on one time axis.
 * @words: (element-type AsrTimedWord): changed
 * @segments: [n]: changed
 * @typical_s: as asr_words_from_tokens gave it
 * @last_speech_s: end of speech before these segments; updated
 */
typedef struct {
  double start_s, end_s;
  guint n_text_tokens;
  guint first_word, n_words; /* (out) */
} AsrSegmentTimes;

void asr_words_fit_segments (GArray *words, AsrSegmentTimes *segments,
    guint n_segments, double typical_s, double *last_speech_s);

G_END_DECLS

#endif
