/* SPDX-License-Identifier: MIT */
/* Segments: a piece of result with its words and their text in one block. */
#include "engine/segment.h"

#include <string.h>

/* The strings of a segment follow its words, one allocation for all. */
typedef struct {
  AsrSegment segment;
  AsrWord words[];
} Block;

static gsize
count_text_bytes (const AsrWord *words, guint n_words)
{
  gsize n_bytes = 1;

  for (guint i = 0; i < n_words; i++)
    n_bytes += 2 * (strlen (words[i].text) + 1); /* alone and in the text */
  return n_bytes;
}

AsrSegment *
asr_segment_new (AsrSegmentType type, guint output, guint epoch, gint64 start,
    gint64 end, const AsrWord *words, guint n_words, const char *language)
{
  Block *block = g_malloc0 (sizeof (Block) + n_words * sizeof (AsrWord)
      + count_text_bytes (words, n_words));
  AsrSegment *segment = &block->segment;
  char *at = (char *) (block->words + n_words);

  segment->type = type;
  segment->output = output;
  segment->epoch = epoch;
  segment->start = start;
  segment->end = end;
  segment->is_final = TRUE;
  segment->words = block->words;
  segment->n_words = n_words;
  g_strlcpy (segment->language, language ? language : "",
      sizeof (segment->language));
  for (guint i = 0; i < n_words; i++) {
    block->words[i] = words[i];
    block->words[i].text = at;
    at = g_stpcpy (at, words[i].text) + 1;
  }
  if (n_words > 0) {
    segment->text = at;
    for (guint i = 0; i < n_words; i++) {
      if (i > 0 && words[i].space_before)
        *at++ = ' ';
      at = g_stpcpy (at, words[i].text);
    }
  }
  return segment;
}

void
asr_segment_free (AsrSegment *segment)
{
  g_free (segment);
}
