/* SPDX-License-Identifier: MIT */
/* What the tests of the element share; see suite.h. */
#include "tests/gst/suite.h"

const char *const suite_script[SUITE_N_WORDS] = { "hello", "world,", "the",
  "quick", "brown", "fox.", "a", "test", "of", "café." };

GstElement *
make_element (void)
{
  GstElement *element = g_object_new (GST_TYPE_ASR, NULL);

  g_object_set (element, "model", g_getenv ("TINY_MODEL"), "language-code",
      "en", "vad", FALSE, "threads", 2, "backend", 1 /* cpu */, NULL);
  return element;
}

GstHarness *
make_harness (const char *caps)
{
  GstElement *element = make_element ();
  GstHarness *h = gst_harness_new_with_element (element, "sink", "src");

  gst_harness_set_live (h, FALSE);
  gst_harness_set_src_caps_str (h, caps);
  gst_object_unref (element);
  return h;
}

GstBuffer *
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

void
push_seconds (GstHarness *h, GstClockTime pts, double seconds)
{
  for (guint i = 0; i < seconds * 50; i++)
    g_assert_cmpint (gst_harness_push (h,
        make_buffer (pts + i * 20 * MS, 960 * 4, 48000, 4)), ==, GST_FLOW_OK);
}

static gint
compare_times (gconstpointer a, gconstpointer b)
{
  const GstClockTime *x = a, *y = b;

  return *x < *y ? -1 : *x > *y;
}

void
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

Output
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

void
assert_script (const Output *o, guint n_windows)
{
  g_assert_cmpuint (o->texts->len, ==, n_windows * SUITE_N_WORDS);
  for (guint i = 0; i < o->texts->len; i++)
    g_assert_cmpstr (g_ptr_array_index (o->texts, i), ==,
        suite_script[i % SUITE_N_WORDS]);
}

void
push_eos (GstHarness *h)
{
  g_assert_true (gst_harness_push_event (h, gst_event_new_eos ()));
}
