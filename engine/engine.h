/* SPDX-License-Identifier: MIT */
/* What stream.c needs of an engine; for the engine's top files. */
#ifndef ASR_ENGINE_ENGINE_H
#define ASR_ENGINE_ENGINE_H

#include "engine/asr.h"

G_BEGIN_DECLS

/* Makes the stream's session and gives it to the worker; and back. */
void asr_engine_add_stream (AsrEngine *engine, AsrStream *stream);
void asr_engine_remove_stream (AsrEngine *engine, AsrStream *stream);

void asr_engine_wake (AsrEngine *engine);
guint asr_engine_get_n_languages (AsrEngine *engine);

G_END_DECLS

#endif
