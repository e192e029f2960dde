/* SPDX-License-Identifier: MIT */
/*
 * From the engine's segments to what goes downstream: one buffer a word or a
 * phrase, gaps over everything else. In: AsrSegment and the clock. Out:
 * buffers and events in order, without holes and without overlap. Owns no pad;
 * not thread-safe.
 */
#ifndef GST_ASR_TEXT_H
#define GST_ASR_TEXT_H

#include "engine/asr.h"
#include "gst/gstasrclock.h"

G_BEGIN_DECLS

/* No gap event covers more: muxers and overlays wait for the next. */
#define GST_ASR_TEXT_MAX_GAP (250 * GST_MSECOND)

/**
 * GstAsrGranularity:
 * @GST_ASR_GRANULARITY_WORD: one word a buffer
 * @GST_ASR_GRANULARITY_SEGMENT: one phrase a buffer
 */
typedef enum {
  GST_ASR_GRANULARITY_WORD,
  GST_ASR_GRANULARITY_SEGMENT,
} GstAsrGranularity;

/**
 * GstAsrText:
 * @position: time up to which everything has been told
 * @moves_late: a phrase that comes too late for its time is moved as a whole,
 *   not squeezed into what is left of it
 */
typedef struct {
  GstAsrGranularity granularity;
  GstClockTime position;
  gboolean is_discont; /* the next buffer is the first after a break */
  gboolean has_empty_buffers; /* in place of gap events */
  gboolean moves_late;
} GstAsrText;

/* Custom meta of each buffer: "confidence", double, 0.0 to 1.0. */
#define GST_ASR_META_NAME "GstAsrMeta"
void gst_asr_text_register_meta (void);

void gst_asr_text_init (GstAsrText *text, GstAsrGranularity granularity);

/* @start: time from which the first gap counts */
void gst_asr_text_reset (GstAsrText *text, GstClockTime start);

/**
 * gst_asr_text_add_segment:
 * @out: (element-type GstMiniObject): buffers and events are appended, owned
 */
void gst_asr_text_add_segment (GstAsrText *text, const AsrSegment *segment,
    const GstAsrClock *clock, GQueue *out);

/* Gaps up to @end. */
void gst_asr_text_add_gaps (GstAsrText *text, GstClockTime end, GQueue *out);

G_END_DECLS

#endif
