/* SPDX-License-Identifier: MIT */
/*
 * The element in a harness, with the real engine and a generated model that
 * says one fixed script in every window, whatever it hears (make_tiny_model.py;
 * checked there against CTranslate2).
 */
#include <glib/gstdio.h>
#include <string.h>

#include "gst/gstasrpool.h"
#include "tests/gst/suite.h"

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
  g_assert_cmpuint (o.texts->len, >=, 3 * SUITE_N_WORDS);
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
  g_assert_cmpuint (o.texts->len, >=, SUITE_N_WORDS);
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
  g_test_add_func ("/asr/live", check_live);
  g_test_add_func ("/asr/bytes-segment", check_bytes_segment);
  return g_test_run ();
}
