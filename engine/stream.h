/* SPDX-License-Identifier: MIT */
/*
 * What a stream is made of, for the engine's top files: the side that users
 * call, guarded by a lock, and what the worker thread leaves there.
 */
#ifndef ASR_ENGINE_STREAM_H
#define ASR_ENGINE_STREAM_H

#include "engine/asr.h"
#include "engine/audio/fifo.h"

G_BEGIN_DECLS

#define ASR_MAX_OUTPUTS 8

typedef struct _AsrSession AsrSession;

struct _AsrStream {
  AsrEngine *engine;         /* (owned) */
  AsrSession *session;       /* (owned): the worker's side */

  /* immutable after the first push */
  AsrTask tasks[ASR_MAX_OUTPUTS];
  guint n_outputs;
  char *prompt;              /* (nullable) */
  gboolean use_vad;
  float vad_threshold;
  guint min_silence_samples;
  gboolean condition_on_previous;
  gsize max_backlog_samples;

  /* Grows with every reset and cancel: work of an older one is stale.
   * Read without the lock. */
  gint generation;

  GMutex lock;
  /* guarded by lock */
  AsrFifo *fifo;
  GQueue segments;           /* AsrSegment */
  guint epoch;
  gboolean is_draining;
  gboolean is_cancelled;
  gboolean wants_room;       /* a push took less than it was given */
  gboolean wants_clear;
  gint64 commit_until;       /* sample before which all is to be made final */
  gint language;             /* index, -1: detect */
  AsrPolicy policy;          /* from the next reset on, as is_live */
  gboolean is_live;          /* audio does not wait */
  guint64 latency_samples;   /* what a live policy promises */
  guint skip_copy;
  guint tap;                 /* mask of methods whose output is pulled */
  AsrStats stats;
  GError *error;

  GMutex notify_lock;
  AsrNotifyFunc notify;      /* guarded by notify_lock */
  gpointer notify_data;
};

/* Calls the user's function; without the stream's lock. */
void asr_stream_notify (AsrStream *stream);

/* Queues a segment made in @epoch, or frees it where that is over. */
void asr_stream_take_segment (AsrStream *stream, AsrSegment *segment);

/* Ends the stream with a copy of @error. */
void asr_stream_fail (AsrStream *stream, const GError *error);

G_END_DECLS

#endif
