/* SPDX-License-Identifier: MIT */
/*
 * Plays a recording to the element as a microphone would: an appsrc that is
 * live hands over 20 ms of audio when they are over on the pipeline's clock.
 * Notes when each word is queued on the element's source pad, and prints what
 * came of it as one line of key=value. With --speed, a test clock runs that
 * much faster than time does. Knows nothing of the element but its pads, its
 * properties and its messages.
 */
#include <gst/app/gstappsrc.h>
#include <gst/audio/audio.h>
#include <gst/check/gsttestclock.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (20 * GST_MSECOND)
/* A word whose time lies this much before what was told revises it. */
#define OVERLAP (5 * GST_MSECOND)

typedef struct {
  GstClockTime start, end; /* running time */
  GstClockTime queued;
  char *text;
} Word;

typedef struct {
  /* options */
  char *wav, *model, *backend, *language, *words_file;
  char **properties;
  double seconds, speed;
  int latency_ms;

  GstElement *pipeline, *asr;
  GstClock *clock;
  GstAppSrc *source;
  GstAudioInfo info;
  char *samples;
  gsize n_bytes;

  GMutex lock;
  GCond changed;
  GArray *words;           /* of Word */
  GstSegment segment;
  GstClockTime position;   /* up to here the source pad told, running time */
  GstClockTime eos;        /* when it passed, running time */
  guint n_revised, n_gaps;

  guint n_warnings, n_finals, n_partials, n_repeated, n_voice;
  char *last_partial;
  GString *final_text;
  char *error;
  gboolean has_loaded, is_over;
} Harness;

static GstClockTime
get_running_time (Harness *h)
{
  return gst_clock_get_time (h->clock)
      - gst_element_get_base_time (h->pipeline);
}

static double
get_resident_mb (void)
{
  g_autofree char *text = NULL;
  long pages = 0;

  if (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL))
    sscanf (text, "%*d %ld", &pages);
  return pages * (double) sysconf (_SC_PAGESIZE) / 1e6;
}

/* ---- what the element pushes ---- */

static void
take_buffer (Harness *h, GstBuffer *buffer)
{
  Word word = { 0 };
  GstMapInfo map;

  word.queued = get_running_time (h);
  word.start = gst_segment_to_running_time (&h->segment, GST_FORMAT_TIME,
      GST_BUFFER_PTS (buffer));
  word.end = word.start + GST_BUFFER_DURATION (buffer);
  if (gst_buffer_map (buffer, &map, GST_MAP_READ)) {
    word.text = g_strndup ((char *) map.data, map.size);
    gst_buffer_unmap (buffer, &map);
  }
  if (h->position != GST_CLOCK_TIME_NONE && word.start + OVERLAP < h->position)
    h->n_revised++;
  h->position = word.end;
  if (word.text && *word.text)
    g_array_append_val (h->words, word);
  else
    g_free (word.text);
}

static GstPadProbeReturn
watch (GstPad *pad, GstPadProbeInfo *info, gpointer user_data)
{
  Harness *h = user_data;

  g_mutex_lock (&h->lock);
  if (GST_PAD_PROBE_INFO_TYPE (info) & GST_PAD_PROBE_TYPE_BUFFER) {
    take_buffer (h, GST_PAD_PROBE_INFO_BUFFER (info));
  } else {
    GstEvent *event = GST_PAD_PROBE_INFO_EVENT (info);
    GstClockTime start, duration;

    switch (GST_EVENT_TYPE (event)) {
      case GST_EVENT_SEGMENT:
        gst_event_copy_segment (event, &h->segment);
        break;
      case GST_EVENT_GAP:
        gst_event_parse_gap (event, &start, &duration);
        start = gst_segment_to_running_time (&h->segment, GST_FORMAT_TIME,
            start);
        if (GST_CLOCK_TIME_IS_VALID (start))
          h->position = start + duration;
        h->n_gaps++;
        break;
      case GST_EVENT_EOS:
        h->eos = get_running_time (h);
        break;
      default:
        break;
    }
  }
  g_mutex_unlock (&h->lock);
  return GST_PAD_PROBE_OK;
}

/* ---- what it posts ---- */

static void
take_element_message (Harness *h, const GstStructure *s)
{
  const char *text = gst_structure_get_string (s, "text");
  gboolean is_final = FALSE;

  if (gst_structure_has_name (s, "voice-activity"))
    h->n_voice++;
  if (!gst_structure_has_name (s, "asr"))
    return;
  gst_structure_get_boolean (s, "final", &is_final);
  if (is_final) {
    h->n_finals++;
    g_string_append_printf (h->final_text, " %s", text ? text : "");
    return;
  }
  h->n_partials++;
  if (g_strcmp0 (h->last_partial, text) == 0)
    h->n_repeated++;
  g_free (h->last_partial);
  h->last_partial = g_strdup (text);
}

/* In whatever thread posts; nothing may be lost, so nothing is queued. */
static GstBusSyncReply
take_message (GstBus *bus, GstMessage *message, gpointer user_data)
{
  Harness *h = user_data;
  g_autoptr (GError) error = NULL;
  GstProgressType type;

  g_mutex_lock (&h->lock);
  switch (GST_MESSAGE_TYPE (message)) {
    case GST_MESSAGE_ERROR:
      gst_message_parse_error (message, &error, NULL);
      if (h->error == NULL)
        h->error = g_strdup (error->message);
      h->is_over = TRUE;
      break;
    case GST_MESSAGE_WARNING:
      gst_message_parse_warning (message, &error, NULL);
      h->n_warnings++;
      g_printerr ("harness: warning: %s\n", error->message);
      break;
    case GST_MESSAGE_PROGRESS:
      gst_message_parse_progress (message, &type, NULL, NULL);
      h->has_loaded |= type == GST_PROGRESS_TYPE_COMPLETE;
      break;
    case GST_MESSAGE_ELEMENT:
      take_element_message (h, gst_message_get_structure (message));
      break;
    case GST_MESSAGE_EOS:
      h->is_over = TRUE;
      break;
    default:
      break;
  }
  g_cond_broadcast (&h->changed);
  g_mutex_unlock (&h->lock);
  gst_message_unref (message);
  return GST_BUS_DROP;
}

/* ---- the source ---- */

static guint32
read_u32 (const char *at)
{
  return GST_READ_UINT32_LE ((const guint8 *) at);
}

/* A plain wav of 16-bit samples, as make_corpus.py writes it. */
static gboolean
read_wav (Harness *h)
{
  gsize n, at = 12;
  guint rate = 0, n_channels = 0;

  if (!g_file_get_contents (h->wav, &h->samples, &n, NULL) || n < 44
      || memcmp (h->samples, "RIFF", 4) != 0)
    return FALSE;
  while (at + 8 <= n) {
    gsize length = read_u32 (h->samples + at + 4);

    if (memcmp (h->samples + at, "fmt ", 4) == 0 && at + 24 <= n) {
      n_channels = read_u32 (h->samples + at + 8) >> 16;
      rate = read_u32 (h->samples + at + 12);
    } else if (memcmp (h->samples + at, "data", 4) == 0) {
      h->n_bytes = MIN (length, n - at - 8);
      memmove (h->samples, h->samples + at + 8, h->n_bytes);
      break;
    }
    at += 8 + length + (length & 1);
  }
  if (rate == 0 || n_channels == 0 || h->n_bytes == 0)
    return FALSE;
  gst_audio_info_set_format (&h->info, GST_AUDIO_FORMAT_S16LE, rate,
      n_channels, NULL);
  if (h->seconds > 0)
    h->n_bytes = MIN (h->n_bytes,
        (gsize) (h->seconds * rate) * GST_AUDIO_INFO_BPF (&h->info));
  return TRUE;
}

/* Sleeps until @time on the pipeline's clock; makes a test clock go on. */
static void
wait_until (Harness *h, GstClockTime time, gint64 began_us)
{
  GstClockTime base = gst_element_get_base_time (h->pipeline);
  GstClockID id;

  if (h->speed > 0) {
    gint64 due = began_us + (gint64) (time / GST_USECOND / h->speed);
    gint64 now = g_get_monotonic_time ();

    if (due > now)
      g_usleep (due - now);
    gst_test_clock_set_time (GST_TEST_CLOCK (h->clock), base + time);
    while ((id = gst_test_clock_process_next_clock_id (
                GST_TEST_CLOCK (h->clock))))
      gst_clock_id_unref (id);
    return;
  }
  id = gst_clock_new_single_shot_id (h->clock, base + time);
  gst_clock_id_wait (id, NULL);
  gst_clock_id_unref (id);
}

typedef struct {
  double lag_end, lag_max;
  double rss_start, rss_minute, rss_end;
  GstClockTime end; /* when the last audio was handed over */
} Course;

static void
note_lag (Harness *h, Course *course, GstClockTime now)
{
  double lag;

  g_mutex_lock (&h->lock);
  lag = (double) now - (h->position == GST_CLOCK_TIME_NONE ? 0
      : (double) h->position);
  g_mutex_unlock (&h->lock);
  course->lag_end = lag / GST_SECOND;
  course->lag_max = MAX (course->lag_max, course->lag_end);
}

/* Hands over the recording, then waits for the end. */
static void
play (Harness *h, Course *course)
{
  const guint bpf = GST_AUDIO_INFO_BPF (&h->info);
  const guint rate = GST_AUDIO_INFO_RATE (&h->info);
  const gsize n_frames = h->n_bytes / bpf, chunk = rate / 50;
  gint64 began_us = g_get_monotonic_time (), deadline;
  GstClockTime now = 0;

  course->rss_start = course->rss_minute = get_resident_mb ();
  for (gsize at = 0; at < n_frames && !h->is_over; at += chunk) {
    gsize n = MIN (chunk, n_frames - at);
    GstBuffer *buffer = gst_buffer_new_memdup (h->samples + at * bpf, n * bpf);

    GST_BUFFER_PTS (buffer) = gst_util_uint64_scale (at, GST_SECOND, rate);
    now = gst_util_uint64_scale (at + n, GST_SECOND, rate);
    GST_BUFFER_DURATION (buffer) = now - GST_BUFFER_PTS (buffer);
    wait_until (h, now, began_us);
    if (gst_app_src_push_buffer (h->source, buffer) != GST_FLOW_OK)
      break;
    note_lag (h, course, now);
    if (now <= 60 * GST_SECOND)
      course->rss_minute = get_resident_mb ();
  }
  course->end = now;
  course->rss_end = get_resident_mb ();
  gst_app_src_end_of_stream (h->source);
  deadline = g_get_monotonic_time () + 120 * G_USEC_PER_SEC;
  while (!h->is_over && g_get_monotonic_time () < deadline) {
    now += CHUNK;
    wait_until (h, now, began_us);
  }
  if (!h->is_over)
    h->error = g_strdup ("no EOS within two minutes of the source's");
}

/* ---- results ---- */

static int
compare_doubles (gconstpointer a, gconstpointer b)
{
  const double *x = a, *y = b;

  return *x < *y ? -1 : *x > *y;
}

/* Median, 95th percentile and worst of @values, as keys of @name. */
static void
print_spread (const char *name, GArray *values)
{
  double *v = (double *) values->data;
  guint n = values->len;

  g_array_sort (values, compare_doubles);
  if (n > 0)
    g_print ("%s_p50=%.3f %s_p95=%.3f %s_max=%.3f ", name, v[n / 2], name,
        v[MIN (n - 1, n * 95 / 100)], name, v[n - 1]);
}

static void
write_words (Harness *h)
{
  FILE *file = h->words_file ? fopen (h->words_file, "w") : NULL;

  if (file == NULL)
    return;
  for (guint i = 0; i < h->words->len; i++) {
    Word *w = &g_array_index (h->words, Word, i);

    fprintf (file, "%.3f\t%.3f\t%s\t%.3f\n", w->start / 1e9, w->end / 1e9,
        w->text, w->queued / 1e9);
  }
  fclose (file);
}

/* Returns: whether the final messages say what the pad pushed, or are none */
static gboolean
is_same_text (Harness *h)
{
  g_autoptr (GString) pushed = g_string_new (NULL);
  g_auto (GStrv) a = NULL, b = NULL;
  g_autofree char *x = NULL, *y = NULL;

  if (h->n_finals == 0)
    return TRUE;
  for (guint i = 0; i < h->words->len; i++)
    g_string_append (pushed, g_array_index (h->words, Word, i).text);
  a = g_strsplit (pushed->str, " ", -1);
  b = g_strsplit (h->final_text->str, " ", -1);
  x = g_strjoinv ("", a);
  y = g_strjoinv ("", b);
  return strcmp (x, y) == 0;
}

static void
print_results (Harness *h, const Course *course)
{
  g_autoptr (GArray) after_start = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr (GArray) after_end = g_array_new (FALSE, FALSE, sizeof (double));
  guint n_late = 0;

  for (guint i = 0; i < h->words->len; i++) {
    Word *w = &g_array_index (h->words, Word, i);
    double start = ((double) w->queued - w->start) / GST_SECOND;
    double end = ((double) w->queued - w->end) / GST_SECOND;

    g_array_append_val (after_start, start);
    g_array_append_val (after_end, end);
    n_late += h->latency_ms > 0 && start * 1000 > h->latency_ms;
  }
  g_print ("audio=%.1f words=%u ", course->end / 1e9, h->words->len);
  print_spread ("start", after_start);
  print_spread ("end", after_end);
  g_print ("late=%u revised=%u same=%d lag_end=%.3f lag_max=%.3f "
      "eos_after=%.3f rss_start=%.1f rss_minute=%.1f rss_end=%.1f "
      "finals=%u partials=%u repeated=%u voice=%u warnings=%u gaps=%u\n",
      n_late, h->n_revised, is_same_text (h), course->lag_end, course->lag_max,
      GST_CLOCK_TIME_IS_VALID (h->eos)
          ? ((double) h->eos - course->end) / GST_SECOND : -1.0,
      course->rss_start, course->rss_minute, course->rss_end, h->n_finals,
      h->n_partials, h->n_repeated, h->n_voice, h->n_warnings, h->n_gaps);
}

/* ---- setting up ---- */

static gboolean
set_properties (Harness *h)
{
  for (guint i = 0; h->properties && h->properties[i]; i++) {
    g_auto (GStrv) pair = g_strsplit (h->properties[i], "=", 2);

    if (pair[0] == NULL || pair[1] == NULL
        || !g_object_class_find_property (G_OBJECT_GET_CLASS (h->asr),
            pair[0])) {
      g_printerr ("harness: asr has no property \"%s\"\n", h->properties[i]);
      return FALSE;
    }
    gst_util_set_object_arg (G_OBJECT (h->asr), pair[0], pair[1]);
  }
  if (h->model)
    g_object_set (h->asr, "model", h->model, NULL);
  gst_util_set_object_arg (G_OBJECT (h->asr), "backend", h->backend);
  gst_util_set_object_arg (G_OBJECT (h->asr), "language-code", h->language);
  if (h->latency_ms > 0)
    g_object_set (h->asr, "latency", h->latency_ms, NULL);
  return TRUE;
}

static gboolean
make_pipeline (Harness *h)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GstBus) bus = NULL;
  g_autoptr (GstPad) pad = NULL;
  g_autoptr (GstCaps) caps = gst_audio_info_to_caps (&h->info);

  h->pipeline = gst_parse_launch (
      "appsrc name=source is-live=true format=time min-latency=20000000 "
      "max-bytes=0 max-time=0 max-buffers=0 ! asr name=asr ! "
      "fakesink sync=false async=false", &error);
  if (h->pipeline == NULL || error) {
    g_printerr ("harness: %s\n", error->message);
    return FALSE;
  }
  h->source = GST_APP_SRC (gst_bin_get_by_name (GST_BIN (h->pipeline),
      "source"));
  h->asr = gst_bin_get_by_name (GST_BIN (h->pipeline), "asr");
  gst_app_src_set_caps (h->source, caps);
  h->clock = h->speed > 0 ? gst_test_clock_new () : gst_system_clock_obtain ();
  gst_pipeline_use_clock (GST_PIPELINE (h->pipeline), h->clock);
  bus = gst_element_get_bus (h->pipeline);
  gst_bus_set_sync_handler (bus, take_message, h, NULL);
  pad = gst_element_get_static_pad (h->asr, "src");
  gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_BUFFER
      | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, watch, h, NULL);
  return set_properties (h);
}

/* The model is loaded before the clock runs. Returns: FALSE on errors */
static gboolean
start (Harness *h)
{
  gboolean ok;

  if (gst_element_set_state (h->pipeline, GST_STATE_PAUSED)
      == GST_STATE_CHANGE_FAILURE)
    return FALSE;
  g_mutex_lock (&h->lock);
  while (!h->has_loaded && !h->error)
    g_cond_wait (&h->changed, &h->lock);
  ok = h->error == NULL;
  g_mutex_unlock (&h->lock);
  return ok && gst_element_set_state (h->pipeline, GST_STATE_PLAYING)
      != GST_STATE_CHANGE_FAILURE;
}

static gboolean
parse_options (Harness *h, int *argc, char ***argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GOptionContext) context = g_option_context_new ("RECORDING.wav");
  const GOptionEntry entries[] = {
    { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &h->seconds, "Only the start",
        "N" },
    { "model", 0, 0, G_OPTION_ARG_STRING, &h->model, "Name or folder", "M" },
    { "backend", 0, 0, G_OPTION_ARG_STRING, &h->backend, "cpu, cuda or auto",
        "B" },
    { "language", 0, 0, G_OPTION_ARG_STRING, &h->language, "A code", "L" },
    { "latency", 0, 0, G_OPTION_ARG_INT, &h->latency_ms, "The promise in ms",
        "MS" },
    { "speed", 0, 0, G_OPTION_ARG_DOUBLE, &h->speed,
        "A test clock runs so many times faster than time", "N" },
    { "set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &h->properties,
        "A property of asr", "NAME=VALUE" },
    { "words", 0, 0, G_OPTION_ARG_FILENAME, &h->words_file,
        "Writes start, end, word and when it was queued", "FILE" },
    { NULL },
  };

  g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_add_group (context, gst_init_get_option_group ());
  if (!g_option_context_parse (context, argc, argv, &error) || *argc != 2) {
    g_printerr ("harness: %s\n", error ? error->message : "name one wav file");
    return FALSE;
  }
  h->wav = (*argv)[1];
  return TRUE;
}

int
main (int argc, char **argv)
{
  Harness h = { .backend = "auto", .language = "en", .position
    = GST_CLOCK_TIME_NONE, .eos = GST_CLOCK_TIME_NONE };
  Course course = { 0 };
  gboolean ok = FALSE;

  g_mutex_init (&h.lock);
  g_cond_init (&h.changed);
  h.words = g_array_new (FALSE, FALSE, sizeof (Word));
  h.final_text = g_string_new (NULL);
  gst_segment_init (&h.segment, GST_FORMAT_TIME);
  if (!parse_options (&h, &argc, &argv))
    return 2;
  if (!read_wav (&h)) {
    g_printerr ("harness: %s is no wav file of 16-bit samples\n", h.wav);
    return 2;
  }
  if (make_pipeline (&h) && start (&h)) {
    play (&h, &course);
    ok = h.error == NULL;
  }
  if (h.error)
    g_printerr ("harness: %s\n", h.error);
  if (h.pipeline)
    gst_element_set_state (h.pipeline, GST_STATE_NULL);
  if (ok) {
    write_words (&h);
    print_results (&h, &course);
  }
  return ok ? 0 : 1;
}
