/* SPDX-License-Identifier: MIT */
/*
 * Speech probabilities to spans of speech; see gate.h. The rules are those of
 * Silero's get_speech_timestamps (MIT), turned into a machine that takes one
 * frame at a time: a span is listed as soon as it can't be dropped any more,
 * and the pad behind the newest one grows and shrinks until the next begins.
 */
#include "engine/audio/gate.h"

/* Silero lets a pause whose frames came to lie between the two thresholds
 * stay undecided for ever; a stream can't wait so long. */
#define MAX_DOUBT_SAMPLES 32000

struct _AsrGate {
  AsrGateParams params;
  GArray *spans;          /* AsrSpan */
  gint64 position;
  gint64 last_end;        /* of the newest closed span, without pad; -1: none */
  gboolean is_speech;
  gint64 speech_start;    /* while is_speech: first frame over threshold */
  gint64 silence_start;   /* while is_speech: first frame under
                           * end_threshold since the last over threshold;
                           * -1: none */
  gboolean is_listed;     /* the open span is long enough to count */
};

AsrGate *
asr_gate_new (const AsrGateParams *params)
{
  AsrGate *gate = g_new0 (AsrGate, 1);

  gate->params = *params;
  gate->spans = g_array_new (FALSE, FALSE, sizeof (AsrSpan));
  asr_gate_reset (gate);
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
  gate->last_end = -1;
  gate->is_speech = FALSE;
  gate->is_listed = FALSE;
  gate->silence_start = -1;
}

/* Pad on either side of the silence between the newest closed span and speech
 * that begins at @start: half of a short one each. */
static gint64
get_pad (const AsrGate *gate, gint64 start)
{
  gint64 pad = gate->params.pad_samples;

  return gate->last_end < 0 ? pad : MIN (pad, (start - gate->last_end) / 2);
}

/* Moves the end of the newest closed span, unless it was forgotten. */
static void
set_last_end (AsrGate *gate, gint64 end)
{
  if (gate->last_end >= 0 && !gate->is_listed && gate->spans->len > 0)
    g_array_index (gate->spans, AsrSpan, gate->spans->len - 1).end = end;
}

/* Lists the open span once it is longer than what may be dropped. */
static void
list_open_span (AsrGate *gate, gint64 speech_end)
{
  gint64 pad = get_pad (gate, gate->speech_start);
  AsrSpan span = { MAX (0, gate->speech_start - pad), G_MAXINT64 };

  if (gate->is_listed
      || speech_end - gate->speech_start <= gate->params.min_speech_samples)
    return;
  set_last_end (gate, gate->last_end + pad);
  g_array_append_val (gate->spans, span);
  gate->is_listed = TRUE;
}

static void
close_span (AsrGate *gate, gint64 end)
{
  if (gate->is_listed)
    gate->last_end = end;
  gate->is_speech = FALSE;
  gate->is_listed = FALSE;
  gate->silence_start = -1;
}

/* After the position moved. */
static void
grow_last_pad (AsrGate *gate)
{
  set_last_end (gate,
      MIN (gate->last_end + gate->params.pad_samples, gate->position));
}

/* Whether the pause has become one that ends the span. It is counted up to
 * the start of the frame, as Silero does. */
static gboolean
is_pause (const AsrGate *gate, float probability, gint64 frame_start)
{
  gint64 length = frame_start - gate->silence_start;
  gint64 least = gate->params.min_silence_samples;

  if (gate->silence_start < 0)
    return FALSE;
  return probability < gate->params.end_threshold
      ? length >= least
      : length >= least + MAX_DOUBT_SAMPLES;
}

void
asr_gate_push (AsrGate *gate, float probability, guint n_samples)
{
  gint64 start = gate->position;

  gate->position += n_samples;
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
  if (gate->is_speech)
    list_open_span (gate,
        gate->silence_start < 0 ? gate->position : gate->silence_start);
  if (is_pause (gate, probability, start))
    close_span (gate, gate->silence_start);
  grow_last_pad (gate);
}

void
asr_gate_skip (AsrGate *gate, guint64 n_samples)
{
  gint64 start = gate->position;

  if (n_samples == 0)
    return;
  gate->position += MIN (n_samples, (guint64) (G_MAXINT64 / 2 - start));
  if (gate->is_speech && gate->silence_start < 0)
    gate->silence_start = start;
  if (gate->is_speech
      && gate->position - gate->silence_start
          >= gate->params.min_silence_samples)
    close_span (gate, gate->silence_start);
  grow_last_pad (gate);
}

void
asr_gate_finish (AsrGate *gate)
{
  if (!gate->is_speech)
    return;
  list_open_span (gate, gate->position);
  close_span (gate, gate->position);
  grow_last_pad (gate);
}

gint64
asr_gate_get_position (const AsrGate *gate)
{
  return gate->position;
}

gint64
asr_gate_get_decided (const AsrGate *gate)
{
  gint64 pad = gate->params.pad_samples, next;

  if (gate->is_listed && gate->silence_start < 0)
    return gate->position;
  if (gate->is_listed) {
    /* it may end here, and at least this much of the pause will be its pad */
    gint64 pause = MAX (gate->position - gate->silence_start,
        gate->params.min_silence_samples);

    return MIN (gate->position,
        gate->silence_start + MIN (pad, pause / 2));
  }
  /* a span may begin here or later, and its pad reaches back */
  next = gate->is_speech ? gate->speech_start : gate->position;
  return gate->last_end < 0
      ? MAX (0, next - pad)
      : MAX (gate->last_end + get_pad (gate, next), next - pad);
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
