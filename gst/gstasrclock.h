/* SPDX-License-Identifier: MIT */
/*
 * Between the pipeline's time and the engine's samples: an anchor (sample,
 * PTS) for each input buffer, and interpolation between anchors. Never a
 * running count: what a word's PTS says is where its audio stood. Pure; not
 * thread-safe.
 */
#ifndef GST_ASR_CLOCK_H
#define GST_ASR_CLOCK_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* A step of more than this is a gap in the audio; a smaller one only moves
 * the anchor. */
#define GST_ASR_CLOCK_MAX_STEP (40 * GST_MSECOND)

typedef struct _GstAsrClock GstAsrClock;

/* @rate: samples in a second */
GstAsrClock *gst_asr_clock_new (guint rate);
void gst_asr_clock_free (GstAsrClock *clock);
void gst_asr_clock_reset (GstAsrClock *clock);

/**
 * gst_asr_clock_get_gap: how much audio is missing before a buffer.
 * @sample: index that the buffer's first sample would have without a gap
 * @pts: its time
 *
 * Returns: samples to skip; 0 where the buffer follows on or jumps back
 */
guint64 gst_asr_clock_get_gap (const GstAsrClock *clock, gint64 sample,
    GstClockTime pts);

/* Whether a buffer lies in the past: what was heard is to be told first, and
 * time starts anew. Arguments as of get_gap. */
gboolean gst_asr_clock_jumps_back (const GstAsrClock *clock, gint64 sample,
    GstClockTime pts);

/* The audio from @sample on stands at @pts; gaps have been skipped. */
void gst_asr_clock_add (GstAsrClock *clock, gint64 sample, GstClockTime pts);

/* Returns: GST_CLOCK_TIME_NONE before the first anchor was added */
GstClockTime gst_asr_clock_to_pts (const GstAsrClock *clock, gint64 sample);

/* Drops anchors that no sample from @sample on needs. */
void gst_asr_clock_forget (GstAsrClock *clock, gint64 sample);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GstAsrClock, gst_asr_clock_free)

G_END_DECLS

#endif
