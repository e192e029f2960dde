/* SPDX-License-Identifier: MIT */
/**
 * SECTION:element-asr
 * @title: asr
 * @short_description: turns speech into timed text
 *
 * Listens to audio of any format and pushes what is said as text, one word or
 * one phrase a buffer, each with the time at which it was said. Between words
 * it pushes gap events, so that overlays and muxers never wait.
 *
 * Speech is recognised by a Whisper model on this machine; no service is
 * asked. #GstAsr:model names a model in the local cache or a folder.
 *
 * ## Subtitles of a recording
 * |[
 * gst-launch-1.0 filesrc location=talk.mp4 ! decodebin ! asr granularity=segment ! srtenc ! filesink location=talk.srt
 * ]|
 *
 * ## Words on the terminal
 * |[
 * gst-launch-1.0 -q filesrc location=talk.wav ! wavparse ! asr ! fdsink
 * ]|
 *
 * Text comes when a window of speech is complete, up to 30 seconds after it
 * was said. Branches beside this one need queues that hold as much:
 * `queue max-size-time=40000000000 max-size-buffers=0 max-size-bytes=0`.
 */
#include "gst/gstasr.h"

#include <gst/audio/audio.h>
#include <string.h>

#include "engine/asr.h"
#include "gst/gstasrclock.h"
#include "gst/gstasrconvert.h"
#include "gst/gstasrpool.h"
#include "gst/gstasrtext.h"

GST_DEBUG_CATEGORY_STATIC (gst_asr_debug);
#define GST_CAT_DEFAULT gst_asr_debug

#define DEFAULT_MODEL NULL
#define DEFAULT_MODEL_NAME "base"
#define DEFAULT_BACKEND GST_ASR_BACKEND_AUTO
#define DEFAULT_DEVICE 0
#define DEFAULT_COMPUTE_TYPE ASR_COMPUTE_AUTO
#define DEFAULT_THREADS 0
#define DEFAULT_LANGUAGE_CODE "auto"
#define DEFAULT_TASK ASR_TASK_TRANSCRIBE
#define DEFAULT_GRANULARITY GST_ASR_GRANULARITY_WORD
#define DEFAULT_PROMPT NULL
#define DEFAULT_VAD TRUE
#define DEFAULT_SKIP_COPY "mel,encoder,decoder"

/* Longest time from a sample to its word: a window, the pause that ends it,
 * and the time to compute on a slow machine. */
#define LATENCY (40 * GST_SECOND)

typedef enum {
  GST_ASR_BACKEND_AUTO,
  GST_ASR_BACKEND_CPU,
  GST_ASR_BACKEND_CUDA,
} GstAsrBackend;

enum {
  PROP_0,
  PROP_MODEL,
  PROP_BACKEND,
  PROP_DEVICE,
  PROP_COMPUTE_TYPE,
  PROP_THREADS,
  PROP_LANGUAGE_CODE,
  PROP_TASK,
  PROP_GRANULARITY,
  PROP_PROMPT,
  PROP_VAD,
  PROP_SKIP_COPY,
  PROP_STATS,
};

enum { SIGNAL_CLEAR_DEVICE_OUTPUTS, N_SIGNALS };

static guint signals[N_SIGNALS];

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
  char *skip_copy;
  guint skip_copy_mask;

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
};

static GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE ("sink",
    GST_PAD_SINK, GST_PAD_ALWAYS,
    GST_STATIC_CAPS ("audio/x-raw, "
        "format = (string) " GST_AUDIO_FORMATS_ALL ", "
        "rate = (int) [ 1, max ], channels = (int) [ 1, 64 ], "
        "layout = (string) { interleaved, non-interleaved }"));

static GstStaticPadTemplate src_template = GST_STATIC_PAD_TEMPLATE ("src",
    GST_PAD_SRC, GST_PAD_ALWAYS,
    GST_STATIC_CAPS ("text/x-raw, format = (string) utf8"));

G_DEFINE_TYPE (GstAsr, gst_asr, GST_TYPE_ELEMENT);
GST_ELEMENT_REGISTER_DEFINE (asr, "asr", GST_RANK_NONE, GST_TYPE_ASR);

/* ---- enums ---- */

static GType
gst_asr_backend_get_type (void)
{
  static gsize type = 0;
  static const GEnumValue values[] = {
    { GST_ASR_BACKEND_AUTO, "A usable GPU, else the CPU", "auto" },
    { GST_ASR_BACKEND_CPU, "The CPU", "cpu" },
    { GST_ASR_BACKEND_CUDA, "An NVIDIA GPU", "cuda" },
    { 0, NULL, NULL },
  };

  if (g_once_init_enter (&type))
    g_once_init_leave (&type,
        g_enum_register_static ("GstAsrBackend", values));
  return type;
}

static GType
gst_asr_compute_type_get_type (void)
{
  static gsize type = 0;
  static const GEnumValue values[] = {
    { ASR_COMPUTE_AUTO, "What the backend does best", "auto" },
    { ASR_COMPUTE_F32, "32-bit floats: exact and slow", "f32" },
    { ASR_COMPUTE_F16, "16-bit floats (GPU)", "f16" },
    { ASR_COMPUTE_INT8, "8-bit integers", "int8" },
    { 0, NULL, NULL },
  };

  if (g_once_init_enter (&type))
    g_once_init_leave (&type,
        g_enum_register_static ("GstAsrComputeType", values));
  return type;
}

static GType
gst_asr_task_get_type (void)
{
  static gsize type = 0;
  static const GEnumValue values[] = {
    { ASR_TASK_TRANSCRIBE, "Text in the language that is spoken",
        "transcribe" },
    { ASR_TASK_TRANSLATE, "English text, whatever is spoken", "translate" },
    { 0, NULL, NULL },
  };

  if (g_once_init_enter (&type))
    g_once_init_leave (&type, g_enum_register_static ("GstAsrTask", values));
  return type;
}

static GType
gst_asr_granularity_get_type (void)
{
  static gsize type = 0;
  static const GEnumValue values[] = {
    { GST_ASR_GRANULARITY_WORD, "One word a buffer", "word" },
    { GST_ASR_GRANULARITY_SEGMENT, "One phrase a buffer, as subtitles want it",
        "segment" },
    { 0, NULL, NULL },
  };

  if (g_once_init_enter (&type))
    g_once_init_leave (&type,
        g_enum_register_static ("GstAsrGranularity", values));
  return type;
}

/* ---- engine and stream ---- */

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
  if (!strchr (model, G_DIR_SEPARATOR)
      && (g_file_test (cached, G_FILE_TEST_EXISTS)
          || !g_file_test (model, G_FILE_TEST_EXISTS)))
    return g_steal_pointer (&cached);
  return g_strdup (model);
}

static void
post_engine_error (GstAsr *self, const GError *error)
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

/* Wakes everyone; what follows returns ERROR until READY. */
static void
set_failed (GstAsr *self)
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
  params.skip_copy = self->skip_copy_mask;
  task = self->task;
  GST_OBJECT_UNLOCK (self);
  stream = asr_stream_new (engine, &params, error);
  if (stream == NULL || !asr_stream_add_output (stream, task, &index, error))
    return NULL;
  asr_stream_set_notify (stream, notify, self);
  return g_steal_pointer (&stream);
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
      post_engine_error (self, error);
    }
    set_failed (self);
    return NULL;
  }
  GST_INFO_OBJECT (self, "%s: %s", model, asr_engine_get_description (engine));
  post_progress (self, GST_PROGRESS_TYPE_COMPLETE,
      asr_engine_get_description (engine));
  g_mutex_lock (&self->lock);
  self->engine = engine;
  self->stream = stream;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  return NULL;
}

/* READY to PAUSED: the header at once, the weights in a thread. */
static gboolean
start_loading (GstAsr *self)
{
  g_autofree char *model = NULL, *wish = NULL;
  g_autoptr (GError) error = NULL;

  GST_OBJECT_LOCK (self);
  wish = g_strdup (self->model ? self->model : DEFAULT_MODEL_NAME);
  model = find_model (self->model);
  GST_OBJECT_UNLOCK (self);
  if (!g_file_test (model, G_FILE_TEST_EXISTS)) {
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

/* PAUSED to READY: forgets everything. The pads are inactive. */
static void
stop (GstAsr *self)
{
  g_mutex_lock (&self->lock);
  self->cancel_load = TRUE;
  g_mutex_unlock (&self->lock);
  g_clear_pointer (&self->loader, g_thread_join);
  g_clear_pointer (&self->stream, asr_stream_free);
  g_clear_pointer (&self->engine, gst_asr_pool_release);
  g_clear_pointer (&self->convert, gst_asr_convert_free);
  gst_asr_clock_reset (self->clock);
  g_queue_clear_full (&self->events, (GDestroyNotify) gst_event_unref);
  self->has_info = FALSE;
  self->has_audio = FALSE;
  self->has_news = FALSE;
  self->is_draining = FALSE;
  self->is_eos = FALSE;
  self->has_failed = FALSE;
  self->has_segment_event = FALSE;
  self->base = 0;
  self->tag_language[0] = '\0';
  gst_segment_init (&self->segment, GST_FORMAT_UNDEFINED);
}

/* ---- the source pad's task ---- */

static void
push_language (GstAsr *self, const char *language)
{
  if (*language == '\0' || strcmp (language, self->tag_language) == 0)
    return;
  g_strlcpy (self->tag_language, language, sizeof self->tag_language);
  gst_pad_push_event (self->srcpad,
      gst_event_new_tag (gst_tag_list_new (GST_TAG_LANGUAGE_CODE, language,
          NULL)));
}

/* What one segment becomes goes downstream. Returns: flow of the buffers */
static GstFlowReturn
push_all (GstAsr *self, GQueue *out)
{
  GstFlowReturn ret = GST_FLOW_OK;
  gpointer item;

  while ((item = g_queue_pop_head (out))) {
    if (GST_IS_EVENT (item))
      /* nobody is hurt by a gap that was refused */
      gst_pad_push_event (self->srcpad, item);
    else if (ret == GST_FLOW_OK)
      ret = gst_pad_push (self->srcpad, item);
    else
      gst_buffer_unref (item);
  }
  return ret;
}

static GstFlowReturn
push_segment (GstAsr *self, const AsrSegment *segment)
{
  GQueue out = G_QUEUE_INIT;

  push_language (self, segment->language);
  g_mutex_lock (&self->lock);
  if (!GST_CLOCK_TIME_IS_VALID (self->text.position)
      && self->out_segment.format == GST_FORMAT_TIME)
    /* gaps count from the start of the segment, also where audio is late */
    self->text.position = MIN (self->out_segment.start,
        gst_asr_clock_to_pts (self->clock, segment->start));
  gst_asr_text_add_segment (&self->text, segment, self->clock, &out);
  gst_asr_clock_forget (self->clock, segment->end);
  g_mutex_unlock (&self->lock);
  return push_all (self, &out);
}

/* Stream-start, caps and segments, in their order. */
static void
push_events (GstAsr *self)
{
  for (;;) {
    GstEvent *event;

    g_mutex_lock (&self->lock);
    event = g_queue_pop_head (&self->events);
    g_mutex_unlock (&self->lock);
    if (event == NULL)
      return;
    if (GST_EVENT_TYPE (event) == GST_EVENT_SEGMENT) {
      gst_event_copy_segment (event, &self->out_segment);
      gst_asr_text_reset (&self->text, GST_CLOCK_TIME_NONE);
    }
    gst_pad_push_event (self->srcpad, event);
  }
}

/* The engine told all that was pushed: EOS goes on, or the sink pad does. */
static void
finish_drain (GstAsr *self)
{
  gboolean is_eos;
  guint32 seqnum;

  g_mutex_lock (&self->lock);
  is_eos = self->is_eos;
  seqnum = self->eos_seqnum;
  self->is_draining = FALSE;
  self->is_eos = FALSE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  if (is_eos) {
    GstEvent *event = gst_event_new_eos ();

    gst_event_set_seqnum (event, seqnum);
    gst_pad_push_event (self->srcpad, event);
  }
}

static void
pause_task (GstAsr *self, GstFlowReturn ret)
{
  g_mutex_lock (&self->lock);
  if (self->srcret == GST_FLOW_OK)
    self->srcret = ret;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  gst_pad_pause_task (self->srcpad);
  if (ret == GST_FLOW_NOT_LINKED || ret <= GST_FLOW_EOS) {
    if (ret == GST_FLOW_EOS)
      return;
    GST_ELEMENT_FLOW_ERROR (self, ret);
    gst_pad_push_event (self->srcpad, gst_event_new_eos ());
  }
}

/* Pulls until nothing waits. Returns: FALSE when the task has paused */
static gboolean
pull_all (GstAsr *self, AsrStream *stream)
{
  g_autoptr (GError) error = NULL;
  AsrSegment *segment;

  while ((segment = asr_stream_pull (stream, &error))) {
    gboolean is_end = segment->type == ASR_SEGMENT_END;
    GstFlowReturn ret = GST_FLOW_OK;

    push_events (self);
    if (is_end)
      finish_drain (self);
    else
      ret = push_segment (self, segment);
    asr_segment_free (segment);
    if (ret != GST_FLOW_OK) {
      pause_task (self, ret);
      return FALSE;
    }
  }
  if (error) {
    post_engine_error (self, error);
    set_failed (self);
    pause_task (self, GST_FLOW_FLUSHING);
    return FALSE;
  }
  return TRUE;
}

static void
src_task (gpointer user_data)
{
  GstAsr *self = user_data;
  AsrStream *stream;
  gboolean is_empty_eos;

  g_mutex_lock (&self->lock);
  while (!self->is_flushing && !self->has_news && !self->has_failed
      && g_queue_is_empty (&self->events)
      && !(self->is_eos && !self->is_draining))
    g_cond_wait (&self->changed, &self->lock);
  if (self->is_flushing || self->has_failed) {
    g_mutex_unlock (&self->lock);
    gst_pad_pause_task (self->srcpad);
    return;
  }
  self->has_news = FALSE;
  stream = self->stream;
  /* no audio came: there is nothing to wait for */
  is_empty_eos = self->is_eos && !self->is_draining;
  g_mutex_unlock (&self->lock);

  if (is_empty_eos) {
    push_events (self);
    finish_drain (self);
  } else if (stream == NULL) {
    push_events (self);
  } else if (!pull_all (self, stream)) {
    return;
  }
  /* events whose turn comes before any text: nothing was pushed yet */
  g_mutex_lock (&self->lock);
  is_empty_eos = !self->is_draining;
  g_mutex_unlock (&self->lock);
  if (is_empty_eos)
    push_events (self);
}

static gboolean
src_activate_mode (GstPad *pad, GstObject *parent, GstPadMode mode,
    gboolean active)
{
  GstAsr *self = GST_ASR (parent);

  if (mode != GST_PAD_MODE_PUSH)
    return FALSE;
  g_mutex_lock (&self->lock);
  self->is_flushing = !active;
  self->srcret = active ? GST_FLOW_OK : GST_FLOW_FLUSHING;
  if (!active && self->stream)
    asr_stream_cancel (self->stream);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  if (active)
    return gst_pad_start_task (pad, src_task, self, NULL);
  return gst_pad_stop_task (pad);
}

/* ---- the sink pad ---- */

/* With the lock held: waits until there is a stream. */
static GstFlowReturn
wait_for_stream (GstAsr *self)
{
  while (self->stream == NULL && !self->is_flushing && !self->has_failed)
    g_cond_wait (&self->changed, &self->lock);
  if (self->is_flushing)
    return GST_FLOW_FLUSHING;
  return self->has_failed ? GST_FLOW_ERROR : self->srcret;
}

/* Samples to the engine; waits for room unless the source is live. */
static GstFlowReturn
push_samples (GstAsr *self, const float *samples, gsize n_samples)
{
  GstFlowReturn ret;

  g_mutex_lock (&self->lock);
  ret = wait_for_stream (self);
  while (ret == GST_FLOW_OK && n_samples > 0) {
    gsize n_taken = asr_stream_push (self->stream, samples, n_samples);

    samples += n_taken;
    n_samples -= n_taken;
    if (n_samples == 0)
      break;
    if (self->is_live) {
      /* lag is bounded: what does not fit was never heard */
      GST_WARNING_OBJECT (self, "too slow: %" G_GSIZE_FORMAT
          " samples dropped", n_samples);
      asr_stream_skip (self->stream, n_samples);
      break;
    }
    g_cond_wait_until (&self->changed, &self->lock,
        g_get_monotonic_time () + G_USEC_PER_SEC / 10);
    ret = self->is_flushing ? GST_FLOW_FLUSHING : self->srcret;
  }
  g_mutex_unlock (&self->lock);
  return ret;
}

/* What the converter still holds goes to the engine; then it starts anew. */
static GstFlowReturn
drain_converter (GstAsr *self)
{
  const float *samples;
  gsize n;

  if (self->convert == NULL)
    return GST_FLOW_OK;
  self->base += gst_asr_convert_get_n_heard (self->convert);
  samples = gst_asr_convert_drain (self->convert, &n);
  return n > 0 ? push_samples (self, samples, n) : GST_FLOW_OK;
}

/* Everything so far becomes text before anything else is heard. */
static GstFlowReturn
drain (GstAsr *self)
{
  GstFlowReturn ret;

  if (!self->has_audio)
    return GST_FLOW_OK;
  ret = drain_converter (self);
  g_mutex_lock (&self->lock);
  if (ret == GST_FLOW_OK)
    ret = wait_for_stream (self);
  if (ret == GST_FLOW_OK) {
    self->is_draining = TRUE;
    asr_stream_drain (self->stream);
    while (self->is_draining && !self->is_flushing
        && self->srcret == GST_FLOW_OK)
      g_cond_wait (&self->changed, &self->lock);
    ret = self->is_flushing ? GST_FLOW_FLUSHING : self->srcret;
    asr_stream_reset (self->stream);
    gst_asr_clock_reset (self->clock);
  }
  self->base = 0;
  self->has_audio = FALSE;
  g_mutex_unlock (&self->lock);
  return ret;
}

static gint64
get_next_sample (GstAsr *self)
{
  return self->base
      + (self->convert ? gst_asr_convert_get_n_heard (self->convert) : 0);
}

/* Time without audio before @pts becomes a gap; the anchor is set. */
static GstFlowReturn
take_time (GstAsr *self, GstClockTime pts)
{
  gint64 sample = get_next_sample (self);
  GstFlowReturn ret = GST_FLOW_OK;
  gboolean jumps_back;
  guint64 n_gap;

  g_mutex_lock (&self->lock);
  if (!GST_CLOCK_TIME_IS_VALID (pts)) {
    pts = gst_asr_clock_to_pts (self->clock, sample);
    if (!GST_CLOCK_TIME_IS_VALID (pts))
      pts = self->segment.start;
  }
  n_gap = gst_asr_clock_get_gap (self->clock, sample, pts);
  jumps_back = gst_asr_clock_jumps_back (self->clock, sample, pts);
  g_mutex_unlock (&self->lock);
  if (jumps_back) {
    GST_DEBUG_OBJECT (self, "back to %" GST_TIME_FORMAT, GST_TIME_ARGS (pts));
    ret = drain (self);
    sample = get_next_sample (self);
  } else if (n_gap > 0) {
    GST_DEBUG_OBJECT (self, "gap of %" G_GUINT64_FORMAT " samples before %"
        GST_TIME_FORMAT, n_gap, GST_TIME_ARGS (pts));
    ret = drain_converter (self);
    sample = self->base += n_gap;
  }
  if (ret != GST_FLOW_OK)
    return ret;
  g_mutex_lock (&self->lock);
  ret = wait_for_stream (self);
  if (ret == GST_FLOW_OK && n_gap > 0)
    asr_stream_skip (self->stream, n_gap);
  gst_asr_clock_add (self->clock, sample, pts);
  g_mutex_unlock (&self->lock);
  return ret;
}

static GstFlowReturn
chain (GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
  GstAsr *self = GST_ASR (parent);
  GstAudioBuffer audio;
  GstFlowReturn ret;
  const float *samples;
  gsize n;

  if (!self->has_info) {
    gst_buffer_unref (buffer);
    GST_ELEMENT_ERROR (self, CORE, NEGOTIATION,
        ("No audio format was agreed on before the first buffer."), (NULL));
    return GST_FLOW_NOT_NEGOTIATED;
  }
  if (self->segment.format == GST_FORMAT_TIME
      && GST_BUFFER_PTS_IS_VALID (buffer)) {
    buffer = gst_audio_buffer_clip (buffer, &self->segment,
        GST_AUDIO_INFO_RATE (&self->info), GST_AUDIO_INFO_BPF (&self->info));
    if (buffer == NULL)
      return GST_FLOW_OK;
  }
  ret = take_time (self, GST_BUFFER_PTS (buffer));
  if (ret != GST_FLOW_OK) {
    gst_buffer_unref (buffer);
    return ret;
  }
  self->has_audio = TRUE;
  if (!gst_audio_buffer_map (&audio, &self->info, buffer, GST_MAP_READ)) {
    gst_buffer_unref (buffer);
    GST_ELEMENT_ERROR (self, STREAM, FORMAT,
        ("A buffer does not hold whole audio frames."), (NULL));
    return GST_FLOW_ERROR;
  }
  samples = gst_asr_convert_run (self->convert, &audio, &n);
  gst_audio_buffer_unmap (&audio);
  gst_buffer_unref (buffer);
  return n > 0 ? push_samples (self, samples, n) : GST_FLOW_OK;
}

static gboolean
take_caps (GstAsr *self, GstEvent *event)
{
  GstAudioInfo info;
  GstCaps *caps;

  gst_event_parse_caps (event, &caps);
  if (!gst_audio_info_from_caps (&info, caps))
    return FALSE;
  if (self->has_info && gst_audio_info_is_equal (&info, &self->info))
    return TRUE;
  /* the time line goes on over a change of format */
  if (drain_converter (self) != GST_FLOW_OK)
    return FALSE;
  g_clear_pointer (&self->convert, gst_asr_convert_free);
  self->convert = gst_asr_convert_new (&info, ASR_SAMPLE_RATE);
  if (self->convert == NULL) {
    GST_ELEMENT_ERROR (self, STREAM, FORMAT,
        ("Audio of this format can't be converted: %" GST_PTR_FORMAT, caps),
        (NULL));
    return FALSE;
  }
  self->info = info;
  self->has_info = TRUE;
  return TRUE;
}

/* @event: (transfer full) */
static void
queue_event (GstAsr *self, GstEvent *event)
{
  g_mutex_lock (&self->lock);
  g_queue_push_tail (&self->events, event);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

static gboolean
take_segment (GstAsr *self, GstEvent *event)
{
  GstSegment segment, copy;
  GstEvent *out;

  gst_event_copy_segment (event, &segment);
  if (segment.format != GST_FORMAT_TIME) {
    GST_ELEMENT_ERROR (self, STREAM, FORMAT,
        ("Only segments in time can be transcribed, not in %s.",
         gst_format_get_name (segment.format)), (NULL));
    return FALSE;
  }
  if (segment.rate < 0) {
    GST_ELEMENT_WARNING (self, STREAM, FORMAT,
        ("Speech played backwards is not transcribed."), (NULL));
  }
  copy = self->segment;
  copy.position = segment.position;
  if (self->has_segment_event && gst_segment_is_equal (&copy, &segment)) {
    self->segment = segment;
    return TRUE;
  }
  if (drain (self) != GST_FLOW_OK && self->is_flushing)
    return FALSE;
  self->segment = segment;
  self->has_segment_event = TRUE;
  out = gst_event_new_segment (&segment);
  gst_event_set_seqnum (out, gst_event_get_seqnum (event));
  queue_event (self, out);
  return TRUE;
}

static void
take_stream_start (GstAsr *self, GstEvent *event)
{
  g_autofree char *id = gst_pad_create_stream_id (self->srcpad,
      GST_ELEMENT (self), "text");
  GstEvent *out = gst_event_new_stream_start (id);
  g_autoptr (GstStream) stream = gst_stream_new (id, NULL,
      GST_STREAM_TYPE_TEXT, GST_STREAM_FLAG_SPARSE);
  g_autoptr (GstCaps) caps = gst_static_pad_template_get_caps (&src_template);
  guint group;

  if (gst_event_parse_group_id (event, &group))
    gst_event_set_group_id (out, group);
  gst_event_set_stream_flags (out, GST_STREAM_FLAG_SPARSE);
  gst_event_set_stream (out, stream);
  gst_event_set_seqnum (out, gst_event_get_seqnum (event));
  queue_event (self, out);
  queue_event (self, gst_event_new_caps (caps));
}

static gboolean
take_gap (GstAsr *self, GstEvent *event)
{
  GstClockTime start, duration;
  GstFlowReturn ret;
  gint64 n;

  gst_event_parse_gap (event, &start, &duration);
  if (!GST_CLOCK_TIME_IS_VALID (duration))
    return TRUE;
  ret = drain_converter (self);
  if (ret == GST_FLOW_OK)
    ret = take_time (self, start);
  if (ret != GST_FLOW_OK)
    return FALSE;
  n = gst_util_uint64_scale_round (duration, ASR_SAMPLE_RATE, GST_SECOND);
  g_mutex_lock (&self->lock);
  if (self->stream)
    asr_stream_skip (self->stream, n);
  g_mutex_unlock (&self->lock);
  self->base += n;
  self->has_audio = TRUE;
  return TRUE;
}

static void
take_eos (GstAsr *self, GstEvent *event)
{
  if (self->has_audio)
    drain_converter (self);
  g_mutex_lock (&self->lock);
  self->is_eos = TRUE;
  self->eos_seqnum = gst_event_get_seqnum (event);
  if (self->has_audio && wait_for_stream (self) == GST_FLOW_OK) {
    self->is_draining = TRUE;
    asr_stream_drain (self->stream);
  }
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

static void
flush_start (GstAsr *self)
{
  g_mutex_lock (&self->lock);
  self->is_flushing = TRUE;
  self->srcret = GST_FLOW_FLUSHING;
  if (self->stream)
    asr_stream_cancel (self->stream);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  gst_pad_pause_task (self->srcpad);
}

static void
flush_stop (GstAsr *self)
{
  g_mutex_lock (&self->lock);
  if (self->stream)
    asr_stream_reset (self->stream);
  gst_asr_clock_reset (self->clock);
  self->base = 0;
  self->has_audio = FALSE;
  self->is_flushing = FALSE;
  self->is_draining = FALSE;
  self->is_eos = FALSE;
  self->has_news = FALSE;
  self->has_segment_event = FALSE;
  self->srcret = self->has_failed ? GST_FLOW_ERROR : GST_FLOW_OK;
  for (GList *l = self->events.head, *next; l != NULL; l = next) {
    next = l->next;
    if (GST_EVENT_TYPE (l->data) == GST_EVENT_SEGMENT) {
      gst_event_unref (l->data);
      g_queue_delete_link (&self->events, l);
    }
  }
  g_mutex_unlock (&self->lock);
  if (self->convert)
    gst_asr_convert_reset (self->convert);
  gst_segment_init (&self->segment, GST_FORMAT_UNDEFINED);
  gst_asr_text_reset (&self->text, GST_CLOCK_TIME_NONE);
  gst_pad_start_task (self->srcpad, src_task, self, NULL);
}

static void
update_is_live (GstAsr *self)
{
  g_autoptr (GstQuery) query = gst_query_new_latency ();
  gboolean is_live = FALSE;

  if (gst_pad_peer_query (self->sinkpad, query))
    gst_query_parse_latency (query, &is_live, NULL, NULL);
  g_mutex_lock (&self->lock);
  self->is_live = is_live;
  g_mutex_unlock (&self->lock);
}

static gboolean
sink_event (GstPad *pad, GstObject *parent, GstEvent *event)
{
  GstAsr *self = GST_ASR (parent);
  gboolean ok = TRUE;

  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_FLUSH_START:
      ok = gst_pad_push_event (self->srcpad, event);
      flush_start (self);
      return ok;
    case GST_EVENT_FLUSH_STOP:
      ok = gst_pad_push_event (self->srcpad, event);
      flush_stop (self);
      return ok;
    case GST_EVENT_STREAM_START:
      update_is_live (self);
      take_stream_start (self, event);
      break;
    case GST_EVENT_CAPS:
      ok = take_caps (self, event);
      break;
    case GST_EVENT_SEGMENT:
      ok = take_segment (self, event);
      break;
    case GST_EVENT_GAP:
      ok = take_gap (self, event);
      break;
    case GST_EVENT_EOS:
      take_eos (self, event);
      break;
    case GST_EVENT_TAG:
      /* bit rates and codecs are the audio's, not the text's */
      break;
    default:
      return gst_pad_event_default (pad, parent, event);
  }
  gst_event_unref (event);
  return ok;
}

static gboolean
src_query (GstPad *pad, GstObject *parent, GstQuery *query)
{
  GstAsr *self = GST_ASR (parent);
  GstClockTime min, max;
  gboolean is_live;

  if (GST_QUERY_TYPE (query) != GST_QUERY_LATENCY)
    return gst_pad_query_default (pad, parent, query);
  if (!gst_pad_peer_query (self->sinkpad, query))
    return FALSE;
  gst_query_parse_latency (query, &is_live, &min, &max);
  g_mutex_lock (&self->lock);
  self->is_live = is_live;
  g_mutex_unlock (&self->lock);
  if (is_live) {
    min += LATENCY;
    if (GST_CLOCK_TIME_IS_VALID (max))
      max += LATENCY;
  }
  gst_query_set_latency (query, is_live, min, max);
  return TRUE;
}

/* ---- properties ---- */

/* "mel, encoder" to a mask. Returns: FALSE for a name that is unknown */
static gboolean
parse_methods (const char *names, guint *mask)
{
  g_auto (GStrv) parts = g_strsplit (names ? names : "", ",", -1);

  *mask = 0;
  for (guint i = 0; parts[i] != NULL; i++) {
    const char *name = g_strstrip (parts[i]);
    guint m = 0;

    if (*name == '\0')
      continue;
    while (m < ASR_N_METHODS && strcmp (name, asr_method_get_name (m)) != 0)
      m++;
    if (m == ASR_N_METHODS)
      return FALSE;
    *mask |= ASR_METHOD_MASK (m);
  }
  return TRUE;
}

static void
set_skip_copy (GstAsr *self, const char *names)
{
  guint mask;

  if (!parse_methods (names, &mask)) {
    GST_ELEMENT_WARNING (self, LIBRARY, SETTINGS,
        ("\"%s\" names a method that there is not; mel, encoder and decoder "
         "are known. Nothing was changed.", names), (NULL));
    return;
  }
  GST_OBJECT_LOCK (self);
  g_free (self->skip_copy);
  self->skip_copy = g_strdup (names ? names : "");
  self->skip_copy_mask = mask;
  GST_OBJECT_UNLOCK (self);
  g_mutex_lock (&self->lock);
  if (self->stream)
    asr_stream_set_skip_copy (self->stream, mask);
  g_mutex_unlock (&self->lock);
}

static void
set_language (GstAsr *self, const char *code)
{
  g_autoptr (GError) error = NULL;

  GST_OBJECT_LOCK (self);
  g_free (self->language_code);
  self->language_code = g_strdup (code ? code : DEFAULT_LANGUAGE_CODE);
  GST_OBJECT_UNLOCK (self);
  g_mutex_lock (&self->lock);
  if (self->stream)
    asr_stream_set_language (self->stream, code, &error);
  g_mutex_unlock (&self->lock);
  if (error)
    GST_ELEMENT_WARNING (self, LIBRARY, SETTINGS, ("%s", error->message),
        (NULL));
}

static void
gst_asr_set_property (GObject *object, guint id, const GValue *value,
    GParamSpec *pspec)
{
  GstAsr *self = GST_ASR (object);

  if (id == PROP_SKIP_COPY) {
    set_skip_copy (self, g_value_get_string (value));
    return;
  }
  if (id == PROP_LANGUAGE_CODE) {
    set_language (self, g_value_get_string (value));
    return;
  }
  GST_OBJECT_LOCK (self);
  switch (id) {
    case PROP_MODEL:
      g_free (self->model);
      self->model = g_value_dup_string (value);
      break;
    case PROP_BACKEND:
      self->backend = g_value_get_enum (value);
      break;
    case PROP_DEVICE:
      self->device = g_value_get_uint (value);
      break;
    case PROP_COMPUTE_TYPE:
      self->compute_type = g_value_get_enum (value);
      break;
    case PROP_THREADS:
      self->threads = g_value_get_uint (value);
      break;
    case PROP_TASK:
      self->task = g_value_get_enum (value);
      break;
    case PROP_GRANULARITY:
      self->granularity = g_value_get_enum (value);
      break;
    case PROP_PROMPT:
      g_free (self->prompt);
      self->prompt = g_value_dup_string (value);
      break;
    case PROP_VAD:
      self->vad = g_value_get_boolean (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK (self);
}

static GstStructure *
get_stats (GstAsr *self)
{
  AsrStats stats = { 0 };
  GstStructure *structure;

  g_mutex_lock (&self->lock);
  if (self->stream)
    asr_stream_get_stats (self->stream, &stats);
  g_mutex_unlock (&self->lock);
  structure = gst_structure_new ("application/x-asr-stats",
      "tokens", G_TYPE_UINT64, stats.n_tokens,
      "windows", G_TYPE_UINT64, stats.n_windows,
      "fallbacks", G_TYPE_UINT64, stats.n_fallbacks,
      "skipped-windows", G_TYPE_UINT64, stats.n_skipped_windows,
      "pushed-samples", G_TYPE_UINT64, stats.pushed_samples,
      "speech-samples", G_TYPE_UINT64, stats.speech_samples,
      "decoded-samples", G_TYPE_UINT64, stats.decoded_samples,
      "backlog-samples", G_TYPE_UINT64, stats.backlog_samples, NULL);
  for (guint m = 0; m < ASR_N_METHODS; m++) {
    g_autoptr (GstStructure) method = gst_structure_new (
        asr_method_get_name (m),
        "runs", G_TYPE_UINT64, stats.methods[m].n_runs,
        "time", G_TYPE_UINT64, stats.methods[m].time_ns,
        "bytes-to-host", G_TYPE_UINT64, stats.methods[m].to_host_bytes,
        "bytes-to-device", G_TYPE_UINT64, stats.methods[m].to_device_bytes,
        "retained-bytes", G_TYPE_UINT64, stats.methods[m].retained_bytes,
        "allocated-bytes", G_TYPE_UINT64, stats.methods[m].allocated_bytes,
        NULL);

    gst_structure_set (structure, asr_method_get_name (m),
        GST_TYPE_STRUCTURE, method, NULL);
  }
  return structure;
}

static void
gst_asr_get_property (GObject *object, guint id, GValue *value,
    GParamSpec *pspec)
{
  GstAsr *self = GST_ASR (object);

  if (id == PROP_STATS) {
    g_value_take_boxed (value, get_stats (self));
    return;
  }
  GST_OBJECT_LOCK (self);
  switch (id) {
    case PROP_MODEL:
      g_value_set_string (value, self->model);
      break;
    case PROP_BACKEND:
      g_value_set_enum (value, self->backend);
      break;
    case PROP_DEVICE:
      g_value_set_uint (value, self->device);
      break;
    case PROP_COMPUTE_TYPE:
      g_value_set_enum (value, self->compute_type);
      break;
    case PROP_THREADS:
      g_value_set_uint (value, self->threads);
      break;
    case PROP_LANGUAGE_CODE:
      g_value_set_string (value, self->language_code);
      break;
    case PROP_TASK:
      g_value_set_enum (value, self->task);
      break;
    case PROP_GRANULARITY:
      g_value_set_enum (value, self->granularity);
      break;
    case PROP_PROMPT:
      g_value_set_string (value, self->prompt);
      break;
    case PROP_VAD:
      g_value_set_boolean (value, self->vad);
      break;
    case PROP_SKIP_COPY:
      g_value_set_string (value, self->skip_copy);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK (self);
}

static void
clear_device_outputs (GstAsr *self)
{
  g_mutex_lock (&self->lock);
  if (self->stream)
    asr_stream_clear_outputs (self->stream);
  g_mutex_unlock (&self->lock);
}

/* ---- element ---- */

static GstStateChangeReturn
gst_asr_change_state (GstElement *element, GstStateChange transition)
{
  GstAsr *self = GST_ASR (element);
  GstStateChangeReturn ret;

  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED) {
    GST_OBJECT_LOCK (self);
    gst_asr_text_init (&self->text, self->granularity);
    GST_OBJECT_UNLOCK (self);
    if (!start_loading (self))
      return GST_STATE_CHANGE_FAILURE;
  }
  ret = GST_ELEMENT_CLASS (gst_asr_parent_class)
            ->change_state (element, transition);
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY
      || (transition == GST_STATE_CHANGE_READY_TO_PAUSED
          && ret == GST_STATE_CHANGE_FAILURE))
    stop (self);
  return ret;
}

static void
gst_asr_finalize (GObject *object)
{
  GstAsr *self = GST_ASR (object);

  gst_asr_clock_free (self->clock);
  g_free (self->model);
  g_free (self->language_code);
  g_free (self->prompt);
  g_free (self->skip_copy);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  G_OBJECT_CLASS (gst_asr_parent_class)->finalize (object);
}

static void
gst_asr_init (GstAsr *self)
{
  self->sinkpad = gst_pad_new_from_static_template (&sink_template, "sink");
  gst_pad_set_chain_function (self->sinkpad, GST_DEBUG_FUNCPTR (chain));
  gst_pad_set_event_function (self->sinkpad, GST_DEBUG_FUNCPTR (sink_event));
  gst_element_add_pad (GST_ELEMENT (self), self->sinkpad);

  self->srcpad = gst_pad_new_from_static_template (&src_template, "src");
  gst_pad_use_fixed_caps (self->srcpad);
  gst_pad_set_activatemode_function (self->srcpad,
      GST_DEBUG_FUNCPTR (src_activate_mode));
  gst_pad_set_query_function (self->srcpad, GST_DEBUG_FUNCPTR (src_query));
  gst_element_add_pad (GST_ELEMENT (self), self->srcpad);

  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  g_queue_init (&self->events);
  self->clock = gst_asr_clock_new (ASR_SAMPLE_RATE);
  self->compute_type = DEFAULT_COMPUTE_TYPE;
  self->language_code = g_strdup (DEFAULT_LANGUAGE_CODE);
  self->vad = DEFAULT_VAD;
  self->skip_copy = g_strdup (DEFAULT_SKIP_COPY);
  self->skip_copy_mask = ASR_METHOD_MASK_ALL;
  gst_segment_init (&self->segment, GST_FORMAT_UNDEFINED);
  gst_segment_init (&self->out_segment, GST_FORMAT_UNDEFINED);
}

#define READY_FLAGS \
  (G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY)
#define PLAYING_FLAGS \
  (G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING)

static void
install_properties (GObjectClass *klass)
{
  g_object_class_install_property (klass, PROP_MODEL,
      g_param_spec_string ("model", "Model",
          "Folder of a Whisper model, or its name in the local cache "
          "($XDG_DATA_HOME/gst-asr/models); unset: base",
          DEFAULT_MODEL, READY_FLAGS));
  g_object_class_install_property (klass, PROP_BACKEND,
      g_param_spec_enum ("backend", "Backend", "What computes",
          gst_asr_backend_get_type (), DEFAULT_BACKEND, READY_FLAGS));
  g_object_class_install_property (klass, PROP_DEVICE,
      g_param_spec_uint ("device", "Device",
          "Which of the backend's devices computes", 0, G_MAXUINT,
          DEFAULT_DEVICE, READY_FLAGS));
  g_object_class_install_property (klass, PROP_COMPUTE_TYPE,
      g_param_spec_enum ("compute-type", "Compute type",
          "How matrix products are computed",
          gst_asr_compute_type_get_type (), DEFAULT_COMPUTE_TYPE,
          READY_FLAGS));
  g_object_class_install_property (klass, PROP_THREADS,
      g_param_spec_uint ("threads", "Threads",
          "Threads that compute on the CPU; 0: one for each core", 0, 1024,
          DEFAULT_THREADS, READY_FLAGS));
  g_object_class_install_property (klass, PROP_LANGUAGE_CODE,
      g_param_spec_string ("language-code", "Language code",
          "What is spoken: a code such as \"en\" or \"en-US\", or \"auto\" to "
          "recognise it from the first speech",
          DEFAULT_LANGUAGE_CODE, PLAYING_FLAGS));
  g_object_class_install_property (klass, PROP_TASK,
      g_param_spec_enum ("task", "Task", "What is written",
          gst_asr_task_get_type (), DEFAULT_TASK, READY_FLAGS));
  g_object_class_install_property (klass, PROP_GRANULARITY,
      g_param_spec_enum ("granularity", "Granularity",
          "How much text goes into one buffer; scripts without blanks come "
          "in phrases either way",
          gst_asr_granularity_get_type (), DEFAULT_GRANULARITY, READY_FLAGS));
  g_object_class_install_property (klass, PROP_PROMPT,
      g_param_spec_string ("prompt", "Prompt",
          "Names and spellings that will be spoken, as a sentence; never "
          "comes back as text", DEFAULT_PROMPT, READY_FLAGS));
  g_object_class_install_property (klass, PROP_VAD,
      g_param_spec_boolean ("vad", "Voice detection",
          "Only decode where a voice is heard: faster, and no inventions in "
          "silence", DEFAULT_VAD, READY_FLAGS));
  g_object_class_install_property (klass, PROP_SKIP_COPY,
      g_param_spec_string ("skip-copy-output-to-cpu-for-method",
          "Skip copy to the CPU for methods",
          "Methods whose output stays in device memory, of mel, encoder and "
          "decoder, divided by commas; empty: every output is copied to the "
          "host and back", DEFAULT_SKIP_COPY, PLAYING_FLAGS));
  g_object_class_install_property (klass, PROP_STATS,
      g_param_spec_boxed ("stats", "Statistics",
          "Counters of this stream: tokens, windows, samples, and for each "
          "method its runs, time in ns and bytes",
          GST_TYPE_STRUCTURE, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS));
}

static void
gst_asr_class_init (GstAsrClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS (klass);

  object_class->set_property = gst_asr_set_property;
  object_class->get_property = gst_asr_get_property;
  object_class->finalize = gst_asr_finalize;
  element_class->change_state = GST_DEBUG_FUNCPTR (gst_asr_change_state);
  install_properties (object_class);

  /**
   * GstAsr::clear-device-outputs:
   *
   * Gives up what methods left in device memory between runs.
   */
  signals[SIGNAL_CLEAR_DEVICE_OUTPUTS]
      = g_signal_new_class_handler ("clear-device-outputs",
          G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION,
          G_CALLBACK (clear_device_outputs), NULL, NULL, NULL, G_TYPE_NONE, 0);

  gst_element_class_set_static_metadata (element_class, "Transcriber",
      "Audio/Text/Filter",
      "Turns speech into timed text with a Whisper model on this machine",
      "gst-asr authors");
  gst_element_class_add_static_pad_template (element_class, &sink_template);
  gst_element_class_add_static_pad_template (element_class, &src_template);
  gst_type_mark_as_plugin_api (gst_asr_backend_get_type (), 0);
  gst_type_mark_as_plugin_api (gst_asr_compute_type_get_type (), 0);
  gst_type_mark_as_plugin_api (gst_asr_task_get_type (), 0);
  gst_type_mark_as_plugin_api (gst_asr_granularity_get_type (), 0);
  GST_DEBUG_CATEGORY_INIT (gst_asr_debug, "asr", 0, "speech to timed text");
}
