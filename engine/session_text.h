/* SPDX-License-Identifier: MIT */
/* From a decoded window to segments: the last step on the worker's side. */
#ifndef ASR_ENGINE_SESSION_TEXT_H
#define ASR_ENGINE_SESSION_TEXT_H

#include "engine/audio/gate.h"
#include "engine/decode/decoding.h"
#include "engine/text/words.h"

G_BEGIN_DECLS

/* One phrase of a window, in samples of the stream. */
typedef struct {
  GArray *words; /* (element-type AsrWord) (owned): texts owned as well */
} AsrPhraseText;

void asr_phrase_text_clear (AsrPhraseText *phrase);

/**
 * asr_text_from_result: words with their places in the audio.
 * @start: the window's first sample
 * @spans: [n_spans] of speech; words are moved into them; 0: left alone
 * @told: no word begins before this sample
 * @last_speech_s: seconds from the stream's start; updated
 * @reached_s: (out): end of the last word in seconds from the window's start,
 *   before it was moved; -1 without words
 *
 * Returns: (transfer full) (element-type AsrPhraseText): in order of time
 */
GArray *asr_text_from_result (const AsrVocab *vocab,
    const AsrDecodingResult *result, const char *language, gint64 start,
    const AsrSpan *spans, guint n_spans, gint64 told, double *last_speech_s,
    double *reached_s);

/* Returns: (transfer full) (element-type AsrWord): owns its texts */
GArray *asr_text_new_words (void);

/**
 * asr_text_append_word: makes a word of the stream of one of the window.
 * @words: (element-type AsrWord): gets the word, unless it has no text
 * @timed: in seconds of the stream
 * @spans: [n_spans] of speech that the word is moved into; 0: left alone
 * @is_spaced: a blank stands before it, whatever its text begins with
 * @told: (inout): no word begins before this sample; moves on with the word
 */
void asr_text_append_word (GArray *words, const AsrTimedWord *timed,
    const AsrSpan *spans, guint n_spans, gboolean is_spaced, gint64 *told);

gboolean asr_text_ends_sentence (const char *text);

/* Drops the words that begin at @until or later. */
void asr_text_cut (GArray *phrases, gint64 until);

/* Lower-case letters and digits of a text. Returns: (transfer full) */
char *asr_text_get_letters (const char *text);

/* Whether the text is the prompt and nothing else, letters compared. */
gboolean asr_text_is_prompt (const AsrVocab *vocab,
    const AsrDecodingResult *result, const char *prompt);

G_END_DECLS

#endif
