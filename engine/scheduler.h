/* SPDX-License-Identifier: MIT */
/*
 * The engine's worker thread: gathers ready work of all streams and runs it
 * in batches on the model. Thread-safe.
 */
#ifndef ASR_ENGINE_SCHEDULER_H
#define ASR_ENGINE_SCHEDULER_H

#include "engine/model/model.h"
#include "engine/session.h"

G_BEGIN_DECLS

typedef struct _AsrScheduler AsrScheduler;

/* @model: used by the worker alone until the scheduler is freed */
AsrScheduler *asr_scheduler_new (AsrModel *model);

/* Waits for the worker; no session may be left. */
void asr_scheduler_free (AsrScheduler *scheduler);

void asr_scheduler_add (AsrScheduler *scheduler, AsrSession *session);

/* Returns when the worker has let go of the session. */
void asr_scheduler_remove (AsrScheduler *scheduler, AsrSession *session);

/* Something changed in a stream. Cheap, from any thread. */
void asr_scheduler_wake (AsrScheduler *scheduler);

G_END_DECLS

#endif
