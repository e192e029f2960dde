/* SPDX-License-Identifier: MIT */
/*
 * The tokens of a window cut into phrases at pairs of time marks, and how far
 * the text reaches. Pure. Source: openai/whisper transcribe.py (MIT).
 */
#ifndef ASR_DECODE_PHRASES_H
#define ASR_DECODE_PHRASES_H

#include <glib.h>

G_BEGIN_DECLS

/* Encoder frames are mel frames by two; time marks are encoder frames. */
#define ASR_MEL_FRAMES_PER_MARK 2

/**
 * AsrPhrase:
 * @first, @n_tokens: in the window's tokens, time marks included
 * @n_text_tokens: those below the time marks
 * @start_mark, @end_mark: 0.02 s each, from the window's start
 */
typedef struct {
  guint first;
  guint n_tokens;
  guint n_text_tokens;
  guint start_mark;
  guint end_mark;
} AsrPhrase;

/**
 * asr_phrases_cut:
 * @tokens: [n_tokens] sampled ids without eot
 * @n_mel_frames: of real audio in the window
 * @advance_frames: (out): mel frames that the text covers by its time marks
 * @is_whole: (out): the last phrase closed the window: nothing follows in it
 *
 * Returns: (transfer full) (element-type AsrPhrase): what follows the last
 *   pair of marks is left out, to be heard again in the next window
 */
GArray *asr_phrases_cut (const gint32 *tokens, guint n_tokens,
    gint32 timestamp_begin, gint32 eot, guint n_mel_frames,
    guint *advance_frames, gboolean *is_whole);

G_END_DECLS

#endif
