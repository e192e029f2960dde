/* SPDX-License-Identifier: MIT */
/* Which stretch of a recording to decode next; see offline.h. */
#include "engine/policy/offline.h"

/* A pause this long ends a window: Whisper fills longer ones with inventions.
 * Shorter windows cost whole encodes, so it is not less. */
#define MAX_PAUSE_SAMPLES (5 * 16000 / 2)
/* Any pause ends a window that is this part of the longest: words at a cut
 * are heard wrong, and so are their times. On ten minutes of English and of
 * Spanish this takes 33 encodes each, where full windows took 25 and 26. */
#define CUT_PART 0.5
/* Silence that a window has at either end, where there is so much: Whisper
 * hears the first and the last word better for it. */
#define MARGIN_SAMPLES (3 * 16000 / 10)
/* Speech of this length without a word in it was skipped by the model. */
#define MIN_HOLE_SAMPLES (3 * 16000 / 2)
/* What a text may leave of a cut window without another decode: the decay of
 * the last word. */
#define MIN_REST_SAMPLES 16000
/* ... and of a span within a window. */
#define MIN_SPAN_REST_SAMPLES (16000 / 4)
/* A window moves on by this much at least, or it ends. */
#define MIN_ADVANCE_SAMPLES 1600
/* After this long with under 1 % speech the detector is not believed. */
#define DOUBT_SAMPLES (120 * 16000)
/* A word that reaches this far into a span touches it. */
#define MIN_TOUCH_SAMPLES (16000 / 20)
/* A word that was in no span keeps at most this much. */
#define STRAY_WORD_SAMPLES (16000 / 10)

/* End of the window that begins in span @i: in the first pause that is long
 * enough, in the first after @soft_limit, or @limit. */
static gint64
find_cut (const AsrHeard *heard, guint i, gint64 soft_limit, gint64 limit,
    gboolean *is_cut)
{
  *is_cut = FALSE;
  for (; i < heard->n_spans; i++) {
    gint64 end = heard->spans[i].end, pause_end;
    gboolean is_last = i + 1 == heard->n_spans;

    if (end >= limit)
      return limit;
    pause_end = !is_last ? heard->spans[i + 1].start
        : heard->is_complete ? heard->end + MAX_PAUSE_SAMPLES
                             : MIN (heard->decided, limit);
    /* a margin does not depend on when it is asked for */
    if (is_last && pause_end - end < 2 * MARGIN_SAMPLES)
      return limit;
    if (pause_end - end >= MAX_PAUSE_SAMPLES || end >= soft_limit) {
      *is_cut = TRUE;
      return end + MIN (MARGIN_SAMPLES, (pause_end - end) / 2);
    }
  }
  return limit;
}

/* Silence before the position that no window has had. */
static gint64
get_margin (const AsrOffline *offline)
{
  return MIN (MARGIN_SAMPLES, offline->position - offline->silence_start);
}

static AsrOfflineStep
next_window (gint64 start, gint64 limit, gint64 end, gboolean is_ready)
{
  AsrOfflineStep step = { ASR_OFFLINE_WAIT, start, MIN (limit, end) };

  if (step.end > start && (is_ready || limit <= end))
    step.action = ASR_OFFLINE_DECODE;
  return step;
}

/* Neither speech nor a reason to doubt that: silence as far as is decided.
 * @speech: where speech begins, or G_MAXINT64 */
static AsrOfflineStep
next_quiet (const AsrOffline *offline, const AsrOfflineParams *params,
    const AsrHeard *heard, gint64 known, gint64 speech)
{
  gint64 start = offline->position, until = MIN (known, speech);
  AsrOfflineStep step = { ASR_OFFLINE_SILENCE, start, until };

  if (start - offline->quiet_start >= DOUBT_SAMPLES) {
    gint64 limit = start + params->max_window_samples;

    step = next_window (start, MIN (limit, speech), known,
        heard->is_complete);
    step.is_doubtful = TRUE;
  } else if (until <= start) {
    step.action = heard->is_complete ? ASR_OFFLINE_END : ASR_OFFLINE_WAIT;
  }
  return step;
}

AsrOfflineStep
asr_offline_next (const AsrOffline *offline, const AsrOfflineParams *params,
    const AsrHeard *heard)
{
  gint64 start = offline->position;
  gint64 limit = start + params->max_window_samples;
  gint64 known = heard->is_complete ? heard->end : heard->decided;
  AsrOfflineStep step = { ASR_OFFLINE_END, start, start };
  gboolean is_cut;
  guint i;

  if (heard->is_complete && start >= heard->end)
    return step;
  if (!params->use_gate)
    return next_window (start, limit, heard->end, heard->is_complete);
  i = asr_heard_find_span (heard, start);
  if (i == heard->n_spans)
    return next_quiet (offline, params, heard, known, G_MAXINT64);
  if (heard->spans[i].start > start)
    return next_quiet (offline, params, heard, known, heard->spans[i].start);
  start -= get_margin (offline);
  limit = start + params->max_window_samples;
  if (offline->position == offline->hole.start
      && offline->hole.start < offline->hole.end)
    limit = MIN (limit, offline->hole.end);
  limit = find_cut (heard, i,
      start + (gint64) (CUT_PART * params->max_window_samples), limit,
      &is_cut);
  step = next_window (start, limit, known, heard->is_complete);
  step.is_cut = is_cut || (heard->is_complete && step.end == heard->end);
  return step;
}

void
asr_offline_take_silence (AsrOffline *offline, gint64 end)
{
  offline->position = MAX (offline->position, end);
}

gint64
asr_offline_take_text (AsrOffline *offline, const AsrOfflineParams *params,
    const AsrHeard *heard, const AsrOfflineStep *step, gint64 reached)
{
  gboolean is_hole = reached == offline->hole.start
      && reached < offline->hole.end;

  if (is_hole) {
    if (reached > offline->position)
      offline->silence_start = reached;
    offline->position = reached;
    return reached;
  }
  if (reached - step->start < MIN_ADVANCE_SAMPLES || reached > step->end)
    reached = step->end;
  if (step->is_cut && step->end - reached < MIN_REST_SAMPLES)
    reached = step->end;
  if (params->use_gate && reached < step->end) {
    guint i = asr_heard_find_span (heard, reached);

    if (i < heard->n_spans && heard->spans[i].start <= reached
        && heard->spans[i].end - reached < MIN_SPAN_REST_SAMPLES)
      reached = MIN (heard->spans[i].end, step->end);
  }
  /* Under 1 % of two minutes is no speech to speak of. */
  if (!step->is_doubtful && reached - step->start > DOUBT_SAMPLES / 100)
    offline->quiet_start = reached;
  offline->position = offline->silence_start = reached;
  return reached;
}

gint64
asr_offline_get_needed (const AsrOffline *offline)
{
  return offline->position - get_margin (offline);
}

gint64
asr_offline_find_hole (AsrOffline *offline, const AsrHeard *heard,
    gint64 from, gint64 to)
{
  gint64 speech = 0, start = -1;

  for (guint i = 0; i < heard->n_spans; i++) {
    gint64 length = MIN (to, heard->spans[i].end)
        - MAX (from, heard->spans[i].start);

    if (length <= 0)
      continue;
    if (start < 0)
      start = MAX (from, heard->spans[i].start);
    speech += length;
  }
  if (speech < MIN_HOLE_SAMPLES || start < offline->hole.end)
    return -1;
  offline->hole = (AsrSpan){ start, to };
  return start;
}

void
asr_offline_snap (const AsrSpan *spans, guint n_spans, gboolean begins_phrase,
    gint64 *start, gint64 *end)
{
  gint64 best_overlap = 0, nearest_distance = G_MAXINT64;
  const AsrSpan *best = NULL, *nearest = NULL;

  for (guint i = 0; i < n_spans; i++) {
    gint64 overlap = MIN (*end, spans[i].end) - MAX (*start, spans[i].start);
    gint64 distance = MAX (spans[i].start - *end, *start - spans[i].end);

    if (overlap > best_overlap
        || (begins_phrase && overlap >= MIN_TOUCH_SAMPLES)) {
      best_overlap = overlap;
      best = &spans[i];
    }
    if (distance < nearest_distance) {
      nearest_distance = distance;
      nearest = &spans[i];
    }
  }
  if (best) {
    *start = MAX (*start, best->start);
    *end = MIN (*end, best->end);
  } else if (nearest && nearest_distance > 0) {
    gint64 length = MIN (*end - *start, STRAY_WORD_SAMPLES);
    gboolean is_before = nearest->start >= *end;

    length = MIN (length, nearest->end - nearest->start);
    *start = is_before ? nearest->start : nearest->end - length;
    *end = *start + length;
  }
}
