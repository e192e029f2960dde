/* SPDX-License-Identifier: MIT */
/* Check of embed: f32 exactly, int8 within half a step of its row. */
#include "tests/kernels/harness.h"
#include <math.h>

#define N_VOCAB 77
#define N_POSITIONS 448
#define N_ROWS 40

typedef struct {
  float *table, *positions, *y;
  AsrRow rows[N_ROWS];
  AsrTextState states[2];
  AsrEmbedParams params;
} Case;

static void
begin_case (Case *c, Check *check, guint d)
{
  AsrTensor tensor = { ASR_DTYPE_F32, 2, { N_VOCAB, d } };
  g_autoptr (GError) error = NULL;

  *c = (Case){ check_new_f32 (check, N_VOCAB * d, 0.1),
    check_new_f32 (check, N_POSITIONS * d, 0.1),
    check_new (N_ROWS * d * sizeof (float)) };
  for (guint i = 0; i < N_ROWS; i++)
    c->rows[i] = (AsrRow){ (gint32) check_random_range (check, 0, N_VOCAB - 1),
      check_random_range (check, 0, N_POSITIONS - 1), 0, i % 2 };
  c->rows[3].token = ASR_TOKEN_CHOSEN;
  c->states[1].token = 41;
  c->states[1].position = 447;
  tensor.data = c->table;
  tensor.n_bytes = N_VOCAB * d * sizeof (float);
  c->params = (AsrEmbedParams){ N_ROWS, c->rows, c->states,
    check->table->weight_new (check->device, &tensor, ASR_WEIGHT_TABLE,
        &error), c->positions, d, c->y };
  if (!c->params.table)
    g_error ("weight: %s", error->message);
}

static void
end_case (Case *c, Check *check)
{
  check->table->weight_free (check->device, c->params.table);
  check_free (c->table);
  check_free (c->positions);
  check_free (c->y);
}

static void
check_width (Check *check, AsrComputeType type, guint d)
{
  g_autofree double *expected = g_new (double, N_ROWS * d);
  double greatest = 0.0;
  Case c;

  begin_case (&c, check, d);
  for (guint i = 0; i < N_VOCAB * d; i++)
    greatest = fmax (greatest, fabs (c.table[i]));
  for (guint r = 0; r < N_ROWS; r++) {
    guint token = r == 3 ? 41 : (guint) c.rows[r].token;
    guint position = r == 3 ? 447 : c.rows[r].position;

    for (guint i = 0; i < d; i++)
      expected[r * d + i] = (double) c.table[token * d + i]
          + c.positions[position * d + i];
  }
  check->table->embed (check->queue, &c.params);
  if (check_wait (check, "embed"))
    check_compare (check, "embed", c.y, expected, N_ROWS * d,
        type == ASR_COMPUTE_F32 ? 0.0 : greatest / 254.0, 2e-7);
  end_case (&c, check);
}

static void
check_borders (Check *check)
{
  static const AsrRow bad[] = { { N_VOCAB, 0 }, { -2, 0 },
    { 0, N_POSITIONS } };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) error = NULL;
    Case c;

    begin_case (&c, check, 64);
    c.rows[7] = bad[i];
    check->table->embed (check->queue, &c.params);
    if (check->table->queue_wait (check->queue, &error))
      check_fail (check, "embed", "no error for row %u", i);
    end_case (&c, check);
  }
}

static void
check_embed (Check *check)
{
  for (guint i = 0; i < 6; i++) {
    guint d = i < 2 ? 64u << i : check_random_range (check, 1, 200);

    check_open (check, ASR_COMPUTE_F32, check->n_threads);
    check_width (check, ASR_COMPUTE_F32, d);
    check_open (check, ASR_COMPUTE_INT8, check->n_threads);
    check_width (check, ASR_COMPUTE_INT8, d);
  }
  check_borders (check);
}

int
main (int argc, char **argv)
{
  return check_main (argc, argv, check_embed);
}
