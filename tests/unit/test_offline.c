/* SPDX-License-Identifier: MIT */
/* The offline policy as tables: what is heard, and what must follow. */
#include "engine/policy/offline.h"

#define S(seconds) ((gint64) ((seconds) * 16000))
#define OPEN G_MAXINT64

static const AsrOfflineParams gated = { S (30), TRUE };
static const AsrOfflineParams open_door = { S (30), FALSE };

typedef struct {
  const char *name;
  const AsrOfflineParams *params;
  gint64 position, end, decided;
  gboolean is_complete;
  AsrSpan spans[4];
  guint n_spans;
  AsrOfflineAction action;
  gint64 step_start, step_end;
  gboolean is_cut;
} Case;

static const Case cases[] = {
  { "nothing yet", &gated, 0, 0, 0, FALSE, { { 0 } }, 0, ASR_OFFLINE_WAIT,
      0, 0 },
  { "nothing at all", &gated, 0, 0, 0, TRUE, { { 0 } }, 0, ASR_OFFLINE_END,
      0, 0 },
  { "silence so far", &gated, 0, S (5), S (4), FALSE, { { 0 } }, 0,
      ASR_OFFLINE_SILENCE, 0, S (4) },
  { "silence before speech", &gated, 0, S (9), S (8), FALSE,
      { { S (2), OPEN } }, 1, ASR_OFFLINE_SILENCE, 0, S (2) },
  { "speech goes on", &gated, S (2), S (9), S (8), FALSE,
      { { S (2), OPEN } }, 1, ASR_OFFLINE_WAIT, S (2), S (8) },
  { "speech fills a window", &gated, S (2), S (40), S (39), FALSE,
      { { S (2), OPEN } }, 1, ASR_OFFLINE_DECODE, S (2), S (32) },
  { "short pause", &gated, S (2), S (9), S (8), FALSE,
      { { S (2), S (6) }, { S (7), OPEN } }, 2, ASR_OFFLINE_WAIT, S (2),
      S (8) },
  { "long pause", &gated, S (2), S (12), S (11), FALSE,
      { { S (2), S (6) } }, 1, ASR_OFFLINE_DECODE, S (2), S (6.3), TRUE },
  { "pause may still end", &gated, S (2), S (9), S (8), FALSE,
      { { S (2), S (6) } }, 1, ASR_OFFLINE_WAIT, S (2), S (8) },
  { "end of audio in speech", &gated, S (2), S (9), S (9), TRUE,
      { { S (2), OPEN } }, 1, ASR_OFFLINE_DECODE, S (2), S (9), TRUE },
  { "end of audio after speech", &gated, S (2), S (9), S (9), TRUE,
      { { S (2), S (6) } }, 1, ASR_OFFLINE_DECODE, S (2), S (6.3), TRUE },
  { "silence to the end", &gated, S (6), S (9), S (9), TRUE,
      { { S (2), S (6) } }, 1, ASR_OFFLINE_SILENCE, S (6), S (9) },
  { "pause late in a window", &gated, S (2), S (25), S (24), FALSE,
      { { S (2), S (6) }, { S (7), S (16.9) }, { S (17.3), S (20) },
        { S (21), OPEN } }, 4, ASR_OFFLINE_DECODE, S (2), S (20.3), TRUE },
  { "pause that may still move", &gated, S (2), S (25), S (19.9), FALSE,
      { { S (2), S (20) } }, 1, ASR_OFFLINE_WAIT, S (2), S (19.9) },
  { "pause that may be short", &gated, S (2), S (25), S (20.5), FALSE,
      { { S (2), S (20) } }, 1, ASR_OFFLINE_WAIT, S (2), S (20.5) },
  { "short pause late in a window", &gated, S (2), S (25), S (24), FALSE,
      { { S (2), S (20) }, { S (20.25), OPEN } }, 2, ASR_OFFLINE_DECODE,
      S (2), S (20.125), TRUE },
  { "pause at the limit", &gated, S (2), S (40), S (39), FALSE,
      { { S (2), S (31.5) } }, 1, ASR_OFFLINE_DECODE, S (2), S (32) },
  { "no gate, wait", &open_door, 0, S (9), S (9), FALSE, { { 0 } }, 0,
      ASR_OFFLINE_WAIT, 0, S (9) },
  { "no gate, window", &open_door, S (1), S (31), S (31), FALSE, { { 0 } }, 0,
      ASR_OFFLINE_DECODE, S (1), S (31) },
  { "no gate, end", &open_door, S (1), S (9), S (9), TRUE, { { 0 } }, 0,
      ASR_OFFLINE_DECODE, S (1), S (9) },
};

static void
check_case (gconstpointer data)
{
  const Case *c = data;
  AsrOffline offline = { c->position, c->position, c->position };
  AsrHeard heard
      = { c->end, c->decided, c->spans, c->n_spans, c->is_complete };
  AsrOfflineStep step = asr_offline_next (&offline, c->params, &heard);

  g_assert_cmpint (step.action, ==, c->action);
  if (step.action == ASR_OFFLINE_SILENCE || step.action == ASR_OFFLINE_DECODE) {
    g_assert_cmpint (step.start, ==, c->step_start);
    g_assert_cmpint (step.end, ==, c->step_end);
    g_assert_false (step.is_doubtful);
  }
  if (step.action == ASR_OFFLINE_DECODE)
    g_assert_cmpint (step.is_cut, ==, c->is_cut);
}

/* After two minutes without speech the detector is not the only door. */
static void
check_doubt (void)
{
  AsrOffline offline = { 0 };
  AsrHeard heard = { 0, 0, NULL, 0, FALSE };
  guint n_windows = 0;

  for (guint second = 1; second <= 200; second++) {
    AsrOfflineStep step;

    heard.end = heard.decided = S (second);
    step = asr_offline_next (&offline, &gated, &heard);
    if (step.action == ASR_OFFLINE_SILENCE) {
      g_assert_cmpint (step.start, <, S (120));
      asr_offline_take_silence (&offline, step.end);
    } else if (step.action == ASR_OFFLINE_DECODE) {
      g_assert_true (step.is_doubtful);
      g_assert_cmpint (step.end - step.start, ==, S (30));
      asr_offline_take_text (&offline, &gated, &heard, &step, step.end);
      n_windows++;
    }
  }
  g_assert_cmpuint (n_windows, ==, 2); /* 120 to 150, 150 to 180 */
}

static void
check_progress (void)
{
  const AsrSpan spans[] = { { 0, S (6) }, { S (7), OPEN } };
  AsrHeard heard = { S (40), S (40), spans, 2, FALSE };
  AsrOffline offline = { 0 };
  AsrOfflineStep step = { ASR_OFFLINE_DECODE, 0, S (30) };

  /* a text that reached next to nothing must not be decoded for ever */
  g_assert_cmpint (asr_offline_take_text (&offline, &gated, &heard, &step,
      S (0.05)), ==, S (30));
  /* the rest of a span that can't hold a word goes with it */
  g_assert_cmpint (asr_offline_take_text (&offline, &gated, &heard, &step,
      S (5.8)), ==, S (6));
  g_assert_cmpint (asr_offline_take_text (&offline, &gated, &heard, &step,
      S (5.5)), ==, S (5.5));
  /* so does the decay of the last word before a long pause */
  step.is_cut = TRUE;
  step.end = S (6);
  g_assert_cmpint (asr_offline_take_text (&offline, &gated, &heard, &step,
      S (5.2)), ==, S (6));
  g_assert_cmpint (asr_offline_take_text (&offline, &gated, &heard, &step,
      S (4)), ==, S (4));
}

/* A sentence that the model skipped is decoded by itself, and only once. */
static void
check_hole (void)
{
  const AsrSpan spans[]
      = { { S (1), S (4) }, { S (6), S (9) }, { S (10), OPEN } };
  AsrHeard heard = { S (40), S (40), spans, 3, FALSE };
  AsrOffline offline = { S (1), S (1), S (1) };
  AsrOfflineStep step = asr_offline_next (&offline, &gated, &heard);
  gint64 hole;

  g_assert_cmpint (step.end, ==, S (31));
  /* pauses are no speech, and a second of it may be a breath */
  g_assert_cmpint (asr_offline_find_hole (&offline, &heard, S (3), S (6)), ==,
      -1);
  g_assert_cmpint (asr_offline_find_hole (&offline, &heard, S (8), S (10)),
      ==, -1);
  hole = asr_offline_find_hole (&offline, &heard, S (3.8), S (10.5));
  g_assert_cmpint (hole, ==, S (3.8));
  g_assert_cmpint (asr_offline_take_text (&offline, &gated, &heard, &step,
      hole), ==, hole);
  step = asr_offline_next (&offline, &gated, &heard);
  g_assert_cmpint (step.action, ==, ASR_OFFLINE_DECODE);
  g_assert_cmpint (step.start, ==, S (3.8));
  g_assert_cmpint (step.end, ==, S (10.5));
  /* nothing is understood in it again: the recording goes on */
  g_assert_cmpint (asr_offline_find_hole (&offline, &heard, S (3.8), S (10.5)),
      ==, -1);
  g_assert_cmpint (asr_offline_take_text (&offline, &gated, &heard, &step,
      step.end), ==, S (10.5));
  step = asr_offline_next (&offline, &gated, &heard);
  g_assert_cmpint (step.start, ==, S (10.5));
  g_assert_cmpint (step.end, ==, S (40));
}

/* ... also where it begins the window. */
static void
check_hole_at_start (void)
{
  const AsrSpan spans[] = { { S (0.25), S (3.5) }, { S (4.7), OPEN } };
  AsrHeard heard = { S (40), S (40), spans, 2, FALSE };
  AsrOffline offline = { S (0.25) };
  AsrOfflineStep step = asr_offline_next (&offline, &gated, &heard);
  gint64 hole
      = asr_offline_find_hole (&offline, &heard, step.start, S (4.7));

  g_assert_cmpint (hole, ==, S (0.25));
  asr_offline_take_text (&offline, &gated, &heard, &step, hole);
  step = asr_offline_next (&offline, &gated, &heard);
  g_assert_cmpint (step.start, ==, 0);
  g_assert_cmpint (step.end, ==, S (4.7));
}

/* A window has some of the silence around its speech, which no other has. */
static void
check_margins (void)
{
  const AsrSpan spans[] = { { S (2), S (5) }, { S (9), S (12) },
    { S (20), OPEN } };
  AsrHeard heard = { S (60), S (60), spans, 3, FALSE };
  AsrOffline offline = { 0 };
  static const AsrSpan windows[] = { { S (1.7), S (5.3) },
    { S (8.7), S (12.3) }, { S (19.7), S (49.7) } };

  for (guint i = 0; i < G_N_ELEMENTS (windows); i++) {
    AsrOfflineStep step = asr_offline_next (&offline, &gated, &heard);

    g_assert_cmpint (step.action, ==, ASR_OFFLINE_SILENCE);
    g_assert_cmpint (step.end, ==, spans[i].start);
    asr_offline_take_silence (&offline, step.end);
    g_assert_cmpint (asr_offline_get_needed (&offline), ==,
        windows[i].start);
    step = asr_offline_next (&offline, &gated, &heard);
    g_assert_cmpint (step.action, ==, ASR_OFFLINE_DECODE);
    g_assert_cmpint (step.start, ==, windows[i].start);
    g_assert_cmpint (step.end, ==, windows[i].end);
    asr_offline_take_text (&offline, &gated, &heard, &step, step.end);
    g_assert_cmpint (asr_offline_get_needed (&offline), ==, step.end);
  }
}

static void
check_snap (void)
{
  gint64 inside = 6000, inside_end = 6000, opened = 9500, opened_end = 9500;
  const AsrSpan is_open = { 9400, G_MAXINT64 };
  const AsrSpan spans[] = { { 1000, 2000 }, { 5000, 9000 } };
  static const struct { gint64 start, end, new_start, new_end;
                 gboolean begins; } cases[] = {
    { 1200, 1500, 1200, 1500 },   /* in speech: left alone */
    { 500, 1500, 1000, 1500 },    /* leaves the pause before */
    { 1500, 4000, 1500, 2000 },   /* ... and after */
    { 1900, 6000, 5000, 6000 },   /* over a pause: where most of it is */
    { 3000, 3400, 2000, 2000 },   /* in a pause: see below */
    { 4600, 4800, 5000, 5200 },
    { 1000, 5900, 1000, 2000 },
    { 1000, 5900, 5000, 5900, TRUE }, /* smeared over the pause before it */
    { 1000, 5100, 1000, 2000, TRUE }, /* hardly touches what comes after */
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    gint64 start = cases[i].start, end = cases[i].end;

    asr_offline_snap (spans, 2, cases[i].begins, &start, &end);
    if (i == 4) { /* nearest is the first span: its last samples */
      g_assert_cmpint (end, ==, 2000);
      g_assert_cmpint (start, ==, 1600);
      continue;
    }
    g_assert_cmpint (start, ==, cases[i].new_start);
    g_assert_cmpint (end, ==, cases[i].new_end);
  }
  /* a word without length that is in speech is where it belongs */
  asr_offline_snap (spans, 2, FALSE, &inside, &inside_end);
  g_assert_cmpint (inside, ==, 6000);
  g_assert_cmpint (inside_end, ==, 6000);
  asr_offline_snap (&is_open, 1, FALSE, &opened, &opened_end);
  g_assert_cmpint (opened, ==, 9500);
  g_assert_cmpint (opened_end, ==, 9500);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *path = g_strdup_printf ("/offline/%s", cases[i].name);

    g_test_add_data_func (path, &cases[i], check_case);
  }
  g_test_add_func ("/offline/doubt", check_doubt);
  g_test_add_func ("/offline/progress", check_progress);
  g_test_add_func ("/offline/hole", check_hole);
  g_test_add_func ("/offline/hole-at-start", check_hole_at_start);
  g_test_add_func ("/offline/margins", check_margins);
  g_test_add_func ("/offline/snap", check_snap);
  return g_test_run ();
}
