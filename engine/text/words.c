/* SPDX-License-Identifier: MIT */
/*
 * Tokens to words with times; see words.h. The rules and their order are those
 * of openai/whisper timing.py and tokenizer.py (MIT), on which the published
 * word times of Whisper rest; odd ones are kept and named.
 */
#include "engine/text/words.h"

#include <string.h>

#include "engine/text/language.h"
#include "engine/util/utf8.h"

#define FRAMES_PER_SECOND 50.0
#define MAX_TYPICAL_S 0.7
/* How far a segment's time mark and its words may be apart. */
#define MAX_MARK_DISTANCE_S 0.5

#define ASCII_PUNCTUATION "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
#define SENTENCE_ENDS ".。!！?？"
#define JOINED_TO_NEXT "\"'“¿([{-"
#define JOINED_TO_LAST "\"'.。,，!！?？:：”)]}、"

static void
clear_word (gpointer word)
{
  g_free (((AsrTimedWord *) word)->text);
}

static AsrTimedWord *
get_word (GArray *words, guint i)
{
  return &g_array_index (words, AsrTimedWord, i);
}

/* Python's "text in signs": the empty text is in everything. */
static gboolean
is_in (const char *text, const char *signs)
{
  return strstr (signs, text) != NULL;
}

static char *
strip (const char *text)
{
  const char *end = text + strlen (text);

  while (*text != '\0' && g_unichar_isspace (g_utf8_get_char (text)))
    text = g_utf8_next_char (text);
  while (end > text) {
    const char *last = g_utf8_prev_char (end);

    if (!g_unichar_isspace (g_utf8_get_char (last)))
      break;
    end = last;
  }
  return g_strndup (text, end - text);
}

static gboolean
is_stripped_in (const char *text, const char *signs)
{
  g_autofree char *stripped = strip (text);

  return is_in (stripped, signs);
}

/* ---- tokens to words ---- */

/* Whether the bytes from @from on begin a whole character at all. */
static gboolean
begins_character (const GString *bytes, gsize from)
{
  gsize n_valid, n_tail;

  asr_utf8_scan ((const guint8 *) bytes->str + from,
      MIN (bytes->len - from, 4), &n_valid, &n_tail);
  return n_valid > 0;
}

/* Groups of tokens that are whole characters together. A character that no
 * later token completes is closed where it stands. */
static GArray *
group_tokens (const AsrVocab *vocab, const gint32 *ids, guint n)
{
  GArray *groups = g_array_new (FALSE, TRUE, sizeof (AsrTimedWord));
  g_autoptr (GString) all = g_string_new (NULL);
  gsize from = 0, to = 0;
  guint first = 0;

  g_array_set_clear_func (groups, clear_word);
  asr_vocab_append_text (vocab, ids, n, all);
  for (guint i = 0; i < n; i++) {
    const guint8 *bytes = (const guint8 *) all->str + from;
    AsrTimedWord group = { NULL, first, i + 1 - first };
    gsize n_valid, n_tail;
    GString *text;

    to += asr_vocab_get_bytes (vocab, ids[i]).length;
    asr_utf8_scan (bytes, to - from, &n_valid, &n_tail);
    if (n_valid + n_tail == to - from && n_tail > 0 && i + 1 < n
        && begins_character (all, from + n_valid))
      continue;
    text = g_string_new (NULL);
    asr_utf8_append (text, bytes, to - from, TRUE);
    group.text = g_string_free (text, FALSE);
    g_array_append_val (groups, group);
    from = to;
    first = i + 1;
  }
  return groups;
}

/* A group that begins with a blank or is punctuation begins a word. */
static GArray *
join_groups (GArray *groups)
{
  GArray *words = g_array_new (FALSE, TRUE, sizeof (AsrTimedWord));

  g_array_set_clear_func (words, clear_word);
  for (guint i = 0; i < groups->len; i++) {
    AsrTimedWord *group = get_word (groups, i), *last;
    char *joined;

    if (words->len == 0 || group->text[0] == ' '
        || is_stripped_in (group->text, ASCII_PUNCTUATION)) {
      AsrTimedWord word = *group;

      group->text = NULL;
      g_array_append_val (words, word);
      continue;
    }
    last = get_word (words, words->len - 1);
    joined = g_strconcat (last->text, group->text, NULL);
    g_free (last->text);
    last->text = joined;
    last->n_tokens += group->n_tokens;
  }
  g_array_unref (groups);
  return words;
}

static void
set_times (GArray *words, const gint16 *frames, const float *probabilities)
{
  for (guint i = 0; i < words->len; i++) {
    AsrTimedWord *word = get_word (words, i);
    double sum = 0;

    for (guint k = 0; k < word->n_tokens; k++)
      sum += probabilities[word->first_token + k];
    word->probability = sum / MAX (word->n_tokens, 1);
    word->start_s = frames[word->first_token] / FRAMES_PER_SECOND;
    word->end_s
        = frames[word->first_token + word->n_tokens] / FRAMES_PER_SECOND;
  }
}

/* ---- corrections ---- */

static gint
compare_doubles (gconstpointer a, gconstpointer b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

static double
get_typical (GArray *words)
{
  g_autofree double *lengths = g_new (double, MAX (words->len, 1));
  guint n = 0;
  double median;

  for (guint i = 0; i < words->len; i++) {
    const AsrTimedWord *word = get_word (words, i);

    if (word->end_s != word->start_s)
      lengths[n++] = word->end_s - word->start_s;
  }
  if (n == 0)
    return 0;
  qsort (lengths, n, sizeof (double), compare_doubles);
  median = n % 2 ? lengths[n / 2] : (lengths[n / 2 - 1] + lengths[n / 2]) / 2;
  return MIN (median, MAX_TYPICAL_S);
}

/* Alignment stretches what stands at the end of a sentence over the pause
 * behind it. */
static void
cut_long_words (GArray *words, double max_s)
{
  for (guint i = 1; i < words->len; i++) {
    AsrTimedWord *word = get_word (words, i);

    if (word->end_s - word->start_s <= max_s)
      continue;
    if (is_in (word->text, SENTENCE_ENDS))
      word->end_s = word->start_s + max_s;
    else if (is_in (get_word (words, i - 1)->text, SENTENCE_ENDS))
      word->start_s = word->end_s - max_s;
  }
}

/* The text and tokens of @from go to @to, in front or behind; @to keeps its
 * times and probability. */
static void
merge_words (AsrTimedWord *from, AsrTimedWord *to, gboolean in_front)
{
  char *text = in_front ? g_strconcat (from->text, to->text, NULL)
                        : g_strconcat (to->text, from->text, NULL);

  g_free (to->text);
  to->text = text;
  if (in_front)
    to->first_token = from->first_token;
  to->n_tokens += from->n_tokens;
  g_free (from->text);
  from->text = g_strdup ("");
  from->n_tokens = 0;
}

static void
join_punctuation (GArray *words)
{
  gint next = (gint) words->len - 1;
  guint last = 0;

  for (gint i = next - 1; i >= 0; i--) {
    AsrTimedWord *word = get_word (words, i);

    if (word->text[0] == ' ' && is_stripped_in (word->text, JOINED_TO_NEXT))
      merge_words (word, get_word (words, next), TRUE);
    else
      next = i;
  }
  for (guint i = 1; i < words->len; i++) {
    AsrTimedWord *word = get_word (words, i), *before = get_word (words, last);

    if (!g_str_has_suffix (before->text, " ")
        && is_in (word->text, JOINED_TO_LAST))
      merge_words (word, before, FALSE);
    else
      last = i;
  }
}

/* A token without text has been joined to the word before, unless there is
 * none: then its token counts with the word behind. */
static void
drop_empty (GArray *words)
{
  for (guint i = words->len; i > 0; i--) {
    AsrTimedWord *word = get_word (words, i - 1);

    if (*word->text != '\0')
      continue;
    if (word->n_tokens > 0 && i < words->len) {
      word[1].first_token = word->first_token;
      word[1].n_tokens += word->n_tokens;
    }
    g_array_remove_index (words, i - 1);
  }
}

GArray *
asr_words_from_tokens (const AsrVocab *vocab, const gint32 *ids, guint n,
    const gint16 *frames, const float *probabilities, const char *language,
    double *typical_s)
{
  GArray *words = group_tokens (vocab, ids, n);

  if (!asr_language_is_unspaced (language))
    words = join_groups (words);
  set_times (words, frames, probabilities);
  *typical_s = get_typical (words);
  if (*typical_s > 0)
    cut_long_words (words, 2 * *typical_s);
  join_punctuation (words);
  drop_empty (words);
  return words;
}

/* ---- segments ---- */

/* A first word after a long pause that reaches back into it. */
static void
shorten_first (AsrTimedWord *words, guint n, double max_s)
{
  AsrTimedWord *first = &words[0];

  if (n > 1 && words[1].end_s - words[1].start_s > max_s) {
    /* half of an absolute time makes no sense, but is what the source does;
     * the other bound nearly always wins */
    double border = MAX (words[1].end_s / 2, words[1].end_s - max_s);

    first->end_s = words[1].start_s = border;
  }
  first->start_s = MAX (0, first->end_s - max_s);
}

static void
fit_segment (AsrTimedWord *words, guint n, AsrSegmentTimes *segment,
    double typical_s, double last_speech_s)
{
  AsrTimedWord *first = &words[0], *last = &words[n - 1];
  double max_s = 2 * typical_s;

  if (first->end_s - last_speech_s > 4 * typical_s
      && (first->end_s - first->start_s > max_s
          || (n > 1 && words[1].end_s - first->start_s > 2 * max_s)))
    shorten_first (words, n, max_s);
  if (segment->start_s < first->end_s
      && segment->start_s - MAX_MARK_DISTANCE_S > first->start_s)
    first->start_s
        = MAX (0, MIN (first->end_s - typical_s, segment->start_s));
  else
    segment->start_s = first->start_s;
  if (segment->end_s > last->start_s
      && segment->end_s + MAX_MARK_DISTANCE_S < last->end_s)
    last->end_s = MAX (last->start_s + typical_s, segment->end_s);
  else
    segment->end_s = last->end_s;
}

void
asr_words_fit_segments (GArray *words, AsrSegmentTimes *segments,
    guint n_segments, double typical_s, double *last_speech_s)
{
  guint at = 0;

  for (guint i = 0; i < n_segments; i++) {
    guint n_tokens = 0;

    segments[i].first_word = at;
    while (at < words->len && n_tokens < segments[i].n_text_tokens)
      n_tokens += get_word (words, at++)->n_tokens;
    segments[i].n_words = at - segments[i].first_word;
    if (segments[i].n_words == 0)
      continue;
    fit_segment (get_word (words, segments[i].first_word),
        segments[i].n_words, &segments[i], typical_s, *last_speech_s);
    *last_speech_s = segments[i].end_s;
  }
}
