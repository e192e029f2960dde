/* SPDX-License-Identifier: MIT */
/*
 * Speech probabilities to spans of speech, as they come: the pure state
 * machine between the voice detector and the policies. In: a probability per
 * frame of 512 samples, or a stretch of no audio. Out: spans [start, end) in
 * samples, padded. Knows no device, thread or clock.
 */
#ifndef ASR_AUDIO_GATE_H
#define ASR_AUDIO_GATE_H

#include <glib.h>

G_BEGIN_DECLS

/**
 * AsrGateParams: Silero's own way of turning probabilities into spans.
 * @threshold: probability at which speech begins
 * @end_threshold: probability below which it may end
 * @min_speech_samples: shorter spans are dropped
 * @min_silence_samples: shorter pauses do not end a span
 * @pad_samples: added at both ends, never across another span
 */
typedef struct {
  float threshold;
  float end_threshold;
  guint min_speech_samples;
  guint min_silence_samples;
  guint pad_samples;
} AsrGateParams;

#define ASR_GATE_PARAMS_DEFAULT { 0.5f, 0.35f, 4000, 4800, 1600 }

/* A span that is still open has end == G_MAXINT64. */
typedef struct {
  gint64 start;
  gint64 end;
} AsrSpan;

typedef struct _AsrGate AsrGate;

AsrGate *asr_gate_new (const AsrGateParams *params);
void asr_gate_free (AsrGate *gate);
void asr_gate_reset (AsrGate *gate);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AsrGate, asr_gate_free)

/* The frame after all that was taken before. */
void asr_gate_push (AsrGate *gate, float probability, guint n_samples);

/* @n_samples without audio: certain silence. */
void asr_gate_skip (AsrGate *gate, guint64 n_samples);

/* End of audio: closes an open span at the position reached. */
void asr_gate_finish (AsrGate *gate);

/* Samples that it has judged. */
gint64 asr_gate_get_position (const AsrGate *gate);

/* Everything before this sample is decided: no later call changes it. */
gint64 asr_gate_get_decided (const AsrGate *gate);

/* Spans so far, oldest first; the last may be open. Returns: (transfer
 * none): [n], valid until the gate is changed */
const AsrSpan *asr_gate_get_spans (const AsrGate *gate, guint *n);

/* Drops spans that end at or before @sample. */
void asr_gate_forget (AsrGate *gate, gint64 sample);

G_END_DECLS

#endif
