/* SPDX-License-Identifier: MIT */
/*
 * The element in a harness, with the real engine and a generated model that
 * says one fixed script in every window, whatever it hears (make_tiny_model.py;
 * checked there against CTranslate2).
 */
#include "gst/gstasr.h"
#include "gst/gstasrpool.h"

#include <gst/audio/audio.h>
#include <gst/check/gstharness.h>
#include <glib/gstdio.h>
#include <string.h>

#include "engine/asr.h"

#define MS GST_MSECOND
#define CAPS_48K "audio/x-raw,format=S16LE,layout=interleaved,rate=48000," \
  "channels=2,channel-mask=(bitmask)0x3"
#define CAPS_16K "audio/x-raw,format=F32LE,layout=interleaved,rate=16000," \
  "channels=1"
/* What the model says in one window, words as the element joins them. */
static const char *const script[] = { "hello", "world,", "the", "quick",
  "brown", "fox.", "a", "test", "of", "café." };

static GstElement *
make_element (void)
{
  GstElement *element = g_object_new (GST_TYPE_ASR, NULL);

  g_object_set (element, "model", g_getenv ("TINY_MODEL"), "language-code",
      "en", "vad", FALSE, "threads", 2, "backend", 1 /* cpu */, NULL);
  return element;
}

static GstHarness *
make_harness (const char *caps)
{
  GstElement *element = make_element ();
  GstHarness *h = gst_harness_new_with_element (element, "sink", "src");

  gst_harness_set_live (h, FALSE);
  gst_harness_set_src_caps_str (h, caps);
  gst_object_unref (element);
  return h;
}

/* Noise at @pts; the model does not care. */
static GstBuffer *
make_buffer (GstClockTime pts, guint n_bytes, guint rate, guint bpf)
{
  GstBuffer *buffer = gst_buffer_new_allocate (NULL, n_bytes, NULL);
  GstMapInfo map;

  gst_buffer_map (buffer, &map, GST_MAP_WRITE);
  for (guint i = 0; i < n_bytes; i += 2)
    ((gint16 *) map.data)[i / 2] = (gint16) ((i * 7919) % 2001) - 1000;
  gst_buffer_unmap (buffer, &map);
  GST_BUFFER_PTS (buffer) = pts;
  GST_BUFFER_DURATION (buffer)
      = gst_util_uint64_scale (n_bytes / bpf, GST_SECOND, rate);
  return buffer;
}

/* @seconds of 48 kHz stereo in 20 ms buffers from @pts on. */
static void
push_seconds (GstHarness *h, GstClockTime pts, double seconds)
{
  for (guint i = 0; i < seconds * 50; i++)
    g_assert_cmpint (gst_harness_push (h,
        make_buffer (pts + i * 20 * MS, 960 * 4, 48000, 4)), ==, GST_FLOW_OK);
}

/* Waits for EOS; returns what came, buffers and gaps by time, checked to cover
 * the time without holes or overlap. Frees nothing that is asked for later. */
typedef struct {
  GPtrArray *texts; /* char */
  GstClockTime start, end, first_text;
  guint n_gaps;
} Output;

static gint
compare_times (gconstpointer a, gconstpointer b)
{
  const GstClockTime *x = a, *y = b;

  return *x < *y ? -1 : *x > *y;
}

static void
clear_output (Output *o)
{
  g_clear_pointer (&o->texts, g_ptr_array_unref);
}

static void
take_buffer (Output *o, GstBuffer *buffer, GArray *spans)
{
  GstClockTime span[2] = { GST_BUFFER_PTS (buffer),
    GST_BUFFER_PTS (buffer) + GST_BUFFER_DURATION (buffer) };
  GstMapInfo map;

  g_assert_true (GST_BUFFER_PTS_IS_VALID (buffer));
  g_assert_true (GST_BUFFER_DURATION_IS_VALID (buffer));
  gst_buffer_map (buffer, &map, GST_MAP_READ);
  g_ptr_array_add (o->texts, g_strndup ((char *) map.data, map.size));
  gst_buffer_unmap (buffer, &map);
  if (o->texts->len == 1)
    o->first_text = span[0];
  g_array_append_vals (spans, span, 1);
  gst_buffer_unref (buffer);
}

static Output
collect (GstHarness *h)
{
  Output o = { g_ptr_array_new_with_free_func (g_free) };
  /* pairs start, end */
  g_autoptr (GArray) spans
      = g_array_new (FALSE, FALSE, 2 * sizeof (GstClockTime));
  gint64 deadline = g_get_monotonic_time () + 60 * G_USEC_PER_SEC;
  gboolean is_eos = FALSE;
  GstBuffer *buffer;

  while (!is_eos && g_get_monotonic_time () < deadline) {
    GstEvent *event = gst_harness_try_pull_event (h);

    if (event == NULL) {
      g_usleep (1000);
      continue;
    }
    if (GST_EVENT_TYPE (event) == GST_EVENT_GAP) {
      GstClockTime span[2], duration;

      gst_event_parse_gap (event, &span[0], &duration);
      g_assert_cmpuint (duration, >, 0);
      g_assert_cmpuint (duration, <=, 250 * MS);
      span[1] = span[0] + duration;
      g_array_append_vals (spans, span, 1);
      o.n_gaps++;
    }
    is_eos = GST_EVENT_TYPE (event) == GST_EVENT_EOS;
    gst_event_unref (event);
  }
  g_assert_true (is_eos);
  while ((buffer = gst_harness_try_pull (h)))
    take_buffer (&o, buffer, spans);
  g_array_sort (spans, compare_times);
  for (guint i = 0; i < spans->len; i++) {
    const GstClockTime *span = (GstClockTime *) spans->data + 2 * i;

    if (i == 0)
      o.start = span[0];
    else
      g_assert_cmpuint (span[0], ==, o.end);
    o.end = span[1];
  }
  return o;
}

static void
assert_script (const Output *o, guint n_windows)
{
  g_assert_cmpuint (o->texts->len, ==, n_windows * G_N_ELEMENTS (script));
  for (guint i = 0; i < o->texts->len; i++)
    g_assert_cmpstr (g_ptr_array_index (o->texts, i), ==,
        script[i % G_N_ELEMENTS (script)]);
}

static void
push_eos (GstHarness *h)
{
  g_assert_true (gst_harness_push_event (h, gst_event_new_eos ()));
}

static void
check_words (void)
{
  GstHarness *h = make_harness (CAPS_48K);
  Output o;

  push_seconds (h, 0, 20);
  push_eos (h);
  o = collect (h);
  assert_script (&o, 1);
  g_assert_cmpuint (o.start, ==, 0);
  g_assert_cmpuint (o.end, >=, 19990 * MS);
  g_assert_cmpuint (o.end, <=, 20010 * MS);
  clear_output (&o);
  gst_harness_teardown (h);
}

/* Two windows and more than the backlog: the pusher waits, nothing is lost. */
static void
check_backlog (void)
{
  GstHarness *h = make_harness (CAPS_48K);
  GstStructure *stats = NULL;
  guint64 pushed = 0, decoded = 0, tokens = 0;
  Output o;

  push_seconds (h, 0, 120);
  push_eos (h);
  o = collect (h);
  g_assert_cmpuint (o.texts->len, >=, 3 * G_N_ELEMENTS (script));
  g_assert_cmpuint (o.end, >=, 119990 * MS);
  g_object_get (h->element, "stats", &stats, NULL);
  gst_structure_get_uint64 (stats, "pushed-samples", &pushed);
  gst_structure_get_uint64 (stats, "decoded-samples", &decoded);
  gst_structure_get_uint64 (stats, "tokens", &tokens);
  g_assert_cmpuint (pushed, ==, 120 * 16000);
  g_assert_cmpuint (decoded, ==, 120 * 16000);
  g_assert_cmpuint (tokens, >, 0);
  gst_structure_free (stats);
  clear_output (&o);
  gst_harness_teardown (h);
}

/* A segment that starts and is based elsewhere goes through as it is. */
static void
check_segment (void)
{
  GstHarness *h = make_harness (CAPS_48K);
  GstSegment segment;
  GstEvent *event;
  gboolean found = FALSE;
  Output o;

  gst_segment_init (&segment, GST_FORMAT_TIME);
  segment.start = segment.time = 100 * GST_SECOND;
  segment.base = 7 * GST_SECOND;
  gst_harness_push_event (h, gst_event_new_segment (&segment));
  push_seconds (h, 100 * GST_SECOND, 15);
  while (!found && (event = gst_harness_pull_event (h))) {
    if (GST_EVENT_TYPE (event) == GST_EVENT_SEGMENT) {
      const GstSegment *out;

      gst_event_parse_segment (event, &out);
      found = out->base == 7 * GST_SECOND && out->start == segment.start;
    }
    gst_event_unref (event);
  }
  g_assert_true (found);
  push_eos (h);
  o = collect (h);
  assert_script (&o, 1);
  g_assert_cmpuint (o.first_text, >=, 100 * GST_SECOND);
  g_assert_cmpuint (o.end, <=, 115010 * MS);
  clear_output (&o);
  gst_harness_teardown (h);
}

static void
check_jumps (void)
{
  GstHarness *h = make_harness (CAPS_48K);
  Output o;

  push_seconds (h, 0, 5);
  push_seconds (h, 25 * GST_SECOND, 5);  /* a hole of twenty seconds */
  push_seconds (h, 2 * GST_SECOND, 1);   /* and back */
  push_eos (h);
  o = collect (h);
  g_assert_cmpuint (o.start, ==, 0);
  g_assert_cmpuint (o.end, >=, 29900 * MS);
  g_assert_cmpuint (o.texts->len, >=, G_N_ELEMENTS (script));
  clear_output (&o);
  gst_harness_teardown (h);
}

static void
check_gap_event (void)
{
  GstHarness *h = make_harness (CAPS_48K);
  Output o;

  push_seconds (h, 0, 5);
  gst_harness_push_event (h, gst_event_new_gap (5 * GST_SECOND, GST_SECOND));
  push_seconds (h, 6 * GST_SECOND, 10);
  push_eos (h);
  o = collect (h);
  assert_script (&o, 1);
  g_assert_cmpuint (o.end, >=, 15980 * MS);
  g_assert_cmpuint (o.end, <=, 16020 * MS);
  clear_output (&o);
  gst_harness_teardown (h);
}

static void
check_caps_change (void)
{
  GstHarness *h = make_harness (CAPS_48K);
  Output o;

  push_seconds (h, 0, 8);
  gst_harness_set_src_caps_str (h, CAPS_16K);
  for (guint i = 0; i < 400; i++) {
    GstBuffer *buffer
        = make_buffer ((8000 + i * 20) * MS, 320 * 4, 16000, 4);

    gst_buffer_memset (buffer, 0, 0, 320 * 4);
    g_assert_cmpint (gst_harness_push (h, buffer), ==, GST_FLOW_OK);
  }
  push_eos (h);
  o = collect (h);
  assert_script (&o, 1);
  g_assert_cmpuint (o.end, >=, 15980 * MS);
  g_assert_cmpuint (o.end, <=, 16020 * MS);
  clear_output (&o);
  gst_harness_teardown (h);
}

static void
check_flush (void)
{
  GstHarness *h = make_harness (CAPS_48K);
  GstSegment segment;
  Output o;

  for (guint i = 0; i < 5; i++) {
    GstBuffer *buffer;
    GstEvent *event;

    push_seconds (h, 0, 35); /* a window is being decoded */
    gst_harness_push_event (h, gst_event_new_flush_start ());
    gst_harness_push_event (h, gst_event_new_flush_stop (TRUE));
    while ((buffer = gst_harness_try_pull (h)))
      gst_buffer_unref (buffer);
    while ((event = gst_harness_try_pull_event (h)))
      gst_event_unref (event);
    gst_segment_init (&segment, GST_FORMAT_TIME);
    segment.start = segment.time = 50 * GST_SECOND;
    gst_harness_push_event (h, gst_event_new_segment (&segment));
  }
  push_seconds (h, 50 * GST_SECOND, 15);
  push_eos (h);
  o = collect (h);
  assert_script (&o, 1); /* nothing stale, nothing missing */
  g_assert_cmpuint (o.first_text, >=, 50 * GST_SECOND);
  clear_output (&o);
  gst_harness_teardown (h);
}

typedef struct {
  GstHarness *h;
  GstFlowReturn ret;
} Pusher;

static gpointer
push_until_refused (gpointer data)
{
  Pusher *p = data;

  for (guint i = 0; i < 1000 * 50 && p->ret == GST_FLOW_OK; i++)
    p->ret = gst_harness_push (p->h,
        make_buffer (i * 20 * MS, 960 * 4, 48000, 4));
  return NULL;
}

/* FLUSH_START frees a pusher that waits for room, and so does NULL. */
static void
check_wake (void)
{
  for (guint i = 0; i < 2; i++) {
    GstHarness *h = make_harness (CAPS_48K);
    Pusher pusher = { h, GST_FLOW_OK };
    GThread *thread = g_thread_new ("pusher", push_until_refused, &pusher);

    g_usleep (G_USEC_PER_SEC / 2);
    if (i == 0)
      gst_harness_push_event (h, gst_event_new_flush_start ());
    else
      gst_element_set_state (h->element, GST_STATE_NULL);
    g_thread_join (thread);
    g_assert_cmpint (pusher.ret, ==, GST_FLOW_FLUSHING);
    gst_harness_teardown (h);
  }
}

static void
check_little (void)
{
  static const guint n_frames[] = { 0, 240, 4800 }; /* none, 5 and 100 ms */

  for (guint i = 0; i < G_N_ELEMENTS (n_frames); i++) {
    GstHarness *h = make_harness (CAPS_48K);
    Output o;

    if (n_frames[i] > 0)
      gst_harness_push (h, make_buffer (0, n_frames[i] * 4, 48000, 4));
    push_eos (h);
    o = collect (h);
    clear_output (&o);
    gst_harness_teardown (h);
  }
}

static void
check_states (void)
{
  static const GstState states[] = { GST_STATE_READY, GST_STATE_PAUSED,
    GST_STATE_PLAYING, GST_STATE_PAUSED, GST_STATE_READY, GST_STATE_PLAYING,
    GST_STATE_NULL, GST_STATE_PAUSED, GST_STATE_NULL, GST_STATE_READY,
    GST_STATE_NULL, GST_STATE_PLAYING, GST_STATE_NULL };
  GstElement *element = gst_object_ref_sink (make_element ());

  for (guint twice = 0; twice < 2; twice++)
    for (guint i = 0; i < G_N_ELEMENTS (states); i++)
      g_assert_cmpint (gst_element_set_state (element, states[i]), !=,
          GST_STATE_CHANGE_FAILURE);
  gst_object_unref (element);
}

/* Works again after NULL, and after READY. */
static void
check_again (void)
{
  GstHarness *h = make_harness (CAPS_48K);

  for (guint i = 0; i < 3; i++) {
    Output o;

    if (i > 0) {
      gst_element_set_state (h->element,
          i == 1 ? GST_STATE_NULL : GST_STATE_READY);
      gst_harness_play (h);
      /* the harness's own pad must forget its EOS */
      gst_harness_push_event (h, gst_event_new_flush_start ());
      gst_harness_push_event (h, gst_event_new_flush_stop (TRUE));
      gst_harness_set_src_caps_str (h, CAPS_48K);
    }
    push_seconds (h, 0, 15);
    push_eos (h);
    o = collect (h);
    assert_script (&o, 1);
    clear_output (&o);
  }
  gst_harness_teardown (h);
}

static GError *
get_start_error (const char *model)
{
  GstElement *pipeline = gst_pipeline_new (NULL);
  GstElement *element = make_element ();
  GstBus *bus = gst_element_get_bus (pipeline);
  GstMessage *message;
  GError *error = NULL;

  g_object_set (element, "model", model, NULL);
  gst_bin_add (GST_BIN (pipeline), element);
  g_assert_cmpint (gst_element_set_state (pipeline, GST_STATE_PAUSED), ==,
      GST_STATE_CHANGE_FAILURE);
  message = gst_bus_pop_filtered (bus, GST_MESSAGE_ERROR);
  g_assert_nonnull (message);
  gst_message_parse_error (message, &error, NULL);
  gst_message_unref (message);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  gst_object_unref (bus);
  gst_object_unref (pipeline);
  return error;
}

static void
check_bad_models (void)
{
  g_autofree char *folder = g_dir_make_tmp ("asr-XXXXXX", NULL);
  g_autofree char *file = g_build_filename (folder, "model.bin", NULL);
  g_autofree char *whole = g_build_filename (g_getenv ("TINY_MODEL"),
      "model.bin", NULL);
  g_autofree char *data = NULL;
  GError *error = get_start_error ("/nowhere/at/all");
  gsize n;

  g_assert_error (error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND);
  g_assert_nonnull (strstr (error->message, "/nowhere/at/all"));
  g_clear_error (&error);
  error = get_start_error ("no-such-size");
  g_assert_nonnull (strstr (error->message, "setup --model no-such-size"));
  g_clear_error (&error);

  g_file_set_contents (file, "this is no model at all", -1, NULL);
  error = get_start_error (folder);
  g_assert_cmpint (error->domain, ==, GST_RESOURCE_ERROR);
  g_assert_nonnull (strstr (error->message, file));
  g_clear_error (&error);

  g_assert_true (g_file_get_contents (whole, &data, &n, NULL));
  g_file_set_contents (file, data, n / 2, NULL);
  error = get_start_error (folder);
  g_assert_cmpint (error->domain, ==, GST_RESOURCE_ERROR);
  g_assert_nonnull (strstr (error->message, file));
  g_clear_error (&error);
  g_remove (file);
  g_rmdir (folder);
}

/* Every progress that starts is closed, also when it is cut off. */
static void
check_progress (void)
{
  for (guint i = 0; i < 4; i++) {
    GstElement *pipeline = gst_pipeline_new (NULL);
    GstElement *element = make_element ();
    GstBus *bus = gst_element_get_bus (pipeline);
    GstMessage *message;
    gint n_open = 0, n_started = 0;

    gst_bin_add (GST_BIN (pipeline), element);
    g_object_set (element, "threads", 3 + i, NULL); /* never a shared one */
    gst_element_set_state (pipeline, GST_STATE_PAUSED);
    g_usleep (i * 20000);
    gst_element_set_state (pipeline, GST_STATE_READY);
    while ((message = gst_bus_pop_filtered (bus, GST_MESSAGE_PROGRESS))) {
      GstProgressType type;

      gst_message_parse_progress (message, &type, NULL, NULL);
      n_started += type == GST_PROGRESS_TYPE_START;
      n_open += type == GST_PROGRESS_TYPE_START;
      n_open -= type == GST_PROGRESS_TYPE_COMPLETE
          || type == GST_PROGRESS_TYPE_CANCELED
          || type == GST_PROGRESS_TYPE_ERROR;
      gst_message_unref (message);
    }
    g_assert_cmpint (n_started, ==, 1);
    g_assert_cmpint (n_open, ==, 0);
    gst_element_set_state (pipeline, GST_STATE_NULL);
    gst_object_unref (bus);
    gst_object_unref (pipeline);
  }
}

static void
check_shared_engine (void)
{
  AsrEngineParams params = ASR_ENGINE_PARAMS_DEFAULT;
  AsrEngine *first, *second, *third;

  params.model = g_getenv ("TINY_MODEL");
  params.backend = "cpu";
  params.n_threads = 1;
  first = gst_asr_pool_acquire (&params, NULL, NULL, NULL);
  second = gst_asr_pool_acquire (&params, NULL, NULL, NULL);
  g_assert_nonnull (first);
  g_assert_true (first == second);
  params.n_threads = 2;
  third = gst_asr_pool_acquire (&params, NULL, NULL, NULL);
  g_assert_true (third != first);
  gst_asr_pool_release (third);
  gst_asr_pool_release (first);
  gst_asr_pool_release (second);
  /* it lingers, and is found again */
  params.n_threads = 1;
  second = gst_asr_pool_acquire (&params, NULL, NULL, NULL);
  g_assert_true (first == second);
  gst_asr_pool_release (second);
}

static void
check_skip_copy (void)
{
  GstElement *pipeline = gst_pipeline_new (NULL);
  GstElement *element = make_element ();
  GstBus *bus = gst_element_get_bus (pipeline);
  GstMessage *message;
  static const struct {
    const char *set, *get;
  } cases[] = { { "", "" }, { " mel ,encoder", " mel ,encoder" },
    { "mel,nonsense", " mel ,encoder" }, { "decoder", "decoder" } };

  gst_bin_add (GST_BIN (pipeline), element);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *value = NULL;

    g_object_set (element, "skip-copy-output-to-cpu-for-method",
        cases[i].set, NULL);
    g_object_get (element, "skip-copy-output-to-cpu-for-method", &value,
        NULL);
    g_assert_cmpstr (value, ==, cases[i].get);
    message = gst_bus_pop_filtered (bus, GST_MESSAGE_WARNING);
    g_assert_true ((message != NULL) == (i == 2));
    g_clear_pointer (&message, gst_message_unref);
  }
  gst_object_unref (bus);
  gst_object_unref (pipeline);
}

/* Round trips of every output give the same text, and their bytes are told. */
static void
check_round_trips (void)
{
  GstHarness *h = make_harness (CAPS_48K);
  GstStructure *stats = NULL;
  const GstStructure *encoder;
  guint64 to_host = 0;
  Output o;

  g_object_set (h->element, "skip-copy-output-to-cpu-for-method", "", NULL);
  push_seconds (h, 0, 15);
  push_eos (h);
  o = collect (h);
  assert_script (&o, 1);
  g_object_get (h->element, "stats", &stats, NULL);
  encoder = gst_value_get_structure (
      gst_structure_get_value (stats, "encoder"));
  gst_structure_get_uint64 (encoder, "bytes-to-host", &to_host);
  g_assert_cmpuint (to_host, >=, 1500 * 64 * 4);
  g_signal_emit_by_name (h->element, "clear-device-outputs");
  gst_structure_free (stats);
  clear_output (&o);
  gst_harness_teardown (h);
}

/* What a handler of method-output saw. */
typedef struct {
  GMutex lock;
  GString *order; /* first letters of the methods */
  guint n_mels, d_model, n_vocab;
} Taps;

static void
take_output (GstElement *element, const char *method, GstSample *sample,
    gpointer data)
{
  Taps *taps = data;
  GstBuffer *buffer = gst_sample_get_buffer (sample);
  const GstStructure *caps
      = gst_caps_get_structure (gst_sample_get_caps (sample), 0);
  const GValue *shape = gst_structure_get_value (caps, "shape");
  guint rows = g_value_get_int (gst_value_array_get_value (shape, 0));
  guint columns = g_value_get_int (gst_value_array_get_value (shape, 1));
  float least = G_MAXFLOAT, most = -G_MAXFLOAT;
  GstMapInfo map;

  g_assert_cmpstr (gst_structure_get_string (caps, "method"), ==, method);
  g_assert_cmpstr (gst_structure_get_string (caps, "format"), ==, "F32LE");
  g_assert_cmpuint (GST_BUFFER_PTS (buffer), ==, 5 * GST_SECOND);
  g_assert_cmpuint (GST_BUFFER_DURATION (buffer), ==, 15 * GST_SECOND);
  g_assert_cmpint (gst_sample_get_segment (sample)->format, ==,
      GST_FORMAT_TIME);
  gst_buffer_map (buffer, &map, GST_MAP_READ);
  g_assert_cmpuint (map.size, ==, (gsize) rows * columns * sizeof (float));
  for (guint i = 0; i < rows * columns; i++) {
    float value = ((float *) map.data)[i];

    g_assert_true (value == value);
    least = MIN (least, value);
    most = MAX (most, value);
  }
  gst_buffer_unmap (buffer, &map);
  g_mutex_lock (&taps->lock);
  g_string_append_c (taps->order, *method);
  if (*method == 'm') {
    /* log-mel is cut off 8 decades under its maximum, then (x + 4) / 4 */
    g_assert_cmpfloat (most - least, <=, 2.0001f);
    g_assert_cmpfloat (most, >, -1.5f);
    g_assert_cmpuint (columns, ==, 3000);
    taps->n_mels = rows;
  } else if (*method == 'e') {
    g_assert_cmpuint (rows, ==, 1500);
    g_assert_cmpfloat (most, >, least);
    taps->d_model = columns;
  } else {
    g_assert_cmpuint (rows, >=, 1);
    taps->n_vocab = columns;
  }
  g_mutex_unlock (&taps->lock);
}

/* Methods that are not skipped can be tapped, in order and with their time;
 * those that are skipped leave nothing to see. */
static void
check_taps (void)
{
  static const struct {
    const char *skip, *starts_with;
    gboolean has_decoder;
  } cases[] = { { "", "medd", TRUE }, { "mel,decoder", "e", FALSE },
    { "mel,encoder,decoder", "", FALSE } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    GstHarness *h = make_harness (CAPS_48K);
    Taps taps = { .order = g_string_new (NULL) };
    AsrModelInfo info;
    Output o;

    g_assert_true (asr_model_check (g_getenv ("TINY_MODEL"), &info, NULL));
    g_object_set (h->element, "skip-copy-output-to-cpu-for-method",
        cases[i].skip, NULL);
    g_signal_connect (h->element, "method-output", G_CALLBACK (take_output),
        &taps);
    push_seconds (h, 5 * GST_SECOND, 15);
    push_eos (h);
    o = collect (h);
    assert_script (&o, 1);
    g_mutex_lock (&taps.lock);
    g_assert_true (g_str_has_prefix (taps.order->str, cases[i].starts_with));
    if (cases[i].has_decoder) {
      g_assert_cmpuint (taps.n_mels, ==, info.n_mels);
      g_assert_cmpuint (taps.n_vocab, ==, info.n_vocab);
      g_assert_cmpuint (taps.order->len, >, G_N_ELEMENTS (script));
    } else {
      g_assert_cmpuint (taps.order->len, ==, strlen (cases[i].starts_with));
    }
    if (taps.d_model)
      g_assert_cmpuint (taps.d_model, ==, info.d_model);
    g_mutex_unlock (&taps.lock);
    g_string_free (taps.order, TRUE);
    clear_output (&o);
    gst_harness_teardown (h);
  }
}

static guint64
get_retained (GstElement *element)
{
  g_autoptr (GstStructure) stats = NULL;
  guint64 bytes = 0;

  g_object_get (element, "stats", &stats, NULL);
  gst_structure_get_uint64 (gst_value_get_structure (
      gst_structure_get_value (stats, "encoder")), "retained-bytes", &bytes);
  return bytes;
}

/* Waits, since the worker gives up what is retained between runs. */
static void
assert_retained (GstElement *element, gboolean is_retained)
{
  gint64 deadline = g_get_monotonic_time () + 5 * G_USEC_PER_SEC;

  while ((get_retained (element) > 0) != is_retained
      && g_get_monotonic_time () < deadline)
    g_usleep (1000);
  g_assert_true ((get_retained (element) > 0) == is_retained);
}

/* The encoder's output outlives its buffers, and ends with a clear or flush. */
static void
check_retained (void)
{
  GstHarness *h = make_harness (CAPS_48K);

  assert_retained (h->element, FALSE);
  push_seconds (h, 0, 31);
  assert_retained (h->element, TRUE);
  g_signal_emit_by_name (h->element, "clear-device-outputs");
  assert_retained (h->element, FALSE);
  push_seconds (h, 31 * GST_SECOND, 31);
  assert_retained (h->element, TRUE);
  gst_harness_push_event (h, gst_event_new_flush_start ());
  gst_harness_push_event (h, gst_event_new_flush_stop (TRUE));
  assert_retained (h->element, FALSE);
  gst_harness_teardown (h);
}

/* A GPU backend that is there and can't be used is warned of; none is not. */
static void
check_fallback (void)
{
  g_autofree char *folder = g_dir_make_tmp ("asr-fallback-XXXXXX", NULL);
  g_autofree char *file
      = g_build_filename (folder, "libasrbackend-cuda.so", NULL);

  g_setenv ("ASR_BACKEND_DIR", folder, TRUE);
  for (guint broken = 0; broken < 2; broken++) {
    GstElement *pipeline = gst_pipeline_new (NULL);
    GstElement *element = make_element ();
    GstBus *bus = gst_element_get_bus (pipeline);
    gboolean is_warned = FALSE;
    GstMessage *message;

    if (broken)
      g_assert_true (g_file_set_contents (file, "no library", -1, NULL));
    /* not the engine that lingers */
    g_object_set (element, "backend", 0, "threads", 3 + broken, NULL);
    gst_bin_add (GST_BIN (pipeline), element);
    gst_element_set_state (pipeline, GST_STATE_PAUSED);
    for (;;) {
      GstProgressType type = GST_PROGRESS_TYPE_START;

      message = gst_bus_timed_pop_filtered (bus, 30 * GST_SECOND,
          GST_MESSAGE_WARNING | GST_MESSAGE_PROGRESS | GST_MESSAGE_ERROR);
      g_assert_nonnull (message);
      g_assert_cmpint (GST_MESSAGE_TYPE (message), !=, GST_MESSAGE_ERROR);
      if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_PROGRESS) {
        gst_message_parse_progress (message, &type, NULL, NULL);
      } else {
        g_autoptr (GError) error = NULL;

        gst_message_parse_warning (message, &error, NULL);
        g_assert_nonnull (strstr (error->message, file));
        is_warned = TRUE;
      }
      gst_message_unref (message);
      if (type == GST_PROGRESS_TYPE_COMPLETE)
        break;
    }
    g_assert_cmpint (is_warned, ==, broken > 0);
    gst_element_set_state (pipeline, GST_STATE_NULL);
    gst_object_unref (bus);
    gst_object_unref (pipeline);
  }
  g_unsetenv ("ASR_BACKEND_DIR");
  g_remove (file);
  g_rmdir (folder);
}

static GstClockTime
get_min_latency (GstHarness *h, gboolean *is_live)
{
  GstQuery *query = gst_query_new_latency ();
  GstPad *pad = gst_element_get_static_pad (h->element, "src");
  GstClockTime min;

  g_assert_true (gst_pad_query (pad, query));
  gst_query_parse_latency (query, is_live, &min, NULL);
  gst_query_unref (query);
  gst_object_unref (pad);
  return min;
}

/* Takes what is there. Returns: where it ends */
static GstClockTime
get_position (GstHarness *h, GstClockTime position)
{
  GstEvent *event;
  GstBuffer *buffer;

  while ((event = gst_harness_try_pull_event (h))) {
    if (GST_EVENT_TYPE (event) == GST_EVENT_GAP) {
      GstClockTime start, duration;

      gst_event_parse_gap (event, &start, &duration);
      position = MAX (position, start + duration);
    }
    gst_event_unref (event);
  }
  while ((buffer = gst_harness_try_pull (h))) {
    GstCustomMeta *meta
        = gst_buffer_get_custom_meta (buffer, "GstAsrMeta");
    double confidence = -1;

    g_assert_nonnull (meta);
    gst_structure_get_double (gst_custom_meta_get_structure (meta),
        "confidence", &confidence);
    g_assert_cmpfloat (confidence, >=, 0);
    g_assert_cmpfloat (confidence, <=, 1);
    g_assert_cmpuint (GST_BUFFER_DURATION (buffer), >, 0);
    position = MAX (position,
        GST_BUFFER_PTS (buffer) + GST_BUFFER_DURATION (buffer));
    gst_buffer_unref (buffer);
  }
  return position;
}

/* A live source gets what latency says, and the position keeps up with the
 * clock, also when the source falls silent. */
static void
check_live (void)
{
  GstElement *element = make_element ();
  GstHarness *h = gst_harness_new_with_element (element, "sink", "src");
  GstBus *bus = gst_bus_new ();
  GstClockTime position = 0, now = 0;
  GstMessage *message;
  gboolean is_live;
  gint64 deadline;

  gst_object_unref (element);
  gst_harness_use_testclock (h);
  gst_harness_set_live (h, TRUE);
  gst_harness_set_upstream_latency (h, 20 * MS);
  gst_harness_set_src_caps_str (h, CAPS_48K);
  g_assert_cmpuint (get_min_latency (h, &is_live), ==, 2020 * MS);
  g_assert_true (is_live);
  gst_element_set_bus (h->element, bus);
  g_object_set (h->element, "latency", 1000, NULL);
  message = gst_bus_pop_filtered (bus, GST_MESSAGE_LATENCY);
  g_assert_nonnull (message);
  gst_message_unref (message);
  g_assert_cmpuint (get_min_latency (h, &is_live), ==, 1020 * MS);
  g_object_set (h->element, "latency", G_MAXUINT, NULL);
  g_assert_cmpuint (get_min_latency (h, &is_live), ==, 20 * MS);
  g_object_set (h->element, "latency", 1000, NULL);

  for (guint i = 0; i < 250; i++) {
    g_assert_cmpint (gst_harness_push (h,
        make_buffer (i * 20 * MS, 960 * 4, 48000, 4)), ==, GST_FLOW_OK);
    now += 20 * MS;
    gst_harness_set_time (h, now);
    g_usleep (2000);
  }
  now += 3 * GST_SECOND;
  gst_harness_set_time (h, now);
  deadline = g_get_monotonic_time () + 10 * G_USEC_PER_SEC;
  while (position + GST_SECOND < now && g_get_monotonic_time () < deadline) {
    position = get_position (h, position);
    g_usleep (10000);
  }
  g_assert_cmpuint (position, >=, now - GST_SECOND);
  message = gst_bus_pop_filtered (bus, GST_MESSAGE_ELEMENT);
  g_assert_nonnull (message);
  g_assert_true (gst_message_has_name (message, "asr"));
  g_assert_nonnull (gst_structure_get_string (
      gst_message_get_structure (message), "text"));
  gst_message_unref (message);
  gst_bus_set_flushing (bus, TRUE);
  gst_element_set_bus (h->element, NULL);
  gst_object_unref (bus);
  gst_harness_teardown (h);
}

static void
check_bytes_segment (void)
{
  GstElement *element = make_element ();
  GstHarness *h = gst_harness_new_with_element (element, "sink", "src");
  GstSegment segment;
  GstBus *bus = gst_bus_new ();
  GstMessage *message;

  gst_object_unref (element);
  gst_element_set_bus (h->element, bus);
  gst_harness_set_src_caps_str (h, CAPS_48K);
  gst_segment_init (&segment, GST_FORMAT_BYTES);
  gst_harness_push_event (h, gst_event_new_segment (&segment));
  message = gst_bus_timed_pop_filtered (bus, GST_SECOND, GST_MESSAGE_ERROR);
  g_assert_nonnull (message);
  gst_message_unref (message);
  /* what else it posted holds the element */
  gst_bus_set_flushing (bus, TRUE);
  gst_element_set_bus (h->element, NULL);
  gst_object_unref (bus);
  gst_harness_teardown (h);
}

int
main (int argc, char **argv)
{
  gst_init (&argc, &argv);
  g_test_init (&argc, &argv, NULL);
  /* the CPU stands in for a GPU that is not there: no reason to stop */
  g_log_set_always_fatal (G_LOG_LEVEL_ERROR | G_LOG_LEVEL_CRITICAL);
  g_test_add_func ("/asr/words", check_words);
  g_test_add_func ("/asr/backlog", check_backlog);
  g_test_add_func ("/asr/segment", check_segment);
  g_test_add_func ("/asr/jumps", check_jumps);
  g_test_add_func ("/asr/gap-event", check_gap_event);
  g_test_add_func ("/asr/caps-change", check_caps_change);
  g_test_add_func ("/asr/flush", check_flush);
  g_test_add_func ("/asr/wake", check_wake);
  g_test_add_func ("/asr/little", check_little);
  g_test_add_func ("/asr/states", check_states);
  g_test_add_func ("/asr/again", check_again);
  g_test_add_func ("/asr/bad-models", check_bad_models);
  g_test_add_func ("/asr/progress", check_progress);
  g_test_add_func ("/asr/shared-engine", check_shared_engine);
  g_test_add_func ("/asr/skip-copy", check_skip_copy);
  g_test_add_func ("/asr/round-trips", check_round_trips);
  g_test_add_func ("/asr/live", check_live);
  g_test_add_func ("/asr/taps", check_taps);
  g_test_add_func ("/asr/retained", check_retained);
  g_test_add_func ("/asr/fallback", check_fallback);
  g_test_add_func ("/asr/bytes-segment", check_bytes_segment);
  return g_test_run ();
}
