/* SPDX-License-Identifier: MIT */
/*
 * From READY to PAUSED: finds the model, checks its header at once, and loads
 * the weights and makes the stream in a thread, with progress on the bus.
 */
#include <string.h>

#include "gst/gstasrpad.h"
#include "gst/gstasrpool.h"

#define DEFAULT_MODEL_NAME "base"

/* In the engine's worker thread. */
static void
notify (gpointer user_data)
{
  GstAsr *self = user_data;

  g_mutex_lock (&self->lock);
  self->has_news = TRUE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

/* A folder, a file, or a name in the local cache. */
static char *
find_model (const char *model)
{
  g_autofree char *cached = NULL;

  if (model == NULL || *model == '\0')
    model = DEFAULT_MODEL_NAME;
  cached = g_build_filename (g_get_user_data_dir (), "gst-asr", "models",
      model, NULL);
  if (!strchr (model, G_DIR_SEPARATOR) && *model != '.'
      && (g_file_test (cached, G_FILE_TEST_EXISTS)
          || !g_file_test (model, G_FILE_TEST_EXISTS)))
    return g_steal_pointer (&cached);
  return g_strdup (model);
}

void
gst_asr_post_error (GstAsr *self, const GError *error)
{
  switch (error->domain == ASR_ERROR ? error->code : -1) {
    case ASR_ERROR_NOT_FOUND:
      GST_ELEMENT_ERROR (self, RESOURCE, NOT_FOUND, ("%s", error->message),
          (NULL));
      break;
    case ASR_ERROR_CORRUPT:
      GST_ELEMENT_ERROR (self, RESOURCE, READ, ("%s", error->message), (NULL));
      break;
    case ASR_ERROR_UNSUPPORTED:
    case ASR_ERROR_ARGUMENT:
      GST_ELEMENT_ERROR (self, LIBRARY, SETTINGS, ("%s", error->message),
          (NULL));
      break;
    case ASR_ERROR_MEMORY:
      GST_ELEMENT_ERROR (self, RESOURCE, NO_SPACE_LEFT, ("%s", error->message),
          (NULL));
      break;
    default:
      GST_ELEMENT_ERROR (self, LIBRARY, FAILED, ("%s", error->message),
          (NULL));
      break;
  }
}

void
gst_asr_set_failed (GstAsr *self)
{
  g_mutex_lock (&self->lock);
  self->has_failed = TRUE;
  self->srcret = GST_FLOW_ERROR;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

static void
post_progress (GstAsr *self, GstProgressType type, const char *text)
{
  gst_element_post_message (GST_ELEMENT (self),
      gst_message_new_progress (GST_OBJECT (self), type, "loading", text));
}

static gboolean
report_progress (double fraction, gpointer user_data)
{
  GstAsr *self = user_data;
  gboolean goes_on;

  g_mutex_lock (&self->lock);
  goes_on = !self->cancel_load;
  g_mutex_unlock (&self->lock);
  if (goes_on) {
    g_autofree char *text
        = g_strdup_printf ("Loading the model: %d %%", (int) (fraction * 100));

    post_progress (self, GST_PROGRESS_TYPE_CONTINUE, text);
  }
  return goes_on;
}

/* Who computes, where the element was to choose. */
static void
tell_choice (GstAsr *self, AsrEngine *engine)
{
  const GError *fallback = asr_engine_get_fallback (engine);
  gboolean is_auto;

  GST_OBJECT_LOCK (self);
  is_auto = self->backend == GST_ASR_BACKEND_AUTO;
  GST_OBJECT_UNLOCK (self);
  if (!is_auto)
    return;
  if (fallback == NULL)
    GST_ELEMENT_INFO (self, LIBRARY, SETTINGS,
        ("The GPU computes: %s.", asr_engine_get_description (engine)),
        (NULL));
  else if (g_error_matches (fallback, ASR_ERROR, ASR_ERROR_NOT_FOUND))
    GST_INFO_OBJECT (self, "no GPU, so the CPU computes: %s",
        fallback->message);
  else
    GST_ELEMENT_WARNING (self, LIBRARY, SETTINGS,
        ("The GPU can't be used, so the CPU computes: %s", fallback->message),
        (NULL));
}

static AsrStream *
make_stream (GstAsr *self, AsrEngine *engine, GError **error)
{
  AsrStreamParams params = ASR_STREAM_PARAMS_DEFAULT;
  g_autofree char *language = NULL, *prompt = NULL;
  g_autoptr (AsrStream) stream = NULL;
  AsrTask task;
  guint index;

  GST_OBJECT_LOCK (self);
  params.language = language = g_strdup (self->language_code);
  params.prompt = prompt = g_strdup (self->prompt);
  params.vad = self->vad;
  params.vad_threshold = self->vad_threshold;
  params.min_silence_samples = self->min_silence * (ASR_SAMPLE_RATE / 1000);
  params.skip_copy = self->skip_copy_mask;
  task = self->task;
  GST_OBJECT_UNLOCK (self);
  stream = asr_stream_new (engine, &params, error);
  if (stream == NULL || !asr_stream_add_output (stream, task, &index, error))
    return NULL;
  gst_asr_pads_add_outputs (self, stream);
  asr_stream_set_notify (stream, notify, self);
  return g_steal_pointer (&stream);
}

/* Properties that may change at any time, and did while the stream was made. */
static void
apply_changes (GstAsr *self, AsrStream *stream)
{
  g_autofree char *language = NULL;
  g_autoptr (GError) error = NULL;
  guint mask;

  GST_OBJECT_LOCK (self);
  language = g_strdup (self->language_code);
  mask = self->skip_copy_mask;
  GST_OBJECT_UNLOCK (self);
  asr_stream_set_skip_copy (stream, mask);
  if (!asr_stream_set_language (stream, language, &error))
    GST_ELEMENT_WARNING (self, LIBRARY, SETTINGS, ("%s", error->message),
        (NULL));
}

/* Loads the weights and makes the stream; closes its progress whatever
 * happens. */
static gpointer
load (gpointer data)
{
  GstAsr *self = data;
  AsrEngineParams params = ASR_ENGINE_PARAMS_DEFAULT;
  static const char *const backends[] = { "auto", "cpu", "cuda" };
  g_autofree char *model = NULL;
  g_autoptr (GError) error = NULL;
  AsrEngine *engine;
  AsrStream *stream = NULL;

  GST_OBJECT_LOCK (self);
  params.model = model = find_model (self->model);
  params.backend = backends[self->backend];
  params.device = self->device;
  params.compute_type = self->compute_type;
  params.n_threads = self->threads;
  GST_OBJECT_UNLOCK (self);
  post_progress (self, GST_PROGRESS_TYPE_START, "Loading the model");
  engine = gst_asr_pool_acquire (&params, report_progress, self, &error);
  if (engine)
    stream = make_stream (self, engine, &error);

  if (stream == NULL) {
    gst_asr_pool_release (engine);
    if (g_error_matches (error, ASR_ERROR, ASR_ERROR_CANCELLED)) {
      post_progress (self, GST_PROGRESS_TYPE_CANCELED, error->message);
    } else {
      post_progress (self, GST_PROGRESS_TYPE_ERROR, error->message);
      gst_asr_post_error (self, error);
    }
    gst_asr_set_failed (self);
    return NULL;
  }
  GST_INFO_OBJECT (self, "%s: %s", model, asr_engine_get_description (engine));
  tell_choice (self, engine);
  post_progress (self, GST_PROGRESS_TYPE_COMPLETE,
      asr_engine_get_description (engine));
  g_mutex_lock (&self->lock);
  self->engine = engine;
  self->stream = stream;
  g_mutex_unlock (&self->lock);
  apply_changes (self, stream);
  g_mutex_lock (&self->lock);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  return NULL;
}

gboolean
gst_asr_load (GstAsr *self)
{
  g_autofree char *model = NULL, *wish = NULL, *refused = NULL;
  g_autoptr (GError) error = NULL;

  GST_OBJECT_LOCK (self);
  refused = g_steal_pointer (&self->refused_methods);
  wish = g_strdup (self->model ? self->model : DEFAULT_MODEL_NAME);
  model = find_model (self->model);
  GST_OBJECT_UNLOCK (self);
  /* set before there was a bus to warn on */
  if (refused)
    gst_asr_warn_of_methods (self, refused);
  if (!g_file_test (model, G_FILE_TEST_EXISTS)) {
    if (strchr (wish, G_DIR_SEPARATOR))
      GST_ELEMENT_ERROR (self, RESOURCE, NOT_FOUND,
          ("There is no model %s. Set \"model\" to the folder of one, or to a "
           "name that setup --model has fetched.", model), (NULL));
    else
      GST_ELEMENT_ERROR (self, RESOURCE, NOT_FOUND,
          ("There is no model %s. Set \"model\" to a folder, or fetch it: "
           "setup --model %s", model, wish), (NULL));
    return FALSE;
  }
  if (!asr_model_check (model, NULL, &error)) {
    if (g_error_matches (error, ASR_ERROR, ASR_ERROR_NOT_FOUND))
      GST_ELEMENT_ERROR (self, RESOURCE, NOT_FOUND, ("%s", error->message),
          (NULL));
    else
      GST_ELEMENT_ERROR (self, RESOURCE, OPEN_READ, ("%s", error->message),
          (NULL));
    return FALSE;
  }
  self->cancel_load = FALSE;
  self->has_failed = FALSE;
  self->loader = g_thread_new ("asr-load", load, self);
  return TRUE;
}
