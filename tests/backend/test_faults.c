/* SPDX-License-Identifier: MIT */
/*
 * Failures at every allocation and every launch of the CUDA backend, one
 * after the other: each is reported, and nothing is left in device memory.
 */
#include "tests/backend/tiny.h"
#include <string.h>

#define MAX_CALLS 3000

static gboolean
run_ops (const AsrCompute *compute, AsrQueue *queue, AsrWeight *weight,
    void *memory, GError **error)
{
  const guint d = 64, n_rows = 24;
  float *norm = memory;
  guint8 *x = (guint8 *) memory + 4096, *y = x + n_rows * d * 4;
  const float *samples = memory;
  guint n_samples = 100;
  float *mel = (float *) ((guint8 *) memory + (1 << 20));
  AsrMelParams mel_params = { 1, &samples, &n_samples, memory, 8, &mel };
  AsrNormParams norm_params = { .n_rows = n_rows, .d = d, .x = x,
    .weights = { norm, norm }, .y = y };
  AsrLinearParams linear = { n_rows, d, d, x, { weight, norm },
    ASR_ACTIVATION_GELU, NULL, FALSE, y };

  compute->table->time_begin (queue, 0);
  compute->table->mel (queue, &mel_params);
  compute->table->norm (queue, &norm_params);
  compute->table->linear (queue, &linear);
  linear.n_rows = 2;
  compute->table->linear (queue, &linear);
  compute->table->time_end (queue, 0);
  return compute->table->queue_wait (queue, error);
}

/* Everything from opening the device on; FALSE where something failed. */
static gboolean
run_all (GError **error)
{
  AsrDeviceParams params = { 0, ASR_COMPUTE_F16, 0 };
  g_autoptr (AsrCompute) compute = asr_compute_open ("cuda", &params, error);
  g_autofree float *values = g_new0 (float, 64 * 64);
  AsrTensor tensor = { ASR_DTYPE_F32, 2, { 64, 64 }, values, 64 * 64 * 4 };
  AsrMemory memory = { NULL };
  AsrQueue *queue = NULL;
  AsrWeight *weight = NULL;
  gboolean is_good = FALSE;

  if (!compute)
    return FALSE;
  queue = compute->table->queue_new (compute->device, error);
  if (queue)
    weight = compute->table->weight_new (compute->device, &tensor,
        ASR_WEIGHT_LINEAR, error);
  if (weight
      && asr_memory_init (&memory, compute, ASR_MEMORY_DEVICE, 2 << 20,
          error))
    is_good = run_ops (compute, queue, weight, memory.data, error);
  compute->table->weight_free (compute->device, weight);
  asr_memory_clear (&memory);
  compute->table->queue_free (queue);
  return is_good;
}

static void
fail_at (guint n)
{
  g_autofree char *text = g_strdup_printf ("%u", n);

  g_setenv ("ASR_CUDA_FAIL_AT", text, TRUE);
}

static void
check_faults (void)
{
  gsize before;
  guint n = 1;

  fail_at (0);
  g_assert_true (run_all (NULL));
  g_assert_true (run_all (NULL));
  before = suite_get_free_bytes ();
  for (; n < MAX_CALLS; n++) {
    g_autoptr (GError) error = NULL;

    fail_at (n);
    if (run_all (&error))
      break;
    g_assert_nonnull (error);
    g_assert_true (error->domain == ASR_ERROR);
    g_assert_true (error->code == ASR_ERROR_MEMORY
        || error->code == ASR_ERROR_DEVICE);
  }
  g_test_message ("%u calls failed in turn", n - 1);
  g_assert_cmpuint (n, >, 20);
  g_assert_cmpuint (n, <, MAX_CALLS);
  g_assert_cmpuint (before, ==, suite_get_free_bytes ());
  fail_at (0);
  g_assert_true (run_all (NULL));
}

/* A step of the tiny model, with a failure at each of its launches: while it
 * is recorded, and when it is launched again. */
static void
check_step_faults (Suite *suite)
{
  AsrRow row = { ASR_TOKEN_CHOSEN, 0, 0, 0 };
  AsrChoice choice = { ASR_CHOICE_SAMPLE, 0, 0, 0, 0 };
  Tiny tiny;
  AsrDecoderStepParams params;
  g_autoptr (GError) error = NULL;

  tiny_init (&tiny, suite);
  params = tiny_step (&tiny, &row, 1, &choice, 1, 0);
  for (guint i = 0; i < 3; i++)
    asr_compute_decoder_step (suite->compute, suite->queue, &params);
  suite->table->queue_wait (suite->queue, &error);
  g_assert_no_error (error);
}

/* Opening and closing 50 times leaves nothing behind. */
static void
check_loads (void)
{
  gsize before = 0;

  fail_at (0);
  for (guint i = 0; i < 50; i++) {
    g_assert_true (run_all (NULL));
    if (i == 0)
      before = suite_get_free_bytes ();
  }
  g_assert_cmpuint (before, ==, suite_get_free_bytes ());
}

static void
add_all (void)
{
  g_test_add_func ("/faults", check_faults);
  g_test_add_func ("/loads", check_loads);
  suite_add ("/step", check_step_faults);
}

int
main (int argc, char **argv)
{
  g_setenv ("ASR_TEST_BACKEND", "cuda", TRUE);
  g_setenv ("ASR_TEST_COMPUTE", "f16", TRUE);
  return suite_main (argc, argv, add_all);
}
