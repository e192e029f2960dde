/* SPDX-License-Identifier: MIT */
/*
 * Silero's voice detector, version 6 (MIT, github.com/snakers4/silero-vad):
 * a probability of speech for every 512 samples. In: samples at 16 kHz. Out:
 * probabilities. Small enough for plain C on the CPU; knows no thresholds.
 */
#ifndef ASR_AUDIO_VAD_H
#define ASR_AUDIO_VAD_H

#include <glib.h>

G_BEGIN_DECLS

#define ASR_VAD_FRAME_SAMPLES 512

/* Weights, shared by all detectors of a process; built into the library. */
typedef struct _AsrVadModel AsrVadModel;

AsrVadModel *asr_vad_model_new (GError **error);
void asr_vad_model_free (AsrVadModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AsrVadModel, asr_vad_model_free)

/* State of one audio timeline; @model must outlive it. */
typedef struct _AsrVad AsrVad;

AsrVad *asr_vad_new (const AsrVadModel *model);
void asr_vad_free (AsrVad *vad);
void asr_vad_reset (AsrVad *vad);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AsrVad, asr_vad_free)

/**
 * asr_vad_run:
 * @samples: [ASR_VAD_FRAME_SAMPLES] f32
 *
 * Returns: probability of speech in these samples, 0.0 to 1.0
 */
float asr_vad_run (AsrVad *vad, const float *samples);

G_END_DECLS

#endif
