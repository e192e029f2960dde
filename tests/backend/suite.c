/* SPDX-License-Identifier: MIT */
#include "tests/backend/suite.h"
#include <gmodule.h>
#include <math.h>
#include <string.h>

#define EXIT_SKIPPED 77

static AsrComputeType
get_compute_type (void)
{
  const char *name = g_getenv ("ASR_TEST_COMPUTE");

  if (g_strcmp0 (name, "f16") == 0)
    return ASR_COMPUTE_F16;
  return ASR_COMPUTE_F32;
}

static AsrCompute *
open_compute (GError **error)
{
  const char *backend = g_getenv ("ASR_TEST_BACKEND");
  AsrDeviceParams params = { 0, get_compute_type (), 0 };

  return asr_compute_open (backend ? backend : "cpu", &params, error);
}

static void
begin (Suite *suite)
{
  g_autoptr (GError) error = NULL;

  suite->compute = open_compute (&error);
  g_assert_no_error (error);
  suite->table = suite->compute->table;
  suite->queue = suite->table->queue_new (suite->compute->device, &error);
  g_assert_no_error (error);
  suite->is_f16 = suite->compute->info->activation == ASR_DTYPE_F16;
  suite->is_kv_f16 = suite->compute->info->kv == ASR_DTYPE_F16;
  suite->has_plain_kv = !g_str_equal (suite->table->name, "cpu");
  suite->act_tolerance = suite->is_f16 ? 2e-3 : 5e-6;
  suite->kv_tolerance = suite->is_kv_f16 ? 2e-3 : 1e-5;
  suite->memories = g_array_new (FALSE, FALSE, sizeof (AsrMemory));
  suite->weights = g_ptr_array_new ();
  suite->hosts = g_ptr_array_new_with_free_func (g_free);
}

static void
end (Suite *suite)
{
  suite->table->queue_free (suite->queue);
  for (guint i = 0; i < suite->weights->len; i++)
    suite->table->weight_free (suite->compute->device,
        g_ptr_array_index (suite->weights, i));
  for (guint i = 0; i < suite->memories->len; i++)
    asr_memory_clear (&g_array_index (suite->memories, AsrMemory, i));
  g_ptr_array_unref (suite->weights);
  g_ptr_array_unref (suite->hosts);
  g_array_unref (suite->memories);
  asr_compute_close (suite->compute);
}

static void
run_check (gconstpointer data)
{
  void (*check) (Suite *) = (void (*) (Suite *)) data;
  Suite suite = { .state = g_test_rand_int () };

  begin (&suite);
  check (&suite);
  suite_wait (&suite);
  end (&suite);
}

void
suite_add (const char *path, void (*check) (Suite *suite))
{
  g_test_add_data_func (path, (gconstpointer) check, run_check);
}

int
suite_main (int argc, char **argv, void (*add_all) (void))
{
  g_autoptr (GError) error = NULL;
  AsrCompute *compute;

  g_test_init (&argc, &argv, NULL);
  compute = open_compute (&error);
  if (!compute) {
    g_printerr ("skipped: %s\n", error->message);
    return EXIT_SKIPPED;
  }
  g_test_message ("%s", compute->info->description);
  asr_compute_close (compute);
  add_all ();
  return g_test_run ();
}

/* ---- device memory ---- */

typedef int (*MemGetInfo) (gsize *n_free, gsize *n_total);

static MemGetInfo
find_memory_info (void)
{
  const char *files[] = { "libcudart.so.13", "libcudart.so.12" };

  for (guint i = 0; i < G_N_ELEMENTS (files); i++) {
    GModule *module = g_module_open (files[i], G_MODULE_BIND_LAZY);
    gpointer symbol;

    if (module && g_module_symbol (module, "cudaMemGetInfo", &symbol))
      return (MemGetInfo) symbol;
  }
  return NULL;
}

gsize
suite_get_free_bytes (void)
{
  static MemGetInfo get_info;
  gsize n_free = 0, n_total;

  if (!get_info)
    get_info = find_memory_info ();
  g_assert_nonnull (get_info);
  g_assert_cmpint (get_info (&n_free, &n_total), ==, 0);
  return n_free;
}

/* ---- random numbers: splitmix64's finaliser ---- */

double
suite_uniform (Suite *suite)
{
  guint64 x = suite->state += 0x9e3779b97f4a7c15u;

  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return ((double) (x >> 11) + 0.5) / 9007199254740992.0;
}

float *
suite_random (Suite *suite, gsize n, double amplitude)
{
  float *x = g_new (float, n);

  for (gsize i = 0; i < n; i++) {
    double radius = sqrt (-2 * log (suite_uniform (suite)));
    double normal = radius * cos (2 * G_PI * suite_uniform (suite));

    x[i] = asr_f16_to_f32 (asr_f32_to_f16 ((float) (normal * amplitude)));
  }
  g_ptr_array_add (suite->hosts, x);
  return x;
}

double *
suite_doubles (Suite *suite, gsize n)
{
  double *x = g_new0 (double, n);

  g_ptr_array_add (suite->hosts, x);
  return x;
}

/* ---- memory ---- */

static void *
new_memory (Suite *suite, AsrMemoryKind kind, gsize n_bytes)
{
  g_autoptr (GError) error = NULL;
  AsrMemory memory;

  asr_memory_init (&memory, suite->compute, kind, n_bytes, &error);
  g_assert_no_error (error);
  g_array_append_val (suite->memories, memory);
  return memory.data;
}

void *
suite_pinned (Suite *suite, gsize n_bytes)
{
  return memset (new_memory (suite, ASR_MEMORY_PINNED, n_bytes), 0xff,
      n_bytes);
}

void *
suite_upload (Suite *suite, const void *data, gsize n_bytes)
{
  void *device = new_memory (suite, ASR_MEMORY_DEVICE, n_bytes);

  suite->table->copy (suite->queue, device, data, n_bytes);
  suite_wait (suite);
  return device;
}

void *
suite_device (Suite *suite, gsize n_bytes)
{
  g_autofree void *poison = memset (g_malloc (n_bytes), 0xff, n_bytes);

  return suite_upload (suite, poison, n_bytes);
}

static void *
upload_as (Suite *suite, gboolean as_f16, const float *x, gsize n)
{
  g_autofree guint16 *halves = NULL;

  if (!as_f16)
    return suite_upload (suite, x, n * sizeof (float));
  halves = g_new (guint16, n);
  for (gsize i = 0; i < n; i++)
    halves[i] = asr_f32_to_f16 (x[i]);
  return suite_upload (suite, halves, n * sizeof (guint16));
}

void *
suite_upload_act (Suite *suite, const float *x, gsize n)
{
  return upload_as (suite, suite->is_f16, x, n);
}

void *
suite_upload_kv (Suite *suite, const float *x, gsize n)
{
  return upload_as (suite, suite->is_kv_f16, x, n);
}

void *
suite_new_act (Suite *suite, gsize n)
{
  return suite_device (suite, n * (suite->is_f16 ? 2 : 4));
}

void *
suite_download (Suite *suite, const void *device, gsize n_bytes)
{
  void *host = g_malloc (n_bytes);

  g_ptr_array_add (suite->hosts, host);
  suite->table->copy (suite->queue, host, device, n_bytes);
  suite_wait (suite);
  return host;
}

static float *
download_as (Suite *suite, gboolean as_f16, const void *device, gsize n)
{
  const guint16 *halves;
  float *x;

  if (!as_f16)
    return suite_download (suite, device, n * sizeof (float));
  halves = suite_download (suite, device, n * sizeof (guint16));
  x = g_new (float, n);
  g_ptr_array_add (suite->hosts, x);
  for (gsize i = 0; i < n; i++)
    x[i] = asr_f16_to_f32 (halves[i]);
  return x;
}

float *
suite_download_act (Suite *suite, const void *device, gsize n)
{
  return download_as (suite, suite->is_f16, device, n);
}

float *
suite_download_kv (Suite *suite, const void *device, gsize n)
{
  return download_as (suite, suite->is_kv_f16, device, n);
}

AsrWeight *
suite_weight (Suite *suite, const float *w, guint n_out, guint n_in,
    guint n_taps)
{
  AsrTensor tensor = { ASR_DTYPE_F32, n_taps == 1 ? 2 : 3,
    { n_out, n_in, n_taps }, w,
    (gsize) n_out * n_in * n_taps * sizeof (float) };
  g_autoptr (GError) error = NULL;
  AsrWeight *weight = suite->table->weight_new (suite->compute->device,
      &tensor, n_taps == 1 ? ASR_WEIGHT_TABLE : ASR_WEIGHT_CONV, &error);

  g_assert_no_error (error);
  g_ptr_array_add (suite->weights, weight);
  return weight;
}

AsrLinearWeights
suite_linear (Suite *suite, guint n_out, guint n_in, double amplitude)
{
  float *w = suite_random (suite, (gsize) n_out * n_in, amplitude);
  float *bias = suite_random (suite, n_out, 0.5);

  return (AsrLinearWeights){ suite_weight (suite, w, n_out, n_in, 1),
    suite_upload (suite, bias, n_out * sizeof (float)) };
}

AsrNormWeights
suite_norm (Suite *suite, guint d)
{
  float *gamma = suite_random (suite, d, 1);
  float *beta = suite_random (suite, d, 0.2);

  return (AsrNormWeights){
    suite_upload (suite, gamma, d * sizeof (float)),
    suite_upload (suite, beta, d * sizeof (float)),
  };
}

void
suite_wait (Suite *suite)
{
  g_autoptr (GError) error = NULL;

  suite->table->queue_wait (suite->queue, &error);
  g_assert_no_error (error);
}

void
suite_compare (const char *name, const float *got, const double *expected,
    gsize n, double tolerance)
{
  double error = 0, norm = 0, worst = 0;
  gsize where = 0;

  for (gsize i = 0; i < n; i++) {
    double difference = fabs (got[i] - expected[i]);

    if (!(difference <= worst)) { /* also where it is no number */
      worst = difference;
      where = i;
    }
    error += difference * difference;
    norm += expected[i] * expected[i];
  }
  error = sqrt (error / n);
  norm = sqrt (norm / n);
  g_test_message ("%s: error %.2e of %.2e, at most %.2e at %zu", name, error,
      norm, worst, where);
  if (!(error <= tolerance * norm && worst <= 20 * tolerance * norm)) {
    g_printerr ("%s: error %.2e of %.2e (tolerance %.1e), at most %.2e: "
        "[%zu] is %g, not %g\n", name, error, norm, tolerance, worst, where,
        got[where], expected[where]);
    g_test_fail ();
  }
}
