/* SPDX-License-Identifier: MIT */
/*
 * From a decoded window to phrases of timed words: tokens become words,
 * seconds become samples, and words leave the pauses that alignment smeared
 * them over.
 */
#include "engine/session_text.h"

#include <math.h>
#include <string.h>

#include "engine/decode/phrases.h"
#include "engine/policy/offline.h"
#include "engine/text/language.h"
#include "engine/text/words.h"

#define SECONDS_PER_MARK 0.02

static void
clear_word (gpointer word)
{
  g_free ((char *) ((AsrWord *) word)->text);
}

GArray *
asr_text_new_words (void)
{
  GArray *words = g_array_new (FALSE, TRUE, sizeof (AsrWord));

  g_array_set_clear_func (words, clear_word);
  return words;
}

void
asr_phrase_text_clear (AsrPhraseText *phrase)
{
  g_clear_pointer (&phrase->words, g_array_unref);
}

static AsrSegmentTimes *
make_times (const AsrDecodingResult *result, double offset_s)
{
  AsrSegmentTimes *times
      = g_new0 (AsrSegmentTimes, MAX (1, result->phrases->len));

  for (guint i = 0; i < result->phrases->len; i++) {
    const AsrPhrase *phrase = &g_array_index (result->phrases, AsrPhrase, i);

    times[i].start_s = offset_s + SECONDS_PER_MARK * phrase->start_mark;
    times[i].end_s = offset_s + SECONDS_PER_MARK * phrase->end_mark;
    times[i].n_text_tokens = phrase->n_text_tokens;
  }
  return times;
}

static gint64
to_samples (double seconds)
{
  return llrint (seconds * ASR_SAMPLE_RATE);
}

gboolean
asr_text_ends_sentence (const char *text)
{
  return g_str_has_suffix (text, ".") || g_str_has_suffix (text, "?")
      || g_str_has_suffix (text, "!");
}

void
asr_text_append_word (GArray *words, const AsrTimedWord *timed,
    const AsrSpan *spans, guint n_spans, gboolean is_spaced, gint64 *told)
{
  gboolean begins = words->len == 0
      || asr_text_ends_sentence (
          g_array_index (words, AsrWord, words->len - 1).text);
  g_autofree char *text = g_strstrip (g_strdup (timed->text));
  AsrWord word = { to_samples (timed->start_s), to_samples (timed->end_s) };

  if (*text == '\0')
    return;
  if (n_spans > 0)
    asr_offline_snap (spans, n_spans, begins, &word.start, &word.end);
  word.start = MAX (word.start, *told);
  word.end = MAX (word.end, word.start);
  word.space_before
      = is_spaced || g_unichar_isspace (g_utf8_get_char (timed->text));
  word.confidence = CLAMP (timed->probability, 0.0f, 1.0f);
  word.text = g_steal_pointer (&text);
  *told = word.end;
  g_array_append_val (words, word);
}

GArray *
asr_text_from_result (const AsrVocab *vocab, const AsrDecodingResult *result,
    const char *language, gint64 start, const AsrSpan *spans, guint n_spans,
    gint64 told, double *last_speech_s, double *reached_s)
{
  double offset_s = (double) start / ASR_SAMPLE_RATE, typical_s;
  GArray *phrases = g_array_new (FALSE, TRUE, sizeof (AsrPhraseText));
  g_autoptr (GArray) timed = asr_words_from_tokens (vocab, result->text,
      result->n_text, result->frames, result->probabilities, language,
      &typical_s);
  g_autofree AsrSegmentTimes *times = make_times (result, offset_s);

  g_array_set_clear_func (phrases, (GDestroyNotify) asr_phrase_text_clear);
  for (guint i = 0; i < timed->len; i++) {
    g_array_index (timed, AsrTimedWord, i).start_s += offset_s;
    g_array_index (timed, AsrTimedWord, i).end_s += offset_s;
  }
  asr_words_fit_segments (timed, times, result->phrases->len, typical_s,
      last_speech_s);
  *reached_s = timed->len == 0
      ? -1
      : g_array_index (timed, AsrTimedWord, timed->len - 1).end_s - offset_s;

  for (guint i = 0; i < result->phrases->len; i++) {
    AsrPhraseText phrase = { asr_text_new_words () };

    for (guint k = 0; k < times[i].n_words; k++) {
      guint index = times[i].first_word + k;
      /* A phrase's first word follows the phrase before it by a blank in
       * every script that has blanks, whatever its first token says. */
      gboolean is_spaced = k == 0 && !asr_language_is_unspaced (language);

      if (index < timed->len)
        asr_text_append_word (phrase.words,
            &g_array_index (timed, AsrTimedWord, index), spans, n_spans,
            is_spaced, &told);
    }
    if (phrase.words->len > 0)
      g_array_append_val (phrases, phrase);
    else
      asr_phrase_text_clear (&phrase);
  }
  return phrases;
}

void
asr_text_cut (GArray *phrases, gint64 until)
{
  while (phrases->len > 0) {
    GArray *words
        = g_array_index (phrases, AsrPhraseText, phrases->len - 1).words;

    while (words->len > 0
        && g_array_index (words, AsrWord, words->len - 1).start >= until)
      g_array_set_size (words, words->len - 1);
    if (words->len > 0)
      return;
    g_array_set_size (phrases, phrases->len - 1);
  }
}

char *
asr_text_get_letters (const char *text)
{
  g_autofree char *folded = g_utf8_casefold (text, -1);
  GString *letters = g_string_new (NULL);

  for (const char *p = folded; *p != '\0'; p = g_utf8_next_char (p)) {
    gunichar c = g_utf8_get_char (p);

    if (g_unichar_isalnum (c))
      g_string_append_unichar (letters, c);
  }
  return g_string_free (letters, FALSE);
}

gboolean
asr_text_is_prompt (const AsrVocab *vocab, const AsrDecodingResult *result,
    const char *prompt)
{
  g_autoptr (GString) bytes = g_string_new (NULL);
  g_autofree char *text = NULL, *ours = NULL, *theirs = NULL;

  asr_vocab_append_text (vocab, result->tokens, result->n_tokens, bytes);
  text = g_utf8_make_valid (bytes->str, bytes->len);
  ours = asr_text_get_letters (text);
  theirs = asr_text_get_letters (prompt);
  return *ours != '\0' && strstr (theirs, ours) != NULL
      && strlen (ours) * 2 > strlen (theirs);
}
