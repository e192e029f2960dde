/* SPDX-License-Identifier: MIT */
/* From the engine's segments to buffers and gaps; see gstasrtext.h. */
#include "gst/gstasrtext.h"

#include <string.h>

/* A pause that cuts a phrase in scripts without blanks. */
#define PHRASE_PAUSE (300 * GST_MSECOND)
/* Shown at least this long: what lasts no time is never seen. */
#define MIN_DURATION GST_MSECOND

void
gst_asr_text_register_meta (void)
{
  static gsize once = 0;
  static const char *tags[] = { NULL };

  if (g_once_init_enter (&once)) {
    gst_meta_register_custom (GST_ASR_META_NAME, tags, NULL, NULL, NULL);
    g_once_init_leave (&once, 1);
  }
}

void
gst_asr_text_init (GstAsrText *text, GstAsrGranularity granularity)
{
  text->granularity = granularity;
  text->moves_late = FALSE;
  text->has_empty_buffers = FALSE;
  gst_asr_text_reset (text, GST_CLOCK_TIME_NONE);
}

void
gst_asr_text_reset (GstAsrText *text, GstClockTime start)
{
  text->position = start;
  text->is_discont = TRUE;
}

static GstBuffer *
make_empty_buffer (GstClockTime start, GstClockTime length)
{
  GstBuffer *buffer = gst_buffer_new ();

  GST_BUFFER_PTS (buffer) = start;
  GST_BUFFER_DURATION (buffer) = length;
  return buffer;
}

void
gst_asr_text_add_gaps (GstAsrText *text, GstClockTime end, GQueue *out)
{
  if (!GST_CLOCK_TIME_IS_VALID (end))
    return;
  if (!GST_CLOCK_TIME_IS_VALID (text->position))
    text->position = end;
  while (text->position < end) {
    GstClockTime length = MIN (end - text->position, GST_ASR_TEXT_MAX_GAP);

    if (text->has_empty_buffers)
      g_queue_push_tail (out, make_empty_buffer (text->position, length));
    else
      g_queue_push_tail (out, gst_event_new_gap (text->position, length));
    text->position += length;
  }
}

/* @string: (transfer full) */
static void
add_buffer (GstAsrText *text, char *string, double confidence,
    GstClockTime start, GstClockTime end, GQueue *out)
{
  GstBuffer *buffer;

  if (GST_CLOCK_TIME_IS_VALID (text->position))
    start = MAX (start, text->position);
  end = MAX (end, start + MIN_DURATION);
  gst_asr_text_add_gaps (text, start, out);
  buffer = gst_buffer_new_wrapped (string, strlen (string));
  GST_BUFFER_PTS (buffer) = start;
  GST_BUFFER_DURATION (buffer) = end - start;
  gst_structure_set (gst_custom_meta_get_structure (
      gst_buffer_add_custom_meta (buffer, GST_ASR_META_NAME)),
      "confidence", G_TYPE_DOUBLE, confidence, NULL);
  if (text->is_discont)
    GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_DISCONT);
  text->is_discont = FALSE;
  text->position = end;
  g_queue_push_tail (out, buffer);
}

static gboolean
ends_phrase (const AsrWord *word)
{
  const char *last = g_utf8_find_prev_char (word->text,
      word->text + strlen (word->text));

  return last != NULL && g_unichar_ispunct (g_utf8_get_char (last));
}

/* Words that belong into one buffer: one, where blanks divide words; else all
 * up to a punctuation mark or a pause. */
static guint
count_joined (const AsrSegment *segment, guint first, const GstAsrClock *clock)
{
  guint n = 1;

  while (first + n < segment->n_words) {
    const AsrWord *word = &segment->words[first + n];
    GstClockTime end = gst_asr_clock_to_pts (clock, word[-1].end);
    GstClockTime start = gst_asr_clock_to_pts (clock, word->start);

    if (word->space_before || ends_phrase (&word[-1])
        || start > end + PHRASE_PAUSE)
      break;
    n++;
  }
  return n;
}

/* A phrase is as certain as its least certain word. */
static double
get_confidence (const AsrWord *words, guint n)
{
  double confidence = 1;

  for (guint i = 0; i < n; i++)
    confidence = MIN (confidence, words[i].confidence);
  return confidence;
}

static char *
join_words (const AsrWord *words, guint n)
{
  GString *joined = g_string_new (NULL);

  for (guint i = 0; i < n; i++) {
    if (i > 0 && words[i].space_before)
      g_string_append_c (joined, ' ');
    g_string_append (joined, words[i].text);
  }
  return g_string_free (joined, FALSE);
}

/* By how much a phrase that comes late is moved. */
static GstClockTime
get_delay (const GstAsrText *text, const AsrSegment *segment,
    const GstAsrClock *clock)
{
  GstClockTime start;

  if (!text->moves_late || segment->n_words == 0
      || !GST_CLOCK_TIME_IS_VALID (text->position))
    return 0;
  start = gst_asr_clock_to_pts (clock, segment->words[0].start);
  return text->position > start ? text->position - start : 0;
}

void
gst_asr_text_add_segment (GstAsrText *text, const AsrSegment *segment,
    const GstAsrClock *clock, GQueue *out)
{
  GstClockTime delay = get_delay (text, segment, clock);

  for (guint i = 0, n; i < segment->n_words; i += n) {
    const AsrWord *words = &segment->words[i];

    n = text->granularity == GST_ASR_GRANULARITY_SEGMENT
        ? segment->n_words
        : count_joined (segment, i, clock);
    add_buffer (text, join_words (words, n), get_confidence (words, n),
        delay + gst_asr_clock_to_pts (clock, words[0].start),
        delay + gst_asr_clock_to_pts (clock, words[n - 1].end), out);
  }
  gst_asr_text_add_gaps (text, gst_asr_clock_to_pts (clock, segment->end),
      out);
}
