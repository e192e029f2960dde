/* SPDX-License-Identifier: MIT */
/* Check of norm: any width, rows that are gathered and rows that go to
 * several places; values far from zero, where one pass would lose digits. */
#include "tests/kernels/harness.h"
#include <math.h>

#define ABSOLUTE 2e-5
#define RELATIVE 2e-5

static void
norm_row (const float *x, guint d, const AsrNormWeights *weights, double *y)
{
  double mean = 0, variance = 0;

  for (guint i = 0; i < d; i++)
    mean += (double) x[i] / d;
  for (guint i = 0; i < d; i++)
    variance += (x[i] - mean) * (x[i] - mean) / d;
  for (guint i = 0; i < d; i++)
    y[i] = (x[i] - mean) / sqrt (variance + 1e-5) * weights->gamma[i]
        + weights->beta[i];
}

/* @n_y: 0, or how many places the rows go to */
static void
check_shape (Check *check, guint d, guint n_rows, gboolean is_gathered,
    guint n_y, double offset)
{
  guint n_x = is_gathered ? n_rows + 5 : n_rows;
  float *x = check_new_f32 (check, (gsize) n_x * d, 1.0);
  float *gamma = check_new_f32 (check, d, 1.0);
  float *beta = check_new_f32 (check, d, 1.0);
  float *y = check_new ((gsize) n_rows * d * sizeof (float));
  g_autofree double *expected = g_new (double, (gsize) n_rows * d);
  g_autofree guint32 *gather = g_new (guint32, n_rows);
  g_autofree void **y_rows = g_new (void *, n_y + 1);
  AsrNormParams params = { n_rows, d, x, is_gathered ? gather : NULL,
    { gamma, beta }, NULL, 0, y };

  for (gsize i = 0; i < (gsize) n_x * d; i++)
    x[i] += (float) offset;
  for (guint r = 0; r < n_rows; r++) {
    gather[r] = is_gathered ? check_random_range (check, 0, n_x - 1) : r;
    norm_row (x + (gsize) gather[r] * d, d, &params.weights,
        expected + (gsize) r * d);
  }
  if (n_y > 0) { /* places in the wrong order; put right below */
    params.rows_per_y = n_rows / n_y;
    for (guint i = 0; i < n_y; i++)
      y_rows[i] = y + (gsize) (n_y - 1 - i) * params.rows_per_y * d;
    params.y_rows = y_rows;
    params.y = NULL;
  }
  check->table->norm (check->queue, &params);
  if (check_wait (check, "norm")) {
    guint n_parts = MAX (n_y, 1);
    gsize n = (gsize) n_rows / n_parts * d;

    for (guint i = 0; i < n_parts; i++)
      check_compare (check, "norm", y + (n_parts - 1 - i) * n,
          expected + i * n, n, ABSOLUTE * (1 + fabs (offset)), RELATIVE);
  }
  check_free (x);
  check_free (gamma);
  check_free (beta);
  check_free (y);
}

static void
run_norm (gpointer data)
{
  Check *check = ((gpointer *) data)[0];

  check->table->norm (check->queue, ((gpointer *) data)[1]);
}

static void
bench_norm (Check *check, guint n_rows, guint d)
{
  gsize n = (gsize) n_rows * d;
  float *x = check_new_f32 (check, n, 1.0);
  float *y = check_new_f32 (check, n, 1.0);
  AsrNormParams params = { n_rows, d, x, NULL, { x, y }, NULL, 0, y };
  gpointer data[] = { check, &params };
  g_autofree char *name = g_strdup_printf ("norm %u x %u", n_rows, d);

  check_bench (check, name, 8.0 * n, 8.0 * n, run_norm, data);
  check_free (x);
  check_free (y);
}

static void
check_norm (Check *check)
{
  for (guint i = 0; i < 12; i++)
    check_shape (check, i < 4 ? 64u << i : check_random_range (check, 1, 700),
        check_random_range (check, 1, 50), i % 2, 0, 0);
  check_shape (check, 384, 60, FALSE, 3, 0);
  check_shape (check, 100, 60, TRUE, 4, 0);
  check_shape (check, 512, 8, FALSE, 0, 100);
  check_shape (check, 1, 3, FALSE, 0, 0); /* no variance at all */
  check_shape (check, 64, 0, FALSE, 0, 0);
  if (check->is_bench) {
    bench_norm (check, 1500, 512);
    bench_norm (check, 1, 512);
  }
}

int
main (int argc, char **argv)
{
  return check_main (argc, argv, check_norm);
}
