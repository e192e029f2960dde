/* SPDX-License-Identifier: MIT */
/* Check and bench of conv against the definition in double precision. */
#include "tests/kernels/harness.h"
#include <math.h>

#define MAX_SEQUENCES 3

typedef struct {
  gboolean channels_first;
  guint n_rows, n_frames, n_in, n_out, stride;
  gboolean has_positions;
} Shape;

typedef struct {
  Check *check;
  AsrConvParams params;
  const void *rows[MAX_SEQUENCES];
  float *x[MAX_SEQUENCES];
  float *w, *bias, *positions, *y;
} Case;

static double
gelu (double x)
{
  return 0.5 * x * (1.0 + erf (x * M_SQRT1_2));
}

static double
get_x (const Case *c, const Shape *s, guint row, gint frame, guint channel)
{
  if (frame < 0 || frame >= (gint) s->n_frames)
    return 0.0;
  if (s->channels_first)
    return c->x[row][(gsize) channel * s->n_frames + frame];
  return c->x[row][(gsize) frame * s->n_in + channel];
}

static double
expect_one (const Case *c, const Shape *s, guint row, guint frame, guint out)
{
  double sum = c->bias[out];

  for (guint i = 0; i < s->n_in; i++) {
    for (gint tap = 0; tap < 3; tap++)
      sum += (double) c->w[((gsize) out * s->n_in + i) * 3 + tap]
          * get_x (c, s, row, (gint) (frame * s->stride) + tap - 1, i);
  }
  sum = gelu (sum);
  if (s->has_positions)
    sum += c->positions[(gsize) frame * s->n_out + out];
  return sum;
}

static void
begin_case (Case *c, Check *check, const Shape *s)
{
  guint n_out_frames = s->n_frames / s->stride;
  AsrTensor tensor = { ASR_DTYPE_F32, 3, { s->n_out, s->n_in, 3 } };
  g_autoptr (GError) error = NULL;

  *c = (Case){ check };
  for (guint i = 0; i < s->n_rows; i++) {
    c->x[i] = check_new_f32 (check, (gsize) s->n_frames * s->n_in, 1.0);
    c->rows[i] = c->x[i];
  }
  c->w = check_new_f32 (check, (gsize) s->n_out * s->n_in * 3, 0.1);
  c->bias = check_new_f32 (check, s->n_out, 1.0);
  c->positions = check_new_f32 (check, (gsize) n_out_frames * s->n_out, 1.0);
  c->y = check_new ((gsize) s->n_rows * n_out_frames * s->n_out
      * sizeof (float));
  tensor.data = c->w;
  tensor.n_bytes = (gsize) s->n_out * s->n_in * 3 * sizeof (float);
  c->params = (AsrConvParams){ s->n_rows, s->channels_first, c->rows,
    s->n_frames, s->n_in, s->n_out, s->stride, { NULL, c->bias },
    s->has_positions ? c->positions : NULL, c->y };
  c->params.weights.weight = check->table->weight_new (check->device, &tensor,
      ASR_WEIGHT_CONV, &error);
  if (!c->params.weights.weight)
    g_error ("weight: %s", error->message);
}

static void
end_case (Case *c)
{
  for (guint i = 0; i < MAX_SEQUENCES; i++)
    check_free (c->x[i]);
  check_free (c->w);
  check_free (c->bias);
  check_free (c->positions);
  check_free (c->y);
  c->check->table->weight_free (c->check->device, c->params.weights.weight);
}

static void
check_shape (Check *check, const Shape *s)
{
  guint n_out_frames = s->n_frames / s->stride;
  gsize n = (gsize) s->n_rows * n_out_frames * s->n_out, at = 0;
  g_autofree double *expected = g_new (double, n);
  g_autofree char *name = g_strdup_printf (
      "conv %u x [%u, %u] to %u, stride %u%s", s->n_rows, s->n_frames,
      s->n_in, s->n_out, s->stride, s->channels_first ? ", mel" : "");
  Case c;

  begin_case (&c, check, s);
  for (guint row = 0; row < s->n_rows; row++) {
    for (guint frame = 0; frame < n_out_frames; frame++) {
      for (guint out = 0; out < s->n_out; out++)
        expected[at++] = expect_one (&c, s, row, frame, out);
    }
  }
  check->table->conv (check->queue, &c.params);
  if (check_wait (check, name))
    check_compare (check, name, c.y, expected, n,
        2e-6 * sqrt (3.0 * s->n_in), 2e-6);
  end_case (&c);
}

static void
run_case (gpointer data)
{
  Case *c = data;

  c->check->table->conv (c->check->queue, &c->params);
}

static void
bench_shape (Check *check, const Shape *s)
{
  g_autofree char *name = g_strdup_printf ("conv [%u, %u] to %u, stride %u",
      s->n_frames, s->n_in, s->n_out, s->stride);
  Case c;

  begin_case (&c, check, s);
  check_bench (check, name,
      6.0 * s->n_frames / s->stride * s->n_in * s->n_out,
      4.0 * s->n_frames * (s->n_in + s->n_out), run_case, &c);
  end_case (&c);
}

static void
check_conv (Check *check)
{
  static const Shape first = { TRUE, 1, 3000, 80, 512, 1 };
  static const Shape second = { FALSE, 1, 3000, 512, 512, 2, TRUE };

  for (guint i = 0; i < 16; i++) {
    Shape s = { i % 2, check_random_range (check, 1, MAX_SEQUENCES),
      2 * check_random_range (check, 1, 60), check_random_range (check, 1, 40),
      check_random_range (check, 1, 50), check_random_range (check, 1, 2),
      check_random_range (check, 0, 1) };

    check_shape (check, &s);
  }
  if (check->is_bench) {
    bench_shape (check, &first);
    bench_shape (check, &second);
  }
}

int
main (int argc, char **argv)
{
  return check_main (argc, argv, check_conv);
}
