/* SPDX-License-Identifier: MIT */
/*
 * The element's source pad: a task that pulls what the engine has told, and
 * pushes buffers, gaps and events in their order.
 */
#include "gst/gstasrpad.h"

#include <string.h>

/* How often a live position is looked after while nothing comes. */
#define CATCH_UP_US (G_USEC_PER_SEC / 10)

void
gst_asr_push_event (GstAsr *self, GstEvent *event)
{
  gst_pad_push_event (self->srcpad, gst_event_ref (event));
  g_mutex_lock (&self->lock);
  gst_asr_pads_take_event (self, event);
  g_mutex_unlock (&self->lock);
  gst_event_unref (event);
}

static void
push_language (GstAsr *self, const char *language)
{
  if (*language == '\0' || strcmp (language, self->tag_language) == 0)
    return;
  g_strlcpy (self->tag_language, language, sizeof self->tag_language);
  gst_pad_push_event (self->srcpad,
      gst_event_new_tag (gst_tag_list_new (GST_TAG_LANGUAGE_CODE, language,
          NULL)));
}

/* What one segment becomes goes downstream. Returns: flow of the buffers */
static GstFlowReturn
push_all (GstAsr *self, GQueue *out)
{
  GstFlowReturn ret = GST_FLOW_OK;
  gpointer item;

  while ((item = g_queue_pop_head (out))) {
    if (GST_IS_EVENT (item))
      /* nobody is hurt by a gap that was refused */
      gst_pad_push_event (self->srcpad, item);
    else if (ret == GST_FLOW_OK)
      ret = gst_pad_push (self->srcpad, item);
    else
      gst_buffer_unref (item);
  }
  if (ret == GST_FLOW_NOT_LINKED && gst_asr_pads_is_any_linked (self))
    ret = GST_FLOW_OK;
  return ret;
}

/* Where the anchors of samples are needed no longer. With the lock held. */
static void
forget_times (GstAsr *self, const AsrSegment *segment)
{
  gst_asr_clock_forget (self->clock,
      gst_asr_pads_get_told (self, segment->end));
}

/* Text that only a pad on request is for; the end comes with output 0. */
static void
hand_out (GstAsr *self, const AsrSegment *segment)
{
  if (segment->type != ASR_SEGMENT_TEXT)
    return;
  g_mutex_lock (&self->lock);
  gst_asr_pads_take_segment (self, segment, FALSE);
  g_mutex_unlock (&self->lock);
}

static GstFlowReturn
push_segment (GstAsr *self, const AsrSegment *segment)
{
  GQueue out = G_QUEUE_INIT;
  GstMessage *message;

  push_language (self, segment->language);
  gst_asr_live_check (self, segment);
  g_mutex_lock (&self->lock);
  if (!GST_CLOCK_TIME_IS_VALID (self->text.position)
      && self->out_segment.format == GST_FORMAT_TIME)
    /* gaps count from the start of the segment, also where audio is late */
    self->text.position = MIN (self->out_segment.start,
        gst_asr_clock_to_pts (self->clock, segment->start));
  gst_asr_pads_take_segment (self, segment,
      gst_asr_live_is_news (self, segment));
  message = gst_asr_live_make_message (self, segment);
  gst_asr_live_catch_up (self, &self->text, FALSE, &out);
  gst_asr_text_add_segment (&self->text, segment, self->clock, &out);
  forget_times (self, segment);
  g_mutex_unlock (&self->lock);
  if (message)
    gst_element_post_message (GST_ELEMENT (self), message);
  return push_all (self, &out);
}

/* What a method computed goes to whoever asked for it. */
static void
tell_output (GstAsr *self, AsrSegment *segment)
{
  gsize n_bytes
      = (gsize) segment->shape[0] * segment->shape[1] * sizeof (float);
  const char *method = asr_method_get_name (segment->method);
  g_autoptr (GstBuffer) buffer = gst_buffer_new_memdup (segment->data,
      n_bytes);
  g_autoptr (GstCaps) caps = gst_caps_new_simple ("application/x-asr-output",
      "method", G_TYPE_STRING, method, "format", G_TYPE_STRING, "F32LE", NULL);
  g_autoptr (GstSample) sample = NULL;
  g_auto (GValue) shape = G_VALUE_INIT;

  g_value_init (&shape, GST_TYPE_ARRAY);
  for (guint i = 0; i < G_N_ELEMENTS (segment->shape); i++) {
    g_auto (GValue) length = G_VALUE_INIT;

    g_value_init (&length, G_TYPE_INT);
    g_value_set_int (&length, segment->shape[i]);
    gst_value_array_append_value (&shape, &length);
  }
  gst_caps_set_value (caps, "shape", &shape);
  g_mutex_lock (&self->lock);
  GST_BUFFER_PTS (buffer)
      = gst_asr_clock_to_pts (self->clock, segment->start);
  GST_BUFFER_DURATION (buffer)
      = gst_asr_clock_to_pts (self->clock, segment->end)
      - GST_BUFFER_PTS (buffer);
  g_mutex_unlock (&self->lock);
  sample = gst_sample_new (buffer, caps, &self->out_segment, NULL);
  gst_asr_emit_output (self, method, sample);
}

/* A guess goes to the bus and beside the source pad: what was pushed stays. */
static void
tell_guess (GstAsr *self, const AsrSegment *segment)
{
  GstMessage *message = NULL;

  g_mutex_lock (&self->lock);
  if (gst_asr_live_is_news (self, segment)) {
    gst_asr_pads_take_segment (self, segment, TRUE);
    message = gst_asr_live_make_message (self, segment);
  }
  g_mutex_unlock (&self->lock);
  if (message)
    gst_element_post_message (GST_ELEMENT (self), message);
}

/* Stream-start, caps and segments, in their order. */
static void
push_events (GstAsr *self)
{
  for (;;) {
    GstEvent *event;

    g_mutex_lock (&self->lock);
    event = g_queue_pop_head (&self->events);
    g_mutex_unlock (&self->lock);
    if (event == NULL)
      return;
    if (GST_EVENT_TYPE (event) == GST_EVENT_SEGMENT) {
      gst_event_copy_segment (event, &self->out_segment);
      gst_asr_text_reset (&self->text, GST_CLOCK_TIME_NONE);
    }
    gst_asr_push_event (self, event);
  }
}

/* The engine told all that was pushed: EOS goes on, or the sink pad does. */
static void
finish_drain (GstAsr *self)
{
  gboolean is_eos;
  guint32 seqnum;

  g_mutex_lock (&self->lock);
  is_eos = self->is_eos;
  seqnum = self->eos_seqnum;
  self->is_draining = FALSE;
  self->is_eos = FALSE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  if (is_eos) {
    GstEvent *event = gst_event_new_eos ();

    gst_event_set_seqnum (event, seqnum);
    gst_asr_push_event (self, event);
  }
}

static void
pause_task (GstAsr *self, GstFlowReturn ret)
{
  g_mutex_lock (&self->lock);
  if (self->srcret == GST_FLOW_OK)
    self->srcret = ret;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  gst_pad_pause_task (self->srcpad);
  if (ret == GST_FLOW_NOT_LINKED || ret <= GST_FLOW_EOS) {
    if (ret == GST_FLOW_EOS)
      return;
    GST_ELEMENT_FLOW_ERROR (self, ret);
    gst_asr_push_event (self, gst_event_new_eos ());
  }
}

/* Pulls until nothing waits. Returns: FALSE when the task has paused */
static gboolean
pull_all (GstAsr *self, AsrStream *stream)
{
  g_autoptr (GError) error = NULL;
  AsrSegment *segment;

  while ((segment = asr_stream_pull (stream, &error))) {
    gboolean is_end = segment->type == ASR_SEGMENT_END;
    GstFlowReturn ret = GST_FLOW_OK;

    push_events (self);
    /* of the same audio, output 0 is told last: where the source pad's peer
     * waits, the others have theirs */
    if (segment->output > 0)
      hand_out (self, segment);
    else if (is_end)
      finish_drain (self);
    else if (segment->type == ASR_SEGMENT_OUTPUT)
      tell_output (self, segment);
    else if (segment->type != ASR_SEGMENT_TEXT)
      gst_asr_live_tell_event (self, segment);
    else if (!segment->is_final)
      tell_guess (self, segment);
    else
      ret = push_segment (self, segment);
    asr_segment_free (segment);
    if (ret != GST_FLOW_OK) {
      pause_task (self, ret);
      return FALSE;
    }
  }
  if (error) {
    gst_asr_post_error (self, error);
    gst_asr_set_failed (self);
    pause_task (self, GST_FLOW_FLUSHING);
    return FALSE;
  }
  return TRUE;
}

/* While nothing comes, the position of live text goes on all the same. */
static void
push_catch_up (GstAsr *self)
{
  GQueue out = G_QUEUE_INIT;

  g_mutex_lock (&self->lock);
  gst_asr_live_catch_up (self, &self->text, FALSE, &out);
  gst_asr_pads_catch_up (self);
  g_mutex_unlock (&self->lock);
  push_all (self, &out);
}

/* With the lock held: waits for something to do, or for some time while the
 * source is live. */
static void
wait_for_news (GstAsr *self)
{
  while (!self->is_flushing && !self->has_news && !self->has_failed
      && g_queue_is_empty (&self->events)
      && !(self->is_eos && !self->is_draining))
    if (!self->is_live)
      g_cond_wait (&self->changed, &self->lock);
    else if (!g_cond_wait_until (&self->changed, &self->lock,
                 g_get_monotonic_time () + CATCH_UP_US))
      return;
}

static void
src_task (gpointer user_data)
{
  GstAsr *self = user_data;
  AsrStream *stream;
  gboolean is_empty_eos;

  g_mutex_lock (&self->lock);
  wait_for_news (self);
  if (self->is_flushing || self->has_failed) {
    g_mutex_unlock (&self->lock);
    gst_pad_pause_task (self->srcpad);
    return;
  }
  self->has_news = FALSE;
  stream = self->stream;
  /* no audio came: there is nothing to wait for */
  is_empty_eos = self->is_eos && !self->is_draining;
  g_mutex_unlock (&self->lock);

  if (is_empty_eos) {
    push_events (self);
    finish_drain (self);
  } else if (stream == NULL) {
    push_events (self);
  } else if (!pull_all (self, stream)) {
    return;
  }
  push_catch_up (self);
  /* events whose turn comes before any text: nothing was pushed yet */
  g_mutex_lock (&self->lock);
  is_empty_eos = !self->is_draining;
  g_mutex_unlock (&self->lock);
  if (is_empty_eos)
    push_events (self);
}

gboolean
gst_asr_start_src_task (GstAsr *self)
{
  return gst_pad_start_task (self->srcpad, src_task, self, NULL);
}

static gboolean
src_activate_mode (GstPad *pad, GstObject *parent, GstPadMode mode,
    gboolean active)
{
  GstAsr *self = GST_ASR (parent);

  if (mode != GST_PAD_MODE_PUSH)
    return FALSE;
  g_mutex_lock (&self->lock);
  self->is_flushing = !active;
  self->srcret = active ? GST_FLOW_OK : GST_FLOW_FLUSHING;
  if (!active && self->stream)
    asr_stream_cancel (self->stream);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  if (active)
    return gst_asr_start_src_task (self);
  return gst_pad_stop_task (pad);
}

gboolean
gst_asr_src_query (GstPad *pad, GstObject *parent, GstQuery *query)
{
  GstAsr *self = GST_ASR (parent);
  GstClockTime min, max, extra;
  gboolean is_live;

  if (GST_QUERY_TYPE (query) != GST_QUERY_LATENCY)
    return gst_pad_query_default (pad, parent, query);
  if (!gst_pad_peer_query (self->sinkpad, query))
    return FALSE;
  gst_query_parse_latency (query, &is_live, &min, &max);
  GST_OBJECT_LOCK (self);
  extra = gst_asr_pads_is_translation (pad)
      ? self->translate_latency * GST_MSECOND
      : 0;
  GST_OBJECT_UNLOCK (self);
  g_mutex_lock (&self->lock);
  self->is_live = is_live;
  if (is_live) {
    GstClockTime latency = gst_asr_live_get_latency (self) + extra;

    min += latency;
    if (GST_CLOCK_TIME_IS_VALID (max))
      max += latency;
  }
  g_mutex_unlock (&self->lock);
  gst_query_set_latency (query, is_live, min, max);
  return TRUE;
}

void
gst_asr_init_src (GstAsr *self, GstPad *pad)
{
  self->srcpad = pad;
  gst_pad_use_fixed_caps (pad);
  gst_pad_set_activatemode_function (pad,
      GST_DEBUG_FUNCPTR (src_activate_mode));
  gst_pad_set_query_function (pad, GST_DEBUG_FUNCPTR (gst_asr_src_query));
  gst_element_add_pad (GST_ELEMENT (self), pad);
}
