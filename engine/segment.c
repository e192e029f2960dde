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

AsrSegment *
asr_segment_new_output (guint epoch, gint64 start, gint64 end,
    AsrMethod method, guint n_rows, guint n_columns, float **data)
{
  gsize n_values = (gsize) n_rows * n_columns;
  AsrSegment *segment
      = g_malloc0 (sizeof (AsrSegment) + n_values * sizeof (float));

  *data = (float *) (segment + 1);
  segment->type = ASR_SEGMENT_OUTPUT;
  segment->epoch = epoch;
  segment->start = start;
  segment->end = end;
  segment->is_final = TRUE;
  segment->method = method;
  segment->data = *data;
  segment->shape[0] = n_rows;
  segment->shape[1] = n_columns;
  return segment;
}

void
asr_segment_free (AsrSegment *segment)
{
  g_free (segment);
}
