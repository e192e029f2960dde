/* SPDX-License-Identifier: MIT */
/* Frame of the kernel checks; see harness.h. */
#include "tests/kernels/harness.h"
#include "engine/backend/cpu/cpu.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const AsrBackend asr_backend_cpu;

#define EXIT_SKIP 77
#define MAX_SAMPLES 1000
#define BENCH_US 300000

/* xorshift64*, Vigna 2016. */
static guint64
next_random (Check *check)
{
  check->state ^= check->state >> 12;
  check->state ^= check->state << 25;
  check->state ^= check->state >> 27;
  return check->state * 0x2545f4914f6cdd1du;
}

guint
check_random_range (Check *check, guint least, guint greatest)
{
  return least + (next_random (check) >> 32) % (greatest - least + 1);
}

double
check_random_uniform (Check *check, double least, double greatest)
{
  double unit = (double) (next_random (check) >> 11) * 0x1p-53;

  return least + unit * (greatest - least);
}

double
check_random_normal (Check *check)
{
  double u = check_random_uniform (check, 1e-12, 1.0);
  double angle = check_random_uniform (check, 0.0, 2.0 * G_PI);

  return sqrt (-2.0 * log (u)) * cos (angle);
}

void *
check_new (gsize n_bytes)
{
  void *memory = NULL;

  if (posix_memalign (&memory, 64, MAX (n_bytes, 1)) != 0)
    g_error ("no memory for %zu bytes", n_bytes);
  return memory;
}

void
check_free (void *memory)
{
  free (memory);
}

float *
check_new_f32 (Check *check, gsize n, double amplitude)
{
  float *out = check_new (n * sizeof (float));

  for (gsize i = 0; i < n; i++)
    out[i] = (float) (amplitude * check_random_normal (check));
  return out;
}

static void
close_device (Check *check)
{
  if (check->queue)
    check->table->queue_free (check->queue);
  if (check->device)
    check->table->device_close (check->device);
  check->queue = NULL;
  check->device = NULL;
}

void
check_open (Check *check, AsrComputeType type, guint n_threads)
{
  AsrDeviceParams params = { 0, type, n_threads };
  g_autoptr (GError) error = NULL;

  close_device (check);
  check->n_threads = n_threads;
  check->device = check->table->device_open (&params, &error);
  if (check->device)
    check->queue = check->table->queue_new (check->device, &error);
  if (!check->queue)
    g_error ("no device: %s", error->message);
}

void
check_fail (Check *check, const char *name, const char *format, ...)
{
  g_autofree char *message = NULL;
  va_list arguments;

  va_start (arguments, format);
  message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  check->n_failed++;
  printf ("FAIL %s (%s): %s\n", name, check->isa, message);
}

gboolean
check_wait (Check *check, const char *name)
{
  g_autoptr (GError) error = NULL;

  if (check->table->queue_wait (check->queue, &error))
    return TRUE;
  check_fail (check, name, "%s", error->message);
  return FALSE;
}

gboolean
check_compare (Check *check, const char *name, const float *got,
    const double *expected, gsize n, double absolute, double relative)
{
  double worst = 1.0;
  gsize at = n;

  check->n_compared++;
  for (gsize i = 0; i < n; i++) {
    double limit = absolute + fabs (expected[i]) * relative;
    double off = fabs ((double) got[i] - expected[i]) / limit;

    /* NaN is worse than anything */
    if (!(off <= worst)) {
      worst = off;
      at = i;
      if (isnan (off))
        break;
    }
  }
  if (at == n)
    return TRUE;
  check_fail (check, name, "[%zu] is %.9g, not %.9g: %.3g times the tolerance",
      at, (double) got[at], expected[at], worst);
  return FALSE;
}

static int
compare_doubles (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

void
check_bench (Check *check, const char *name, double n_ops, double n_bytes,
    void (*run) (gpointer data), gpointer data)
{
  g_autofree double *seconds = NULL;
  gint64 end;
  guint n = 0;

  if (!check->is_bench)
    return;
  seconds = g_new (double, MAX_SAMPLES);
  run (data);
  end = g_get_monotonic_time () + BENCH_US;
  while (n < MAX_SAMPLES && (n < 3 || g_get_monotonic_time () < end)) {
    struct timespec before, after;

    clock_gettime (CLOCK_MONOTONIC, &before);
    run (data);
    clock_gettime (CLOCK_MONOTONIC, &after);
    seconds[n++] = (double) (after.tv_sec - before.tv_sec)
        + (double) (after.tv_nsec - before.tv_nsec) * 1e-9;
  }
  qsort (seconds, n, sizeof (double), compare_doubles);
  printf ("BENCH %-44s %-12s %9.1f us %8.1f Gop/s %7.1f GB/s\n", name,
      check->isa, seconds[n / 2] * 1e6, n_ops / seconds[n / 2] * 1e-9,
      n_bytes / seconds[n / 2] * 1e-9);
}

/* FALSE: the tier that the environment names is not this machine's. */
static gboolean
pick_tier (Check *check)
{
  const char *wanted = g_getenv ("ASR_CPU_ISA");

  check->isa = asr_isa_get_name (asr_isa_detect ());
  if (!wanted || g_str_equal (wanted, check->isa))
    return TRUE;
  printf ("SKIP: this machine has %s, not %s\n", check->isa, wanted);
  return FALSE;
}

static gboolean
parse_arguments (Check *check, int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    if (g_str_equal (argv[i], "--bench")) {
      check->is_bench = TRUE;
    } else if (g_str_equal (argv[i], "--seed") && i + 1 < argc) {
      check->seed = g_ascii_strtoull (argv[++i], NULL, 10);
    } else if (g_str_equal (argv[i], "--threads") && i + 1 < argc) {
      check->n_threads = (guint) g_ascii_strtoull (argv[++i], NULL, 10);
    } else {
      fprintf (stderr, "usage: %s [--seed N] [--bench] [--threads N]\n",
          argv[0]);
      return FALSE;
    }
  }
  return TRUE;
}

int
check_main (int argc, char **argv, void (*body) (Check *check))
{
  Check check = { &asr_backend_cpu };

  check.seed = (guint64) g_get_real_time () & 0xffffffff;
  check.n_threads = 2;
  if (!parse_arguments (&check, argc, argv))
    return 2;
  if (!pick_tier (&check))
    return EXIT_SKIP;
  check.state = check.seed * 0x9e3779b97f4a7c15u + 1;
  printf ("tier %s, --seed %" G_GUINT64_FORMAT "\n", check.isa, check.seed);
  check_open (&check, ASR_COMPUTE_INT8, check.n_threads);
  body (&check);
  close_device (&check);
  printf ("%u comparisons, %u failures\n", check.n_compared, check.n_failed);
  return check.n_failed > 0 ? 1 : 0;
}
