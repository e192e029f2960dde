/* SPDX-License-Identifier: MIT */
/*
 * What live input adds: the promise that no text comes later than the latency
 * that was told, and messages with guesses for who can't wait for it.
 */
#include "gst/gstasrprivate.h"

#include <json-glib/json-glib.h>

/* What the offline policy needs of a live source: a window, the pause that
 * ends it, and the time to compute on a slow machine. */
#define OFFLINE_LATENCY (40 * GST_SECOND)
/* The position stays this much ahead of what must be shown: it is looked after
 * ten times a second. */
#define CATCH_UP_MARGIN (150 * GST_MSECOND)
/* Warnings of late words are at least this far apart. */
#define WARNING_INTERVAL_US G_USEC_PER_SEC

AsrPolicy
gst_asr_live_choose_policy (GstAsr *self)
{
  AsrPolicy policy;

  GST_OBJECT_LOCK (self);
  switch (self->policy) {
    case GST_ASR_POLICY_OFFLINE:
      policy = ASR_POLICY_OFFLINE;
      break;
    case GST_ASR_POLICY_LOCAL_AGREEMENT:
      policy = ASR_POLICY_LOCAL_AGREEMENT;
      break;
    case GST_ASR_POLICY_ALIGNATT:
      policy = ASR_POLICY_ALIGNATT;
      break;
    default:
      policy = self->is_live ? ASR_POLICY_LOCAL_AGREEMENT : ASR_POLICY_OFFLINE;
      break;
  }
  /* words of a translation have no places that attention could tell */
  if (self->task == ASR_TASK_TRANSLATE)
    policy = ASR_POLICY_OFFLINE;
  GST_OBJECT_UNLOCK (self);
  return policy;
}

/* Latency that was promised, CLOCK_TIME_NONE where none was. */
static GstClockTime
get_promise (GstAsr *self)
{
  GstClockTime latency;

  GST_OBJECT_LOCK (self);
  latency = self->latency == G_MAXUINT ? GST_CLOCK_TIME_NONE
                                       : self->latency * GST_MSECOND;
  GST_OBJECT_UNLOCK (self);
  return latency;
}

guint64
gst_asr_live_get_latency_samples (GstAsr *self)
{
  GstClockTime promise = get_promise (self);

  return GST_CLOCK_TIME_IS_VALID (promise)
      ? gst_util_uint64_scale (promise, ASR_SAMPLE_RATE, GST_SECOND)
      : G_MAXINT64 / 2;
}

GstClockTime
gst_asr_live_get_latency (GstAsr *self)
{
  GstClockTime promise = get_promise (self);

  if (gst_asr_live_choose_policy (self) == ASR_POLICY_OFFLINE)
    return OFFLINE_LATENCY;
  return GST_CLOCK_TIME_IS_VALID (promise) ? promise : 0;
}

/* Running time now, CLOCK_TIME_NONE while no clock runs. */
static GstClockTime
get_running_time (GstAsr *self)
{
  g_autoptr (GstClock) clock = gst_element_get_clock (GST_ELEMENT (self));
  GstClockTime now, base = gst_element_get_base_time (GST_ELEMENT (self));

  if (clock == NULL || GST_STATE (self) != GST_STATE_PLAYING)
    return GST_CLOCK_TIME_NONE;
  now = gst_clock_get_time (clock);
  return GST_CLOCK_TIME_IS_VALID (base) && now >= base ? now - base
                                                       : GST_CLOCK_TIME_NONE;
}

/* Position that a sink which shows text when it was promised has reached.
 * @extra: promised beyond the latency */
static GstClockTime
get_shown_position (GstAsr *self, GstClockTime extra)
{
  GstClockTime promise = get_promise (self), now = get_running_time (self);

  if (GST_CLOCK_TIME_IS_VALID (promise))
    promise += extra;
  if (!self->is_live || !GST_CLOCK_TIME_IS_VALID (promise)
      || !GST_CLOCK_TIME_IS_VALID (now) || now < promise
      || self->out_segment.format != GST_FORMAT_TIME
      || gst_asr_live_choose_policy (self) == ASR_POLICY_OFFLINE)
    return GST_CLOCK_TIME_NONE;
  return gst_segment_position_from_running_time (&self->out_segment,
      GST_FORMAT_TIME, now - promise);
}

void
gst_asr_live_catch_up (GstAsr *self, GstAsrText *text,
    gboolean is_translated, GQueue *out)
{
  GstClockTime extra = 0, shown;

  if (is_translated) {
    GST_OBJECT_LOCK (self);
    extra = self->translate_latency * GST_MSECOND;
    GST_OBJECT_UNLOCK (self);
  }
  shown = get_shown_position (self, extra);
  if (GST_CLOCK_TIME_IS_VALID (shown)
      && GST_CLOCK_TIME_IS_VALID (text->position)
      && shown + CATCH_UP_MARGIN > text->position)
    gst_asr_text_add_gaps (text, shown + CATCH_UP_MARGIN, out);
}

void
gst_asr_live_check (GstAsr *self, const AsrSegment *segment)
{
  gint64 now_us = g_get_monotonic_time ();
  GstClockTime shown, worst = 0;
  guint n_late = 0, ms;

  g_mutex_lock (&self->lock);
  shown = get_shown_position (self, 0);
  for (guint i = 0; i < segment->n_words; i++) {
    GstClockTime pts = gst_asr_clock_to_pts (self->clock,
        segment->words[i].start);

    if (!GST_CLOCK_TIME_IS_VALID (shown) || shown <= pts)
      continue;
    n_late++;
    worst = MAX (worst, shown - pts);
  }
  g_mutex_unlock (&self->lock);
  if (n_late == 0)
    return;
  ms = (worst + get_promise (self)) / GST_MSECOND;
  GST_OBJECT_LOCK (self);
  self->n_late_words += n_late;
  worst = ms > self->max_observed_delay;
  self->max_observed_delay = MAX (ms, self->max_observed_delay);
  GST_OBJECT_UNLOCK (self);
  if (worst)
    g_object_notify (G_OBJECT (self), "max-observed-delay");
  if (now_us - self->warned_us < WARNING_INTERVAL_US)
    return;
  self->warned_us = now_us;
  GST_ELEMENT_WARNING (self, CORE, CLOCK,
      ("%u words came %u ms after they were spoken, later than the latency "
       "that was promised: they are shown when they come. Set \"latency\" "
       "higher, or use a smaller model or a faster machine.", n_late, ms),
      (NULL));
}

static void
append_word (GstAsr *self, GValue *words, const AsrWord *word)
{
  GValue value = G_VALUE_INIT;
  GstStructure *structure = gst_structure_new ("word",
      "text", G_TYPE_STRING, word->text,
      "start", G_TYPE_UINT64, gst_segment_to_running_time (&self->out_segment,
          GST_FORMAT_TIME, gst_asr_clock_to_pts (self->clock, word->start)),
      "end", G_TYPE_UINT64, gst_segment_to_running_time (&self->out_segment,
          GST_FORMAT_TIME, gst_asr_clock_to_pts (self->clock, word->end)),
      "confidence", G_TYPE_DOUBLE, (double) word->confidence, NULL);

  g_value_init (&value, GST_TYPE_STRUCTURE);
  g_value_take_boxed (&value, structure);
  gst_value_array_append_and_take_value (words, &value);
}

gboolean
gst_asr_live_is_news (GstAsr *self, const AsrSegment *segment)
{
  if (!segment->is_final && g_strcmp0 (segment->text, self->guess) == 0)
    return FALSE;
  g_free (self->guess);
  self->guess = segment->is_final ? NULL : g_strdup (segment->text);
  return TRUE;
}

/* In running time; 0 where there is none. */
static gint64
get_json_time (GstAsr *self, gint64 sample)
{
  GstClockTime time = gst_segment_to_running_time (&self->out_segment,
      GST_FORMAT_TIME, gst_asr_clock_to_pts (self->clock, sample));

  return GST_CLOCK_TIME_IS_VALID (time) ? time : 0;
}

static void
add_json_member (JsonBuilder *builder, const char *name, JsonNode *value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_value (builder, value);
}

static void
add_json_text (GstAsr *self, JsonBuilder *builder, const char *text,
    gint64 start, gint64 end)
{
  json_builder_begin_object (builder);
  add_json_member (builder, "text",
      json_node_init_string (json_node_alloc (), text));
  add_json_member (builder, "start", json_node_init_int (json_node_alloc (),
      get_json_time (self, start)));
  add_json_member (builder, "end", json_node_init_int (json_node_alloc (),
      get_json_time (self, end)));
}

char *
gst_asr_live_make_json (GstAsr *self, const AsrSegment *segment)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  add_json_text (self, builder, segment->text, segment->words[0].start,
      segment->words[segment->n_words - 1].end);
  add_json_member (builder, "final", json_node_init_boolean (
      json_node_alloc (), segment->is_final));
  json_builder_set_member_name (builder, "words");
  json_builder_begin_array (builder);
  for (guint i = 0; i < segment->n_words; i++) {
    const AsrWord *word = &segment->words[i];

    add_json_text (self, builder, word->text, word->start, word->end);
    add_json_member (builder, "confidence", json_node_init_double (
        json_node_alloc (), word->confidence));
    json_builder_end_object (builder);
  }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  return json_to_string (root, FALSE);
}

GstMessage *
gst_asr_live_make_message (GstAsr *self, const AsrSegment *segment)
{
  GstClockTime start, end;
  GValue words = G_VALUE_INIT;
  GstStructure *structure;
  gboolean is_wanted;

  GST_OBJECT_LOCK (self);
  is_wanted = self->post_messages;
  GST_OBJECT_UNLOCK (self);
  if (!is_wanted || segment->n_words == 0
      || self->out_segment.format != GST_FORMAT_TIME)
    return NULL;
  start = gst_asr_clock_to_pts (self->clock, segment->words[0].start);
  end = gst_asr_clock_to_pts (self->clock,
      segment->words[segment->n_words - 1].end);
  g_value_init (&words, GST_TYPE_ARRAY);
  for (guint i = 0; i < segment->n_words; i++)
    append_word (self, &words, &segment->words[i]);
  structure = gst_structure_new ("asr",
      "text", G_TYPE_STRING, segment->text,
      "final", G_TYPE_BOOLEAN, segment->is_final,
      "stream-time", G_TYPE_UINT64, gst_segment_to_stream_time (
          &self->out_segment, GST_FORMAT_TIME, start),
      "running-time", G_TYPE_UINT64, gst_segment_to_running_time (
          &self->out_segment, GST_FORMAT_TIME, start),
      "duration", G_TYPE_UINT64, end - start, NULL);
  gst_structure_take_value (structure, "words", &words);
  return gst_message_new_element (GST_OBJECT (self), structure);
}

static void
post_voice (GstAsr *self, gboolean is_speaking, gint64 sample)
{
  GstClockTime pts;

  if (self->out_segment.format != GST_FORMAT_TIME)
    return;
  g_mutex_lock (&self->lock);
  pts = gst_asr_clock_to_pts (self->clock, sample);
  g_mutex_unlock (&self->lock);
  gst_element_post_message (GST_ELEMENT (self),
      gst_message_new_element (GST_OBJECT (self),
          gst_structure_new ("voice-activity",
              "speaking", G_TYPE_BOOLEAN, is_speaking,
              "stream-time", G_TYPE_UINT64, gst_segment_to_stream_time (
                  &self->out_segment, GST_FORMAT_TIME, pts),
              "running-time", G_TYPE_UINT64, gst_segment_to_running_time (
                  &self->out_segment, GST_FORMAT_TIME, pts), NULL)));
}

/* The machine is too slow; at most once in a while. */
static void
warn_of_skipped (GstAsr *self, const AsrSegment *segment)
{
  gint64 now_us = g_get_monotonic_time ();

  if (now_us - self->warned_us < WARNING_INTERVAL_US)
    return;
  self->warned_us = now_us;
  GST_ELEMENT_WARNING (self, CORE, TOO_LAZY,
      ("This machine is too slow for the model: %.1f s of audio were left out. "
       "Use a smaller model or a faster machine.",
       (segment->end - segment->start) / (double) ASR_SAMPLE_RATE), (NULL));
}

void
gst_asr_live_tell_event (GstAsr *self, const AsrSegment *segment)
{
  gboolean is_wanted;

  if (segment->type == ASR_SEGMENT_PAUSE) {
    /* the name that captioning elements of gst-plugins-rs listen to */
    gst_asr_push_event (self,
        gst_event_new_custom (GST_EVENT_CUSTOM_DOWNSTREAM,
            gst_structure_new_empty ("rstranscribe/final-transcript")));
    return;
  }
  if (segment->type == ASR_SEGMENT_SKIPPED) {
    warn_of_skipped (self, segment);
    return;
  }
  GST_OBJECT_LOCK (self);
  is_wanted = self->post_messages;
  GST_OBJECT_UNLOCK (self);
  if (is_wanted)
    post_voice (self, segment->type == ASR_SEGMENT_SPEECH_START,
        segment->start);
}
