/* SPDX-License-Identifier: MIT */
/* The mel filter bank that Whisper was trained with. */
#ifndef ASR_AUDIO_MEL_H
#define ASR_AUDIO_MEL_H

#include <glib.h>

G_BEGIN_DECLS

#define ASR_MEL_BINS 201

/**
 * asr_mel_fill_filters: Slaney's mel scale from 0 to 8 kHz, triangles over the
 * bins of a transform of 400 samples at 16 kHz, each of unit area.
 * @filters: (out): [n_mels, ASR_MEL_BINS]
 */
void asr_mel_fill_filters (guint n_mels, float *filters);

G_END_DECLS

#endif
