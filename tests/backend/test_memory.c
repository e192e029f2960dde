/* SPDX-License-Identifier: MIT */
/*
 * Device memory does not grow: after a thousand windows, a hundred resets and
 * a hundred loads of an engine as much of it is free as after the first. With
 * the generated model (make_tiny_model.py) on a device; skips without one.
 * ASR_TEST_COMPUTE as in suite.h.
 */
#include "engine/asr.h"
#include "tests/backend/suite.h"

#define WINDOW (30 * ASR_SAMPLE_RATE)
#define N_WINDOWS 1000
#define N_RESETS 100
#define N_LOADS 100

static AsrEngine *
make_engine (void)
{
  AsrEngineParams params = ASR_ENGINE_PARAMS_DEFAULT;
  g_autoptr (GError) error = NULL;
  AsrEngine *engine;

  params.model = g_getenv ("TINY_MODEL");
  params.backend = "cuda";
  if (g_strcmp0 (g_getenv ("ASR_TEST_COMPUTE"), "f32") == 0)
    params.compute_type = ASR_COMPUTE_F32;
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
  return stream;
}

/* Noise of @n samples; what comes of it is dropped. */
static void
push (AsrStream *stream, const float *noise, gsize n)
{
  gsize at = 0;

  while (at < n) {
    g_autoptr (GError) error = NULL;
    g_autoptr (AsrSegment) segment = asr_stream_pull (stream, &error);
    gsize n_taken = asr_stream_push (stream, noise + at, n - at);

    g_assert_no_error (error);
    at += n_taken;
    if (n_taken == 0 && !segment)
      g_usleep (200);
  }
}

static void
wait_for_end (AsrStream *stream)
{
  gboolean is_done = FALSE;

  asr_stream_drain (stream);
  while (!is_done) {
    g_autoptr (GError) error = NULL;
    g_autoptr (AsrSegment) segment = asr_stream_pull (stream, &error);

    g_assert_no_error (error);
    is_done = segment && segment->type == ASR_SEGMENT_END;
    if (!segment)
      g_usleep (200);
  }
}

static float *
make_noise (void)
{
  float *noise = g_new (float, WINDOW);

  for (guint i = 0; i < WINDOW; i++)
    noise[i] = (gint) (i * 7919 % 2001 - 1000) / 32768.0f;
  return noise;
}

static void
check_windows (Suite *suite)
{
  g_autoptr (AsrEngine) engine = make_engine ();
  g_autoptr (AsrStream) stream = make_stream (engine);
  g_autofree float *noise = make_noise ();
  AsrStats stats = { .n_windows = 0 };
  gsize before = 0;

  for (guint i = 0; stats.n_windows < N_WINDOWS; i++) {
    push (stream, noise, WINDOW);
    asr_stream_get_stats (stream, &stats);
    if (before == 0 && stats.n_windows > 0)
      before = suite_get_free_bytes ();
  }
  wait_for_end (stream);
  g_assert_cmpuint (suite_get_free_bytes (), ==, before);
}

/* Each in another place of a window. */
static void
check_resets (Suite *suite)
{
  g_autoptr (AsrEngine) engine = make_engine ();
  g_autoptr (AsrStream) stream = make_stream (engine);
  g_autofree float *noise = make_noise ();
  gsize before;

  push (stream, noise, WINDOW);
  wait_for_end (stream);
  asr_stream_reset (stream);
  before = suite_get_free_bytes ();
  for (guint i = 0; i < N_RESETS; i++) {
    push (stream, noise, WINDOW);
    g_usleep (i * 100);
    asr_stream_reset (stream);
  }
  push (stream, noise, WINDOW);
  wait_for_end (stream);
  g_assert_cmpuint (suite_get_free_bytes (), ==, before);
}

/* An engine from its load to its end. */
static void
use_once (const float *noise)
{
  g_autoptr (AsrEngine) engine = make_engine ();
  g_autoptr (AsrStream) stream = make_stream (engine);

  push (stream, noise, WINDOW / 2);
  wait_for_end (stream);
}

static void
check_loads (Suite *suite)
{
  g_autofree float *noise = make_noise ();
  gsize before = 0;

  for (guint i = 0; i < N_LOADS; i++) {
    use_once (noise);
    if (i == 0)
      before = suite_get_free_bytes ();
  }
  g_assert_cmpuint (suite_get_free_bytes (), ==, before);
}

/* For compute-sanitizer: short, and others may use the device meanwhile. */
static void
check_once (Suite *suite)
{
  g_autofree float *noise = make_noise ();

  use_once (noise);
}

static void
add_all (void)
{
  suite_add ("/memory/windows", check_windows);
  suite_add ("/memory/resets", check_resets);
  suite_add ("/memory/loads", check_loads);
  suite_add ("/once", check_once);
}

int
main (int argc, char **argv)
{
  g_setenv ("ASR_TEST_BACKEND", "cuda", TRUE);
  g_setenv ("ASR_TEST_COMPUTE", "f16", FALSE);
  return suite_main (argc, argv, add_all);
}
