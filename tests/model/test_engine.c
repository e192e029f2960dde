/* SPDX-License-Identifier: MIT */
/*
 * The public interface with a generated model that says one fixed script in
 * every window (make_tiny_model.py): streams side by side, resets, cancels,
 * commits, gaps, and what must be refused. ASR_TEST_BACKEND: where, the CPU
 * if not set.
 */
#include "engine/asr.h"

#include <string.h>

#define SCRIPT "hello world, the quick brown fox. a test of café."
#define S(seconds) ((guint) ((seconds) * ASR_SAMPLE_RATE))

static AsrEngine *
make_engine (void)
{
  AsrEngineParams params = ASR_ENGINE_PARAMS_DEFAULT;
  g_autoptr (GError) error = NULL;
  AsrEngine *engine;

  params.model = g_getenv ("TINY_MODEL");
  params.backend = g_getenv ("ASR_TEST_BACKEND");
  if (!params.backend)
    params.backend = "cpu";
  params.n_threads = 2;
  engine = asr_engine_new (&params, NULL, NULL, &error);
  g_assert_no_error (error);
  return engine;
}

static AsrStream *
make_stream (AsrEngine *engine)
{
  AsrStreamParams params = ASR_STREAM_PARAMS_DEFAULT;
  g_autoptr (GError) error = NULL;
  AsrStream *stream;
  guint index;

  params.language = "en";
  params.vad = FALSE;
  stream = asr_stream_new (engine, &params, &error);
  g_assert_no_error (error);
  g_assert_true (asr_stream_add_output (stream, ASR_TASK_TRANSCRIBE, &index,
      &error));
  g_assert_cmpuint (index, ==, 0);
  return stream;
}

/* Noise; waits for room. */
static void
push (AsrStream *stream, guint n)
{
  float chunk[1600];

  for (guint i = 0; i < G_N_ELEMENTS (chunk); i++)
    chunk[i] = (gint) (i * 7919 % 2001 - 1000) / 32768.0f;
  while (n > 0) {
    gsize n_taken
        = asr_stream_push (stream, chunk, MIN (n, G_N_ELEMENTS (chunk)));

    n -= n_taken;
    if (n_taken == 0)
      g_usleep (1000);
  }
}

/* Text of an output up to its END, or up to sample @until; segments must
 * follow each other without holes. */
static char *
collect (AsrStream *stream, guint output, gint64 until)
{
  GString *text = g_string_new (NULL);
  gint64 deadline = g_get_monotonic_time () + 60 * G_USEC_PER_SEC;
  gint64 told = 0;
  gboolean is_done = FALSE;

  while (!is_done && told < until) {
    g_autoptr (GError) error = NULL;
    g_autoptr (AsrSegment) segment = asr_stream_pull (stream, &error);

    g_assert_no_error (error);
    g_assert_cmpint (g_get_monotonic_time (), <, deadline);
    if (segment == NULL) {
      g_usleep (1000);
      continue;
    }
    if (segment->output != output)
      continue;
    is_done = segment->type == ASR_SEGMENT_END;
    g_assert_cmpint (segment->start, ==, told);
    told = segment->end;
    for (guint i = 0; i < segment->n_words; i++) {
      const AsrWord *word = &segment->words[i];

      g_assert_cmpint (word->start, <=, word->end);
      g_assert_cmpint (word->end, <=, segment->end);
      g_assert_cmpfloat (word->confidence, <=, 1);
      if (text->len > 0 && word->space_before)
        g_string_append_c (text, ' ');
      g_string_append (text, word->text);
    }
  }
  return g_string_free (text, FALSE);
}

static gpointer
run_stream (gpointer engine)
{
  g_autoptr (AsrStream) stream = make_stream (engine);
  g_autofree char *text = NULL;

  push (stream, S (15));
  asr_stream_drain (stream);
  text = collect (stream, 0, G_MAXINT64);
  g_assert_cmpstr (text, ==, SCRIPT);
  return NULL;
}

/* More streams than slots share one worker and one batch. */
static void
check_side_by_side (void)
{
  g_autoptr (AsrEngine) engine = make_engine ();
  GThread *threads[12];

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("user", run_stream, engine);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
}

static void
check_reset (void)
{
  g_autoptr (AsrEngine) engine = make_engine ();
  g_autoptr (AsrStream) stream = make_stream (engine);
  g_autofree char *text = NULL;

  for (guint i = 0; i < 10; i++) {
    push (stream, S (31));
    g_usleep (i * 5000);
    asr_stream_reset (stream);
  }
  push (stream, S (15));
  asr_stream_drain (stream);
  g_assert_cmpuint (asr_stream_push (stream, (float[1]){ 0 }, 1), ==, 0);
  text = collect (stream, 0, G_MAXINT64);
  g_assert_cmpstr (text, ==, SCRIPT);
}

static void
check_cancel (void)
{
  g_autoptr (AsrEngine) engine = make_engine ();

  for (guint i = 0; i < 20; i++) {
    g_autoptr (AsrStream) stream = make_stream (engine);

    push (stream, S (31));
    g_usleep (i * 2000);
    if (i % 2)
      asr_stream_cancel (stream);
    /* freed in the middle of a window */
  }
}

/* What was heard becomes final without an end; more may follow. */
static void
check_commit (void)
{
  g_autoptr (AsrEngine) engine = make_engine ();
  g_autoptr (AsrStream) stream = make_stream (engine);
  g_autofree char *text = NULL;

  push (stream, S (15));
  asr_stream_commit (stream);
  text = collect (stream, 0, S (15));
  g_assert_cmpstr (text, ==, SCRIPT);
}

static void
check_gap (void)
{
  g_autoptr (AsrEngine) engine = make_engine ();
  g_autoptr (AsrStream) stream = make_stream (engine);
  AsrStats stats;
  g_autofree char *text = NULL;

  asr_stream_skip (stream, S (3600)); /* an hour costs no memory */
  push (stream, S (1));
  asr_stream_drain (stream);
  text = collect (stream, 0, G_MAXINT64);
  asr_stream_get_stats (stream, &stats);
  g_assert_cmpuint (stats.pushed_samples, ==, S (3601));
  g_assert_cmpuint (stats.decoded_samples, ==, S (3601));
  g_assert_cmpuint (stats.backlog_samples, <=, S (2));
}

static void
check_refusals (void)
{
  g_autoptr (AsrEngine) engine = make_engine ();
  g_autoptr (AsrStream) stream = make_stream (engine);
  AsrStreamParams params = ASR_STREAM_PARAMS_DEFAULT;
  AsrEngineParams engine_params = ASR_ENGINE_PARAMS_DEFAULT;
  g_autoptr (GError) error = NULL;

  g_assert_false (asr_stream_set_language (stream, "klingon", &error));
  g_assert_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT);
  g_clear_error (&error);
  g_assert_true (asr_stream_set_language (stream, "en-US", &error));
  params.language = "xx";
  g_assert_null (asr_stream_new (engine, &params, &error));
  g_assert_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT);
  g_clear_error (&error);

  g_assert_null (asr_engine_new (&engine_params, NULL, NULL, &error));
  g_assert_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT);
  g_clear_error (&error);
  engine_params.model = g_getenv ("TINY_MODEL");
  engine_params.backend = "abacus";
  g_assert_null (asr_engine_new (&engine_params, NULL, NULL, &error));
  g_assert_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT);
  g_clear_error (&error);
  engine_params.backend = "cpu";
  engine_params.compute_type = ASR_COMPUTE_F16;
  g_assert_null (asr_engine_new (&engine_params, NULL, NULL, &error));
  g_assert_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED);
  g_clear_error (&error);
  g_assert_false (asr_model_check ("/nowhere", NULL, &error));
  g_assert_error (error, ASR_ERROR, ASR_ERROR_NOT_FOUND);
}

static gboolean
stop_early (double fraction, gpointer user_data)
{
  return fraction < 0.3;
}

static void
check_cancelled_load (void)
{
  AsrEngineParams params = ASR_ENGINE_PARAMS_DEFAULT;
  g_autoptr (GError) error = NULL;

  params.model = g_getenv ("TINY_MODEL");
  params.backend = "cpu";
  g_assert_null (asr_engine_new (&params, stop_early, NULL, &error));
  g_assert_error (error, ASR_ERROR, ASR_ERROR_CANCELLED);
}

/* Two texts of one encode. */
static void
check_two_outputs (void)
{
  g_autoptr (AsrEngine) engine = make_engine ();
  g_autoptr (AsrStream) stream = make_stream (engine);
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL;
  guint index;

  if (!asr_engine_get_info (engine)->can_translate) {
    g_assert_false (asr_stream_add_output (stream, ASR_TASK_TRANSLATE, &index,
        &error));
    g_assert_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED);
    return;
  }
  g_assert_true (asr_stream_add_output (stream, ASR_TASK_TRANSLATE, &index,
      &error));
  g_assert_cmpuint (index, ==, 1);
  push (stream, S (15));
  asr_stream_drain (stream);
  text = collect (stream, 1, G_MAXINT64);
  g_assert_cmpstr (text, ==, SCRIPT);
}

/* What is promised to a live stream may change while it runs. */
static void
check_latency_change (void)
{
  g_autoptr (AsrEngine) engine = make_engine ();
  g_autoptr (AsrStream) stream = make_stream (engine);
  gint64 deadline = g_get_monotonic_time () + 30 * G_USEC_PER_SEC, told = 0;
  AsrStats stats = { 0 };

  /* the script has no words behind a start without time marks, so that the
   * promise alone moves the position */
  asr_stream_set_policy (stream, ASR_POLICY_LOCAL_AGREEMENT, S (30), TRUE);
  push (stream, S (4));
  while (stats.n_windows == 0 && g_get_monotonic_time () < deadline) {
    asr_stream_get_stats (stream, &stats);
    g_usleep (1000);
  }
  g_assert_cmpuint (stats.n_windows, >, 0);
  g_assert_cmpuint (stats.decoded_samples, ==, 0);
  asr_stream_set_policy (stream, ASR_POLICY_LOCAL_AGREEMENT, S (1), TRUE);
  push (stream, S (4));
  while (told < S (7) && g_get_monotonic_time () < deadline) {
    g_autoptr (AsrSegment) segment = asr_stream_pull (stream, NULL);

    if (segment)
      told = MAX (told, segment->end);
    else
      g_usleep (1000);
  }
  g_assert_cmpint (told, >=, S (7));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/engine/side-by-side", check_side_by_side);
  g_test_add_func ("/engine/reset", check_reset);
  g_test_add_func ("/engine/cancel", check_cancel);
  g_test_add_func ("/engine/commit", check_commit);
  g_test_add_func ("/engine/gap", check_gap);
  g_test_add_func ("/engine/refusals", check_refusals);
  g_test_add_func ("/engine/cancelled-load", check_cancelled_load);
  g_test_add_func ("/engine/two-outputs", check_two_outputs);
  g_test_add_func ("/engine/latency-change", check_latency_change);
  return g_test_run ();
}
