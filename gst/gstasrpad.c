/* SPDX-License-Identifier: MIT */
/* Pads on request, each with its own queue and task; see gstasrpad.h. */
#include "gst/gstasrpad.h"

#include <string.h>

/* Text that nobody takes from unsynced_src: the oldest goes. */
#define MAX_UNSYNCED_ITEMS 500
#define DEFAULT_LANGUAGE_CODE "en"

struct _GstAsrPad {
  GstPad parent;

  gboolean is_unsynced;      /* JSON, not a translation */
  char *language_code;       /* guarded by the object lock */

  /* guarded by the element's lock */
  gint output;               /* of the stream; -1: gaps alone */
  gint64 told;               /* sample up to which this output was told */
  GstAsrText text;
  gboolean has_language;     /* the tag was queued */

  /* guarded by lock */
  GMutex lock;
  GCond changed;
  GQueue items;              /* GstBuffer or GstEvent */
  gboolean is_flushing;
  gboolean is_refused;       /* downstream failed: nothing is pushed until a
                              * flush */
};

enum { PROP_0, PROP_LANGUAGE_CODE };

G_DEFINE_TYPE (GstAsrPad, gst_asr_pad, GST_TYPE_PAD);

static GstStaticPadTemplate translate_template = GST_STATIC_PAD_TEMPLATE (
    "translate_src_%u", GST_PAD_SRC, GST_PAD_REQUEST,
    GST_STATIC_CAPS ("text/x-raw, format = (string) utf8"));

static GstStaticPadTemplate unsynced_template = GST_STATIC_PAD_TEMPLATE (
    "unsynced_src", GST_PAD_SRC, GST_PAD_REQUEST,
    GST_STATIC_CAPS ("application/x-json"));

/* ---- queue and task ---- */

static void
clear_items (GstAsrPad *pad)
{
  g_queue_clear_full (&pad->items, (GDestroyNotify) gst_mini_object_unref);
}

/* Text that waits too long for an unsynced reader makes room for newer. */
static void
drop_oldest (GstAsrPad *pad)
{
  for (GList *l = pad->items.head; l != NULL; l = l->next)
    if (GST_IS_BUFFER (l->data)
        || GST_EVENT_TYPE (l->data) == GST_EVENT_GAP) {
      gst_mini_object_unref (l->data);
      g_queue_delete_link (&pad->items, l);
      return;
    }
}

/* @item: (transfer full): GstBuffer or GstEvent; never waits */
static void
queue_item (GstAsrPad *pad, gpointer item)
{
  g_mutex_lock (&pad->lock);
  if (pad->is_flushing) {
    gst_mini_object_unref (item);
  } else {
    if (pad->is_unsynced && pad->items.length >= MAX_UNSYNCED_ITEMS)
      drop_oldest (pad);
    g_queue_push_tail (&pad->items, item);
    g_cond_signal (&pad->changed);
  }
  g_mutex_unlock (&pad->lock);
}

static void
queue_all (GstAsrPad *pad, GQueue *out)
{
  gpointer item;

  while ((item = g_queue_pop_head (out)))
    queue_item (pad, item);
}

/* What downstream can't take ends this pad alone. */
static void
refuse (GstAsrPad *pad, GstFlowReturn ret)
{
  g_autoptr (GstElement) element = gst_pad_get_parent_element (GST_PAD (pad));

  g_mutex_lock (&pad->lock);
  pad->is_refused = TRUE;
  g_mutex_unlock (&pad->lock);
  if (element && ret < GST_FLOW_EOS)
    GST_ELEMENT_FLOW_ERROR (element, ret);
}

static void
push_next (gpointer user_data)
{
  GstAsrPad *pad = user_data;
  GstFlowReturn ret;
  gboolean is_refused;
  gpointer item;

  g_mutex_lock (&pad->lock);
  while (!pad->is_flushing && g_queue_is_empty (&pad->items))
    g_cond_wait (&pad->changed, &pad->lock);
  item = pad->is_flushing ? NULL : g_queue_pop_head (&pad->items);
  is_refused = pad->is_refused;
  g_mutex_unlock (&pad->lock);
  if (item == NULL) {
    gst_pad_pause_task (GST_PAD (pad));
    return;
  }
  if (GST_IS_EVENT (item)) {
    gst_pad_push_event (GST_PAD (pad), item);
  } else if (is_refused) {
    gst_buffer_unref (item);
  } else {
    /* a pad that is not linked now may be later */
    ret = gst_pad_push (GST_PAD (pad), item);
    if (ret <= GST_FLOW_EOS)
      refuse (pad, ret);
  }
}

static void
set_flushing (GstAsrPad *pad, gboolean is_flushing)
{
  g_mutex_lock (&pad->lock);
  pad->is_flushing = is_flushing;
  pad->is_refused = FALSE;
  clear_items (pad);
  g_cond_signal (&pad->changed);
  g_mutex_unlock (&pad->lock);
}

static gboolean
activate_mode (GstPad *pad, GstObject *parent, GstPadMode mode,
    gboolean active)
{
  if (mode != GST_PAD_MODE_PUSH)
    return FALSE;
  set_flushing (GST_ASR_PAD (pad), !active);
  return active ? gst_pad_start_task (pad, push_next, pad, NULL)
                : gst_pad_stop_task (pad);
}

/* ---- the pads of an element ---- */

static GPtrArray *
copy_pads (GstAsr *self)
{
  GPtrArray *copy = g_ptr_array_new_with_free_func (gst_object_unref);

  g_mutex_lock (&self->lock);
  for (guint i = 0; i < self->pads->len; i++)
    g_ptr_array_add (copy, gst_object_ref (g_ptr_array_index (self->pads, i)));
  g_mutex_unlock (&self->lock);
  return copy;
}

gboolean
gst_asr_pads_is_any_linked (GstAsr *self)
{
  g_autoptr (GPtrArray) pads = copy_pads (self);
  gboolean is_linked = FALSE;

  for (guint i = 0; i < pads->len; i++)
    is_linked |= gst_pad_is_linked (g_ptr_array_index (pads, i));
  return is_linked;
}

gboolean
gst_asr_pads_is_translation (GstPad *pad)
{
  return GST_IS_ASR_PAD (pad) && !GST_ASR_PAD (pad)->is_unsynced;
}

void
gst_asr_pads_flush (GstAsr *self, GstEvent *event)
{
  g_autoptr (GPtrArray) pads = copy_pads (self);
  gboolean starts = GST_EVENT_TYPE (event) == GST_EVENT_FLUSH_START;

  for (guint i = 0; i < pads->len; i++) {
    GstAsrPad *pad = g_ptr_array_index (pads, i);

    gst_pad_push_event (GST_PAD (pad), gst_event_ref (event));
    set_flushing (pad, starts);
    if (starts)
      gst_pad_pause_task (GST_PAD (pad));
    else
      gst_pad_start_task (GST_PAD (pad), push_next, pad, NULL);
  }
}

static GstEvent *
make_stream_start (GstAsrPad *pad, GstAsr *self, GstEvent *event)
{
  g_autofree char *id = gst_pad_create_stream_id (GST_PAD (pad),
      GST_ELEMENT (self), GST_PAD_NAME (pad));
  GstEvent *out = gst_event_new_stream_start (id);
  g_autoptr (GstStream) stream = gst_stream_new (id, NULL,
      pad->is_unsynced ? GST_STREAM_TYPE_UNKNOWN : GST_STREAM_TYPE_TEXT,
      GST_STREAM_FLAG_SPARSE);
  guint group;

  if (gst_event_parse_group_id (event, &group))
    gst_event_set_group_id (out, group);
  gst_event_set_stream_flags (out, GST_STREAM_FLAG_SPARSE);
  gst_event_set_stream (out, stream);
  gst_event_set_seqnum (out, gst_event_get_seqnum (event));
  return out;
}

static void
queue_event (GstAsrPad *pad, GstAsr *self, GstEvent *event)
{
  g_autoptr (GstCaps) caps = NULL;

  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_STREAM_START:
      pad->has_language = FALSE;
      queue_item (pad, make_stream_start (pad, self, event));
      break;
    case GST_EVENT_CAPS:
      caps = gst_pad_get_pad_template_caps (GST_PAD (pad));
      queue_item (pad, gst_event_new_caps (caps));
      break;
    case GST_EVENT_SEGMENT:
      gst_asr_text_init (&pad->text, self->text.granularity);
      pad->text.has_empty_buffers = self->text.has_empty_buffers;
      pad->text.moves_late = TRUE;
      queue_item (pad, gst_event_ref (event));
      break;
    case GST_EVENT_TAG:
      /* of the text's language, and this pad has its own */
      break;
    default:
      queue_item (pad, gst_event_ref (event));
      break;
  }
}

void
gst_asr_pads_take_event (GstAsr *self, GstEvent *event)
{
  for (guint i = 0; i < self->pads->len; i++)
    queue_event (g_ptr_array_index (self->pads, i), self, event);
}

/* ---- text ---- */

/* Silence says so too, else a sink that waits for its first would for ever. */
static void
queue_json (GstAsrPad *pad, GstAsr *self, const AsrSegment *segment)
{
  GstClockTime start, end;
  GstBuffer *buffer;
  char *json;

  if (self->out_segment.format != GST_FORMAT_TIME)
    return;
  if (segment->n_words == 0) {
    start = gst_asr_clock_to_pts (self->clock, segment->start);
    end = gst_asr_clock_to_pts (self->clock, segment->end);
    if (GST_CLOCK_TIME_IS_VALID (start) && end > start)
      queue_item (pad, gst_event_new_gap (start, end - start));
    return;
  }
  start = gst_asr_clock_to_pts (self->clock, segment->words[0].start);
  end = gst_asr_clock_to_pts (self->clock,
      segment->words[segment->n_words - 1].end);
  json = gst_asr_live_make_json (self, segment);
  buffer = gst_buffer_new_wrapped (json, strlen (json));
  GST_BUFFER_PTS (buffer) = start;
  GST_BUFFER_DURATION (buffer) = end > start ? end - start : 0;
  queue_item (pad, buffer);
}

static void
queue_language (GstAsrPad *pad, const char *language)
{
  if (pad->has_language)
    return;
  pad->has_language = TRUE;
  queue_item (pad, gst_event_new_tag (gst_tag_list_new (
      GST_TAG_LANGUAGE_CODE, language, NULL)));
}

/* Text of this pad's output; where it has none, gaps as text goes on. */
static void
queue_text (GstAsrPad *pad, GstAsr *self, const AsrSegment *segment)
{
  GQueue out = G_QUEUE_INIT;

  if (segment->output != (guint) MAX (pad->output, 0))
    return;
  if (!GST_CLOCK_TIME_IS_VALID (pad->text.position)
      && self->out_segment.format == GST_FORMAT_TIME)
    pad->text.position = MIN (self->out_segment.start,
        gst_asr_clock_to_pts (self->clock, segment->start));
  if (pad->output >= 0) {
    queue_language (pad, "en");
    gst_asr_live_catch_up (self, &pad->text, TRUE, &out);
    gst_asr_text_add_segment (&pad->text, segment, self->clock, &out);
  } else {
    gst_asr_text_add_gaps (&pad->text,
        gst_asr_clock_to_pts (self->clock, segment->end), &out);
  }
  pad->told = segment->end;
  queue_all (pad, &out);
}

void
gst_asr_pads_take_segment (GstAsr *self, const AsrSegment *segment,
    gboolean is_news)
{
  for (guint i = 0; i < self->pads->len; i++) {
    GstAsrPad *pad = g_ptr_array_index (self->pads, i);

    if (!pad->is_unsynced && segment->is_final)
      queue_text (pad, self, segment);
    else if (pad->is_unsynced && segment->output == 0 && is_news)
      queue_json (pad, self, segment);
  }
}

void
gst_asr_pads_catch_up (GstAsr *self)
{
  for (guint i = 0; i < self->pads->len; i++) {
    GstAsrPad *pad = g_ptr_array_index (self->pads, i);
    GQueue out = G_QUEUE_INIT;

    if (pad->is_unsynced)
      continue;
    gst_asr_live_catch_up (self, &pad->text, TRUE, &out);
    queue_all (pad, &out);
  }
}

gint64
gst_asr_pads_get_told (GstAsr *self, gint64 end)
{
  for (guint i = 0; i < self->pads->len; i++) {
    GstAsrPad *pad = g_ptr_array_index (self->pads, i);

    if (pad->output > 0)
      end = MIN (end, pad->told);
  }
  return end;
}

void
gst_asr_pads_reset (GstAsr *self)
{
  for (guint i = 0; i < self->pads->len; i++)
    ((GstAsrPad *) g_ptr_array_index (self->pads, i))->told = 0;
}

void
gst_asr_pads_stop (GstAsr *self)
{
  g_mutex_lock (&self->lock);
  for (guint i = 0; i < self->pads->len; i++) {
    GstAsrPad *pad = g_ptr_array_index (self->pads, i);

    pad->output = -1;
    pad->told = 0;
    pad->has_language = FALSE;
  }
  self->has_outputs = FALSE;
  g_mutex_unlock (&self->lock);
}

/* ---- outputs ---- */

static gboolean
is_english (const char *code)
{
  return code == NULL
      || (g_ascii_strncasecmp (code, "en", 2) == 0
          && !g_ascii_isalpha (code[2]));
}

/* Returns: output that a pad gets its text from, -1 with a warning */
static gint
choose_output (GstAsr *self, GstAsrPad *pad, AsrStream *stream, gint known)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *code = NULL;
  guint index;

  GST_OBJECT_LOCK (pad);
  code = g_strdup (pad->language_code);
  GST_OBJECT_UNLOCK (pad);
  if (!is_english (code)) {
    GST_ELEMENT_WARNING (self, LIBRARY, SETTINGS,
        ("%s: translations are English, not \"%s\"; this pad gets no text.",
         GST_PAD_NAME (pad), code), (NULL));
    return -1;
  }
  if (known >= 0)
    return known;
  if (!asr_stream_add_output (stream, ASR_TASK_TRANSLATE, &index, &error)) {
    GST_ELEMENT_WARNING (self, LIBRARY, SETTINGS,
        ("%s: %s. This pad gets no text.", GST_PAD_NAME (pad), error->message),
        (NULL));
    return -1;
  }
  return index;
}

void
gst_asr_pads_add_outputs (GstAsr *self, AsrStream *stream)
{
  g_autoptr (GPtrArray) pads = copy_pads (self);
  gint known = -1;

  /* what is written in English already need not be translated */
  GST_OBJECT_LOCK (self);
  if (self->task == ASR_TASK_TRANSLATE)
    known = 0;
  GST_OBJECT_UNLOCK (self);
  g_mutex_lock (&self->lock);
  self->has_outputs = TRUE;
  g_mutex_unlock (&self->lock);
  for (guint i = 0; i < pads->len; i++) {
    GstAsrPad *pad = g_ptr_array_index (pads, i);
    gint output;

    if (pad->is_unsynced)
      continue;
    output = choose_output (self, pad, stream, known);
    if (output >= 0)
      known = output;
    g_mutex_lock (&self->lock);
    pad->output = output;
    g_mutex_unlock (&self->lock);
  }
}

/* ---- requests ---- */

/* What a pad that comes late has missed. With the element's lock held. */
static gboolean
queue_sticky (GstPad *srcpad, GstEvent **event, gpointer user_data)
{
  GstAsrPad *pad = user_data;
  g_autoptr (GstAsr) self = GST_ASR (gst_pad_get_parent (srcpad));

  if (self && GST_EVENT_TYPE (*event) != GST_EVENT_EOS)
    queue_event (pad, self, *event);
  return TRUE;
}

static GstPad *
request_new_pad (GstElement *element, GstPadTemplate *template,
    const char *name, const GstCaps *caps)
{
  GstAsr *self = GST_ASR (element);
  gboolean is_unsynced = strcmp (template->name_template, "unsynced_src") == 0;
  g_autofree char *free_name = NULL;
  g_autoptr (GstPad) known = NULL;
  gboolean is_late;
  GstAsrPad *pad;

  if (is_unsynced)
    name = "unsynced_src";
  for (guint i = 0; name == NULL; i++) {
    g_autofree char *next = g_strdup_printf ("translate_src_%u", i);
    g_autoptr (GstPad) used = gst_element_get_static_pad (element, next);

    if (used == NULL)
      name = free_name = g_steal_pointer (&next);
  }
  known = gst_element_get_static_pad (element, name);
  if (known)
    return NULL;
  pad = g_object_new (GST_TYPE_ASR_PAD, "name", name, "direction",
      template->direction, "template", template, NULL);
  pad->is_unsynced = is_unsynced;
  gst_pad_use_fixed_caps (GST_PAD (pad));
  gst_pad_set_activatemode_function (GST_PAD (pad),
      GST_DEBUG_FUNCPTR (activate_mode));
  gst_pad_set_query_function (GST_PAD (pad),
      GST_DEBUG_FUNCPTR (gst_asr_src_query));
  if (GST_STATE (self) > GST_STATE_READY
      || GST_STATE_NEXT (self) == GST_STATE_PAUSED)
    gst_pad_set_active (GST_PAD (pad), TRUE);
  gst_element_add_pad (element, GST_PAD (pad));
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->pads, gst_object_ref (pad));
  gst_pad_sticky_events_foreach (self->srcpad, queue_sticky, pad);
  is_late = self->has_outputs && !is_unsynced;
  g_mutex_unlock (&self->lock);
  if (is_late)
    GST_ELEMENT_WARNING (self, LIBRARY, SETTINGS,
        ("%s was requested after READY: it gets no text before the element "
         "was in READY again.", name), (NULL));
  return GST_PAD (pad);
}

static void
release_pad (GstElement *element, GstPad *pad)
{
  GstAsr *self = GST_ASR (element);

  g_mutex_lock (&self->lock);
  g_ptr_array_remove (self->pads, pad);
  g_mutex_unlock (&self->lock);
  gst_pad_set_active (pad, FALSE);
  gst_element_remove_pad (element, pad);
}

void
gst_asr_pads_init_class (GstElementClass *klass)
{
  gst_element_class_add_static_pad_template_with_gtype (klass,
      &translate_template, GST_TYPE_ASR_PAD);
  gst_element_class_add_static_pad_template (klass, &unsynced_template);
  klass->request_new_pad = GST_DEBUG_FUNCPTR (request_new_pad);
  klass->release_pad = GST_DEBUG_FUNCPTR (release_pad);
}

/* ---- class ---- */

static void
gst_asr_pad_set_property (GObject *object, guint id, const GValue *value,
    GParamSpec *pspec)
{
  GstAsrPad *pad = GST_ASR_PAD (object);

  if (id != PROP_LANGUAGE_CODE) {
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    return;
  }
  GST_OBJECT_LOCK (pad);
  g_free (pad->language_code);
  pad->language_code = g_value_dup_string (value);
  GST_OBJECT_UNLOCK (pad);
}

static void
gst_asr_pad_get_property (GObject *object, guint id, GValue *value,
    GParamSpec *pspec)
{
  GstAsrPad *pad = GST_ASR_PAD (object);

  if (id != PROP_LANGUAGE_CODE) {
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    return;
  }
  GST_OBJECT_LOCK (pad);
  g_value_set_string (value, pad->language_code);
  GST_OBJECT_UNLOCK (pad);
}

static void
gst_asr_pad_finalize (GObject *object)
{
  GstAsrPad *pad = GST_ASR_PAD (object);

  clear_items (pad);
  g_free (pad->language_code);
  g_mutex_clear (&pad->lock);
  g_cond_clear (&pad->changed);
  G_OBJECT_CLASS (gst_asr_pad_parent_class)->finalize (object);
}

static void
gst_asr_pad_init (GstAsrPad *pad)
{
  g_mutex_init (&pad->lock);
  g_cond_init (&pad->changed);
  g_queue_init (&pad->items);
  pad->is_flushing = TRUE;
  pad->output = -1;
  pad->language_code = g_strdup (DEFAULT_LANGUAGE_CODE);
  gst_asr_text_init (&pad->text, GST_ASR_GRANULARITY_WORD);
}

static void
gst_asr_pad_class_init (GstAsrPadClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->set_property = gst_asr_pad_set_property;
  object_class->get_property = gst_asr_pad_get_property;
  object_class->finalize = gst_asr_pad_finalize;
  g_object_class_install_property (object_class, PROP_LANGUAGE_CODE,
      g_param_spec_string ("language-code", "Language code",
          "What a translation is written in: \"en\"; a pad with another code "
          "gets no text", DEFAULT_LANGUAGE_CODE,
          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS
              | GST_PARAM_MUTABLE_READY));
}
