/* SPDX-License-Identifier: MIT */
/*
 * Check of align: the matrix in double precision, then openai/whisper's
 * dynamic time warping with its ties. A path may differ where two cost the
 * same but for the last digits; that is rare (three of a thousand shapes),
 * so a few of all shapes may.
 */
#include "tests/kernels/harness.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N_SHAPES 30
#define MAX_DIFFERENT 3

static int
compare_doubles (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

/* One head: [n_rows, n_frames] of scores into normalised weights. */
static void
normalise (const AsrAlignParams *p, const float *scores, double *w)
{
  for (guint r = 0; r < p->n_rows; r++) {
    const float *row = scores + (gsize) r * p->n_ctx;
    double top = -INFINITY, sum = 0;

    for (guint t = 0; t < p->n_frames; t++)
      top = fmax (top, row[t]);
    for (guint t = 0; t < p->n_frames; t++)
      sum += exp (row[t] - top);
    for (guint t = 0; t < p->n_frames; t++)
      w[r * p->n_frames + t] = exp (row[t] - top) / sum;
  }
  for (guint t = 0; t < p->n_frames; t++) {
    double mean = 0, variance = 0;

    for (guint r = 0; r < p->n_rows; r++)
      mean += w[r * p->n_frames + t] / p->n_rows;
    for (guint r = 0; r < p->n_rows; r++)
      variance += pow (w[r * p->n_frames + t] - mean, 2) / p->n_rows;
    for (guint r = 0; r < p->n_rows; r++)
      w[r * p->n_frames + t] = variance > 0
          ? (w[r * p->n_frames + t] - mean) / sqrt (variance)
          : 0;
  }
}

static double
get_median (const double *row, gint n, gint t)
{
  double window[7];

  if (n <= 3)
    return row[t];
  for (gint i = 0; i < 7; i++) {
    gint at = ABS (t + i - 3);

    window[i] = row[at < n ? at : 2 * (n - 1) - at];
  }
  qsort (window, 7, sizeof (double), compare_doubles);
  return window[3];
}

/* [n_rows - 1 - first_row, n_frames]; free with g_free */
static double *
make_matrix (const AsrAlignParams *p)
{
  guint n = p->n_rows - 1 - p->first_row;
  double *matrix = g_new0 (double, n * p->n_frames);
  g_autofree double *w = g_new (double, p->n_rows * p->n_frames);

  for (guint h = 0; h < p->n_heads; h++) {
    normalise (p, p->scores + (gsize) h * p->max_rows * p->n_ctx, w);
    for (guint r = 0; r < n; r++)
      for (guint t = 0; t < p->n_frames; t++)
        matrix[r * p->n_frames + t]
            -= get_median (w + (p->first_row + r) * p->n_frames,
                   (gint) p->n_frames, (gint) t)
            / p->n_heads;
  }
  return matrix;
}

/* openai/whisper's dtw in f32: the diagonal only where it is less than both
 * others, else down where that is less than both, else right. A median has
 * equal neighbours, so ties are common and the rule shows. */
static void
expect_frames (const double *matrix, guint n_rows, guint n, gint16 *frames)
{
  guint stride = n + 1, row = n_rows, t = n;
  g_autofree float *cost = g_new (float, (n_rows + 1) * stride);
  g_autofree gint8 *trace = g_new (gint8, (n_rows + 1) * stride);

  for (guint i = 0; i < (n_rows + 1) * stride; i++)
    cost[i] = INFINITY;
  cost[0] = 0;
  for (guint j = 1; j <= n; j++)
    for (guint i = 1; i <= n_rows; i++) {
      float c0 = cost[(i - 1) * stride + j - 1];
      float c1 = cost[(i - 1) * stride + j], c2 = cost[i * stride + j - 1];
      gint8 step = c0 < c1 && c0 < c2 ? 0 : c1 < c0 && c1 < c2 ? 1 : 2;

      trace[i * stride + j] = step;
      cost[i * stride + j] = (step == 0 ? c0 : step == 1 ? c1 : c2)
          + (float) matrix[(i - 1) * n + j - 1];
    }
  while (row > 0 && t > 0) {
    gint8 step = trace[row * stride + t];

    frames[row - 1] = (gint16) (t - 1);
    row -= step != 2;
    t -= step != 1;
  }
}

/* Returns: whether the path is the expected one */
static gboolean
check_shape (Check *check, guint n_heads, guint n_rows, guint first_row,
    guint n_frames, double amplitude)
{
  guint max_rows = n_rows + 3, n_ctx = n_frames + 5;
  guint n = n_rows - 1 - first_row;
  float *scores = check_new_f32 (check, (gsize) n_heads * max_rows * n_ctx,
      amplitude);
  g_autofree gint16 *frames = g_new (gint16, n);
  AsrAlignParams params = { n_heads, max_rows, n_rows, first_row, n_ctx,
    n_frames, scores, frames };
  g_autofree double *matrix = make_matrix (&params);
  g_autofree gint16 *expected = g_new0 (gint16, n);
  guint n_off = 0;

  expect_frames (matrix, n, n_frames, expected);
  check->table->align (check->queue, &params);
  if (check_wait (check, "align")) {
    check->n_compared++;
    for (guint r = 0; r < n; r++)
      n_off += frames[r] != expected[r];
  }
  check_free (scores);
  return n_off == 0;
}

/* Scores with a clear path: rows peak where they should begin. */
static void
check_clear_path (Check *check)
{
  static const gint16 begins[] = { 0, 20, 40, 60, 85 };
  guint n_rows = 9, first_row = 3, n_frames = 120;
  float *scores = check_new_f32 (check, n_rows * 1500, 0.1);
  gint16 frames[5];
  AsrAlignParams params = { 1, n_rows, n_rows, first_row, 1500, n_frames,
    scores, frames };

  for (guint r = 0; r < 5; r++) {
    guint end = r < 4 ? (guint) begins[r + 1] : n_frames;

    for (guint t = begins[r]; t < end; t++)
      scores[(first_row + r) * 1500 + t] += 5;
  }
  for (gsize i = 0; i < n_rows; i++) /* behind the real frames: no matter */
    for (guint t = n_frames; t < 1500; t++)
      scores[i * 1500 + t] = t % 2 ? 1e30f : NAN;
  check->table->align (check->queue, &params);
  check_wait (check, "clear path");
  for (guint r = 0; r < 5; r++)
    if (ABS (frames[r] - begins[r]) > 1)
      check_fail (check, "clear path", "row %u begins at %d, not %d", r,
          frames[r], begins[r]);
  check_free (scores);
}

/* Equal scores have no spread: zeros, no NaN. Every step ties, so the path
 * runs back along the last row and then down the first frame. */
static void
check_ties (Check *check, guint n_frames)
{
  float *scores = check_new (2 * 8 * 100 * sizeof (float));
  gint16 frames[5] = { 9, 9, 9, 9, 9 };
  AsrAlignParams params = { 2, 8, 8, 2, 100, n_frames, scores, frames };

  for (guint i = 0; i < 2 * 8 * 100; i++)
    scores[i] = 3;
  check->table->align (check->queue, &params);
  check_wait (check, "ties");
  for (guint r = 0; r < 5; r++)
    if (frames[r] != 0)
      check_fail (check, "ties", "row %u begins at %d", r, frames[r]);
  check_free (scores);
}

static void
check_borders (Check *check)
{
  float *scores = check_new_f32 (check, 4 * 10, 1.0);
  gint16 frames[4] = { 7, 7, 7, 7 };
  AsrAlignParams good = { 1, 4, 4, 1, 10, 10, scores, frames };
  AsrAlignParams bad[5];

  for (guint i = 0; i < 5; i++)
    bad[i] = good;
  bad[0].n_rows = 5;
  bad[1].n_frames = 11;
  bad[2].n_frames = 0;
  bad[3].n_heads = 0;
  for (guint i = 0; i < 4; i++) {
    g_autoptr (GError) error = NULL;

    check->table->align (check->queue, &bad[i]);
    if (check->table->queue_wait (check->queue, &error))
      check_fail (check, "align", "no error in case %u", i);
  }
  bad[4].first_row = 3; /* no row is asked for */
  check->table->align (check->queue, &bad[4]);
  check_wait (check, "no rows");
  for (guint i = 0; i < 4; i++)
    if (frames[i] != 7)
      check_fail (check, "align", "frame %u was written", i);
  check_free (scores);
}

typedef struct {
  Check *check;
  AsrAlignParams params;
} Bench;

static void
run_bench (gpointer data)
{
  Bench *bench = data;

  bench->check->table->align (bench->check->queue, &bench->params);
}

static void
bench_align (Check *check)
{
  float *scores = check_new_f32 (check, 8 * 110 * 1500, 1.0);
  gint16 frames[110];
  Bench bench = { check, { 8, 110, 110, 4, 1500, 1500, scores, frames } };

  check_bench (check, "align 8 x 110 x 1500", 0, 4.0 * 8 * 110 * 1500,
      run_bench, &bench);
  check_free (scores);
}

static void
check_align (Check *check)
{
  guint n_different = 0;

  for (guint i = 0; i < N_SHAPES; i++) {
    guint n_rows = check_random_range (check, 2, 60);

    n_different += !check_shape (check, check_random_range (check, 1, 6),
        n_rows, check_random_range (check, 0, MIN (4, n_rows - 2)),
        i < 8 ? i + 1 : check_random_range (check, 1, 300), i % 2 ? 1 : 5);
  }
  if (n_different > MAX_DIFFERENT)
    check_fail (check, "align", "%u of %u paths are wrong", n_different,
        N_SHAPES);
  check_clear_path (check);
  check_ties (check, 60);
  check_ties (check, 1);
  check_borders (check);
  if (check->is_bench)
    bench_align (check);
}

int
main (int argc, char **argv)
{
  return check_main (argc, argv, check_align);
}
