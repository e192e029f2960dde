/* SPDX-License-Identifier: MIT */
/* Between the pipeline's time and the engine's samples; see gstasrclock.h. */
#include "gst/gstasrclock.h"

/* @is_break: time jumped here; what lies before runs on at the plain rate */
typedef struct {
  gint64 sample;
  GstClockTime pts;
  gboolean is_break;
} Anchor;

struct _GstAsrClock {
  guint rate;
  GArray *anchors; /* Anchor, by sample */
};

GstAsrClock *
gst_asr_clock_new (guint rate)
{
  GstAsrClock *clock = g_new0 (GstAsrClock, 1);

  clock->rate = rate;
  clock->anchors = g_array_new (FALSE, FALSE, sizeof (Anchor));
  return clock;
}

void
gst_asr_clock_free (GstAsrClock *clock)
{
  if (clock == NULL)
    return;
  g_array_unref (clock->anchors);
  g_free (clock);
}

void
gst_asr_clock_reset (GstAsrClock *clock)
{
  g_array_set_size (clock->anchors, 0);
}

static GstClockTime
extrapolate (const GstAsrClock *clock, const Anchor *anchor, gint64 sample)
{
  gint64 distance = sample - anchor->sample;
  GstClockTime time;

  if (distance >= 0)
    return anchor->pts
        + gst_util_uint64_scale (distance, GST_SECOND, clock->rate);
  time = gst_util_uint64_scale (-distance, GST_SECOND, clock->rate);
  return anchor->pts > time ? anchor->pts - time : 0;
}

guint64
gst_asr_clock_get_gap (const GstAsrClock *clock, gint64 sample,
    GstClockTime pts)
{
  GstClockTime expected = gst_asr_clock_to_pts (clock, sample);

  if (!GST_CLOCK_TIME_IS_VALID (expected) || pts <= expected
      || pts - expected <= GST_ASR_CLOCK_MAX_STEP)
    return 0;
  return gst_util_uint64_scale_round (pts - expected, clock->rate, GST_SECOND);
}

gboolean
gst_asr_clock_jumps_back (const GstAsrClock *clock, gint64 sample,
    GstClockTime pts)
{
  GstClockTime expected = gst_asr_clock_to_pts (clock, sample);

  return GST_CLOCK_TIME_IS_VALID (expected)
      && pts + GST_ASR_CLOCK_MAX_STEP < expected;
}

void
gst_asr_clock_add (GstAsrClock *clock, gint64 sample, GstClockTime pts)
{
  GstClockTime expected = gst_asr_clock_to_pts (clock, sample);
  Anchor anchor = { sample, pts };

  anchor.is_break = GST_CLOCK_TIME_IS_VALID (expected)
      && ABS (GST_CLOCK_DIFF (expected, pts))
          > (GstClockTimeDiff) GST_ASR_CLOCK_MAX_STEP;
  g_array_append_val (clock->anchors, anchor);
}

/* Index of the last anchor at or before @sample; 0 if there is none. */
static guint
find_anchor (const GstAsrClock *clock, gint64 sample)
{
  guint low = 0, high = clock->anchors->len;

  while (high - low > 1) {
    guint middle = (low + high) / 2;

    if (g_array_index (clock->anchors, Anchor, middle).sample <= sample)
      low = middle;
    else
      high = middle;
  }
  return low;
}

GstClockTime
gst_asr_clock_to_pts (const GstAsrClock *clock, gint64 sample)
{
  const Anchor *anchor, *next;
  guint i;

  if (clock->anchors->len == 0)
    return GST_CLOCK_TIME_NONE;
  i = find_anchor (clock, sample);
  anchor = &g_array_index (clock->anchors, Anchor, i);
  next = i + 1 < clock->anchors->len ? anchor + 1 : NULL;
  if (next == NULL || next->is_break || sample < anchor->sample
      || next->pts < anchor->pts)
    return extrapolate (clock, anchor, sample);
  return anchor->pts
      + gst_util_uint64_scale (sample - anchor->sample,
          next->pts - anchor->pts, next->sample - anchor->sample);
}

void
gst_asr_clock_forget (GstAsrClock *clock, gint64 sample)
{
  guint i;

  if (clock->anchors->len == 0)
    return;
  i = find_anchor (clock, sample);
  if (i > 0)
    g_array_remove_range (clock->anchors, 0, i);
}
