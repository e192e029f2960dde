/* SPDX-License-Identifier: MIT */
/* The parts of the element that have no pads: clock, text, conversion. */
#include "gst/gstasrclock.h"
#include "gst/gstasrconvert.h"
#include "gst/gstasrtext.h"

#include <math.h>
#include <string.h>

#define RATE 16000
#define MS GST_MSECOND

/* ---- clock ---- */

static void
check_clock_follows (void)
{
  g_autoptr (GstAsrClock) clock = gst_asr_clock_new (RATE);

  g_assert_false (GST_CLOCK_TIME_IS_VALID (gst_asr_clock_to_pts (clock, 5)));
  gst_asr_clock_add (clock, 0, 100 * MS);
  g_assert_cmpuint (gst_asr_clock_get_gap (clock, 320, 120 * MS), ==, 0);
  gst_asr_clock_add (clock, 320, 120 * MS);
  g_assert_cmpuint (gst_asr_clock_to_pts (clock, 160), ==, 110 * MS);
  g_assert_cmpuint (gst_asr_clock_to_pts (clock, 480), ==, 130 * MS);
}

/* Every pause adds 8 ms of samples without time (audioresample before 1.28):
 * words follow the PTS, however many samples there are. */
static void
check_clock_small_steps (void)
{
  g_autoptr (GstAsrClock) clock = gst_asr_clock_new (RATE);

  for (guint i = 0; i < 1000; i++) {
    gint64 sample = i * (320 + 128);

    g_assert_cmpuint (gst_asr_clock_get_gap (clock, sample, i * 20 * MS), ==,
        0);
    gst_asr_clock_add (clock, sample, i * 20 * MS);
  }
  for (guint i = 0; i < 999; i++)
    g_assert_cmpuint (gst_asr_clock_to_pts (clock, i * (320 + 128) + 224), ==,
        (i * 20 + 10) * MS);
}

static void
check_clock_gap (void)
{
  g_autoptr (GstAsrClock) clock = gst_asr_clock_new (RATE);

  gst_asr_clock_add (clock, 0, 0);
  gst_asr_clock_add (clock, 16000, GST_SECOND);
  /* 40 ms more than expected is no gap yet, 41 ms is one */
  g_assert_cmpuint (gst_asr_clock_get_gap (clock, 32000, 2040 * MS), ==, 0);
  g_assert_cmpuint (gst_asr_clock_get_gap (clock, 32000, 2041 * MS), ==,
      41 * 16);
  /* ten seconds are missing: skipped, then the anchor fits */
  g_assert_cmpuint (gst_asr_clock_get_gap (clock, 32000, 12 * GST_SECOND), ==,
      160000);
  gst_asr_clock_add (clock, 192000, 12 * GST_SECOND);
  g_assert_cmpuint (gst_asr_clock_to_pts (clock, 31999), <=, 2 * GST_SECOND);
  g_assert_cmpuint (gst_asr_clock_to_pts (clock, 193600), ==,
      12100 * MS);
}

static void
check_clock_jump_back (void)
{
  g_autoptr (GstAsrClock) clock = gst_asr_clock_new (RATE);

  gst_asr_clock_add (clock, 0, 10 * GST_SECOND);
  g_assert_cmpuint (gst_asr_clock_get_gap (clock, 16000, GST_SECOND), ==, 0);
  gst_asr_clock_add (clock, 16000, GST_SECOND);
  /* before the jump time runs on at the plain rate */
  g_assert_cmpuint (gst_asr_clock_to_pts (clock, 8000), ==, 10500 * MS);
  g_assert_cmpuint (gst_asr_clock_to_pts (clock, 24000), ==, 1500 * MS);
}

static void
check_clock_forget (void)
{
  g_autoptr (GstAsrClock) clock = gst_asr_clock_new (RATE);

  for (guint i = 0; i < 100; i++)
    gst_asr_clock_add (clock, i * 320, i * 20 * MS);
  gst_asr_clock_forget (clock, 50 * 320 + 10);
  g_assert_cmpuint (gst_asr_clock_to_pts (clock, 50 * 320 + 160), ==,
      1010 * MS);
  g_assert_cmpuint (gst_asr_clock_to_pts (clock, 99 * 320), ==, 1980 * MS);
}

/* ---- text ---- */

static AsrSegment
make_segment (const AsrWord *words, guint n, gint64 start, gint64 end)
{
  AsrSegment segment = { ASR_SEGMENT_TEXT, 0, 0, start, end };

  segment.words = words;
  segment.n_words = n;
  return segment;
}

/* Everything from @start to @end is covered once; texts joined by '|'. */
static char *
check_cover (GQueue *out, GstClockTime start, GstClockTime end)
{
  GString *texts = g_string_new (NULL);
  gpointer item;

  while ((item = g_queue_pop_head (out))) {
    GstClockTime pts, duration;

    if (GST_IS_EVENT (item)) {
      gst_event_parse_gap (item, &pts, &duration);
      g_assert_cmpuint (duration, >, 0);
      g_assert_cmpuint (duration, <=, 250 * MS);
      gst_event_unref (item);
    } else {
      GstMapInfo map;

      pts = GST_BUFFER_PTS (item);
      duration = GST_BUFFER_DURATION (item);
      gst_buffer_map (item, &map, GST_MAP_READ);
      g_assert_true (g_utf8_validate ((char *) map.data, map.size, NULL));
      g_string_append_len (texts, (char *) map.data, map.size);
      g_string_append_c (texts, '|');
      gst_buffer_unmap (item, &map);
      gst_buffer_unref (item);
    }
    g_assert_cmpuint (pts, ==, start);
    start += duration;
  }
  g_assert_cmpuint (start, ==, end);
  return g_string_free (texts, FALSE);
}

static void
check_text_words (void)
{
  const AsrWord words[] = { { 8000, 12000, "Hello", TRUE, 1 },
    { 12000, 16000, "world.", TRUE, 1 }, { 40000, 40000, "Yes", TRUE, 1 } };
  g_autoptr (GstAsrClock) clock = gst_asr_clock_new (RATE);
  AsrSegment segment = make_segment (words, 3, 0, 48000);
  AsrSegment empty = make_segment (NULL, 0, 48000, 80000);
  GQueue out = G_QUEUE_INIT;
  g_autofree char *texts = NULL;
  GstAsrText text;

  gst_asr_clock_add (clock, 0, 5 * GST_SECOND);
  gst_asr_text_init (&text, GST_ASR_GRANULARITY_WORD);
  gst_asr_text_reset (&text, 5 * GST_SECOND);
  gst_asr_text_add_segment (&text, &segment, clock, &out);
  gst_asr_text_add_segment (&text, &empty, clock, &out);
  texts = check_cover (&out, 5 * GST_SECOND, 10 * GST_SECOND);
  g_assert_cmpstr (texts, ==, "Hello|world.|Yes|");
}

static void
check_text_segments (void)
{
  const AsrWord words[] = { { 8000, 12000, "Hello", TRUE, 1 },
    { 12000, 16000, "world.", TRUE, 1 } };
  g_autoptr (GstAsrClock) clock = gst_asr_clock_new (RATE);
  AsrSegment segment = make_segment (words, 2, 0, 32000);
  GQueue out = G_QUEUE_INIT;
  g_autofree char *texts = NULL;
  GstAsrText text;

  gst_asr_clock_add (clock, 0, 0);
  gst_asr_text_init (&text, GST_ASR_GRANULARITY_SEGMENT);
  gst_asr_text_reset (&text, 0);
  gst_asr_text_add_segment (&text, &segment, clock, &out);
  texts = check_cover (&out, 0, 2 * GST_SECOND);
  g_assert_cmpstr (texts, ==, "Hello world.|");
}

/* Japanese comes in phrases: cut behind punctuation and at pauses. */
static void
check_text_unspaced (void)
{
  const AsrWord words[] = { { 0, 1600, "今日", FALSE, 1 },
    { 1600, 3200, "は、", FALSE, 1 }, { 3200, 4800, "いい", FALSE, 1 },
    { 4800, 6400, "天気", FALSE, 1 }, { 16000, 17600, "です", FALSE, 1 } };
  g_autoptr (GstAsrClock) clock = gst_asr_clock_new (RATE);
  AsrSegment segment = make_segment (words, 5, 0, 17600);
  GQueue out = G_QUEUE_INIT;
  g_autofree char *texts = NULL;
  GstAsrText text;

  gst_asr_clock_add (clock, 0, 0);
  gst_asr_text_init (&text, GST_ASR_GRANULARITY_WORD);
  gst_asr_text_reset (&text, 0);
  gst_asr_text_add_segment (&text, &segment, clock, &out);
  texts = check_cover (&out, 0, 1100 * MS);
  g_assert_cmpstr (texts, ==, "今日は、|いい天気|です|");
}

/* Time that jumps back does not make output run backwards. */
static void
check_text_jump_back (void)
{
  const AsrWord words[] = { { 0, 16000, "one", TRUE, 1 },
    { 16000, 32000, "two", TRUE, 1 } };
  g_autoptr (GstAsrClock) clock = gst_asr_clock_new (RATE);
  AsrSegment segment = make_segment (words, 2, 0, 32000);
  GQueue out = G_QUEUE_INIT;
  GstAsrText text;
  GstBuffer *first, *second;

  gst_asr_clock_add (clock, 0, 10 * GST_SECOND);
  gst_asr_clock_add (clock, 16000, 2 * GST_SECOND);
  gst_asr_text_init (&text, GST_ASR_GRANULARITY_WORD);
  gst_asr_text_reset (&text, 10 * GST_SECOND);
  gst_asr_text_add_segment (&text, &segment, clock, &out);
  first = g_queue_pop_head (&out);
  second = g_queue_pop_head (&out);
  g_assert_cmpuint (GST_BUFFER_PTS (second), >=,
      GST_BUFFER_PTS (first) + GST_BUFFER_DURATION (first));
  gst_buffer_unref (first);
  gst_buffer_unref (second);
  g_assert_true (g_queue_is_empty (&out));
}

/* ---- conversion ---- */

/* Pushes @seconds of a tone in 40 ms buffers; returns all that comes out. */
static GArray *
convert_tone (const char *caps_text, guint seconds, const float *gains)
{
  g_autoptr (GstCaps) caps = gst_caps_from_string (caps_text);
  GArray *all = g_array_new (FALSE, FALSE, sizeof (float));
  GstAudioInfo info;
  g_autoptr (GstAsrConvert) convert = NULL;
  const float *out;
  gsize n_out;

  g_assert_true (gst_audio_info_from_caps (&info, caps));
  convert = gst_asr_convert_new (&info, RATE);
  g_assert_nonnull (convert);
  for (guint b = 0; b < seconds * 25; b++) {
    guint n = info.rate / 25;
    GstBuffer *buffer = gst_buffer_new_allocate (NULL, n * info.bpf, NULL);
    GstAudioBuffer audio;

    g_assert_true (gst_audio_buffer_map (&audio, &info, buffer,
        GST_MAP_READWRITE));
    for (guint t = 0; t < n; t++)
      for (guint c = 0; c < (guint) info.channels; c++)
        ((float *) audio.planes[0])[t * info.channels + c] = gains[c]
            * sin (2 * G_PI * 440 * (b * n + t) / info.rate);
    out = gst_asr_convert_run (convert, &audio, &n_out);
    g_array_append_vals (all, out, n_out);
    gst_audio_buffer_unmap (&audio);
    gst_buffer_unref (buffer);
  }
  g_assert_cmpuint (gst_asr_convert_get_n_heard (convert), ==, seconds * RATE);
  out = gst_asr_convert_drain (convert, &n_out);
  g_array_append_vals (all, out, n_out);
  return all;
}

static double
get_power (const GArray *samples)
{
  double sum = 0;

  for (guint i = 0; i < samples->len; i++) {
    float x = g_array_index (samples, float, i);

    g_assert_true (isfinite (x));
    sum += x * x;
  }
  return sum / samples->len;
}

static void
check_convert_rates (void)
{
  static const guint rates[] = { 8000, 11025, 16000, 44100, 48000, 96000 };
  const float one[] = { 1 };

  for (guint i = 0; i < G_N_ELEMENTS (rates); i++) {
    g_autofree char *caps = g_strdup_printf ("audio/x-raw,format=F32LE,"
        "layout=interleaved,channels=1,rate=%u", rates[i]);
    g_autoptr (GArray) out = convert_tone (caps, 2, one);
    double error = 0;

    /* every sample that went in comes out, and where it belongs */
    g_assert_cmpuint (out->len, ==, 2 * RATE);
    for (guint t = RATE / 2; t < RATE; t++)
      error = MAX (error, fabs (g_array_index (out, float, t)
          - sin (2 * G_PI * 440 * t / RATE)));
    /* a tone of 440 Hz moves by 0.17 in one sample */
    g_assert_cmpfloat (error, <, 0.17);
  }
}

static void
check_convert_channels (void)
{
  static const struct {
    const char *name, *caps;
    float gains[6];
    double power;
  } cases[] = {
    { "stereo", "channels=2,channel-mask=(bitmask)0x3", { 1, 1 }, 0.5 },
    { "opposite phase", "channels=2,channel-mask=(bitmask)0x3", { 1, -1 },
        0.5 },
    { "one side", "channels=2,channel-mask=(bitmask)0x3", { 1, 0 }, 0.125 },
    { "centre", "channels=6,channel-mask=(bitmask)0x3f",
        { 0.9, 0.8, 1, 0.7, 0.6, 0.5 }, 0.5 },
    { "centre is silent", "channels=6,channel-mask=(bitmask)0x3f",
        { 1, 1, 0, 1, 1, 1 }, 0.5 },
    { "no positions", "channels=4,channel-mask=(bitmask)0x0", { 1, 1, 1, 1 },
        0.5 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *caps = g_strconcat ("audio/x-raw,format=F32LE,rate=16000,"
        "layout=interleaved,", cases[i].caps, NULL);
    g_autoptr (GArray) out = convert_tone (caps, 1, cases[i].gains);

    g_test_message ("%s: power %g", cases[i].name, get_power (out));
    g_assert_cmpfloat_with_epsilon (get_power (out), cases[i].power, 0.02);
  }
}

static void
check_convert_bad_values (void)
{
  const float gains[] = { NAN, 1 };
  const float infinite[] = { INFINITY };
  g_autoptr (GArray) stereo = convert_tone ("audio/x-raw,format=F32LE,"
      "rate=48000,layout=interleaved,channels=2,channel-mask=(bitmask)0x3", 1,
      gains);
  g_autoptr (GArray) mono = convert_tone ("audio/x-raw,format=F32LE,"
      "rate=16000,layout=interleaved,channels=1", 1, infinite);

  g_assert_cmpfloat (get_power (stereo), >, 0.1);
  g_assert_cmpfloat (get_power (mono), ==, 0);
}

static void
check_choice (void)
{
  const double loud_right[] = { 1, 4 };

  /* a mix that is there is kept; one that cancels gives way to the louder */
  g_assert_cmpint (gst_asr_convert_choose_channel (1, loud_right, 2, -1), ==,
      -1);
  g_assert_cmpint (gst_asr_convert_choose_channel (0.001, loud_right, 2, -1),
      ==, 1);
  /* and comes back only when it is clearly there */
  g_assert_cmpint (gst_asr_convert_choose_channel (0.1, loud_right, 2, 1), ==,
      1);
  g_assert_cmpint (gst_asr_convert_choose_channel (0.3, loud_right, 2, 1), ==,
      -1);
}

int
main (int argc, char **argv)
{
  gst_init (&argc, &argv);
  gst_asr_text_register_meta ();
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/clock/follows", check_clock_follows);
  g_test_add_func ("/clock/small-steps", check_clock_small_steps);
  g_test_add_func ("/clock/gap", check_clock_gap);
  g_test_add_func ("/clock/jump-back", check_clock_jump_back);
  g_test_add_func ("/clock/forget", check_clock_forget);
  g_test_add_func ("/text/words", check_text_words);
  g_test_add_func ("/text/segments", check_text_segments);
  g_test_add_func ("/text/unspaced", check_text_unspaced);
  g_test_add_func ("/text/jump-back", check_text_jump_back);
  g_test_add_func ("/convert/rates", check_convert_rates);
  g_test_add_func ("/convert/channels", check_convert_channels);
  g_test_add_func ("/convert/bad-values", check_convert_bad_values);
  g_test_add_func ("/convert/choice", check_choice);
  return g_test_run ();
}
