/* SPDX-License-Identifier: MIT */
/*
 * Video beside live text never waits: overlays and muxers take each frame no
 * later than the latency that the element promised, and a moment. A live test
 * picture stands beside the sample, played at the speed of speech.
 */
#include <gst/gst.h>
#include <string.h>

#define LATENCY (2 * GST_SECOND)
/* Threads that wake late on a busy machine, and frames that were on the way. */
#define SLACK (700 * GST_MSECOND)
#define FPS 15
#define SECONDS 14
#define N_FRAMES (FPS * SECONDS)
#define PICTURE "videotestsrc is-live=true num-buffers=%d ! " \
  "video/x-raw,framerate=%d/1,width=160,height=90 ! %s ! " \
  "queue max-size-time=0 max-size-buffers=0 max-size-bytes=0 ! %s "
#define SOUND "filesrc location=%s ! flacparse ! flacdec ! " \
  "identity sync=true ! tee name=sound sound. ! queue ! asr name=asr " \
  "model=tiny.en language-code=en backend=cpu latency=2000 ! queue ! %s "

typedef struct {
  GstElement *pipeline;
  GMutex lock;
  GstClockTime worst; /* lag of a frame when the consumer took it */
  guint n_frames, n_texts;
} Watch;

static GstPadProbeReturn
count_text (GstPad *pad, GstPadProbeInfo *info, gpointer user_data)
{
  Watch *w = user_data;

  g_mutex_lock (&w->lock);
  w->n_texts += gst_buffer_get_size (GST_PAD_PROBE_INFO_BUFFER (info)) > 0;
  g_mutex_unlock (&w->lock);
  return GST_PAD_PROBE_OK;
}

/* Frames are counted: encoders' times may be shifted. */
static GstPadProbeReturn
take_frame (GstPad *pad, GstPadProbeInfo *info, gpointer user_data)
{
  Watch *w = user_data;
  g_autoptr (GstClock) clock = gst_element_get_clock (w->pipeline);
  GstClockTime now = gst_clock_get_time (clock)
      - gst_element_get_base_time (w->pipeline);
  GstClockTime due;

  g_mutex_lock (&w->lock);
  due = gst_util_uint64_scale (w->n_frames, GST_SECOND, FPS);
  w->n_frames++;
  if (now > due)
    w->worst = MAX (w->worst, now - due);
  g_mutex_unlock (&w->lock);
  return GST_PAD_PROBE_OK;
}

static void
add_probe (GstElement *pipeline, const char *name, const char *pad_name,
    GstPadProbeCallback callback, Watch *w)
{
  g_autoptr (GstElement) element
      = gst_bin_get_by_name (GST_BIN (pipeline), name);
  g_autoptr (GstPad) pad = gst_element_get_static_pad (element, pad_name);

  g_assert_nonnull (pad);
  gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER, callback, w, NULL);
}

/* Plays @description and checks that the video pad of "consumer" keeps pace. */
static void
check_pace (const char *description, const char *video_pad)
{
  Watch w = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GstBus) bus = NULL;
  g_autoptr (GstMessage) message = NULL;

  w.pipeline = gst_parse_launch (description, &error);
  g_assert_no_error (error);
  g_mutex_init (&w.lock);
  add_probe (w.pipeline, "consumer", video_pad, take_frame, &w);
  add_probe (w.pipeline, "asr", "src", count_text, &w);
  bus = gst_element_get_bus (w.pipeline);
  /* the weights come first, that the test is about pace alone */
  gst_element_set_state (w.pipeline, GST_STATE_PAUSED);
  for (GstProgressType type = 0; type != GST_PROGRESS_TYPE_COMPLETE;) {
    g_autoptr (GstMessage) progress = gst_bus_timed_pop_filtered (bus,
        30 * GST_SECOND, GST_MESSAGE_PROGRESS | GST_MESSAGE_ERROR);

    g_assert_nonnull (progress);
    g_assert_cmpint (GST_MESSAGE_TYPE (progress), ==, GST_MESSAGE_PROGRESS);
    gst_message_parse_progress (progress, &type, NULL, NULL);
  }
  gst_element_set_state (w.pipeline, GST_STATE_PLAYING);
  message = gst_bus_timed_pop_filtered (bus, 60 * GST_SECOND,
      GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  gst_element_set_state (w.pipeline, GST_STATE_NULL);
  g_assert_nonnull (message);
  g_assert_cmpint (GST_MESSAGE_TYPE (message), ==, GST_MESSAGE_EOS);
  g_test_message ("worst lag %.3f s in %u frames, %u texts",
      w.worst / 1e9, w.n_frames, w.n_texts);
  g_assert_cmpuint (w.n_frames, >=, N_FRAMES);
  g_assert_cmpuint (w.n_texts, >, 20);
  g_assert_cmpuint (w.worst, <, LATENCY + SLACK);
  gst_object_unref (w.pipeline);
  g_mutex_clear (&w.lock);
}

static void
check_overlay (gconstpointer wait_text)
{
  g_autofree char *picture = g_strdup_printf (PICTURE, N_FRAMES, FPS,
      "identity", "consumer.video_sink");
  g_autofree char *sound = g_strdup_printf (SOUND, g_getenv ("ASR_SAMPLE"),
      "consumer.text_sink");
  g_autofree char *text = g_strdup_printf (
      "textoverlay name=consumer wait-text=%s ! fakesink sync=true %s %s "
      "sound. ! queue max-size-time=0 ! fakesink sync=true",
      (const char *) wait_text, picture, sound);

  check_pace (text, "video_sink");
}

static void
check_muxer (gconstpointer data)
{
  /* muxer, video encoder, audio encoder */
  g_auto (GStrv) part = g_strsplit (data, "|", 3);
  g_autofree char *picture = g_strdup_printf (PICTURE, N_FRAMES, FPS, part[1],
      "consumer.video_0");
  g_autofree char *sound = g_strdup_printf (SOUND, g_getenv ("ASR_SAMPLE"),
      "consumer.subtitle_0");
  g_autofree char *text = g_strdup_printf (
      "%s name=consumer ! fakesink sync=false async=false %s %s sound. ! "
      "queue max-size-time=0 max-size-bytes=0 max-size-buffers=0 ! "
      "audioconvert ! audioresample ! %s ! "
      "queue max-size-time=0 max-size-bytes=0 max-size-buffers=0 ! "
      "consumer.audio_0", part[0], picture, sound, part[2]);

  check_pace (text, "video_0");
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
  g_test_add_data_func ("/video/textoverlay/wait-text", "true", check_overlay);
  g_test_add_data_func ("/video/textoverlay/no-wait", "false", check_overlay);
  g_test_add_data_func ("/video/matroskamux",
      "matroskamux|vp8enc deadline=1 cpu-used=8|vorbisenc", check_muxer);
  g_test_add_data_func ("/video/mp4mux",
      "mp4mux|openh264enc ! h264parse|avenc_aac", check_muxer);
  g_test_add_data_func ("/video/mp4mux/fragments",
      "mp4mux fragment-duration=1000|openh264enc ! h264parse|avenc_aac",
      check_muxer);
  return g_test_run ();
}
