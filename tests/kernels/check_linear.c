/* SPDX-License-Identifier: MIT */
/*
 * Check and bench of linear. f32 is compared with the product in double
 * precision. int8 is compared with what its definition gives: weights
 * quantised here by the plain formula, f32 rows, scales, bias, activation and
 * residual in double precision; so the tolerance need not hide the error of
 * quantised weights. Rows keep about 16 bits of their activations.
 */
#include "tests/kernels/harness.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define W_AMPLITUDE 0.1

typedef struct {
  guint n_rows, n_out, n_in;
  gboolean has_bias, has_residual, is_in_place;
  AsrActivation activation;
} Shape;

typedef struct {
  Check *check;
  AsrWeight *weight;
  float *w, *x, *bias, *residual, *y;
  AsrLinearParams params;
  double *expected;
} Case;

static double
gelu (double x)
{
  return 0.5 * x * (1.0 + erf (x * M_SQRT1_2));
}

/* Symmetric int8 by its formula; returns the scale. */
static double
quantise (const float *x, guint n, int *q)
{
  float greatest = 0.0f, inverse;

  for (guint i = 0; i < n; i++)
    greatest = fmaxf (greatest, fabsf (x[i]));
  inverse = greatest > 0.0f ? 127.0f / greatest : 0.0f;
  for (guint i = 0; i < n; i++)
    q[i] = (int) nearbyintf (x[i] * inverse);
  return (double) greatest / 127.0;
}

static void
expect_row (Case *c, const Shape *s, guint row, const double *sums)
{
  for (guint i = 0; i < s->n_out; i++) {
    double value = sums[i] + (c->bias ? c->bias[i] : 0.0);

    if (s->activation == ASR_ACTIVATION_GELU)
      value = gelu (value);
    if (c->residual)
      value += c->residual[(gsize) row * s->n_out + i];
    c->expected[(gsize) row * s->n_out + i] = value;
  }
}

static void
expect_f32 (Case *c, const Shape *s)
{
  g_autofree double *sums = g_new (double, s->n_out);

  for (guint row = 0; row < s->n_rows; row++) {
    const float *x = c->x + (gsize) row * s->n_in;

    for (guint i = 0; i < s->n_out; i++) {
      const float *w = c->w + (gsize) i * s->n_in;

      sums[i] = 0.0;
      for (guint k = 0; k < s->n_in; k++)
        sums[i] += (double) w[k] * x[k];
    }
    expect_row (c, s, row, sums);
  }
}

static double
multiply_mixed (const int *w, const float *x, guint n)
{
  double sum = 0.0;

  for (guint k = 0; k < n; k++)
    sum += (double) w[k] * x[k];
  return sum;
}

static void
expect_i8 (Case *c, const Shape *s)
{
  g_autofree int *w = g_new (int, (gsize) s->n_out * s->n_in);
  g_autofree double *scales = g_new (double, s->n_out);
  g_autofree double *sums = g_new (double, s->n_out);

  for (guint i = 0; i < s->n_out; i++)
    scales[i] = quantise (c->w + (gsize) i * s->n_in, s->n_in,
        w + (gsize) i * s->n_in);
  for (guint row = 0; row < s->n_rows; row++) {
    const float *x = c->x + (gsize) row * s->n_in;

    for (guint i = 0; i < s->n_out; i++) {
      const int *line = w + (gsize) i * s->n_in;

      sums[i] = scales[i] * multiply_mixed (line, x, s->n_in);
    }
    expect_row (c, s, row, sums);
  }
}

/* f32 sums round once for each input, at the size of the sum of magnitudes.
 * int8's sums are exact, so only scales and the end round; but 16 bits of a
 * row whose greatest value is about 5 leave errors of up to 5 / 127 / 254. */
static double
get_tolerance (const Shape *s, gboolean is_f32)
{
  if (is_f32)
    return 2e-6 * sqrt (s->n_in);
  return 4e-6 + 3.0 * sqrt (s->n_in) * W_AMPLITUDE * 5.0 / 127.0 / 254.0;
}

static void
begin_case (Case *c, Check *check, const Shape *s)
{
  gsize n = (gsize) s->n_rows * s->n_out;
  AsrTensor tensor = { ASR_DTYPE_F32, 2, { s->n_out, s->n_in } };
  g_autoptr (GError) error = NULL;

  *c = (Case){ check };
  c->w = check_new_f32 (check, (gsize) s->n_out * s->n_in, W_AMPLITUDE);
  c->x = check_new_f32 (check, (gsize) s->n_rows * s->n_in, 1.0);
  if (s->has_bias)
    c->bias = check_new_f32 (check, s->n_out, 1.0);
  if (s->has_residual)
    c->residual = check_new_f32 (check, n, 1.0);
  c->y = check_new (n * sizeof (float));
  c->expected = check_new (n * sizeof (double));
  tensor.data = c->w;
  tensor.n_bytes = (gsize) s->n_out * s->n_in * sizeof (float);
  c->weight = check->table->weight_new (check->device, &tensor,
      ASR_WEIGHT_LINEAR, &error);
  if (!c->weight)
    g_error ("weight: %s", error->message);
  c->params = (AsrLinearParams){ s->n_rows, s->n_in, s->n_out, c->x,
    { c->weight, c->bias }, s->activation, c->residual, FALSE, c->y };
  if (s->is_in_place && s->has_residual) {
    memcpy (c->y, c->residual, n * sizeof (float));
    c->params.residual = c->y;
  }
}

static void
end_case (Case *c)
{
  c->check->table->weight_free (c->check->device, c->weight);
  check_free (c->w);
  check_free (c->x);
  check_free (c->bias);
  check_free (c->residual);
  check_free (c->y);
  check_free (c->expected);
}

static void
check_shape (Check *check, AsrComputeType type, const Shape *s)
{
  gboolean is_f32 = type == ASR_COMPUTE_F32;
  g_autofree char *name = g_strdup_printf (
      "linear %s %ux%ux%u%s%s%s%s", is_f32 ? "f32" : "int8", s->n_rows,
      s->n_out, s->n_in, s->has_bias ? " bias" : "",
      s->activation == ASR_ACTIVATION_GELU ? " gelu" : "",
      s->has_residual ? " residual" : "", s->is_in_place ? " in place" : "");
  gsize n = (gsize) s->n_rows * s->n_out;
  Case c;

  begin_case (&c, check, s);
  if (is_f32)
    expect_f32 (&c, s);
  else
    expect_i8 (&c, s);
  check->table->linear (check->queue, &c.params);
  if (check_wait (check, name))
    check_compare (check, name, c.y, c.expected, n,
        get_tolerance (s, is_f32), 2e-6);
  end_case (&c);
}

/* All combinations of the end on a shape, and random shapes. */
static void
check_shapes (Check *check, AsrComputeType type)
{
  static const guint rows[] = { 1, 2, 3, 8, 9, 15, 16, 17, 33, 64, 97, 300 };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    Shape s = { rows[i], 64, 128, TRUE, TRUE, FALSE, ASR_ACTIVATION_GELU };

    check_shape (check, type, &s);
    s.is_in_place = TRUE;
    check_shape (check, type, &s);
    s.activation = ASR_ACTIVATION_NONE;
    check_shape (check, type, &s);
    s.has_residual = FALSE;
    s.has_bias = FALSE;
    check_shape (check, type, &s);
  }
  for (guint i = 0; i < 40; i++) {
    Shape s = { check_random_range (check, 1, i < 20 ? 12 : 200),
      check_random_range (check, 1, 150), check_random_range (check, 1, 300) };

    s.has_bias = check_random_range (check, 0, 1);
    s.has_residual = check_random_range (check, 0, 1);
    s.is_in_place = check_random_range (check, 0, 1);
    s.activation = check_random_range (check, 0, 1) ? ASR_ACTIVATION_GELU
                                                    : ASR_ACTIVATION_NONE;
    check_shape (check, type, &s);
  }
}

/* The largest products there are: every value at +-127 or -127 alone. */
static void
check_extremes (Check *check)
{
  guint signs[] = { 0, 1, 2 };

  for (guint i = 0; i < G_N_ELEMENTS (signs); i++) {
    for (guint n_rows = 1; n_rows <= 40; n_rows += 13) {
      Shape s = { n_rows, 48, 2048 };
      AsrTensor tensor = { ASR_DTYPE_F32, 2, { s.n_out, s.n_in } };
      Case c;

      begin_case (&c, check, &s);
      for (guint k = 0; k < s.n_out * s.n_in; k++)
        c.w[k] = signs[i] == 2 && check_random_range (check, 0, 1) ? -1 : 1;
      for (guint k = 0; k < s.n_rows * s.n_in; k++)
        c.x[k] = signs[i] == 1 ? -1 : 1;
      check->table->weight_free (check->device, c.weight);
      tensor.data = c.w;
      c.weight = check->table->weight_new (check->device, &tensor,
          ASR_WEIGHT_LINEAR, NULL);
      c.params.weights.weight = c.weight;
      expect_i8 (&c, &s);
      check->table->linear (check->queue, &c.params);
      if (check_wait (check, "linear int8 extremes"))
        check_compare (check, "linear int8 extremes", c.y, c.expected,
            (gsize) s.n_rows * s.n_out, 1e-6, 1e-6);
      end_case (&c);
    }
  }
}

/* GELU alone, through a product with the unit matrix: absolute error. */
static void
check_gelu (Check *check)
{
  Shape s = { 3000, 16, 16, FALSE, FALSE, FALSE, ASR_ACTIVATION_GELU };
  AsrTensor tensor = { ASR_DTYPE_F32, 2, { 16, 16 } };
  Case c;

  begin_case (&c, check, &s);
  memset (c.w, 0, 16 * 16 * sizeof (float));
  for (guint i = 0; i < 16; i++)
    c.w[i * 17] = 1.0f;
  for (guint i = 0; i < 3000 * 16; i++) {
    c.x[i] = (float) (i - 24000) / 2400.0f;
    c.expected[i] = gelu (c.x[i]);
  }
  check->table->weight_free (check->device, c.weight);
  tensor.data = c.w;
  c.weight = check->table->weight_new (check->device, &tensor,
      ASR_WEIGHT_LINEAR, NULL);
  c.params.weights.weight = c.weight;
  check->table->linear (check->queue, &c.params);
  if (check_wait (check, "gelu"))
    check_compare (check, "gelu", c.y, c.expected, 3000 * 16, 1e-6, 0.0);
  end_case (&c);
}

static void
run_case (gpointer data)
{
  Case *c = data;

  c->check->table->linear (c->check->queue, &c->params);
}

static void
bench_shapes (Check *check, AsrComputeType type)
{
  static const Shape shapes[] = {
    { 1500, 2048, 512, TRUE, FALSE, FALSE, ASR_ACTIVATION_GELU },
    { 1500, 512, 2048, TRUE, TRUE, TRUE },
    { 1500, 1536, 512, TRUE },
    { 1500, 512, 512, TRUE, TRUE, TRUE },
    { 1, 2048, 512, TRUE, FALSE, FALSE, ASR_ACTIVATION_GELU },
    { 1, 512, 2048, TRUE, TRUE, TRUE },
    { 1, 1536, 512, TRUE },
    { 1, 512, 512, TRUE, TRUE, TRUE },
    { 1, 51865, 512 },
    { 4, 51865, 512 },
    { 8, 2048, 512, TRUE },
    { 100, 2048, 512, TRUE },
    { 100, 51865, 512 },
  };
  gsize size = type == ASR_COMPUTE_F32 ? 4 : 1;

  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++) {
    const Shape *s = &shapes[i];
    double n_weights = (double) s->n_out * s->n_in;
    g_autofree char *name = g_strdup_printf ("linear %s %ux%ux%u",
        size == 4 ? "f32" : "int8", s->n_rows, s->n_out, s->n_in);
    Case c;

    begin_case (&c, check, s);
    check_bench (check, name, 2.0 * s->n_rows * n_weights,
        n_weights * size
            + 4.0 * s->n_rows * ((double) s->n_in + s->n_out), run_case, &c);
    end_case (&c);
  }
}

/* A weight of another size than the call says is an error, not a crash. */
static void
check_mismatch (Check *check)
{
  Shape s = { 2, 16, 16 };
  g_autoptr (GError) error = NULL;
  Case c;

  begin_case (&c, check, &s);
  c.params.n_in = 15;
  check->table->linear (check->queue, &c.params);
  if (check->table->queue_wait (check->queue, &error))
    check_fail (check, "linear mismatch", "no error");
  end_case (&c);
}

static void
check_linear (Check *check)
{
  guint n_threads = check->n_threads;

  for (guint threads = 1; threads <= n_threads + 1; threads += n_threads) {
    check_open (check, ASR_COMPUTE_F32, threads);
    check_shapes (check, ASR_COMPUTE_F32);
    check_open (check, ASR_COMPUTE_INT8, threads);
    check_shapes (check, ASR_COMPUTE_INT8);
  }
  check_extremes (check);
  check_mismatch (check);
  check_open (check, ASR_COMPUTE_F32, n_threads);
  check_gelu (check);
  if (check->is_bench) {
    bench_shapes (check, ASR_COMPUTE_F32);
    check_open (check, ASR_COMPUTE_INT8, n_threads);
    bench_shapes (check, ASR_COMPUTE_INT8);
  }
}

int
main (int argc, char **argv)
{
  return check_main (argc, argv, check_linear);
}
