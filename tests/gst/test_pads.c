/* SPDX-License-Identifier: MIT */
/*
 * The pads on request, as transcriberbin and applications use them, with the
 * generated model that says one fixed script in every window, whatever it
 * hears and whatever its task is.
 */
#include "gst/gstasr.h"

#include <gst/check/gstharness.h>
#include <json-glib/json-glib.h>
#include <string.h>

#define MS GST_MSECOND
#define CAPS "audio/x-raw,format=S16LE,layout=interleaved,rate=16000," \
  "channels=1"
static const char *const script[] = { "hello", "world,", "the", "quick",
  "brown", "fox.", "a", "test", "of", "café." };

static GstElement *
make_element (void)
{
  GstElement *element = g_object_new (GST_TYPE_ASR, NULL);

  g_object_set (element, "model", g_getenv ("TINY_TRANSLATOR"),
      "language-code", "en", "vad", FALSE, "threads", 2, "backend",
      1 /* cpu */, NULL);
  return element;
}

/* ---- what came out of one pad ---- */

/* Filled in streaming threads; guarded by lock. */
typedef struct {
  GMutex lock;
  GCond changed;
  GPtrArray *texts;      /* char */
  GString *order;        /* stream-start s, caps c, segment S, tag t, text b,
                          * gap g, flush f F, final-transcript p, EOS e */
  GstClockTime end;      /* of the last text or gap */
  char *stream_id;
  char *language;
  gboolean is_blocked;   /* what comes next waits */
  gboolean is_waiting;
} Sink;

static void
sink_init (Sink *sink)
{
  memset (sink, 0, sizeof *sink);
  g_mutex_init (&sink->lock);
  g_cond_init (&sink->changed);
  /* a pad that links while text flows shows it to another thread */
  g_mutex_lock (&sink->lock);
  sink->texts = g_ptr_array_new_with_free_func (g_free);
  sink->order = g_string_new (NULL);
  sink->end = GST_CLOCK_TIME_NONE;
  g_mutex_unlock (&sink->lock);
}

static void
sink_clear (Sink *sink)
{
  g_ptr_array_unref (sink->texts);
  g_string_free (sink->order, TRUE);
  g_free (sink->stream_id);
  g_free (sink->language);
  g_mutex_clear (&sink->lock);
  g_cond_clear (&sink->changed);
}

/* Text and gaps cover the time without holes or overlap. */
static void
take_time (Sink *sink, GstClockTime start, GstClockTime duration)
{
  g_assert_true (GST_CLOCK_TIME_IS_VALID (start));
  g_assert_true (GST_CLOCK_TIME_IS_VALID (duration));
  if (GST_CLOCK_TIME_IS_VALID (sink->end))
    g_assert_cmpuint (start, ==, sink->end);
  sink->end = start + duration;
}

static void
take_event (Sink *sink, GstPad *pad, GstEvent *event)
{
  GstClockTime start, duration;
  const GstSegment *segment;
  GstTagList *tags;
  GstCaps *caps;
  const char *id;

  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_STREAM_START:
      gst_event_parse_stream_start (event, &id);
      g_free (sink->stream_id);
      sink->stream_id = g_strdup (id);
      g_string_append_c (sink->order, 's');
      break;
    case GST_EVENT_CAPS:
      gst_event_parse_caps (event, &caps);
      g_assert_true (gst_caps_is_fixed (caps));
      g_string_append_c (sink->order, 'c');
      break;
    case GST_EVENT_SEGMENT:
      gst_event_parse_segment (event, &segment);
      g_assert_cmpint (segment->format, ==, GST_FORMAT_TIME);
      sink->end = GST_CLOCK_TIME_NONE;
      g_string_append_c (sink->order, 'S');
      break;
    case GST_EVENT_TAG:
      gst_event_parse_tag (event, &tags);
      g_free (sink->language);
      sink->language = NULL;
      gst_tag_list_get_string (tags, GST_TAG_LANGUAGE_CODE, &sink->language);
      g_string_append_c (sink->order, 't');
      break;
    case GST_EVENT_GAP:
      gst_event_parse_gap (event, &start, &duration);
      if (strcmp (GST_PAD_NAME (pad), "unsynced") != 0)
        take_time (sink, start, duration);
      g_string_append_c (sink->order, 'g');
      break;
    case GST_EVENT_FLUSH_START:
      g_string_append_c (sink->order, 'f');
      break;
    case GST_EVENT_FLUSH_STOP:
      sink->end = GST_CLOCK_TIME_NONE;
      g_string_append_c (sink->order, 'F');
      break;
    case GST_EVENT_EOS:
      g_string_append_c (sink->order, 'e');
      break;
    default:
      g_assert_true (gst_event_has_name (event,
          "rstranscribe/final-transcript"));
      g_string_append_c (sink->order, 'p');
      break;
  }
}

static gboolean
sink_event (GstPad *pad, GstObject *parent, GstEvent *event)
{
  Sink *sink = gst_pad_get_element_private (pad);

  g_mutex_lock (&sink->lock);
  take_event (sink, pad, event);
  g_cond_broadcast (&sink->changed);
  g_mutex_unlock (&sink->lock);
  gst_event_unref (event);
  return TRUE;
}

static GstFlowReturn
sink_chain (GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
  Sink *sink = gst_pad_get_element_private (pad);
  GstMapInfo map;

  gst_buffer_map (buffer, &map, GST_MAP_READ);
  g_mutex_lock (&sink->lock);
  sink->is_waiting = sink->is_blocked;
  g_cond_broadcast (&sink->changed);
  while (sink->is_blocked)
    g_cond_wait (&sink->changed, &sink->lock);
  sink->is_waiting = FALSE;
  g_ptr_array_add (sink->texts, g_strndup ((char *) map.data, map.size));
  if (strcmp (GST_PAD_NAME (pad), "unsynced") != 0)
    take_time (sink, GST_BUFFER_PTS (buffer), GST_BUFFER_DURATION (buffer));
  g_string_append_c (sink->order, 'b');
  g_cond_broadcast (&sink->changed);
  g_mutex_unlock (&sink->lock);
  gst_buffer_unmap (buffer, &map);
  gst_buffer_unref (buffer);
  return GST_FLOW_OK;
}

/* Links a pad of the element to a sink that is not in any bin. */
static GstPad *
attach (GstPad *srcpad, const char *name, Sink *sink)
{
  GstPad *pad = gst_pad_new (name, GST_PAD_SINK);

  sink_init (sink);
  gst_pad_set_element_private (pad, sink);
  gst_pad_set_event_function (pad, sink_event);
  gst_pad_set_chain_function (pad, sink_chain);
  gst_pad_set_active (pad, TRUE);
  g_assert_cmpint (gst_pad_link (srcpad, pad), ==, GST_PAD_LINK_OK);
  return pad;
}

static gboolean
has_eos (const Sink *sink)
{
  return sink->order->len > 0
      && sink->order->str[sink->order->len - 1] == 'e';
}

static gboolean
has_text (const Sink *sink)
{
  return sink->texts->len > 0;
}

static gboolean
is_waiting (const Sink *sink)
{
  return sink->is_waiting;
}

static void
wait_until (Sink *sink, gboolean (*check) (const Sink *sink))
{
  gint64 deadline = g_get_monotonic_time () + 30 * G_USEC_PER_SEC;

  g_mutex_lock (&sink->lock);
  while (!check (sink)
      && g_cond_wait_until (&sink->changed, &sink->lock, deadline))
    ;
  g_assert_true (check (sink));
  g_mutex_unlock (&sink->lock);
}

static void
set_blocked (Sink *sink, gboolean is_blocked)
{
  g_mutex_lock (&sink->lock);
  sink->is_blocked = is_blocked;
  g_cond_broadcast (&sink->changed);
  g_mutex_unlock (&sink->lock);
}

static void
assert_script (const Sink *sink)
{
  g_assert_cmpuint (sink->texts->len, ==, G_N_ELEMENTS (script));
  for (guint i = 0; i < sink->texts->len; i++)
    g_assert_cmpstr (g_ptr_array_index (sink->texts, i), ==, script[i]);
}

/* ---- a recording, on all pads ---- */

typedef struct {
  GstElement *element;
  GstBus *bus;
  GstPad *input;              /* pushes to the element */
  GstPad *pads[3];            /* of the element */
  GstPad *sinkpads[3];
  Sink src, translated, unsynced;
} Fixture;

static void
push_start (Fixture *f)
{
  g_autoptr (GstCaps) caps = gst_caps_from_string (CAPS);
  GstSegment segment;

  gst_segment_init (&segment, GST_FORMAT_TIME);
  gst_pad_push_event (f->input, gst_event_new_stream_start ("audio"));
  gst_pad_push_event (f->input, gst_event_new_caps (caps));
  gst_pad_push_event (f->input, gst_event_new_segment (&segment));
}

static void
set_up (Fixture *f, const char *model, const char *language,
    const char *policy)
{
  g_autoptr (GstPad) sinkpad = NULL;

  f->element = make_element ();
  g_object_set (f->element, "model", g_getenv (model), NULL);
  gst_util_set_object_arg (G_OBJECT (f->element), "policy", policy);
  f->bus = gst_bus_new ();
  gst_element_set_bus (f->element, f->bus);
  f->input = gst_pad_new ("input", GST_PAD_SRC);
  sinkpad = gst_element_get_static_pad (f->element, "sink");
  g_assert_cmpint (gst_pad_link (f->input, sinkpad), ==, GST_PAD_LINK_OK);
  f->pads[0] = gst_element_get_static_pad (f->element, "src");
  f->pads[1] = gst_element_request_pad_simple (f->element,
      "translate_src_%u");
  f->pads[2] = gst_element_request_pad_simple (f->element, "unsynced_src");
  g_assert_cmpstr (GST_PAD_NAME (f->pads[1]), ==, "translate_src_0");
  if (language)
    g_object_set (f->pads[1], "language-code", language, NULL);
  f->sinkpads[0] = attach (f->pads[0], "text", &f->src);
  f->sinkpads[1] = attach (f->pads[1], "translated", &f->translated);
  f->sinkpads[2] = attach (f->pads[2], "unsynced", &f->unsynced);
  gst_pad_set_active (f->input, TRUE);
  gst_element_set_state (f->element, GST_STATE_PLAYING);
  push_start (f);
}

static void
tear_down (Fixture *f)
{
  gst_element_set_state (f->element, GST_STATE_NULL);
  gst_pad_set_active (f->input, FALSE);
  for (guint i = 0; i < 3; i++) {
    gst_pad_set_active (f->sinkpads[i], FALSE);
    gst_pad_unlink (f->pads[i], f->sinkpads[i]);
    gst_object_unref (f->sinkpads[i]);
    if (i > 0)
      gst_element_release_request_pad (f->element, f->pads[i]);
    gst_object_unref (f->pads[i]);
  }
  gst_bus_set_flushing (f->bus, TRUE);
  gst_element_set_bus (f->element, NULL);
  gst_object_unref (f->bus);
  gst_object_unref (f->element);
  gst_object_unref (f->input);
  sink_clear (&f->src);
  sink_clear (&f->translated);
  sink_clear (&f->unsynced);
}

/* Noise; the model does not care. */
static void
push_seconds (Fixture *f, GstClockTime pts, guint seconds)
{
  for (guint i = 0; i < 50 * seconds; i++) {
    GstBuffer *buffer = gst_buffer_new_allocate (NULL, 640, NULL);
    GstMapInfo map;

    gst_buffer_map (buffer, &map, GST_MAP_WRITE);
    for (guint k = 0; k < 320; k++)
      ((gint16 *) map.data)[k] = (gint16) ((k * 7919) % 2001) - 1000;
    gst_buffer_unmap (buffer, &map);
    GST_BUFFER_PTS (buffer) = pts + i * 20 * MS;
    GST_BUFFER_DURATION (buffer) = 20 * MS;
    g_assert_cmpint (gst_pad_push (f->input, buffer), ==, GST_FLOW_OK);
  }
}

static void
assert_warned (Fixture *f, const char *about)
{
  GstMessage *message = gst_bus_timed_pop_filtered (f->bus, 0,
      GST_MESSAGE_WARNING | GST_MESSAGE_ERROR);
  g_autoptr (GError) error = NULL;

  if (about == NULL) {
    g_assert_null (message);
    return;
  }
  g_assert_nonnull (message);
  gst_message_parse_warning (message, &error, NULL);
  g_assert_nonnull (strstr (error->message, about));
  gst_message_unref (message);
}

/* The words of all texts on unsynced_src, final ones alone. */
static void
assert_json (const Sink *sink)
{
  guint n_words = 0;

  g_assert_cmpuint (sink->texts->len, >, 0);
  for (guint i = 0; i < sink->texts->len; i++) {
    g_autoptr (JsonParser) parser = json_parser_new ();
    JsonObject *object;
    JsonArray *words;

    g_assert_true (json_parser_load_from_data (parser,
        g_ptr_array_index (sink->texts, i), -1, NULL));
    object = json_node_get_object (json_parser_get_root (parser));
    g_assert_true (json_object_get_boolean_member (object, "final"));
    g_assert_cmpint (json_object_get_int_member (object, "end"), >,
        json_object_get_int_member (object, "start"));
    words = json_object_get_array_member (object, "words");
    for (guint k = 0; k < json_array_get_length (words); k++) {
      JsonObject *word = json_array_get_object_element (words, k);
      double confidence = json_object_get_double_member (word, "confidence");

      g_assert_cmpstr (json_object_get_string_member (word, "text"), ==,
          script[n_words++]);
      g_assert_nonnull (strstr (json_object_get_string_member (object, "text"),
          json_object_get_string_member (word, "text")));
      g_assert_cmpfloat (confidence, >, 0);
      g_assert_cmpfloat (confidence, <=, 1);
    }
  }
  g_assert_cmpuint (n_words, ==, G_N_ELEMENTS (script));
}

static void
check_texts (void)
{
  Fixture f;

  set_up (&f, "TINY_TRANSLATOR", "en", "auto");
  push_seconds (&f, 0, 15);
  gst_pad_push_event (f.input, gst_event_new_eos ());
  wait_until (&f.src, has_eos);
  wait_until (&f.translated, has_eos);
  wait_until (&f.unsynced, has_eos);
  assert_script (&f.src);
  assert_script (&f.translated);
  assert_json (&f.unsynced);
  g_assert_cmpstr (f.translated.language, ==, "en");
  g_assert_cmpuint (f.src.end, ==, 15 * GST_SECOND);
  g_assert_cmpuint (f.translated.end, ==, 15 * GST_SECOND);
  g_assert_true (g_str_has_prefix (f.translated.order->str, "scSt"));
  g_assert_true (g_str_has_prefix (f.unsynced.order->str, "scS"));
  g_assert_cmpstr (f.src.stream_id, !=, f.translated.stream_id);
  g_assert_cmpstr (f.src.stream_id, !=, f.unsynced.stream_id);
  assert_warned (&f, NULL);
  tear_down (&f);
}

/* With a live policy the translation comes when a passage is complete; what
 * is still open at the end comes before EOS. Nothing is said twice. */
static void
check_live_policy (void)
{
  static const guint seconds[] = { 8, 20 };

  for (guint n = 0; n < G_N_ELEMENTS (seconds); n++) {
    Fixture f;

    set_up (&f, "TINY_TRANSLATOR", "en", "local-agreement");
    push_seconds (&f, 0, seconds[n]);
    gst_pad_push_event (f.input, gst_event_new_eos ());
    wait_until (&f.src, has_eos);
    wait_until (&f.translated, has_eos);
    g_assert_cmpuint (f.src.texts->len, >=, 1);
    g_assert_cmpuint (f.translated.texts->len, >=, G_N_ELEMENTS (script));
    for (guint i = 0; i < G_N_ELEMENTS (script); i++)
      g_assert_cmpstr (g_ptr_array_index (f.translated.texts, i), ==,
          script[i]);
    g_assert_cmpuint (f.translated.end, >=, seconds[n] * GST_SECOND);
    g_assert_nonnull (strchr (f.unsynced.order->str, 'b'));
    assert_warned (&f, NULL);
    tear_down (&f);
  }
}

/* A language that nobody can write, or a model that knows English alone: gaps
 * up to the end, and a reason. */
static void
check_no_translation (void)
{
  static const struct {
    const char *model, *code, *warning;
  } cases[] = { { "TINY_TRANSLATOR", "de", "\"de\"" },
    { "TINY_TRANSLATOR", "eng", "\"eng\"" },
    { "TINY_TRANSLATOR", "", "\"\"" }, { "TINY_TRANSLATOR", "en-GB", NULL },
    { "TINY_MODEL", "en", "can't translate" } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    Fixture f;

    set_up (&f, cases[i].model, cases[i].code, "auto");
    push_seconds (&f, 0, 15);
    gst_pad_push_event (f.input, gst_event_new_eos ());
    wait_until (&f.src, has_eos);
    wait_until (&f.translated, has_eos);
    assert_warned (&f, cases[i].warning);
    assert_script (&f.src);
    if (cases[i].warning)
      g_assert_cmpuint (f.translated.texts->len, ==, 0);
    else
      assert_script (&f.translated);
    g_assert_cmpuint (f.translated.end, ==, 15 * GST_SECOND);
    tear_down (&f);
  }
}

/* A pad whose peer waits keeps no other waiting, whichever it is: sinks that
 * wait for their first buffer would wait for ever. */
static void
check_blocked (void)
{
  for (guint which = 0; which < 3; which++) {
    Fixture f;
    Sink *sinks[] = { &f.src, &f.translated, &f.unsynced };

    set_up (&f, "TINY_TRANSLATOR", "en", "auto");
    set_blocked (sinks[which], TRUE);
    push_seconds (&f, 0, 15);
    gst_pad_push_event (f.input, gst_event_new_eos ());
    wait_until (sinks[which], is_waiting);
    for (guint i = 0; i < 3; i++)
      if (i != which)
        wait_until (sinks[i], which == 0 ? has_text : has_eos);
    set_blocked (sinks[which], FALSE);
    wait_until (sinks[which], has_eos);
    assert_script (&f.src);
    assert_script (&f.translated);
    assert_json (&f.unsynced);
    tear_down (&f);
  }
}

static void
check_flush (void)
{
  Fixture f;

  set_up (&f, "TINY_TRANSLATOR", "en", "auto");
  for (guint i = 0; i < 3; i++) {
    push_seconds (&f, 0, 31);
    gst_pad_push_event (f.input, gst_event_new_flush_start ());
    gst_pad_push_event (f.input, gst_event_new_flush_stop (TRUE));
    for (guint k = 0; k < 3; k++) {
      Sink *sink = k == 0 ? &f.src : k == 1 ? &f.translated : &f.unsynced;

      g_mutex_lock (&sink->lock);
      g_ptr_array_set_size (sink->texts, 0);
      g_assert_true (g_str_has_suffix (sink->order->str, "fF"));
      g_mutex_unlock (&sink->lock);
    }
    push_start (&f);
  }
  push_seconds (&f, 0, 15);
  gst_pad_push_event (f.input, gst_event_new_eos ());
  wait_until (&f.src, has_eos);
  wait_until (&f.translated, has_eos);
  wait_until (&f.unsynced, has_eos);
  assert_script (&f.src);
  assert_script (&f.translated);
  assert_json (&f.unsynced);
  tear_down (&f);
}

/* Pads come and go while text is written; one that comes gets its events. */
static void
check_late (void)
{
  Fixture f;
  GstPad *late, *late_sink;
  Sink sink;

  set_up (&f, "TINY_TRANSLATOR", "en", "auto");
  push_seconds (&f, 0, 31);
  wait_until (&f.src, has_text);
  assert_warned (&f, NULL);
  g_assert_null (gst_element_request_pad (f.element,
      gst_element_get_pad_template (f.element, "unsynced_src"), NULL, NULL));
  late = gst_element_request_pad_simple (f.element, "translate_src_%u");
  g_assert_cmpstr (GST_PAD_NAME (late), ==, "translate_src_1");
  assert_warned (&f, "translate_src_1");
  late_sink = attach (late, "late", &sink);
  push_seconds (&f, 31 * GST_SECOND, 2);
  gst_pad_push_event (f.input, gst_event_new_eos ());
  wait_until (&sink, has_eos);
  g_assert_true (g_str_has_prefix (sink.order->str, "scS"));
  g_assert_cmpuint (sink.texts->len, ==, 0);
  gst_pad_set_active (late_sink, FALSE);
  gst_element_release_request_pad (f.element, late);
  gst_object_unref (late);
  gst_object_unref (late_sink);
  sink_clear (&sink);
  tear_down (&f);
}

/* ---- transcriberbin's part ---- */

static GstClockTime
query_latency (GstPad *pad)
{
  g_autoptr (GstQuery) query = gst_query_new_latency ();
  GstClockTime min, max;
  gboolean is_live;

  g_assert_true (gst_pad_query (pad, query));
  gst_query_parse_latency (query, &is_live, &min, &max);
  g_assert_true (is_live);
  g_assert_cmpuint (max, >=, min);
  return min;
}

static gboolean
answer_live (GstPad *pad, GstObject *parent, GstQuery *query)
{
  if (GST_QUERY_TYPE (query) != GST_QUERY_LATENCY)
    return FALSE;
  gst_query_set_latency (query, TRUE, 0, GST_CLOCK_TIME_NONE);
  return TRUE;
}

/* As transcriberbin's query_latency: a live source, PAUSED, no data. */
static void
play_bin (GstElement *element, GstPad **pads, const GstClockTime *expected)
{
  g_autoptr (GstPad) sinkpad = gst_element_get_static_pad (element, "sink");
  GstPad *input = gst_pad_new ("input", GST_PAD_SRC);

  gst_pad_set_query_function (input, answer_live);
  g_assert_cmpint (gst_pad_link (input, sinkpad), ==, GST_PAD_LINK_OK);
  gst_pad_set_active (input, TRUE);
  g_assert_cmpint (gst_element_set_state (element, GST_STATE_PAUSED), !=,
      GST_STATE_CHANGE_FAILURE);
  gst_pad_push_event (input, gst_event_new_stream_start ("audio"));
  for (guint i = 0; i < 3; i++)
    g_assert_cmpuint (query_latency (pads[i]), ==, expected[i]);
  gst_element_set_state (element, GST_STATE_NULL);
  gst_pad_set_active (input, FALSE);
  gst_pad_unlink (input, sinkpad);
  gst_object_unref (input);
}

static void
check_bin (void)
{
  static const GstClockTime before[] = { 2000 * MS, 2500 * MS, 2000 * MS };
  static const GstClockTime after[] = { 3000 * MS, 3700 * MS, 3000 * MS };
  static const char *const numbers[] = { "latency", "translate-latency",
    "lateness" };
  GstElement *element = make_element ();
  GObjectClass *class = G_OBJECT_GET_CLASS (element);
  GstPad *pads[3];

  gst_object_ref_sink (element);
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    g_assert_true (g_object_class_find_property (class, numbers[i])->value_type
        == G_TYPE_UINT);
  g_assert_true (g_object_class_find_property (class, "language-code")
      ->value_type == G_TYPE_STRING);
  pads[0] = gst_element_get_static_pad (element, "src");
  pads[1] = gst_element_request_pad_simple (element, "translate_src_%u");
  pads[2] = gst_element_request_pad_simple (element, "unsynced_src");
  g_object_set (pads[1], "language-code", "en", NULL);
  play_bin (element, pads, before);
  g_object_set (element, "language-code", "es", "latency", 3000,
      "translate-latency", 700, "lateness", 100, NULL);
  play_bin (element, pads, after);
  g_object_set (element, "language-code", "en-US", NULL);
  play_bin (element, pads, after);
  gst_element_release_request_pad (element, pads[1]);
  gst_element_release_request_pad (element, pads[2]);
  for (guint i = 0; i < 3; i++)
    gst_object_unref (pads[i]);
  gst_object_unref (element);
}

int
main (int argc, char **argv)
{
  gst_init (&argc, &argv);
  g_test_init (&argc, &argv, NULL);
  g_log_set_always_fatal (G_LOG_LEVEL_ERROR | G_LOG_LEVEL_CRITICAL);
  g_test_add_func ("/pads/texts", check_texts);
  g_test_add_func ("/pads/live-policy", check_live_policy);
  g_test_add_func ("/pads/no-translation", check_no_translation);
  g_test_add_func ("/pads/blocked", check_blocked);
  g_test_add_func ("/pads/flush", check_flush);
  g_test_add_func ("/pads/late", check_late);
  g_test_add_func ("/pads/bin", check_bin);
  return g_test_run ();
}
