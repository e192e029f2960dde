/* SPDX-License-Identifier: MIT */
/*
 * Outputs of methods in device memory and who computes: what is skipped,
 * copied, tapped, retained and given up, with the CPU as the device.
 */
#include <glib/gstdio.h>
#include <string.h>

#include "tests/gst/suite.h"

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
      g_assert_cmpuint (taps.order->len, >, SUITE_N_WORDS);
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

int
main (int argc, char **argv)
{
  gst_init (&argc, &argv);
  g_test_init (&argc, &argv, NULL);
  /* the CPU stands in for a GPU that is not there: no reason to stop */
  g_log_set_always_fatal (G_LOG_LEVEL_ERROR | G_LOG_LEVEL_CRITICAL);
  g_test_add_func ("/device/skip-copy", check_skip_copy);
  g_test_add_func ("/device/round-trips", check_round_trips);
  g_test_add_func ("/device/taps", check_taps);
  g_test_add_func ("/device/retained", check_retained);
  g_test_add_func ("/device/fallback", check_fallback);
  return g_test_run ();
}
