/* SPDX-License-Identifier: MIT */
/*
 * Any raw audio to what the engine hears: 16 kHz mono f32. In: buffers' bytes.
 * Out: samples. Formats and rates are GStreamer's audio library's work; which
 * channel speech is in is decided here. Not thread-safe.
 */
#ifndef GST_ASR_CONVERT_H
#define GST_ASR_CONVERT_H

#include <gst/audio/audio.h>

G_BEGIN_DECLS

typedef struct _GstAsrConvert GstAsrConvert;

/* Returns: NULL where the library can't convert @info */
GstAsrConvert *gst_asr_convert_new (const GstAudioInfo *info, guint rate);
void gst_asr_convert_free (GstAsrConvert *convert);

/**
 * gst_asr_convert_run:
 * @data: [n_frames] interleaved or, for planar layouts, mapped by @buffer
 * @n_out: (out)
 *
 * Returns: (transfer none): [n_out] f32, valid until the next call
 */
const float *gst_asr_convert_run (GstAsrConvert *convert,
    const GstAudioBuffer *buffer, gsize *n_out);

/* What the resampler still holds, as if silence followed; then starts anew. */
const float *gst_asr_convert_drain (GstAsrConvert *convert, gsize *n_out);

/* Forgets what it heard. */
void gst_asr_convert_reset (GstAsrConvert *convert);

/* Output samples that the input since the start or the last drain stands
 * for, those that the resampler holds included. */
guint64 gst_asr_convert_get_n_heard (const GstAsrConvert *convert);

/**
 * gst_asr_convert_choose_channel: where a mix of channels cancels.
 * @mix_energy: of the mix
 * @energies: [n] of each channel over the same time
 * @current: what was chosen before: a channel, or -1 for the mix
 *
 * Returns: the loudest channel where the mix has next to nothing of it, or -1
 */
gint gst_asr_convert_choose_channel (double mix_energy,
    const double *energies, guint n, gint current);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GstAsrConvert, gst_asr_convert_free)

G_END_DECLS

#endif
