/* SPDX-License-Identifier: MIT */
/* Tokens cut into phrases at pairs of time marks; see phrases.h. */
#include "engine/decode/phrases.h"

static guint
count_text (const gint32 *tokens, guint n, gint32 eot)
{
  guint n_text = 0;

  for (guint i = 0; i < n; i++)
    n_text += tokens[i] < eot;
  return n_text;
}

/* One phrase from the first mark to the last, or to the end of the window if
 * no mark but <0.00> came. */
static void
append_whole (GArray *phrases, const gint32 *tokens, guint n_tokens,
    gint32 timestamp_begin, gint32 eot, guint n_mel_frames)
{
  AsrPhrase phrase = { 0, n_tokens, count_text (tokens, n_tokens, eot), 0,
    n_mel_frames / ASR_MEL_FRAMES_PER_MARK };

  for (guint i = 0; i < n_tokens; i++)
    if (tokens[i] > timestamp_begin)
      phrase.end_mark = tokens[i] - timestamp_begin;
  g_array_append_val (phrases, phrase);
}

GArray *
asr_phrases_cut (const gint32 *tokens, guint n_tokens, gint32 timestamp_begin,
    gint32 eot, guint n_mel_frames, guint *advance_frames, gboolean *is_whole)
{
  GArray *phrases = g_array_new (FALSE, FALSE, sizeof (AsrPhrase));
  guint begin = 0, last_mark = 0;
#define IS_MARK(i) (tokens[i] >= timestamp_begin)

  *is_whole = n_tokens >= 2 && IS_MARK (n_tokens - 1)
      && !IS_MARK (n_tokens - 2);
  *advance_frames = n_mel_frames;
  for (guint i = 1; i <= n_tokens; i++) {
    gboolean is_pair = i < n_tokens && IS_MARK (i) && IS_MARK (i - 1);
    /* a closing mark at the end cuts only where some pair came before */
    gboolean is_end = i == n_tokens && *is_whole && phrases->len > 0;
    AsrPhrase phrase;

    if (!is_pair && !is_end)
      continue;
    last_mark = tokens[i - 1] - timestamp_begin;
    phrase = (AsrPhrase){ begin, i - begin,
      count_text (tokens + begin, i - begin, eot),
      MAX (tokens[begin] - timestamp_begin, 0), last_mark };
    g_array_append_val (phrases, phrase);
    begin = i;
  }
#undef IS_MARK
  if (phrases->len == 0) {
    if (n_tokens > 0)
      append_whole (phrases, tokens, n_tokens, timestamp_begin, eot,
          n_mel_frames);
  } else if (!*is_whole) {
    *advance_frames = last_mark * ASR_MEL_FRAMES_PER_MARK;
  }
  return phrases;
}
