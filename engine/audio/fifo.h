/* SPDX-License-Identifier: MIT */
/*
 * Samples of one timeline by absolute index. In: samples and gaps, in order.
 * Out: any stretch that has not been dropped; gaps read as zeros and cost no
 * memory. Not thread-safe.
 */
#ifndef ASR_AUDIO_FIFO_H
#define ASR_AUDIO_FIFO_H

#include <glib.h>

G_BEGIN_DECLS

typedef struct _AsrFifo AsrFifo;

AsrFifo *asr_fifo_new (void);
void asr_fifo_free (AsrFifo *fifo);
void asr_fifo_reset (AsrFifo *fifo);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AsrFifo, asr_fifo_free)

/* Copies; NaN and infinity become 0. */
void asr_fifo_push (AsrFifo *fifo, const float *samples, gsize n_samples);
void asr_fifo_skip (AsrFifo *fifo, guint64 n_samples);

/* Index of the oldest sample that is kept, and one after the newest. */
gint64 asr_fifo_get_start (const AsrFifo *fifo);
gint64 asr_fifo_get_end (const AsrFifo *fifo);

/* Samples in memory: gaps do not count. */
gsize asr_fifo_get_n_stored (const AsrFifo *fifo);

/**
 * asr_fifo_read:
 * @start: at or after get_start; start + n at or before get_end
 * @out: [n_samples]
 *
 * Returns: FALSE if all of it was gap
 */
gboolean asr_fifo_read (const AsrFifo *fifo, gint64 start, gsize n_samples,
    float *out);

/* First sample at or after @from that is audio and not gap, or get_end. */
gint64 asr_fifo_find_audio (const AsrFifo *fifo, gint64 from);

/* Forgets all before @sample. */
void asr_fifo_drop (AsrFifo *fifo, gint64 sample);

G_END_DECLS

#endif
