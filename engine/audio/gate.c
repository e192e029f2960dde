/* SPDX-License-Identifier: MIT */
/*
 * Speech probabilities to spans of speech; see gate.h. The rules are those of
 * Silero's get_speech_timestamps (MIT), turned into a machine that never needs
 * to look ahead.
 */
#include "engine/audio/gate.h"

struct _AsrGate {
  AsrGateParams params;
  GArray *spans;          /* AsrSpan */
  gint64 position;
  gint64 last_end;        /* of the newest closed span, pad included */
  gboolean is_speech;
  gint64 speech_start;    /* while is_speech: first frame over threshold */
  gint64 silence_start;   /* while is_speech: frames under end_threshold
                           * since; -1: none */
  gboolean is_listed;     /* the open span is long enough to count */
};

AsrGate *
asr_gate_new (const AsrGateParams *params)
{
  AsrGate *gate = g_new0 (AsrGate, 1);

  gate->params = *params;
  gate->spans = g_array_new (FALSE, FALSE, sizeof (AsrSpan));
  gate->silence_start = -1;
  return gate;
}

void
asr_gate_free (AsrGate *gate)
{
  if (gate == NULL)
    return;
  g_array_unref (gate->spans);
  g_free (gate);
}

void
asr_gate_reset (AsrGate *gate)
{
  g_array_set_size (gate->spans, 0);
  gate->position = 0;
  gate->last_end = 0;
  gate->is_speech = FALSE;
  gate->is_listed = FALSE;
  gate->silence_start = -1;
}

/* Lists the open span once it is longer than what may be dropped. */
static void
list_open_span (AsrGate *gate, gint64 speech_end)
{
  AsrSpan span = { MAX (gate->last_end,
                       gate->speech_start - gate->params.pad_samples),
    G_MAXINT64 };

  if (gate->is_listed
      || speech_end - gate->speech_start <= gate->params.min_speech_samples)
    return;
  g_array_append_val (gate->spans, span);
  gate->is_listed = TRUE;
}

static void
close_span (AsrGate *gate, gint64 end)
{
  if (gate->is_listed) {
    gate->last_end = MIN (end + gate->params.pad_samples, gate->position);
    g_array_index (gate->spans, AsrSpan, gate->spans->len - 1).end
        = gate->last_end;
  }
  gate->is_speech = FALSE;
  gate->is_listed = FALSE;
  gate->silence_start = -1;
}

void
asr_gate_push (AsrGate *gate, float probability, guint n_samples)
{
  gint64 start = gate->position, end = start + n_samples;

  gate->position = end;
  if (probability >= gate->params.threshold) {
    gate->silence_start = -1;
    if (!gate->is_speech) {
      gate->is_speech = TRUE;
      gate->speech_start = start;
    }
  } else if (probability < gate->params.end_threshold && gate->is_speech
      && gate->silence_start < 0) {
    gate->silence_start = start;
  }
  if (!gate->is_speech)
    return;
  list_open_span (gate, gate->silence_start < 0 ? end : gate->silence_start);
  if (gate->silence_start >= 0
      && end - gate->silence_start >= gate->params.min_silence_samples)
    close_span (gate, gate->silence_start);
}

void
asr_gate_skip (AsrGate *gate, guint64 n_samples)
{
  gint64 start = gate->position;

  gate->position += n_samples;
  if (!gate->is_speech)
    return;
  if (gate->silence_start < 0)
    gate->silence_start = start;
  if (gate->position - gate->silence_start >= gate->params.min_silence_samples)
    close_span (gate, gate->silence_start);
}

void
asr_gate_finish (AsrGate *gate)
{
  if (gate->is_speech)
    close_span (gate, gate->silence_start < 0 ? gate->position
                                              : gate->silence_start);
}

gint64
asr_gate_get_position (const AsrGate *gate)
{
  return gate->position;
}

gint64
asr_gate_get_decided (const AsrGate *gate)
{
  gint64 pad = gate->params.pad_samples;

  if (gate->is_speech && gate->is_listed)
    /* up to the pad of a possible end it is speech in either case */
    return gate->silence_start < 0
        ? gate->position
        : MIN (gate->position, gate->silence_start + pad);
  /* a span may still begin, and its pad reaches back */
  return MAX (gate->last_end,
      (gate->is_speech ? gate->speech_start : gate->position) - pad);
}

const AsrSpan *
asr_gate_get_spans (const AsrGate *gate, guint *n)
{
  *n = gate->spans->len;
  return (const AsrSpan *) gate->spans->data;
}

void
asr_gate_forget (AsrGate *gate, gint64 sample)
{
  guint n = 0;

  while (n < gate->spans->len
      && g_array_index (gate->spans, AsrSpan, n).end <= sample)
    n++;
  if (n > 0)
    g_array_remove_range (gate->spans, 0, n);
}
