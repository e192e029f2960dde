/* SPDX-License-Identifier: MIT */
/*
 * Device memory does not grow: after a thousand windows, a hundred resets and
 * a hundred loads of an engine as much of it is free as after the first. With
 * the generated model (make_tiny_model.py) on a device; skips without one.
 * Nor does it after a failure at any of the calls that an engine makes.
 * ASR_TEST_COMPUTE as in suite.h.
 */
#include "engine/asr.h"
#include "tests/backend/suite.h"

#define WINDOW (30 * ASR_SAMPLE_RATE)
#define N_WINDOWS 1000
#define N_RESETS 100
#define N_LOADS 100
#define MAX_CALLS 5000
#define PATIENCE_US (20 * G_USEC_PER_SEC)

static AsrEngine *
load_engine (GError **error)
{
  AsrEngineParams params = ASR_ENGINE_PARAMS_DEFAULT;

  params.model = g_getenv ("TINY_MODEL");
  params.backend = "cuda";
  if (g_strcmp0 (g_getenv ("ASR_TEST_COMPUTE"), "f32") == 0)
    params.compute_type = ASR_COMPUTE_F32;
  return asr_engine_new (&params, NULL, NULL, error);
}

static AsrEngine *
make_engine (void)
{
  g_autoptr (GError) error = NULL;
  AsrEngine *engine = load_engine (&error);

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

/* Half a window, unless the @n-th allocation or launch of the engine fails;
 * 0: none does. */
static gboolean
fail_at (guint n, const float *noise, GError **error)
{
  g_autofree char *text = g_strdup_printf ("%u", n);
  g_autoptr (AsrEngine) engine = NULL;
  g_autoptr (AsrStream) stream = NULL;
  gint64 deadline = g_get_monotonic_time () + PATIENCE_US;
  GError *failure = NULL;
  gboolean is_done = FALSE;

  g_setenv ("ASR_CUDA_FAIL_AT", text, TRUE);
  engine = load_engine (error);
  g_unsetenv ("ASR_CUDA_FAIL_AT");
  if (!engine)
    return FALSE;
  stream = make_stream (engine);
  g_assert_cmpuint (asr_stream_push (stream, noise, WINDOW / 2), ==,
      WINDOW / 2);
  asr_stream_drain (stream);
  while (!is_done && !failure) {
    g_autoptr (AsrSegment) segment = asr_stream_pull (stream, &failure);

    is_done = segment && segment->type == ASR_SEGMENT_END;
    g_assert_cmpint (g_get_monotonic_time (), <, deadline);
    if (!segment)
      g_usleep (100);
  }
  if (failure)
    g_propagate_error (error, failure);
  return failure == NULL;
}

static void
check_faults (Suite *suite)
{
  g_autofree float *noise = make_noise ();
  gsize before;
  guint n = 1;

  g_assert_true (fail_at (0, noise, NULL));
  g_assert_true (fail_at (0, noise, NULL));
  before = suite_get_free_bytes ();
  for (; n < MAX_CALLS; n++) {
    g_autoptr (GError) error = NULL;

    if (fail_at (n, noise, &error))
      break;
    g_assert_true (error && error->domain == ASR_ERROR);
    g_assert_true (error->code == ASR_ERROR_MEMORY
        || error->code == ASR_ERROR_DEVICE);
    g_assert_cmpuint (suite_get_free_bytes (), ==, before);
  }
  g_test_message ("%u calls failed in turn", n - 1);
  g_assert_cmpuint (n, >, 200);
  g_assert_cmpuint (n, <, MAX_CALLS);
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
  suite_add ("/memory/faults", check_faults);
  suite_add ("/once", check_once);
}

int
main (int argc, char **argv)
{
  g_setenv ("ASR_TEST_BACKEND", "cuda", TRUE);
  g_setenv ("ASR_TEST_COMPUTE", "f16", FALSE);
  return suite_main (argc, argv, add_all);
}
