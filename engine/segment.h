/* SPDX-License-Identifier: MIT */
/* How segments are made; for the engine's top files. */
#ifndef ASR_ENGINE_SEGMENT_H
#define ASR_ENGINE_SEGMENT_H

#include "engine/asr.h"

G_BEGIN_DECLS

/**
 * asr_segment_new: copies words and their texts into one segment, and joins
 * them to its text.
 * @words: [n_words]
 */
AsrSegment *asr_segment_new (AsrSegmentType type, guint output, guint epoch,
    gint64 start, gint64 end, const AsrWord *words, guint n_words,
    const char *language);

/* Returns: (transfer full): a segment of type OUTPUT with room for f32
 * [n_rows, n_columns] at @data */
AsrSegment *asr_segment_new_output (guint epoch, gint64 start, gint64 end,
    AsrMethod method, guint n_rows, guint n_columns, float **data);

G_END_DECLS

#endif
