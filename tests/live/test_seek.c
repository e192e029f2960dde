/* SPDX-License-Identifier: MIT */
/*
 * Seeking with real demuxers before the element: text after a seek is that of
 * the new place, at its right time, and nothing of the old place comes.
 */
#include <gst/gst.h>
#include <glib/gstdio.h>
#include <string.h>

/* "... cold hearted and rather selfish is to be ill disposed" is said in the
 * last seconds of the sample; the seek goes before it. */
#define TARGET (9 * GST_SECOND)
#define WORD "selfish"
#define NEAR (300 * GST_MSECOND)

typedef struct {
  GMutex lock;
  GstSegment segment;
  GstClockTime word;    /* stream time of WORD, after the last flush */
  GstClockTime first;   /* of the first text after it */
  gboolean has_flushed;
} Course;

static GstPadProbeReturn
watch (GstPad *pad, GstPadProbeInfo *info, gpointer user_data)
{
  Course *c = user_data;

  g_mutex_lock (&c->lock);
  if (GST_PAD_PROBE_INFO_TYPE (info) & GST_PAD_PROBE_TYPE_BUFFER) {
    GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER (info);
    GstClockTime time = gst_segment_to_stream_time (&c->segment,
        GST_FORMAT_TIME, GST_BUFFER_PTS (buffer));
    g_autofree char *text = NULL;
    gpointer data = NULL;
    gsize n = 0;

    gst_buffer_extract_dup (buffer, 0, -1, &data, &n);
    text = g_strndup (data, n);
    g_free (data);
    if (!GST_CLOCK_TIME_IS_VALID (c->first))
      c->first = time;
    if (strstr (text, WORD))
      c->word = time;
  } else {
    GstEvent *event = GST_PAD_PROBE_INFO_EVENT (info);

    if (GST_EVENT_TYPE (event) == GST_EVENT_SEGMENT)
      gst_event_copy_segment (event, &c->segment);
    if (GST_EVENT_TYPE (event) == GST_EVENT_FLUSH_STOP) {
      c->word = c->first = GST_CLOCK_TIME_NONE;
      c->has_flushed = TRUE;
    }
  }
  g_mutex_unlock (&c->lock);
  return GST_PAD_PROBE_OK;
}

static void
wait_for_eos (GstElement *pipeline)
{
  g_autoptr (GstBus) bus = gst_element_get_bus (pipeline);
  g_autoptr (GstMessage) message = gst_bus_timed_pop_filtered (bus,
      60 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);

  g_assert_nonnull (message);
  g_assert_cmpint (GST_MESSAGE_TYPE (message), ==, GST_MESSAGE_EOS);
}

static void
seek (GstElement *pipeline)
{
  g_assert_true (gst_element_seek_simple (pipeline, GST_FORMAT_TIME,
      GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE, TARGET));
}

static void
check_after_seek (const Course *c, GstClockTime expected)
{
  g_assert_true (c->has_flushed);
  g_assert_cmpuint (c->first, >=, TARGET);
  g_assert_true (GST_CLOCK_TIME_IS_VALID (c->word));
  g_assert_cmpint (ABS (GST_CLOCK_DIFF (c->word, expected)), <, NEAR);
}

/* Returns: (transfer full): a pipeline whose text is watched */
static GstElement *
open_pipeline (const char *text, Course *c)
{
  GstElement *pipeline = gst_parse_launch (text, NULL);
  g_autoptr (GstElement) asr
      = gst_bin_get_by_name (GST_BIN (pipeline), "asr");
  g_autoptr (GstPad) pad = gst_element_get_static_pad (asr, "src");

  gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER
      | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM | GST_PAD_PROBE_TYPE_EVENT_FLUSH,
      watch, c, NULL);
  c->word = c->first = GST_CLOCK_TIME_NONE;
  c->has_flushed = FALSE;
  return pipeline;
}

/* @data: a file that is made first, and what reads it */
static void
check_demuxer (gconstpointer data)
{
  g_auto (GStrv) part = g_strsplit (data, "|", 2);
  g_autofree char *folder = g_dir_make_tmp ("asr-seek-XXXXXX", NULL);
  g_autofree char *file = g_build_filename (folder, "sample", NULL);
  g_autofree char *make = g_strdup_printf ("filesrc location=%s ! flacparse ! "
      "flacdec ! audioconvert ! %s ! filesink location=%s",
      g_getenv ("ASR_SAMPLE"), part[0], file);
  g_autofree char *text = g_strdup_printf ("filesrc location=%s ! %s ! "
      "asr name=asr model=tiny.en language-code=en backend=cpu ! "
      "fakesink sync=false", file, part[1]);
  g_autoptr (GstElement) maker = gst_parse_launch (make, NULL);
  GstElement *pipeline;
  Course c = { 0 };
  GstClockTime expected;

  gst_element_set_state (maker, GST_STATE_PLAYING);
  wait_for_eos (maker);
  gst_element_set_state (maker, GST_STATE_NULL);
  g_mutex_init (&c.lock);

  /* whole */
  pipeline = open_pipeline (text, &c);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  wait_for_eos (pipeline);
  g_assert_true (GST_CLOCK_TIME_IS_VALID (c.word));
  expected = c.word;
  g_assert_cmpuint (expected, >, TARGET);

  /* after EOS, while PLAYING */
  seek (pipeline);
  wait_for_eos (pipeline);
  check_after_seek (&c, expected);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  gst_object_unref (pipeline);

  /* in PAUSED, with the first text of the start already made */
  pipeline = open_pipeline (text, &c);
  gst_element_set_state (pipeline, GST_STATE_PAUSED);
  g_assert_cmpint (gst_element_get_state (pipeline, NULL, NULL,
      60 * GST_SECOND), ==, GST_STATE_CHANGE_SUCCESS);
  seek (pipeline);
  gst_element_set_state (pipeline, GST_STATE_PLAYING);
  wait_for_eos (pipeline);
  check_after_seek (&c, expected);
  gst_element_set_state (pipeline, GST_STATE_NULL);
  gst_object_unref (pipeline);

  g_remove (file);
  g_rmdir (folder);
  g_mutex_clear (&c.lock);
}

int
main (int argc, char **argv)
{
  g_autofree char *model = g_build_filename (g_get_user_data_dir (),
      "gst-asr", "models", "tiny.en", "model.bin", NULL);

  g_test_init (&argc, &argv, NULL);
  gst_init (&argc, &argv);
  if (!g_file_test (model, G_FILE_TEST_EXISTS)) {
    g_print ("1..0 # SKIP there is no model tiny.en\n");
    return 77;
  }
  g_test_add_data_func ("/seek/wavparse", "wavenc|wavparse", check_demuxer);
  g_test_add_data_func ("/seek/matroskademux",
      "vorbisenc ! matroskamux|matroskademux ! vorbisdec", check_demuxer);
  g_test_add_data_func ("/seek/flacparse", "flacenc|flacparse ! flacdec",
      check_demuxer);
  return g_test_run ();
}
