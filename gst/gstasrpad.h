/* SPDX-License-Identifier: MIT */
/*
 * The element's pads on request: translate_src_%u and unsynced_src. What the
 * source pad's task hands them waits in a queue of their own, and their own
 * task pushes it: none of them waits for another or for the source pad.
 */
#ifndef GST_ASR_PAD_H
#define GST_ASR_PAD_H

#include "gst/gstasrprivate.h"

G_BEGIN_DECLS

#define GST_TYPE_ASR_PAD (gst_asr_pad_get_type ())
G_DECLARE_FINAL_TYPE (GstAsrPad, gst_asr_pad, GST, ASR_PAD, GstPad)

/* Templates and functions of the element's class. */
void gst_asr_pads_init_class (GstElementClass *klass);

/* In the thread that loads: outputs of a stream that was just made; warns of
 * pads whose language nobody can write. */
void gst_asr_pads_add_outputs (GstAsr *self, AsrStream *stream);

/* The stream is gone, and its outputs with it. */
void gst_asr_pads_stop (GstAsr *self);

/* FLUSH_START and FLUSH_STOP go on to every pad. */
void gst_asr_pads_flush (GstAsr *self, GstEvent *event);

gboolean gst_asr_pads_is_translation (GstPad *pad);

/* Whether what the source pad pushes may find no peer. */
gboolean gst_asr_pads_is_any_linked (GstAsr *self);

/* ---- with the element's lock held ---- */

/* Serialized events of the source pad, EOS and what is said of its text. */
void gst_asr_pads_take_event (GstAsr *self, GstEvent *event);

/* Text, final or not, of any output.
 * @is_news: not the same guess again */
void gst_asr_pads_take_segment (GstAsr *self, const AsrSegment *segment,
    gboolean is_news);

/* The position of live text goes on while none comes. */
void gst_asr_pads_catch_up (GstAsr *self);

/* Returns: sample before which no pad needs the time any more, @end at most */
gint64 gst_asr_pads_get_told (GstAsr *self, gint64 end);

/* Samples are counted from 0 again. */
void gst_asr_pads_reset (GstAsr *self);

G_END_DECLS

#endif
