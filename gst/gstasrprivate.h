/* SPDX-License-Identifier: MIT */
/*
 * What the files of the element share: its struct, and which thread owns what.
 * gstasr.c: properties and states. gstasrload.c: the model, from READY to
 * PAUSED. gstasrsink.c: the sink pad, which converts and pushes and never
 * computes. gstasrsrc.c: the source pad's task, which pulls and pushes
 * downstream. gstasrlive.c: what live input adds to it. gstasrpad.c: pads on
 * request, each with a task that pushes what the source pad's task hands it.
 */
#ifndef GST_ASR_PRIVATE_H
#define GST_ASR_PRIVATE_H

#include <gst/audio/audio.h>

#include "engine/asr.h"
#include "gst/gstasr.h"
#include "gst/gstasrclock.h"
#include "gst/gstasrconvert.h"
#include "gst/gstasrtext.h"

G_BEGIN_DECLS

GST_DEBUG_CATEGORY_EXTERN (gst_asr_debug);
#define GST_CAT_DEFAULT gst_asr_debug

typedef enum {
  GST_ASR_BACKEND_AUTO,
  GST_ASR_BACKEND_CPU,
  GST_ASR_BACKEND_CUDA,
} GstAsrBackend;

typedef enum {
  GST_ASR_POLICY_AUTO,
  GST_ASR_POLICY_OFFLINE,
  GST_ASR_POLICY_LOCAL_AGREEMENT,
  GST_ASR_POLICY_ALIGNATT,
} GstAsrPolicy;

struct _GstAsr {
  GstElement parent;

  GstPad *sinkpad, *srcpad;

  /* properties, guarded by the object lock */
  char *model;
  GstAsrBackend backend;
  guint device;
  AsrComputeType compute_type;
  guint threads;
  char *language_code;
  AsrTask task;
  GstAsrGranularity granularity;
  char *prompt;
  gboolean vad;
  float vad_threshold;
  guint min_silence;         /* ms */
  char *skip_copy;
  char *refused_methods;     /* set without a bus to warn on */
  guint skip_copy_mask;
  GstAsrPolicy policy;
  guint latency;             /* ms; G_MAXUINT: none is promised */
  guint translate_latency;   /* ms */
  guint lateness;            /* ms */
  guint max_observed_delay;  /* ms */
  guint64 n_late_words;
  gboolean post_messages;
  gboolean empty_buffers;

  /* state, guarded by lock */
  GMutex lock;
  GCond changed;
  GThread *loader;
  gboolean cancel_load;
  gboolean has_failed;       /* an error was posted: nothing works until
                              * READY */
  AsrEngine *engine;
  AsrStream *stream;
  gboolean has_news;         /* the engine notified */
  gboolean is_flushing;
  gboolean is_draining;      /* the sink pad waits for END */
  gboolean is_eos;           /* EOS follows END */
  guint32 eos_seqnum;
  gboolean is_live;
  GstFlowReturn srcret;
  GstAsrClock *clock;
  GQueue events;             /* GstEvent for the source pad's task */
  gboolean has_segment_event;
  GPtrArray *pads;           /* GstAsrPad (owned): those on request */
  gboolean has_outputs;      /* they got theirs from the stream */

  /* the sink pad's thread alone */
  GstAudioInfo info;
  gboolean has_info;
  GstAsrConvert *convert;
  GstSegment segment;
  gint64 base;               /* sample at which the converter began */
  gboolean has_audio;        /* since the stream was made or reset */

  /* the source pad's task alone */
  GstAsrText text;
  GstSegment out_segment;
  char tag_language[8];
  char *guess;               /* text of the last message that is not final */
  gint64 warned_us;          /* when a late word was last warned of */
};

/* ---- gstasr.c ---- */

/* Signal method-output, from the source pad's task. */
void gst_asr_emit_output (GstAsr *self, const char *method,
    GstSample *sample);

/* Returns: mask of methods whose output somebody waits for */
guint gst_asr_get_tap (GstAsr *self);

/* Tells that "skip-copy-output-to-cpu-for-method" was refused. */
void gst_asr_warn_of_methods (GstAsr *self, const char *names);

/* ---- gstasrload.c ---- */

/* The header of the model at once, the weights in a thread. Returns: FALSE
 * with an error posted */
gboolean gst_asr_load (GstAsr *self);

void gst_asr_post_error (GstAsr *self, const GError *error);

/* Wakes everyone; what follows returns ERROR until READY. */
void gst_asr_set_failed (GstAsr *self);

/* ---- gstasrsink.c ---- */

void gst_asr_init_sink (GstAsr *self, GstPad *pad);

/* ---- gstasrsrc.c ---- */

void gst_asr_init_src (GstAsr *self, GstPad *pad);
gboolean gst_asr_start_src_task (GstAsr *self);

/* To the source pad and those on request. @event: (transfer full) */
void gst_asr_push_event (GstAsr *self, GstEvent *event);
gboolean gst_asr_src_query (GstPad *pad, GstObject *parent, GstQuery *query);

/* ---- gstasrlive.c; with the lock held but for check ---- */

AsrPolicy gst_asr_live_choose_policy (GstAsr *self);
guint64 gst_asr_live_get_latency_samples (GstAsr *self);

/* What is added to the latency of a live source. */
GstClockTime gst_asr_live_get_latency (GstAsr *self);

/* Gaps up to what is shown now: the position never lags by more than the
 * latency, to which that of translations adds. */
void gst_asr_live_catch_up (GstAsr *self, GstAsrText *text,
    gboolean is_translated, GQueue *out);

/* Returns: FALSE for a guess that was told before */
gboolean gst_asr_live_is_news (GstAsr *self, const AsrSegment *segment);

/* Counts and tells words that come later than promised. */
void gst_asr_live_check (GstAsr *self, const AsrSegment *segment);

/* Voice activity goes to the bus, the end of an utterance downstream. Without
 * the lock, from the source pad's task. */
void gst_asr_live_tell_event (GstAsr *self, const AsrSegment *segment);

/* Returns: (transfer full) (nullable): the element message of a segment */
GstMessage *gst_asr_live_make_message (GstAsr *self,
    const AsrSegment *segment);

/* Returns: (transfer full): the same as JSON, of a segment with words */
char *gst_asr_live_make_json (GstAsr *self, const AsrSegment *segment);

G_END_DECLS

#endif
