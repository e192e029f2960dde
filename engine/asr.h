/* SPDX-License-Identifier: MIT */
/*
 * The public interface of libasrengine: audio samples go in, timed text comes
 * out. No GStreamer types and no clock time here: every position is a sample
 * index at ASR_SAMPLE_RATE, counted from the start of the stream's epoch.
 *
 *   AsrEngine  a loaded model on a backend. Shared, reference-counted,
 *              thread-safe.
 *   AsrStream  one audio timeline of one user. Every function may be called
 *              from any thread; push and skip must come from one at a time.
 *   AsrSegment a piece of result, immutable, owned by whoever pulled it.
 *
 * Fallible functions return FALSE or NULL, set @error and leave their outputs
 * untouched. Free functions accept NULL.
 */
#ifndef ASR_ENGINE_ASR_H
#define ASR_ENGINE_ASR_H

#include <glib.h>

G_BEGIN_DECLS

/* Sample rate of everything that is pushed, in hertz. */
#define ASR_SAMPLE_RATE 16000

#define ASR_ERROR (asr_error_quark ())

/**
 * AsrError:
 * @ASR_ERROR_NOT_FOUND: a file or a device is not there
 * @ASR_ERROR_CORRUPT: a model file is damaged or hostile
 * @ASR_ERROR_UNSUPPORTED: valid, but this build, backend or model can't do it
 * @ASR_ERROR_ARGUMENT: a parameter of the caller is out of range
 * @ASR_ERROR_MEMORY: host or device memory ran out
 * @ASR_ERROR_DEVICE: the device failed; the engine is unusable from now on
 * @ASR_ERROR_CANCELLED: the caller's progress function said stop
 */
typedef enum {
  ASR_ERROR_NOT_FOUND,
  ASR_ERROR_CORRUPT,
  ASR_ERROR_UNSUPPORTED,
  ASR_ERROR_ARGUMENT,
  ASR_ERROR_MEMORY,
  ASR_ERROR_DEVICE,
  ASR_ERROR_CANCELLED,
} AsrError;

GQuark asr_error_quark (void);

/**
 * AsrMethod: the stages whose output can stay in device memory.
 */
typedef enum {
  ASR_METHOD_MEL,
  ASR_METHOD_ENCODER,
  ASR_METHOD_DECODER,
} AsrMethod;
#define ASR_N_METHODS 3

/* Bit of a method in a mask. */
#define ASR_METHOD_MASK(method) (1u << (method))
#define ASR_METHOD_MASK_ALL ((1u << ASR_N_METHODS) - 1)

/**
 * asr_method_get_name:
 * Returns: (transfer none): "mel", "encoder" or "decoder"
 */
const char *asr_method_get_name (AsrMethod method);

typedef enum {
  ASR_COMPUTE_AUTO, /* what the backend does best */
  ASR_COMPUTE_F32,
  ASR_COMPUTE_F16,
  ASR_COMPUTE_INT8,
} AsrComputeType;

typedef enum {
  ASR_TASK_TRANSCRIBE, /* text in the language that is spoken */
  ASR_TASK_TRANSLATE,  /* English text */
} AsrTask;

/**
 * AsrModelInfo: what a model can do; policies are chosen by it.
 */
typedef struct {
  const char *family;             /* "whisper" */
  gboolean multilingual;          /* knows languages other than English */
  gboolean can_translate;
  gboolean has_timestamps;        /* writes time tokens between phrases */
  gboolean has_alignment;         /* word times from cross-attention */
  guint max_window_samples;       /* longest piece that one encode covers */
  gboolean pads_window;           /* an encode costs a full window always */
  guint encoder_frame_samples;    /* samples that one encoder frame covers */
  guint n_mels;
  guint d_model;
  guint n_encoder_layers;
  guint n_decoder_layers;
  guint n_vocab;
} AsrModelInfo;

/* When text becomes final. */
typedef enum {
  ASR_POLICY_OFFLINE,         /* when its window is complete: best text */
  ASR_POLICY_LOCAL_AGREEMENT, /* when two decodes agree on it */
  ASR_POLICY_ALIGNATT,        /* when it lies behind the newest audio */
} AsrPolicy;

/* ---- AsrEngine ---- */

typedef struct _AsrEngine AsrEngine;

/**
 * AsrEngineParams:
 * @model: directory of a model, or a file in it
 * @backend: "auto", "cpu" or "cuda"
 * @device: index among the backend's devices
 * @compute_type: how the matrix products are computed
 * @n_threads: worker threads on the CPU, 0 = one for each core
 */
typedef struct {
  const char *model;
  const char *backend;
  guint device;
  AsrComputeType compute_type;
  guint n_threads;
} AsrEngineParams;

#define ASR_ENGINE_PARAMS_DEFAULT \
  { NULL, "auto", 0, ASR_COMPUTE_AUTO, 0 }

/**
 * AsrProgressFunc:
 * @fraction: 0.0 to 1.0, never decreasing
 *
 * Called from the thread that loads.
 * Returns: FALSE to cancel the load
 */
typedef gboolean (*AsrProgressFunc) (double fraction, gpointer user_data);

/**
 * asr_model_check:
 * @path: as AsrEngineParams.model
 * @info: (out) (optional): what the model can do
 *
 * Opens the files of a model and checks their headers without reading
 * weights: takes milliseconds.
 */
gboolean asr_model_check (const char *path, AsrModelInfo *info, GError **error);

/**
 * asr_engine_new: loads a model and starts its worker thread. Blocks until
 * the weights are in place; call it from a thread that may wait.
 * @progress: (nullable) (scope call)
 *
 * Returns: (transfer full): the engine, or NULL with @error set
 */
AsrEngine *asr_engine_new (const AsrEngineParams *params,
    AsrProgressFunc progress, gpointer user_data, GError **error);

AsrEngine *asr_engine_ref (AsrEngine *engine);

/* The last reference waits for the worker thread; never drop it from a
 * callback of the engine. */
void asr_engine_unref (AsrEngine *engine);

/* Returns: (transfer none): valid as long as the engine */
const AsrModelInfo *asr_engine_get_info (AsrEngine *engine);

/* Returns: (transfer none): what computes and how, for people: "cpu, int8,
 * 2 threads, avx512_amx" */
const char *asr_engine_get_description (AsrEngine *engine);

/* Returns: (transfer none) (nullable): why "auto" did not take a GPU:
 * NOT_FOUND where there is none, another code where it could not be used;
 * NULL when it did, or when a backend was asked for by name */
const GError *asr_engine_get_fallback (AsrEngine *engine);

/* ---- AsrSegment ---- */

/**
 * AsrWord:
 * @start: first sample
 * @end: sample after the last; never before @start
 * @text: valid UTF-8 without surrounding blanks, punctuation joined
 * @space_before: a blank stands between the word before and this one
 * @confidence: 0.0 to 1.0, mean probability of the word's tokens
 */
typedef struct {
  gint64 start;
  gint64 end;
  const char *text;
  gboolean space_before;
  float confidence;
} AsrWord;

typedef enum {
  ASR_SEGMENT_TEXT, /* what was said from start to end; no words: nothing */
  ASR_SEGMENT_END,  /* all that was pushed before drain has been told */
  ASR_SEGMENT_SPEECH_START, /* a voice is heard from start on */
  ASR_SEGMENT_SPEECH_END,   /* ... up to start; both come as soon as the voice
                             * detector knows, ahead of the text */
  ASR_SEGMENT_SKIPPED, /* live policies: the machine was too slow for the audio
                        * from start to end */
  ASR_SEGMENT_PAUSE,  /* live policies: the speaker paused, and what was said
                       * up to start has been told */
  ASR_SEGMENT_OUTPUT, /* what a method computed for the audio from start to
                       * end: see asr_stream_set_output_tap */
} AsrSegmentType;

/**
 * AsrSegment:
 * @output: index that asr_stream_add_output returned
 * @epoch: number of resets before it was made
 * @start, @end: samples it covers; final segments of one output follow each
 *   other without overlap, so @end is the position that the text has reached
 * @text: (nullable): the phrase as it would be printed
 * @is_final: FALSE for a guess that a later segment replaces
 * @language: code such as "en", or "" where it is not known
 * @method, @data, @shape: of type OUTPUT only: f32 [shape[0], shape[1]]; the
 *   mel spectrogram [n_mels, frames], the encoder's frames [frames, d_model],
 *   or logits of the decoder [rows that sampled in one step, n_vocab]
 */
typedef struct {
  AsrSegmentType type;
  guint output;
  guint epoch;
  gint64 start;
  gint64 end;
  const char *text;
  const AsrWord *words;
  guint n_words;
  gboolean is_final;
  char language[8];
  AsrMethod method;
  const float *data;
  guint shape[2];
} AsrSegment;

void asr_segment_free (AsrSegment *segment);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AsrSegment, asr_segment_free)

/* ---- AsrStream ---- */

typedef struct _AsrStream AsrStream;

/**
 * AsrStreamParams:
 * @language: code, or "auto" to detect it on the first speech
 * @prompt: (nullable): text that the speaker could have said before: names
 *   and spellings; never comes back as output
 * @vad: only decode where the voice detector hears speech
 * @condition_on_previous: give the model its own earlier text as context
 * @max_backlog_samples: most samples that wait undecoded; 0 = a window and
 *   a half
 * @skip_copy: mask of methods whose output stays in device memory
 * @vad_threshold: probability from which the detector hears a voice; lower
 *   keeps quiet and far speakers
 * @min_silence_samples: a shorter pause does not end speech
 */
typedef struct {
  const char *language;
  const char *prompt;
  gboolean vad;
  gboolean condition_on_previous;
  gsize max_backlog_samples;
  guint skip_copy;
  float vad_threshold;
  guint min_silence_samples;
} AsrStreamParams;

#define ASR_STREAM_PARAMS_DEFAULT \
  { "auto", NULL, TRUE, FALSE, 0, ASR_METHOD_MASK_ALL, 0.5f, 4800 }

AsrStream *asr_stream_new (AsrEngine *engine, const AsrStreamParams *params,
    GError **error);

/* Cancels what runs and waits for the worker to let go. */
void asr_stream_free (AsrStream *stream);

/**
 * asr_stream_add_output: asks for one text from this stream; several outputs
 * share one encode. Call before the first push. Of what belongs to the same
 * audio, output 0 is told last: whoever waits on it keeps no other waiting.
 * @index: (out): AsrSegment.output of its segments, counted from 0
 */
gboolean asr_stream_add_output (AsrStream *stream, AsrTask task, guint *index,
    GError **error);

/**
 * asr_stream_push: appends samples; copies them, never computes, never blocks.
 * @samples: mono, nominally -1.0 to 1.0; NaN and infinity count as 0
 *
 * Returns: how many samples it took; fewer than @n_samples when the backlog
 *   is full: notify is called when there is room again
 */
gsize asr_stream_push (AsrStream *stream, const float *samples,
    gsize n_samples);

/* Moves the timeline on by @n_samples in which there was no audio. */
void asr_stream_skip (AsrStream *stream, guint64 n_samples);

/**
 * asr_stream_pull:
 *
 * Returns: (transfer full) (nullable): the next segment of any output, or
 *   NULL: with @error set when the engine failed, without when there is
 *   nothing now
 */
AsrSegment *asr_stream_pull (AsrStream *stream, GError **error);

/**
 * AsrNotifyFunc: something changed: a segment waits, the backlog has room, or
 * the engine failed. Called from the worker thread; it must not block and
 * must not call into the stream.
 */
typedef void (*AsrNotifyFunc) (gpointer user_data);

/* After it returned, the function set before is not called any more. */
void asr_stream_set_notify (AsrStream *stream, AsrNotifyFunc func,
    gpointer user_data);

/* Makes all that was pushed final without waiting for more audio. */
void asr_stream_commit (AsrStream *stream);

/* No more audio follows: decodes the rest, then a segment of type
 * ASR_SEGMENT_END ends each output. Only reset brings the stream back. */
void asr_stream_drain (AsrStream *stream);

/* Cancels what runs, forgets all audio and text, and starts a new epoch at
 * sample 0. Segments of older epochs are never pulled after it returned. */
void asr_stream_reset (AsrStream *stream);

/* Stops the work in progress as soon as possible and takes no new; reset
 * brings the stream back. */
void asr_stream_cancel (AsrStream *stream);

/* Takes effect at the next run of each method. */
void asr_stream_set_skip_copy (AsrStream *stream, guint mask);

/**
 * asr_stream_set_policy: takes effect before the first push and with the next
 * reset. The live policies need an output 0 of task TRANSCRIBE; they give
 * guesses as segments with is_final unset, which the next segment replaces.
 * Other outputs are told passages: when the speaker pauses, or has spoken for
 * long.
 * @latency_samples: with a live policy, a word is final this long after its
 *   start at the latest, as far as the machine can compute so fast; this may
 *   change at any time
 * @is_live: audio comes whether it is wanted or not: a live policy skips the
 *   oldest where the machine can't keep up
 */
void asr_stream_set_policy (AsrStream *stream, AsrPolicy policy,
    guint64 latency_samples, gboolean is_live);

/* Methods in @mask whose output is copied to the host anyway (which are not in
 * skip_copy) have it pulled as a segment of type OUTPUT after each run, in
 * order with the text. Takes effect at the next run of each method. */
void asr_stream_set_output_tap (AsrStream *stream, guint mask);

/* Gives up encoder output and caches that are retained between runs. */
void asr_stream_clear_outputs (AsrStream *stream);

/* Takes effect with the next window. Fails for a code that the model does
 * not know. */
gboolean asr_stream_set_language (AsrStream *stream, const char *language,
    GError **error);

/**
 * AsrStats: counters since the stream was made; see the fields.
 */
typedef struct {
  struct {
    guint64 n_runs;
    guint64 time_ns;          /* on the device */
    guint64 to_host_bytes;
    guint64 to_device_bytes;
    guint64 retained_bytes;   /* now */
    guint64 allocated_bytes;  /* now, slots included */
  } methods[ASR_N_METHODS];
  guint64 n_tokens;
  guint64 n_windows;
  guint64 n_fallbacks;        /* decodes again at a higher temperature */
  guint64 n_skipped_windows;  /* no speech by the model's own judgement */
  guint64 pushed_samples;     /* gaps included */
  guint64 speech_samples;     /* of those, what the voice detector took */
  guint64 skipped_samples;    /* too slow for them: see SKIPPED */
  guint64 decoded_samples;    /* position that the text has reached */
  guint64 backlog_samples;    /* now */
} AsrStats;

void asr_stream_get_stats (AsrStream *stream, AsrStats *stats);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (AsrEngine, asr_engine_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AsrStream, asr_stream_free)

G_END_DECLS

#endif
