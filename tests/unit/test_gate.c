/* SPDX-License-Identifier: MIT */
/*
 * Spans of speech against what Silero's own code makes of the same
 * probabilities (tests/data/gate.tsv, written by
 * tests/tools/make_vad_data.py), and what a streaming reader is promised.
 */
#include "engine/audio/gate.h"
#include <math.h>
#include <stdlib.h>

#define FRAME 512

typedef struct {
  AsrGateParams params;
  guint n_last;          /* samples in the last frame */
  float *probabilities;
  guint n;
  GArray *spans;         /* AsrSpan */
} Case;

static void
case_clear (gpointer data)
{
  Case *one = data;

  g_free (one->probabilities);
  g_array_unref (one->spans);
}

static void
parse_case (char **fields, Case *one)
{
  g_auto (GStrv) values = g_strsplit (fields[6], " ", -1);
  g_auto (GStrv) spans = g_strsplit (fields[7], " ", -1);
  guint n_spans = fields[7][0] ? g_strv_length (spans) : 0;

  one->params = (AsrGateParams){ g_ascii_strtod (fields[0], NULL),
    g_ascii_strtod (fields[1], NULL), atoi (fields[2]), atoi (fields[3]),
    atoi (fields[4]) };
  one->n_last = atoi (fields[5]);
  one->n = fields[6][0] ? g_strv_length (values) : 0;
  one->probabilities = g_new (float, one->n + 1);
  for (guint i = 0; i < one->n; i++)
    one->probabilities[i] = (float) (atoi (values[i]) / 1000.0);
  one->spans = g_array_new (FALSE, FALSE, sizeof (AsrSpan));
  for (guint i = 0; i < n_spans; i++) {
    char *end;
    AsrSpan span = { g_ascii_strtoll (spans[i], &end, 10) };

    span.end = g_ascii_strtoll (end + 1, NULL, 10);
    g_array_append_val (one->spans, span);
  }
}

static GArray *
read_cases (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "gate.tsv",
      NULL);
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;
  GArray *cases = g_array_new (FALSE, TRUE, sizeof (Case));

  g_array_set_clear_func (cases, case_clear);
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] && lines[i][0]; i++) {
    g_auto (GStrv) fields = g_strsplit (lines[i], "\t", -1);
    Case one = { 0 };

    g_assert_cmpuint (g_strv_length (fields), ==, 8);
    parse_case (fields, &one);
    g_array_append_val (cases, one);
  }
  g_assert_cmpuint (cases->len, >=, 300);
  return cases;
}

static void
push_frame (AsrGate *gate, const Case *one, guint i)
{
  asr_gate_push (gate, one->probabilities[i],
      i + 1 < one->n ? FRAME : one->n_last);
}

static void
assert_spans (AsrGate *gate, const AsrSpan *expected, guint n_expected)
{
  guint n;
  const AsrSpan *spans = asr_gate_get_spans (gate, &n);

  g_assert_cmpuint (n, ==, n_expected);
  for (guint i = 0; i < n; i++) {
    g_assert_cmpint (spans[i].start, ==, expected[i].start);
    g_assert_cmpint (spans[i].end, ==, expected[i].end);
  }
}

static void
test_silero (void)
{
  g_autoptr (GArray) cases = read_cases ();

  for (guint i = 0; i < cases->len; i++) {
    const Case *one = &g_array_index (cases, Case, i);
    g_autoptr (AsrGate) gate = asr_gate_new (&one->params);

    for (guint k = 0; k < one->n; k++)
      push_frame (gate, one, k);
    asr_gate_finish (gate);
    assert_spans (gate, (AsrSpan *) one->spans->data, one->spans->len);
    g_assert_cmpint (asr_gate_get_position (gate), ==,
        one->n ? (one->n - 1) * FRAME + one->n_last : 0);
  }
}

/* Asserts that spans until @decided are the same in both lists. */
static void
assert_same_until (gint64 decided, const AsrSpan *a, guint n_a,
    const AsrSpan *b, guint n_b)
{
  guint i = 0;

  while (i < n_a && a[i].start < decided) {
    g_assert_cmpuint (i, <, n_b);
    g_assert_cmpint (a[i].start, ==, b[i].start);
    g_assert_cmpint (MIN (a[i].end, decided), ==, MIN (b[i].end, decided));
    i++;
  }
  g_assert_true (i == n_b || b[i].start >= decided);
}

/* What was decided at any time is what it is in the end. */
static void
check_decided (const Case *one)
{
  g_autoptr (AsrGate) gate = asr_gate_new (&one->params);
  gint64 before = 0;

  for (guint i = 0; i < one->n; i++) {
    guint n;
    const AsrSpan *spans;
    gint64 decided;

    push_frame (gate, one, i);
    spans = asr_gate_get_spans (gate, &n);
    decided = asr_gate_get_decided (gate);
    g_assert_cmpint (decided, >=, before);
    g_assert_cmpint (decided, <=, asr_gate_get_position (gate));
    assert_same_until (decided, spans, n, (AsrSpan *) one->spans->data,
        one->spans->len);
    before = decided;
  }
}

static void
test_decided (void)
{
  g_autoptr (GArray) cases = read_cases ();

  for (guint i = 0; i < cases->len; i++)
    check_decided (&g_array_index (cases, Case, i));
}

/* With everything before what is decided forgotten, the rest is the same. */
static void
test_forget (void)
{
  g_autoptr (GArray) cases = read_cases ();

  for (guint i = 0; i < cases->len; i++) {
    const Case *one = &g_array_index (cases, Case, i);
    g_autoptr (AsrGate) gate = asr_gate_new (&one->params);
    g_autoptr (GArray) seen = g_array_new (FALSE, FALSE, sizeof (AsrSpan));
    const AsrSpan *spans;
    guint n;

    for (guint k = 0; k < one->n; k++) {
      gint64 decided;

      push_frame (gate, one, k);
      decided = asr_gate_get_decided (gate);
      spans = asr_gate_get_spans (gate, &n);
      for (guint s = 0; s < n && spans[s].end <= decided; s++)
        g_array_append_val (seen, spans[s]);
      asr_gate_forget (gate, decided);
      spans = asr_gate_get_spans (gate, &n);
      g_assert_true (n == 0 || spans[0].end > decided);
    }
    asr_gate_finish (gate);
    spans = asr_gate_get_spans (gate, &n);
    g_array_append_vals (seen, spans, n);
    g_assert_cmpuint (seen->len, ==, one->spans->len);
    for (guint s = 0; s < seen->len; s++) {
      g_assert_cmpint (g_array_index (seen, AsrSpan, s).start, ==,
          g_array_index (one->spans, AsrSpan, s).start);
      g_assert_cmpint (g_array_index (seen, AsrSpan, s).end, ==,
          g_array_index (one->spans, AsrSpan, s).end);
    }
  }
}

static void
push_n (AsrGate *gate, float probability, guint n)
{
  for (guint i = 0; i < n; i++)
    asr_gate_push (gate, probability, FRAME);
}

/* A gap is silence, even where a frame would be long speech. */
static void
test_gap (void)
{
  const AsrGateParams params = ASR_GATE_PARAMS_DEFAULT;
  g_autoptr (AsrGate) gate = asr_gate_new (&params);
  static const AsrSpan spans[] = { { 3520, 16960 }, { 1031168, 1044608 } };

  push_n (gate, 0, 10);
  push_n (gate, 0.9f, 20);
  asr_gate_skip (gate, 0);
  g_assert_cmpint (asr_gate_get_decided (gate), ==, 15360);
  asr_gate_skip (gate, 1000000);
  g_assert_cmpint (asr_gate_get_position (gate), ==, 1015360);
  g_assert_cmpint (asr_gate_get_decided (gate), ==, 1013760);
  assert_spans (gate, spans, 1);
  push_n (gate, 0.1f, 34);
  push_n (gate, 0.9f, 20);
  asr_gate_skip (gate, G_MAXUINT64);
  assert_spans (gate, spans, 2);
}

/* A short gap is a short pause, and no pad reaches beyond what was judged. */
static void
test_short_gap (void)
{
  const AsrGateParams params = ASR_GATE_PARAMS_DEFAULT;
  g_autoptr (AsrGate) gate = asr_gate_new (&params);
  static const AsrSpan open[] = { { 0, G_MAXINT64 } };
  static const AsrSpan closed[] = { { 0, 10560 } };

  push_n (gate, 0.9f, 10);
  asr_gate_skip (gate, 320);
  push_n (gate, 0.9f, 10);
  assert_spans (gate, open, 1);
  asr_gate_finish (gate);
  assert_spans (gate, closed, 1);
  asr_gate_finish (gate);
  assert_spans (gate, closed, 1);
  asr_gate_forget (gate, 10559);
  assert_spans (gate, closed, 1);
  asr_gate_forget (gate, 10560);
  assert_spans (gate, NULL, 0);
}

/* Frames between the thresholds may hold a decision up, but not for ever. */
static void
test_doubt (void)
{
  const AsrGateParams params = ASR_GATE_PARAMS_DEFAULT;
  static const guint n_speech[] = { 2, 20 };

  for (guint i = 0; i < G_N_ELEMENTS (n_speech); i++) {
    g_autoptr (AsrGate) gate = asr_gate_new (&params);

    push_n (gate, 0.9f, n_speech[i]);
    push_n (gate, 0.1f, 1);
    for (guint k = 0; k < 300; k++) {
      push_n (gate, 0.4f, 1);
      g_assert_cmpint (asr_gate_get_position (gate)
              - asr_gate_get_decided (gate), <=, 3 * 16000);
    }
  }
}

static void
test_reset (void)
{
  const AsrGateParams params = ASR_GATE_PARAMS_DEFAULT;
  g_autoptr (AsrGate) gate = asr_gate_new (&params);

  push_n (gate, 0.9f, 40);
  asr_gate_reset (gate);
  assert_spans (gate, NULL, 0);
  g_assert_cmpint (asr_gate_get_position (gate), ==, 0);
  g_assert_cmpint (asr_gate_get_decided (gate), ==, 0);
  asr_gate_finish (gate);
  assert_spans (gate, NULL, 0);
  push_n (gate, (float) NAN, 40);
  assert_spans (gate, NULL, 0);
  asr_gate_free (NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/gate/silero", test_silero);
  g_test_add_func ("/gate/decided", test_decided);
  g_test_add_func ("/gate/forget", test_forget);
  g_test_add_func ("/gate/gap", test_gap);
  g_test_add_func ("/gate/short-gap", test_short_gap);
  g_test_add_func ("/gate/doubt", test_doubt);
  g_test_add_func ("/gate/reset", test_reset);
  return g_test_run ();
}
