/* SPDX-License-Identifier: MIT */
/*
 * A loaded model with its worker: opens the files, the backend and the
 * scheduler in order, and closes them the other way round. Nothing clever.
 */
#include "engine/engine.h"

#include "engine/audio/vad.h"
#include "engine/scheduler.h"

struct _AsrEngine {
  gatomicrefcount ref_count;
  AsrWeights *weights;
  AsrCompute *compute;
  AsrModel *model;
  AsrVadModel *vad_model;
  AsrScheduler *scheduler;
  char *description;
};

gboolean
asr_model_check (const char *path, AsrModelInfo *info, GError **error)
{
  g_autoptr (AsrWeights) weights = NULL;
  AsrModelInfo found;

  g_return_val_if_fail (path != NULL, FALSE);
  weights = asr_weights_open (path, error);
  if (weights == NULL || !asr_model_describe (weights, &found, error))
    return FALSE;
  if (info)
    *info = found;
  return TRUE;
}

static gboolean
load (AsrEngine *engine, const AsrEngineParams *params,
    AsrProgressFunc progress, gpointer user_data, GError **error)
{
  AsrDeviceParams device
      = { params->device, params->compute_type, params->n_threads };
  AsrModelLimits limits = ASR_MODEL_LIMITS_DEFAULT;

  engine->weights = asr_weights_open (params->model, error);
  if (engine->weights == NULL)
    return FALSE;
  engine->vad_model = asr_vad_model_new (error);
  if (engine->vad_model == NULL)
    return FALSE;
  engine->compute = asr_compute_open (params->backend, &device, error);
  if (engine->compute == NULL)
    return FALSE;
  engine->model = asr_model_load (engine->compute, engine->weights, &limits,
      progress, user_data, error);
  if (engine->model == NULL)
    return FALSE;
  asr_weights_drop_pages (engine->weights);
  engine->scheduler = asr_scheduler_new (engine->model);
  engine->description = g_strdup (engine->compute->info->description);
  return TRUE;
}

static void
close_all (AsrEngine *engine)
{
  if (engine->scheduler)
    asr_scheduler_free (engine->scheduler);
  asr_model_free (engine->model);
  if (engine->compute)
    asr_compute_close (engine->compute);
  asr_vad_model_free (engine->vad_model);
  asr_weights_free (engine->weights);
  g_free (engine->description);
  g_free (engine);
}

AsrEngine *
asr_engine_new (const AsrEngineParams *params, AsrProgressFunc progress,
    gpointer user_data, GError **error)
{
  AsrEngine *engine;

  if (params->model == NULL) {
    g_set_error_literal (error, ASR_ERROR, ASR_ERROR_ARGUMENT,
        "no model: set the path of a model directory");
    return NULL;
  }
  engine = g_new0 (AsrEngine, 1);
  g_atomic_ref_count_init (&engine->ref_count);
  if (!load (engine, params, progress, user_data, error)) {
    close_all (engine);
    return NULL;
  }
  return engine;
}

AsrEngine *
asr_engine_ref (AsrEngine *engine)
{
  g_atomic_ref_count_inc (&engine->ref_count);
  return engine;
}

void
asr_engine_unref (AsrEngine *engine)
{
  if (engine && g_atomic_ref_count_dec (&engine->ref_count))
    close_all (engine);
}

const AsrModelInfo *
asr_engine_get_info (AsrEngine *engine)
{
  return asr_model_get_info (engine->model);
}

const char *
asr_engine_get_description (AsrEngine *engine)
{
  return engine->description;
}

guint
asr_engine_get_n_languages (AsrEngine *engine)
{
  return asr_vocab_get_special (asr_model_get_vocab (engine->model))
      ->n_languages;
}

void
asr_engine_add_stream (AsrEngine *engine, AsrStream *stream)
{
  stream->session
      = asr_session_new (stream, engine->model, engine->vad_model);
  asr_scheduler_add (engine->scheduler, stream->session);
}

void
asr_engine_remove_stream (AsrEngine *engine, AsrStream *stream)
{
  asr_scheduler_remove (engine->scheduler, stream->session);
  g_clear_pointer (&stream->session, asr_session_free);
}

void
asr_engine_wake (AsrEngine *engine)
{
  asr_scheduler_wake (engine->scheduler);
}
