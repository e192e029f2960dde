/* SPDX-License-Identifier: MIT */
/*
 * The element's sink pad: audio to samples with their times, and events in
 * their order. Runs in the thread that pushes; waits only where the backlog is
 * full, the model loads, or text must come first.
 */
#include "gst/gstasrpad.h"

/* With the lock held: waits until there is a stream. */
static GstFlowReturn
wait_for_stream (GstAsr *self)
{
  while (self->stream == NULL && !self->is_flushing && !self->has_failed)
    g_cond_wait (&self->changed, &self->lock);
  if (self->is_flushing)
    return GST_FLOW_FLUSHING;
  return self->has_failed ? GST_FLOW_ERROR : self->srcret;
}

/* Samples to the engine; waits for room unless the source is live. */
static GstFlowReturn
push_samples (GstAsr *self, const float *samples, gsize n_samples)
{
  GstFlowReturn ret;

  g_mutex_lock (&self->lock);
  ret = wait_for_stream (self);
  if (ret == GST_FLOW_OK)
    asr_stream_set_output_tap (self->stream, gst_asr_get_tap (self));
  if (ret == GST_FLOW_OK)
    asr_stream_set_policy (self->stream, gst_asr_live_choose_policy (self),
        gst_asr_live_get_latency_samples (self), self->is_live);
  while (ret == GST_FLOW_OK && n_samples > 0) {
    gsize n_taken = asr_stream_push (self->stream, samples, n_samples);

    samples += n_taken;
    n_samples -= n_taken;
    if (n_samples == 0)
      break;
    if (self->is_live) {
      /* lag is bounded: what does not fit was never heard */
      GST_WARNING_OBJECT (self, "too slow: %" G_GSIZE_FORMAT
          " samples dropped", n_samples);
      asr_stream_skip (self->stream, n_samples);
      break;
    }
    g_cond_wait_until (&self->changed, &self->lock,
        g_get_monotonic_time () + G_USEC_PER_SEC / 10);
    ret = self->is_flushing ? GST_FLOW_FLUSHING : self->srcret;
  }
  g_mutex_unlock (&self->lock);
  return ret;
}

/* What the converter still holds goes to the engine; then it starts anew. */
static GstFlowReturn
drain_converter (GstAsr *self)
{
  const float *samples;
  gsize n;

  if (self->convert == NULL)
    return GST_FLOW_OK;
  self->base += gst_asr_convert_get_n_heard (self->convert);
  samples = gst_asr_convert_drain (self->convert, &n);
  return n > 0 ? push_samples (self, samples, n) : GST_FLOW_OK;
}

/* Everything so far becomes text before anything else is heard. */
static GstFlowReturn
drain (GstAsr *self)
{
  GstFlowReturn ret;

  if (!self->has_audio)
    return GST_FLOW_OK;
  ret = drain_converter (self);
  g_mutex_lock (&self->lock);
  if (ret == GST_FLOW_OK)
    ret = wait_for_stream (self);
  if (ret == GST_FLOW_OK) {
    self->is_draining = TRUE;
    asr_stream_drain (self->stream);
    while (self->is_draining && !self->is_flushing
        && self->srcret == GST_FLOW_OK)
      g_cond_wait (&self->changed, &self->lock);
    ret = self->is_flushing ? GST_FLOW_FLUSHING : self->srcret;
    asr_stream_reset (self->stream);
    gst_asr_clock_reset (self->clock);
    gst_asr_pads_reset (self);
  }
  self->base = 0;
  self->has_audio = FALSE;
  g_mutex_unlock (&self->lock);
  return ret;
}

static gint64
get_next_sample (GstAsr *self)
{
  return self->base
      + (self->convert ? gst_asr_convert_get_n_heard (self->convert) : 0);
}

/* Time without audio before @pts becomes a gap; the anchor is set. */
static GstFlowReturn
take_time (GstAsr *self, GstClockTime pts)
{
  gint64 sample = get_next_sample (self);
  GstFlowReturn ret = GST_FLOW_OK;
  gboolean jumps_back;
  guint64 n_gap;

  g_mutex_lock (&self->lock);
  if (!GST_CLOCK_TIME_IS_VALID (pts)) {
    pts = gst_asr_clock_to_pts (self->clock, sample);
    if (!GST_CLOCK_TIME_IS_VALID (pts))
      pts = self->segment.start;
  }
  n_gap = gst_asr_clock_get_gap (self->clock, sample, pts);
  jumps_back = gst_asr_clock_jumps_back (self->clock, sample, pts);
  g_mutex_unlock (&self->lock);
  if (jumps_back) {
    GST_DEBUG_OBJECT (self, "back to %" GST_TIME_FORMAT, GST_TIME_ARGS (pts));
    ret = drain (self);
    sample = get_next_sample (self);
  } else if (n_gap > 0) {
    GST_DEBUG_OBJECT (self, "gap of %" G_GUINT64_FORMAT " samples before %"
        GST_TIME_FORMAT, n_gap, GST_TIME_ARGS (pts));
    ret = drain_converter (self);
    sample = self->base += n_gap;
  }
  if (ret != GST_FLOW_OK)
    return ret;
  g_mutex_lock (&self->lock);
  ret = wait_for_stream (self);
  if (ret == GST_FLOW_OK && n_gap > 0)
    asr_stream_skip (self->stream, n_gap);
  gst_asr_clock_add (self->clock, sample, pts);
  g_mutex_unlock (&self->lock);
  return ret;
}

static GstFlowReturn
chain (GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
  GstAsr *self = GST_ASR (parent);
  GstAudioBuffer audio;
  GstFlowReturn ret;
  const float *samples;
  gsize n;

  if (!self->has_info) {
    gst_buffer_unref (buffer);
    GST_ELEMENT_ERROR (self, CORE, NEGOTIATION,
        ("No audio format was agreed on before the first buffer."), (NULL));
    return GST_FLOW_NOT_NEGOTIATED;
  }
  if (self->segment.format == GST_FORMAT_TIME
      && GST_BUFFER_PTS_IS_VALID (buffer)) {
    buffer = gst_audio_buffer_clip (buffer, &self->segment,
        GST_AUDIO_INFO_RATE (&self->info), GST_AUDIO_INFO_BPF (&self->info));
    if (buffer == NULL)
      return GST_FLOW_OK;
  }
  ret = take_time (self, GST_BUFFER_PTS (buffer));
  if (ret != GST_FLOW_OK) {
    gst_buffer_unref (buffer);
    return ret;
  }
  self->has_audio = TRUE;
  if (!gst_audio_buffer_map (&audio, &self->info, buffer, GST_MAP_READ)) {
    gst_buffer_unref (buffer);
    GST_ELEMENT_ERROR (self, STREAM, FORMAT,
        ("A buffer does not hold whole audio frames."), (NULL));
    return GST_FLOW_ERROR;
  }
  samples = gst_asr_convert_run (self->convert, &audio, &n);
  gst_audio_buffer_unmap (&audio);
  gst_buffer_unref (buffer);
  return n > 0 ? push_samples (self, samples, n) : GST_FLOW_OK;
}

static gboolean
take_caps (GstAsr *self, GstEvent *event)
{
  GstAudioInfo info;
  GstCaps *caps;

  gst_event_parse_caps (event, &caps);
  if (!gst_audio_info_from_caps (&info, caps))
    return FALSE;
  if (self->has_info && gst_audio_info_is_equal (&info, &self->info))
    return TRUE;
  /* the time line goes on over a change of format */
  if (drain_converter (self) != GST_FLOW_OK)
    return FALSE;
  g_clear_pointer (&self->convert, gst_asr_convert_free);
  self->convert = gst_asr_convert_new (&info, ASR_SAMPLE_RATE);
  if (self->convert == NULL) {
    GST_ELEMENT_ERROR (self, STREAM, FORMAT,
        ("Audio of this format can't be converted: %" GST_PTR_FORMAT, caps),
        (NULL));
    return FALSE;
  }
  self->info = info;
  self->has_info = TRUE;
  return TRUE;
}

/* @event: (transfer full) */
static void
queue_event (GstAsr *self, GstEvent *event)
{
  g_mutex_lock (&self->lock);
  g_queue_push_tail (&self->events, event);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

static gboolean
take_segment (GstAsr *self, GstEvent *event)
{
  GstSegment segment, copy;
  GstEvent *out;

  gst_event_copy_segment (event, &segment);
  if (segment.format != GST_FORMAT_TIME) {
    GST_ELEMENT_ERROR (self, STREAM, FORMAT,
        ("Only segments in time can be transcribed, not in %s.",
         gst_format_get_name (segment.format)), (NULL));
    return FALSE;
  }
  if (segment.rate < 0) {
    GST_ELEMENT_WARNING (self, STREAM, FORMAT,
        ("Speech played backwards is not transcribed."), (NULL));
  }
  copy = self->segment;
  copy.position = segment.position;
  if (self->has_segment_event && gst_segment_is_equal (&copy, &segment)) {
    self->segment = segment;
    return TRUE;
  }
  if (drain (self) != GST_FLOW_OK && self->is_flushing)
    return FALSE;
  self->segment = segment;
  self->has_segment_event = TRUE;
  GST_OBJECT_LOCK (self);
  segment.base += self->lateness * GST_MSECOND;
  GST_OBJECT_UNLOCK (self);
  out = gst_event_new_segment (&segment);
  gst_event_set_seqnum (out, gst_event_get_seqnum (event));
  queue_event (self, out);
  return TRUE;
}

static void
take_stream_start (GstAsr *self, GstEvent *event)
{
  g_autofree char *id = gst_pad_create_stream_id (self->srcpad,
      GST_ELEMENT (self), "text");
  GstEvent *out = gst_event_new_stream_start (id);
  g_autoptr (GstStream) stream = gst_stream_new (id, NULL,
      GST_STREAM_TYPE_TEXT, GST_STREAM_FLAG_SPARSE);
  g_autoptr (GstCaps) caps = gst_pad_get_pad_template_caps (self->srcpad);
  guint group;

  if (gst_event_parse_group_id (event, &group))
    gst_event_set_group_id (out, group);
  gst_event_set_stream_flags (out, GST_STREAM_FLAG_SPARSE);
  gst_event_set_stream (out, stream);
  gst_event_set_seqnum (out, gst_event_get_seqnum (event));
  queue_event (self, out);
  queue_event (self, gst_event_new_caps (caps));
}

static gboolean
take_gap (GstAsr *self, GstEvent *event)
{
  GstClockTime start, duration;
  GstFlowReturn ret;
  gint64 n;

  gst_event_parse_gap (event, &start, &duration);
  if (!GST_CLOCK_TIME_IS_VALID (duration))
    return TRUE;
  ret = drain_converter (self);
  if (ret == GST_FLOW_OK)
    ret = take_time (self, start);
  if (ret != GST_FLOW_OK)
    return FALSE;
  n = gst_util_uint64_scale_round (duration, ASR_SAMPLE_RATE, GST_SECOND);
  g_mutex_lock (&self->lock);
  if (self->stream)
    asr_stream_skip (self->stream, n);
  g_mutex_unlock (&self->lock);
  self->base += n;
  self->has_audio = TRUE;
  return TRUE;
}

static void
take_eos (GstAsr *self, GstEvent *event)
{
  if (self->has_audio)
    drain_converter (self);
  g_mutex_lock (&self->lock);
  self->is_eos = TRUE;
  self->eos_seqnum = gst_event_get_seqnum (event);
  if (self->has_audio && wait_for_stream (self) == GST_FLOW_OK) {
    self->is_draining = TRUE;
    asr_stream_drain (self->stream);
  }
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

static void
flush_start (GstAsr *self)
{
  g_mutex_lock (&self->lock);
  self->is_flushing = TRUE;
  self->srcret = GST_FLOW_FLUSHING;
  if (self->stream)
    asr_stream_cancel (self->stream);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  gst_pad_pause_task (self->srcpad);
}

static void
flush_stop (GstAsr *self)
{
  g_mutex_lock (&self->lock);
  if (self->stream)
    asr_stream_reset (self->stream);
  gst_asr_clock_reset (self->clock);
  gst_asr_pads_reset (self);
  self->base = 0;
  self->has_audio = FALSE;
  self->is_flushing = FALSE;
  self->is_draining = FALSE;
  self->is_eos = FALSE;
  self->has_news = FALSE;
  self->has_segment_event = FALSE;
  self->srcret = self->has_failed ? GST_FLOW_ERROR : GST_FLOW_OK;
  for (GList *l = self->events.head, *next; l != NULL; l = next) {
    next = l->next;
    if (GST_EVENT_TYPE (l->data) == GST_EVENT_SEGMENT) {
      gst_event_unref (l->data);
      g_queue_delete_link (&self->events, l);
    }
  }
  g_mutex_unlock (&self->lock);
  if (self->convert)
    gst_asr_convert_reset (self->convert);
  gst_segment_init (&self->segment, GST_FORMAT_UNDEFINED);
  gst_asr_text_reset (&self->text, GST_CLOCK_TIME_NONE);
  gst_asr_start_src_task (self);
}

static void
update_is_live (GstAsr *self)
{
  g_autoptr (GstQuery) query = gst_query_new_latency ();
  gboolean is_live = FALSE;

  if (gst_pad_peer_query (self->sinkpad, query))
    gst_query_parse_latency (query, &is_live, NULL, NULL);
  g_mutex_lock (&self->lock);
  self->is_live = is_live;
  g_mutex_unlock (&self->lock);
}

static gboolean
sink_event (GstPad *pad, GstObject *parent, GstEvent *event)
{
  GstAsr *self = GST_ASR (parent);
  gboolean ok = TRUE;

  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_FLUSH_START:
      gst_asr_pads_flush (self, event);
      ok = gst_pad_push_event (self->srcpad, event);
      flush_start (self);
      return ok;
    case GST_EVENT_FLUSH_STOP:
      gst_asr_pads_flush (self, event);
      ok = gst_pad_push_event (self->srcpad, event);
      flush_stop (self);
      return ok;
    case GST_EVENT_STREAM_START:
      update_is_live (self);
      take_stream_start (self, event);
      break;
    case GST_EVENT_CAPS:
      ok = take_caps (self, event);
      break;
    case GST_EVENT_SEGMENT:
      ok = take_segment (self, event);
      break;
    case GST_EVENT_GAP:
      ok = take_gap (self, event);
      break;
    case GST_EVENT_EOS:
      take_eos (self, event);
      break;
    case GST_EVENT_TAG:
      /* bit rates and codecs are the audio's, not the text's */
      break;
    default:
      return gst_pad_event_default (pad, parent, event);
  }
  gst_event_unref (event);
  return ok;
}

void
gst_asr_init_sink (GstAsr *self, GstPad *pad)
{
  self->sinkpad = pad;
  gst_pad_set_chain_function (pad, GST_DEBUG_FUNCPTR (chain));
  gst_pad_set_event_function (pad, GST_DEBUG_FUNCPTR (sink_event));
  gst_element_add_pad (GST_ELEMENT (self), pad);
}
