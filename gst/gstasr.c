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
 * gst-launch-1.0 filesrc location=talk.mp4 ! decodebin ! asr granularity=segment ! identity single-segment=true ! srtenc ! filesink location=talk.srt
 * ]|
 *
 * ## Words on the terminal
 * |[
 * gst-launch-1.0 -q filesrc location=talk.wav ! wavparse ! asr ! srtenc ! fdsink
 * ]|
 *
 * From a file, text comes when a window of speech is complete, up to 30
 * seconds after it was said. Branches beside this one need queues that hold
 * as much:
 * `queue max-size-time=40000000000 max-size-buffers=0 max-size-bytes=0`.
 *
 * ## Captions of a microphone
 * |[
 * gst-launch-1.0 videotestsrc is-live=true ! textoverlay name=o wait-text=false ! autovideosink autoaudiosrc ! queue ! asr latency=2000 ! o.text_sink
 * ]|
 *
 * From a live source it comes word by word, at most #GstAsr:latency after the
 * word began, and what was pushed is never revised. Guesses at what follows go
 * to the bus: element messages `asr` with text, words, stream-time,
 * running-time, duration and final; messages `voice-activity` with speaking
 * tell speech from silence. Each buffer has a #GstCustomMeta `GstAsrMeta` with
 * its confidence.
 */
#include "gst/gstasr.h"

#include <string.h>

#include "gst/gstasrpad.h"
#include "gst/gstasrpool.h"

GST_DEBUG_CATEGORY (gst_asr_debug);

#define DEFAULT_MODEL NULL
#define DEFAULT_BACKEND GST_ASR_BACKEND_AUTO
#define DEFAULT_DEVICE 0
#define DEFAULT_COMPUTE_TYPE ASR_COMPUTE_AUTO
#define DEFAULT_THREADS 0
#define DEFAULT_LANGUAGE_CODE "auto"
#define DEFAULT_TASK ASR_TASK_TRANSCRIBE
#define DEFAULT_GRANULARITY GST_ASR_GRANULARITY_WORD
#define DEFAULT_PROMPT NULL
#define DEFAULT_VAD TRUE
#define DEFAULT_VAD_THRESHOLD 0.5f
#define DEFAULT_MIN_SILENCE 300
#define DEFAULT_SKIP_COPY "mel,encoder,decoder"
#define DEFAULT_POLICY GST_ASR_POLICY_AUTO
#define DEFAULT_LATENCY 2000
#define DEFAULT_TRANSLATE_LATENCY 500
#define DEFAULT_LATENESS 0
#define DEFAULT_POST_MESSAGES TRUE

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
  PROP_VAD_THRESHOLD,
  PROP_MIN_SILENCE,
  PROP_SKIP_COPY,
  PROP_POLICY,
  PROP_LATENCY,
  PROP_TRANSLATE_LATENCY,
  PROP_LATENESS,
  PROP_MAX_OBSERVED_DELAY,
  PROP_POST_MESSAGES,
  PROP_EMPTY_BUFFERS,
  PROP_STATS,
};

enum { SIGNAL_CLEAR_DEVICE_OUTPUTS, SIGNAL_METHOD_OUTPUT, N_SIGNALS };

static guint signals[N_SIGNALS];

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

static GType
gst_asr_policy_get_type (void)
{
  static gsize type = 0;
  static const GEnumValue values[] = {
    { GST_ASR_POLICY_AUTO, "Local agreement for a live source, else offline",
        "auto" },
    { GST_ASR_POLICY_OFFLINE, "A window when it is complete: the best text",
        "offline" },
    { GST_ASR_POLICY_LOCAL_AGREEMENT, "A word when two decodes agree on it",
        "local-agreement" },
    { GST_ASR_POLICY_ALIGNATT, "A word when it is behind the newest audio",
        "alignatt" },
    { 0, NULL, NULL },
  };

  if (g_once_init_enter (&type))
    g_once_init_leave (&type,
        g_enum_register_static ("GstAsrPolicy", values));
  return type;
}

/* ---- states ---- */

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
  gst_asr_pads_stop (self);
  self->is_draining = FALSE;
  self->is_eos = FALSE;
  self->has_failed = FALSE;
  self->has_segment_event = FALSE;
  self->base = 0;
  self->tag_language[0] = '\0';
  g_clear_pointer (&self->guess, g_free);
  GST_OBJECT_LOCK (self);
  self->n_late_words = 0;
  self->max_observed_delay = 0;
  GST_OBJECT_UNLOCK (self);
  gst_segment_init (&self->segment, GST_FORMAT_UNDEFINED);
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

void
gst_asr_warn_of_methods (GstAsr *self, const char *names)
{
  GST_ELEMENT_WARNING (self, LIBRARY, SETTINGS,
      ("\"%s\" names a method that there is not; mel, encoder and decoder are "
       "known. Nothing was changed.", names), (NULL));
}

static void
set_skip_copy (GstAsr *self, const char *names)
{
  guint mask;

  if (!parse_methods (names, &mask)) {
    GST_OBJECT_LOCK (self);
    g_free (self->refused_methods);
    self->refused_methods = g_strdup (names);
    GST_OBJECT_UNLOCK (self);
    gst_asr_warn_of_methods (self, names);
    return;
  }
  GST_OBJECT_LOCK (self);
  g_clear_pointer (&self->refused_methods, g_free);
  g_free (self->skip_copy);
  self->skip_copy = g_strdup (names ? names : "");
  self->skip_copy_mask = mask;
  GST_OBJECT_UNLOCK (self);
  g_mutex_lock (&self->lock);
  if (self->stream)
    asr_stream_set_skip_copy (self->stream, mask);
  g_mutex_unlock (&self->lock);
}

/* A code that the model does not know leaves the old one. */
static void
set_language (GstAsr *self, const char *code)
{
  g_autoptr (GError) error = NULL;

  g_mutex_lock (&self->lock);
  if (self->stream)
    asr_stream_set_language (self->stream, code, &error);
  g_mutex_unlock (&self->lock);
  if (error) {
    GST_ELEMENT_WARNING (self, LIBRARY, SETTINGS, ("%s", error->message),
        (NULL));
    return;
  }
  GST_OBJECT_LOCK (self);
  g_free (self->language_code);
  self->language_code = g_strdup (code ? code : DEFAULT_LANGUAGE_CODE);
  GST_OBJECT_UNLOCK (self);
}

static void
gst_asr_set_property (GObject *object, guint id, const GValue *value,
    GParamSpec *pspec)
{
  GstAsr *self = GST_ASR (object);
  gboolean tells_latency = FALSE;

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
    case PROP_VAD_THRESHOLD:
      self->vad_threshold = g_value_get_float (value);
      break;
    case PROP_MIN_SILENCE:
      self->min_silence = g_value_get_uint (value);
      break;
    case PROP_POLICY:
      self->policy = g_value_get_enum (value);
      break;
    case PROP_LATENCY:
      tells_latency = self->latency != g_value_get_uint (value);
      self->latency = g_value_get_uint (value);
      break;
    case PROP_TRANSLATE_LATENCY:
      tells_latency = self->translate_latency != g_value_get_uint (value);
      self->translate_latency = g_value_get_uint (value);
      break;
    case PROP_LATENESS:
      self->lateness = g_value_get_uint (value);
      break;
    case PROP_POST_MESSAGES:
      self->post_messages = g_value_get_boolean (value);
      break;
    case PROP_EMPTY_BUFFERS:
      self->empty_buffers = g_value_get_boolean (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK (self);
  if (tells_latency)
    gst_element_post_message (GST_ELEMENT (self),
        gst_message_new_latency (GST_OBJECT (self)));
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
      "lost-samples", G_TYPE_UINT64, stats.skipped_samples,
      "decoded-samples", G_TYPE_UINT64, stats.decoded_samples,
      "backlog-samples", G_TYPE_UINT64, stats.backlog_samples, NULL);
  GST_OBJECT_LOCK (self);
  gst_structure_set (structure, "late-words", G_TYPE_UINT64,
      self->n_late_words, NULL);
  GST_OBJECT_UNLOCK (self);
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

    if (m == ASR_METHOD_DECODER && stats.n_tokens > 0)
      gst_structure_set (method, "bytes-to-host-per-token", G_TYPE_DOUBLE,
          (double) stats.methods[m].to_host_bytes / stats.n_tokens, NULL);
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
    case PROP_VAD_THRESHOLD:
      g_value_set_float (value, self->vad_threshold);
      break;
    case PROP_MIN_SILENCE:
      g_value_set_uint (value, self->min_silence);
      break;
    case PROP_SKIP_COPY:
      g_value_set_string (value, self->skip_copy);
      break;
    case PROP_POLICY:
      g_value_set_enum (value, self->policy);
      break;
    case PROP_LATENCY:
      g_value_set_uint (value, self->latency);
      break;
    case PROP_TRANSLATE_LATENCY:
      g_value_set_uint (value, self->translate_latency);
      break;
    case PROP_LATENESS:
      g_value_set_uint (value, self->lateness);
      break;
    case PROP_MAX_OBSERVED_DELAY:
      g_value_set_uint (value, self->max_observed_delay);
      break;
    case PROP_POST_MESSAGES:
      g_value_set_boolean (value, self->post_messages);
      break;
    case PROP_EMPTY_BUFFERS:
      g_value_set_boolean (value, self->empty_buffers);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK (self);
}

void
gst_asr_emit_output (GstAsr *self, const char *method, GstSample *sample)
{
  g_signal_emit (self, signals[SIGNAL_METHOD_OUTPUT], 0, method, sample);
}

guint
gst_asr_get_tap (GstAsr *self)
{
  return g_signal_has_handler_pending (self, signals[SIGNAL_METHOD_OUTPUT], 0,
      FALSE) ? ASR_METHOD_MASK_ALL : 0;
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
    self->text.has_empty_buffers = self->empty_buffers;
    GST_OBJECT_UNLOCK (self);
    if (!gst_asr_load (self))
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
  g_free (self->refused_methods);
  g_free (self->guess);
  g_ptr_array_unref (self->pads);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  G_OBJECT_CLASS (gst_asr_parent_class)->finalize (object);
}

static void
gst_asr_init (GstAsr *self)
{
  gst_asr_init_sink (self,
      gst_pad_new_from_static_template (&sink_template, "sink"));
  gst_asr_init_src (self,
      gst_pad_new_from_static_template (&src_template, "src"));

  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  g_queue_init (&self->events);
  self->pads = g_ptr_array_new_with_free_func (gst_object_unref);
  self->clock = gst_asr_clock_new (ASR_SAMPLE_RATE);
  self->compute_type = DEFAULT_COMPUTE_TYPE;
  self->language_code = g_strdup (DEFAULT_LANGUAGE_CODE);
  self->vad = DEFAULT_VAD;
  self->vad_threshold = DEFAULT_VAD_THRESHOLD;
  self->min_silence = DEFAULT_MIN_SILENCE;
  self->skip_copy = g_strdup (DEFAULT_SKIP_COPY);
  self->skip_copy_mask = ASR_METHOD_MASK_ALL;
  self->latency = DEFAULT_LATENCY;
  self->translate_latency = DEFAULT_TRANSLATE_LATENCY;
  self->post_messages = DEFAULT_POST_MESSAGES;
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
          "Threads that compute on the CPU; 0: one for each core", 0, 256,
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
  g_object_class_install_property (klass, PROP_VAD_THRESHOLD,
      g_param_spec_float ("vad-threshold", "Voice threshold",
          "Probability from which a voice is heard; lower keeps quiet and far "
          "speakers, and more noise", 0.01f, 0.99f, DEFAULT_VAD_THRESHOLD,
          READY_FLAGS));
  g_object_class_install_property (klass, PROP_MIN_SILENCE,
      g_param_spec_uint ("min-silence", "Least silence",
          "A pause of so many ms ends an utterance", 32, 10000,
          DEFAULT_MIN_SILENCE, READY_FLAGS));
  g_object_class_install_property (klass, PROP_SKIP_COPY,
      g_param_spec_string ("skip-copy-output-to-cpu-for-method",
          "Skip copy to the CPU for methods",
          "Methods whose output stays in device memory, of mel, encoder and "
          "decoder, divided by commas; empty: every output is copied to the "
          "host and back", DEFAULT_SKIP_COPY, PLAYING_FLAGS));
  g_object_class_install_property (klass, PROP_POLICY,
      g_param_spec_enum ("policy", "Policy", "When text becomes final",
          gst_asr_policy_get_type (), DEFAULT_POLICY, READY_FLAGS));
  g_object_class_install_property (klass, PROP_LATENCY,
      g_param_spec_uint ("latency", "Latency",
          "With a live source: longest time in ms from the start of a word to "
          "its text; more makes better text, 4294967295 promises nothing",
          0, G_MAXUINT, DEFAULT_LATENCY, PLAYING_FLAGS));
  g_object_class_install_property (klass, PROP_TRANSLATE_LATENCY,
      g_param_spec_uint ("translate-latency", "Translation latency",
          "What translate pads of a live source get on top of latency, in ms",
          0, G_MAXUINT, DEFAULT_TRANSLATE_LATENCY, PLAYING_FLAGS));
  g_object_class_install_property (klass, PROP_LATENESS,
      g_param_spec_uint ("lateness", "Lateness",
          "Text is shown this many ms late, and the pipeline's latency stays "
          "low", 0, G_MAXUINT, DEFAULT_LATENESS, READY_FLAGS));
  g_object_class_install_property (klass, PROP_MAX_OBSERVED_DELAY,
      g_param_spec_uint ("max-observed-delay", "Greatest delay observed",
          "Longest time in ms from the start of a word to its text, where it "
          "was more than latency", 0, G_MAXUINT, 0,
          G_PARAM_READABLE | G_PARAM_STATIC_STRINGS));
  g_object_class_install_property (klass, PROP_POST_MESSAGES,
      g_param_spec_boolean ("post-messages", "Post messages",
          "Post an element message \"asr\" for final text and for guesses "
          "that later text replaces", DEFAULT_POST_MESSAGES, PLAYING_FLAGS));
  g_object_class_install_property (klass, PROP_EMPTY_BUFFERS,
      g_param_spec_boolean ("empty-buffers", "Empty buffers",
          "Push buffers without text in place of gap events, for mp4mux, "
          "which takes no notice of gaps", FALSE, READY_FLAGS));
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

  /**
   * GstAsr::method-output:
   * @method: "mel", "encoder" or "decoder"
   * @sample: f32 values; caps `application/x-asr-output` with method, format
   *   and shape, rows first; PTS and duration of the audio it belongs to
   *
   * What a method computed, for whoever wants it: the encoder's frames tell
   * speakers, languages and sounds apart. Emitted from the source pad's
   * thread, in order with the text, for methods that
   * #GstAsr:skip-copy-output-to-cpu-for-method does not name.
   */
  signals[SIGNAL_METHOD_OUTPUT]
      = g_signal_new ("method-output", G_TYPE_FROM_CLASS (klass),
          G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 2,
          G_TYPE_STRING, GST_TYPE_SAMPLE);

  gst_element_class_set_static_metadata (element_class, "Transcriber",
      "Audio/Text/Filter",
      "Turns speech into timed text with a Whisper model on this machine",
      "gst-asr authors");
  gst_element_class_add_static_pad_template (element_class, &sink_template);
  gst_element_class_add_static_pad_template (element_class, &src_template);
  gst_asr_pads_init_class (element_class);
  gst_type_mark_as_plugin_api (gst_asr_backend_get_type (), 0);
  gst_type_mark_as_plugin_api (gst_asr_compute_type_get_type (), 0);
  gst_type_mark_as_plugin_api (gst_asr_task_get_type (), 0);
  gst_type_mark_as_plugin_api (gst_asr_granularity_get_type (), 0);
  gst_type_mark_as_plugin_api (gst_asr_policy_get_type (), 0);
  gst_asr_text_register_meta ();
  GST_DEBUG_CATEGORY_INIT (gst_asr_debug, "asr", 0, "speech to timed text");
}
