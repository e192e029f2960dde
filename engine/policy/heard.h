/* SPDX-License-Identifier: MIT */
/* What every policy is told of the audio. Pure; positions in samples. */
#ifndef ASR_POLICY_HEARD_H
#define ASR_POLICY_HEARD_H

#include "engine/audio/gate.h"

G_BEGIN_DECLS

/**
 * AsrHeard: what is known of the audio.
 * @end: samples there are
 * @decided: before this the spans will not change
 * @spans: [n_spans] of speech, oldest first; the last may be open
 * @is_complete: nothing follows after @end
 */
typedef struct {
  gint64 end;
  gint64 decided;
  const AsrSpan *spans;
  guint n_spans;
  gboolean is_complete;
} AsrHeard;

/* First span that reaches beyond @position; n_spans if none does. */
static inline guint
asr_heard_find_span (const AsrHeard *heard, gint64 position)
{
  guint i = 0;

  while (i < heard->n_spans && heard->spans[i].end <= position)
    i++;
  return i;
}

G_END_DECLS

#endif
