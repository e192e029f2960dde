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
  GError *fallback;      /* (nullable): why "auto" took no GPU */
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

/* Progress that never goes back, also where a second device is tried. */
typedef struct {
  AsrProgressFunc func;
  gpointer user_data;
  double reached;
} Progress;

static gboolean
report (double fraction, gpointer data)
{
  Progress *progress = data;

  progress->reached = MAX (progress->reached, fraction);
  return progress->func == NULL
      || progress->func (progress->reached, progress->user_data);
}

static gboolean
load_on (AsrEngine *engine, const char *backend,
    const AsrDeviceParams *device, Progress *progress, GError **error)
{
  AsrModelLimits limits = ASR_MODEL_LIMITS_DEFAULT;

  engine->compute = asr_compute_open (backend, device, error);
  if (engine->compute == NULL)
    return FALSE;
  engine->model = asr_model_load (engine->compute, engine->weights, &limits,
      report, progress, error);
  if (engine->model && asr_model_get_steps_ahead (engine->model) > 1
      && !asr_model_warm_up (engine->model, error)) {
    asr_model_free (engine->model);
    engine->model = NULL;
  }
  if (engine->model == NULL)
    g_clear_pointer (&engine->compute, asr_compute_close);
  return engine->model != NULL;
}

/* A GPU that can be used, else the CPU. */
static gboolean
load_on_any (AsrEngine *engine, const AsrDeviceParams *device,
    Progress *progress, GError **error)
{
  AsrDeviceParams cpu = *device;

  if (load_on (engine, "cuda", device, progress, &engine->fallback))
    return TRUE;
  if (g_error_matches (engine->fallback, ASR_ERROR, ASR_ERROR_CANCELLED)
      || g_error_matches (engine->fallback, ASR_ERROR, ASR_ERROR_CORRUPT)) {
    g_propagate_error (error, g_steal_pointer (&engine->fallback));
    return FALSE;
  }
  /* the index counts GPUs */
  cpu.index = 0;
  if (load_on (engine, "cpu", &cpu, progress, error))
    return TRUE;
  g_prefix_error (error, "no GPU (%s), and on the CPU: ",
      engine->fallback->message);
  return FALSE;
}

static gboolean
load (AsrEngine *engine, const AsrEngineParams *params,
    AsrProgressFunc func, gpointer user_data, GError **error)
{
  AsrDeviceParams device
      = { params->device, params->compute_type, params->n_threads };
  Progress progress = { func, user_data, 0 };
  gboolean is_any = params->backend == NULL
      || g_str_equal (params->backend, "auto");

  engine->weights = asr_weights_open (params->model, error);
  if (engine->weights == NULL)
    return FALSE;
  engine->vad_model = asr_vad_model_new (error);
  if (engine->vad_model == NULL)
    return FALSE;
  if (!(is_any ? load_on_any (engine, &device, &progress, error)
               : load_on (engine, params->backend, &device, &progress, error)))
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
  g_clear_error (&engine->fallback);
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

const GError *
asr_engine_get_fallback (AsrEngine *engine)
{
  return engine->fallback;
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
