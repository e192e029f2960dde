/* SPDX-License-Identifier: MIT */
/*
 * The doors of a backend: names, devices, bad parameters, bad weights, memory
 * and the module that is not there or not ours. The composed steps are
 * checked by tests/model against transformers.
 */
#include "engine/backend/backend.h"
#include "engine/backend/registry.h"
#include <glib/gstdio.h>
#include <string.h>

static void
test_names (void)
{
  AsrDeviceParams params = { 0, ASR_COMPUTE_AUTO, 1 };
  g_autoptr (GError) error = NULL;

  g_assert_null (asr_compute_open ("gpu", &params, &error));
  g_assert_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "\"gpu\""));
}

static void
check_refused (AsrDeviceParams params, AsrError code, const char *says)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (asr_compute_open ("cpu", &params, &error));
  g_assert_error (error, ASR_ERROR, (gint) code);
  g_assert_nonnull (strstr (error->message, says));
}

static void
test_device (void)
{
  static const AsrComputeType types[]
      = { ASR_COMPUTE_AUTO, ASR_COMPUTE_F32, ASR_COMPUTE_INT8 };

  for (guint i = 0; i < G_N_ELEMENTS (types); i++) {
    AsrDeviceParams params = { 0, types[i], 2 };
    g_autoptr (AsrCompute) compute
        = asr_compute_open ("cpu", &params, NULL);

    g_assert_nonnull (compute);
    g_assert_cmpint (compute->info->activation, ==, ASR_DTYPE_F32);
    g_assert_cmpint (compute->info->kv, ==, ASR_DTYPE_F16);
    g_assert_cmpint (compute->info->compute_type, ==,
        types[i] == ASR_COMPUTE_AUTO ? ASR_COMPUTE_INT8 : types[i]);
    g_assert_nonnull (strstr (compute->info->description, "2 threads"));
  }
  check_refused ((AsrDeviceParams){ 1, ASR_COMPUTE_AUTO, 1 },
      ASR_ERROR_NOT_FOUND, "device 1");
  check_refused ((AsrDeviceParams){ 0, ASR_COMPUTE_F16, 1 },
      ASR_ERROR_UNSUPPORTED, "f16");
  check_refused ((AsrDeviceParams){ 0, ASR_COMPUTE_AUTO, 100000 },
      ASR_ERROR_ARGUMENT, "100000 threads");
}

static void
test_memory (void)
{
  AsrDeviceParams params = { 0, ASR_COMPUTE_AUTO, 1 };
  g_autoptr (AsrCompute) compute = asr_compute_open ("cpu", &params, NULL);
  g_autoptr (GError) error = NULL;
  AsrMemory memory;

  g_assert_true (asr_memory_init (&memory, compute, ASR_MEMORY_DEVICE, 1000,
      NULL));
  g_assert_cmpuint ((guintptr) memory.data % 64, ==, 0);
  memset (memory.data, 1, 1000);
  asr_memory_clear (&memory);
  g_assert_null (memory.data);
  asr_memory_clear (&memory);
  g_assert_false (asr_memory_init (&memory, compute, ASR_MEMORY_PINNED,
      G_MAXSSIZE - 4096, &error));
  g_assert_error (error, ASR_ERROR, ASR_ERROR_MEMORY);
  g_assert_null (memory.data);
}

static void
test_weights (void)
{
  static const float zeros[64];
  static const struct {
    AsrTensor tensor;
    AsrWeightUse use;
    gboolean is_right;
  } cases[] = {
    { { ASR_DTYPE_F32, 2, { 4, 8 }, zeros, 128 }, ASR_WEIGHT_LINEAR, TRUE },
    { { ASR_DTYPE_F32, 3, { 2, 4, 3 }, zeros, 96 }, ASR_WEIGHT_CONV, TRUE },
    { { ASR_DTYPE_F32, 1, { 8 }, zeros, 32 }, ASR_WEIGHT_LINEAR, FALSE },
    { { ASR_DTYPE_F32, 3, { 2, 4, 5 }, zeros, 160 }, ASR_WEIGHT_CONV, FALSE },
    { { ASR_DTYPE_F32, 2, { 0, 8 }, zeros, 0 }, ASR_WEIGHT_TABLE, FALSE },
    { { ASR_DTYPE_F32, 2, { 8, 0 }, zeros, 0 }, ASR_WEIGHT_TABLE, FALSE },
  };
  AsrDeviceParams params = { 0, ASR_COMPUTE_AUTO, 1 };
  g_autoptr (AsrCompute) compute = asr_compute_open ("cpu", &params, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    AsrWeight *weight = compute->table->weight_new (compute->device,
        &cases[i].tensor, cases[i].use, &error);

    if (cases[i].is_right)
      g_assert_no_error (error);
    else
      g_assert_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT);
    g_assert_true ((weight != NULL) == cases[i].is_right);
    compute->table->weight_free (compute->device, weight);
  }
}

/* The queue keeps the first error until it is asked. */
static void
test_queue (void)
{
  AsrDeviceParams params = { 0, ASR_COMPUTE_AUTO, 1 };
  g_autoptr (AsrCompute) compute = asr_compute_open ("cpu", &params, NULL);
  const AsrBackend *table = compute->table;
  AsrQueue *queue = table->queue_new (compute->device, NULL);
  static const float zeros[32];
  AsrTensor tensor = { ASR_DTYPE_F32, 2, { 4, 8 }, zeros, sizeof zeros };
  AsrWeight *weight
      = table->weight_new (compute->device, &tensor, ASR_WEIGHT_LINEAR, NULL);
  float y[5];
  AsrLinearParams linear = { 1, 8, 5, zeros, { weight, NULL },
    ASR_ACTIVATION_NONE, NULL, FALSE, y };
  g_autoptr (GError) error = NULL;

  table->linear (queue, &linear);
  linear.n_in = 7;
  table->linear (queue, &linear);
  g_assert_false (table->queue_wait (queue, &error));
  g_assert_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "5 x 8"));
  g_assert_true (table->queue_wait (queue, NULL));

  table->time_begin (queue, 7);
  g_usleep (2000);
  table->time_end (queue, 7);
  g_assert_cmpuint (table->time_read_ns (queue, 7), >=, 1000000);
  g_assert_cmpuint (table->time_read_ns (queue, 0), ==, 0);
  table->weight_free (compute->device, weight);
  table->queue_free (queue);
}

static void
check_cuda_refused (const char *folder, AsrError code, const char *says)
{
  g_autoptr (GError) error = NULL;

  g_setenv ("ASR_BACKEND_DIR", folder, TRUE);
  g_assert_null (asr_backend_find ("cuda", &error));
  g_assert_error (error, ASR_ERROR, (gint) code);
  g_assert_nonnull (strstr (error->message, says));
}

/* No module, one that is no library; auto falls back to the CPU. */
static void
test_module (void)
{
  g_autofree char *folder = g_dir_make_tmp ("asr-backend-XXXXXX", NULL);
  g_autofree char *file
      = g_build_filename (folder, "libasrbackend-cuda.so", NULL);

  check_cuda_refused (folder, ASR_ERROR_NOT_FOUND, folder);
  g_assert_true (g_file_set_contents (file, "no library", -1, NULL));
  check_cuda_refused (folder, ASR_ERROR_UNSUPPORTED, file);
  g_unsetenv ("ASR_BACKEND_DIR");
  g_remove (file);
  g_rmdir (folder);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/backend/names", test_names);
  g_test_add_func ("/backend/device", test_device);
  g_test_add_func ("/backend/memory", test_memory);
  g_test_add_func ("/backend/weights", test_weights);
  g_test_add_func ("/backend/queue", test_queue);
  g_test_add_func ("/backend/module", test_module);
  return g_test_run ();
}
