/* SPDX-License-Identifier: MIT */
/* The live policy: what is heard and decoded, and what must follow. */
#include "engine/policy/live.h"

#define S(seconds) ((gint64) ((seconds) * 16000))
#define OPEN G_MAXINT64

static const AsrLiveParams params
    = { S (30), S (3), S (0.5), S (0.25), TRUE, TRUE };

typedef struct {
  const char *name;
  AsrLive live;
  gint64 end, decided;
  gboolean is_complete;
  AsrSpan spans[3];
  guint n_spans;
  AsrLiveStep step;
} Case;

static const Case cases[] = {
  { "nothing yet", { 0 }, 0, 0, FALSE, { { 0 } }, 0, { ASR_LIVE_WAIT } },
  { "nothing at all", { 0 }, 0, 0, TRUE, { { 0 } }, 0, { ASR_LIVE_END } },
  { "silence", { 0 }, S (1), S (0.9), FALSE, { { 0 } }, 0,
      { ASR_LIVE_SILENCE, 0, S (0.9), FALSE, FALSE } },
  { "long silence", { S (5), S (1), S (4), S (4) }, S (7), S (6.9), FALSE,
      { { 0 } }, 0, { ASR_LIVE_SILENCE, S (5), S (6.9), FALSE, TRUE } },
  { "short silence", { S (5), S (1), S (4), S (5) }, S (6), S (5.9), FALSE,
      { { 0 } }, 0, { ASR_LIVE_SILENCE, S (5), S (5.9), FALSE, FALSE } },
  { "silence before speech", { 0 }, S (3), S (2), FALSE, { { S (2), OPEN } },
      1, { ASR_LIVE_SILENCE, 0, S (2), FALSE, TRUE } },
  { "too little speech", { S (2), S (1.7) }, S (2.4), S (2.4), FALSE,
      { { S (2), OPEN } }, 1, { ASR_LIVE_WAIT } },
  { "first step", { S (2), S (1.7) }, S (2.5), S (2.5), FALSE,
      { { S (2), OPEN } }, 1, { ASR_LIVE_DECODE, S (1.7), S (2.5) } },
  { "not yet the next", { S (2), S (1.7), S (2.5) }, S (2.9), S (2.9), FALSE,
      { { S (2), OPEN } }, 1, { ASR_LIVE_WAIT } },
  { "next step", { S (2), S (1.7), S (2.5) }, S (3.1), S (3.1), FALSE,
      { { S (2), OPEN } }, 1, { ASR_LIVE_DECODE, S (1.7), S (3.1) } },
  { "pause", { S (3), S (1.7), S (3.5) }, S (4.5), S (4.4), FALSE,
      { { S (2), S (3.9) } }, 1,
      { ASR_LIVE_DECODE, S (1.7), S (4.2), TRUE } },
  { "end of audio in speech", { S (3), S (1.7), S (3.5) }, S (3.6), S (3.6),
      TRUE, { { S (2), OPEN } }, 1,
      { ASR_LIVE_DECODE, S (1.7), S (3.6), TRUE } },
  { "too slow", { S (2), S (2), S (8) }, S (22.1), S (22.1), FALSE,
      { { S (2), OPEN } }, 1, { ASR_LIVE_SKIP, S (2), S (19.1), FALSE, TRUE } },
  { "all told", { S (9), S (5), S (9), S (9) }, S (9), S (9), TRUE,
      { { S (2), S (9) } }, 1, { ASR_LIVE_END } },
  { "all told, span open", { S (9), S (5), S (9), S (9) }, S (9), S (9), TRUE,
      { { 0, OPEN } }, 1, { ASR_LIVE_END } },
};

static void
check_case (gconstpointer data)
{
  const Case *c = data;
  AsrHeard heard
      = { c->end, c->decided, c->spans, c->n_spans, c->is_complete };
  AsrLiveStep step = asr_live_next (&c->live, &params, &heard);

  g_assert_cmpint (step.action, ==, c->step.action);
  if (step.action == ASR_LIVE_WAIT || step.action == ASR_LIVE_END)
    return;
  g_assert_cmpint (step.start, ==, c->step.start);
  g_assert_cmpint (step.end, ==, c->step.end);
  g_assert_cmpint (step.is_last, ==, c->step.is_last);
  if (step.action == ASR_LIVE_SILENCE)
    g_assert_cmpint (step.is_anew, ==, c->step.is_anew);
}

/* What is final: agreed words away from the newest audio, and old ones. */
static void
check_final (void)
{
  static const AsrSpan spans[] = { { S (2), OPEN } };
  static const AsrSpan words[] = { { S (2.0), S (2.3) }, { S (2.3), S (2.6) },
    { S (2.6), S (2.95) } };
  AsrHeard heard = { S (3), S (3), spans, 1, FALSE };
  static const struct {
    guint n_agreed;
    double end, latency;
    gboolean is_last, needs_agreement;
    guint n_final;
  } cases[] = {
    { 0, 3.0, 3.0, FALSE, TRUE, 0 },
    { 1, 3.0, 3.0, FALSE, TRUE, 1 },  /* ends 0.7 s before the newest */
    { 3, 3.0, 3.0, FALSE, TRUE, 1 },  /* the others are too new */
    { 3, 3.0, 1.6, FALSE, TRUE, 2 },  /* less is held back: 0.4 s */
    { 3, 3.7, 9.0, FALSE, TRUE, 3 },
    { 0, 3.0, 3.0, TRUE, TRUE, 3 },   /* nothing follows */
    { 0, 3.9, 3.0, FALSE, TRUE, 1 },  /* 3 - 0.5 - 2 * 0.25 - 0.15 s */
    { 0, 3.0, 9.0, FALSE, FALSE, 0 }, /* one decode alone: 1.4 s */
    { 0, 4.0, 9.0, FALSE, FALSE, 2 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    AsrLive live = { S (2), S (1.7), S (2.5) };
    AsrLiveParams p = params;
    AsrLiveStep step
        = { ASR_LIVE_DECODE, S (1.7), S (cases[i].end), cases[i].is_last };
    guint n_final;

    p.latency_samples = S (cases[i].latency);
    p.needs_agreement = cases[i].needs_agreement;
    n_final = asr_live_take_text (&live, &p, &heard, &step, words, 3,
        cases[i].n_agreed);
    g_assert_cmpuint (n_final, ==, cases[i].n_final);
    if (n_final > 0)
      g_assert_cmpint (live.position, >=, words[n_final - 1].end);
  }
}

/* The position keeps the promise where nothing is understood. */
static void
check_promise (void)
{
  static const AsrSpan spans[] = { { 0, OPEN } };
  AsrLive live = { 0 };

  for (guint i = 1; i < 200; i++) {
    AsrHeard heard = { S (i / 10.0), S (i / 10.0), spans, 1, FALSE };
    AsrLiveStep step = asr_live_next (&live, &params, &heard);

    if (step.action == ASR_LIVE_DECODE)
      asr_live_take_text (&live, &params, &heard, &step, NULL, 0, 0);
    g_assert_cmpint (heard.end - live.position, <=, params.latency_samples);
  }
}

/* A word that closes its span moves the position to the span's end, and the
 * next span goes on in the same window. */
static void
check_utterance (void)
{
  static const AsrSpan spans[] = { { S (2), S (4) }, { S (4.5), OPEN } };
  static const AsrSpan word = { S (3), S (3.6) };
  AsrHeard heard = { S (5.1), S (5.1), spans, 2, FALSE };
  AsrLive live = { S (2), S (1.7), S (3.5) };
  AsrLiveStep step = asr_live_next (&live, &params, &heard);

  g_assert_true (step.is_last);
  asr_live_take_text (&live, &params, &heard, &step, &word, 1, 0);
  g_assert_cmpint (live.position, ==, S (4));
  g_assert_cmpint (live.speech_end, ==, S (4));
  step = asr_live_next (&live, &params, &heard);
  g_assert_cmpint (step.action, ==, ASR_LIVE_SILENCE);
  g_assert_false (step.is_anew);
  asr_live_take_silence (&live, &step);
  step = asr_live_next (&live, &params, &heard);
  g_assert_cmpint (step.action, ==, ASR_LIVE_DECODE);
  g_assert_cmpint (step.start, ==, S (1.7));
  g_assert_false (asr_live_is_long (&live, &params));
  asr_live_shorten (&live, S (3.6));
  g_assert_cmpint (live.start, ==, S (3.6));
  g_assert_cmpint (asr_live_get_needed (&live), ==, S (3.6));
  asr_live_shorten (&live, S (1)); /* never back */
  g_assert_cmpint (live.start, ==, S (3.6));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *path = g_strdup_printf ("/live/%s", cases[i].name);

    g_test_add_data_func (path, &cases[i], check_case);
  }
  g_test_add_func ("/live/final", check_final);
  g_test_add_func ("/live/promise", check_promise);
  g_test_add_func ("/live/utterance", check_utterance);
  return g_test_run ();
}
