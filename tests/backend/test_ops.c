/* SPDX-License-Identifier: MIT */
/* Mel, convolutions, norms, products, embeddings and encoder attention. */
#include "tests/backend/suite.h"
#include <math.h>
#include <string.h>

#define N_FRAMES 3000
#define N_SAMPLES 480000
#define N_BINS 201

static double *
to_doubles (Suite *suite, const float *x, gsize n)
{
  double *to = suite_doubles (suite, n);

  for (gsize i = 0; i < n; i++)
    to[i] = x[i];
  return to;
}

/* ---- mel ---- */

static double
get_sample (const float *samples, guint n, gint i)
{
  i = ABS (i);
  if (i >= N_SAMPLES)
    i = 2 * (N_SAMPLES - 1) - i;
  return i < (gint) n ? samples[i] : 0;
}

/* Powers of frame @t by the definition of the transform. */
static void
reference_power (const float *samples, guint n, guint t, double *power)
{
  double x[400];

  for (guint i = 0; i < 400; i++)
    x[i] = get_sample (samples, n, (gint) (t * 160 + i) - 200)
        * (0.5 - 0.5 * cos (2 * G_PI * i / 400));
  for (guint k = 0; k < N_BINS; k++) {
    double re = 0, im = 0;

    for (guint i = 0; i < 400; i++) {
      re += x[i] * cos (2 * G_PI * (i * k % 400) / 400);
      im -= x[i] * sin (2 * G_PI * (i * k % 400) / 400);
    }
    power[k] = re * re + im * im;
  }
}

/* Frames that are compared: both ends, those around the last sample, and
 * every 37th; a reference of all would take a minute. The greatest value of
 * the window is taken from a tone that is in frame 74. */
static gboolean
is_compared (guint t, guint n_samples)
{
  return t < 4 || t >= N_FRAMES - 4 || t % 37 == 0
      || ABS ((gint) t - (gint) (n_samples / 160)) < 4;
}

static void
compare_mel (Suite *suite, const float *samples, guint n,
    const float *filters, guint n_mels, const float *got)
{
  double *expected = suite_doubles (suite, (gsize) N_FRAMES * n_mels);
  float *kept = suite_random (suite, (gsize) N_FRAMES * n_mels, 0);
  double top = -10;
  gsize n_kept = 0;

  for (guint t = 0; t < N_FRAMES; t++) {
    double power[N_BINS];

    if (!is_compared (t, n))
      continue;
    reference_power (samples, n, t, power);
    for (guint m = 0; m < n_mels; m++, n_kept++) {
      double energy = 0;

      for (guint k = 0; k < N_BINS; k++)
        energy += power[k] * filters[m * N_BINS + k];
      expected[n_kept] = log10 (MAX (energy, 1e-10));
      top = MAX (top, expected[n_kept]);
      kept[n_kept] = got[(gsize) m * N_FRAMES + t];
    }
  }
  for (gsize i = 0; i < n_kept; i++)
    expected[i] = (MAX (expected[i], top - 8) + 4) / 4;
  suite_compare ("mel", kept, expected, n_kept, 2e-5);
}

static void
check_mel (Suite *suite)
{
  const guint n_mels = 80, lengths[] = { N_SAMPLES, 123457, 1, 0 };
  const guint n_rows = G_N_ELEMENTS (lengths);
  float *filters = suite_random (suite, n_mels * N_BINS, 0);
  float *samples = suite_random (suite, N_SAMPLES, 0.05);
  const float *x[4];
  float *mel[4];
  AsrMelParams params = { n_rows, x, lengths, NULL, n_mels, mel };

  for (guint m = 0; m < n_mels; m++)
    for (guint k = 0; k < N_BINS; k++)
      filters[m * N_BINS + k]
          = (float) MAX (0, 0.02 - 0.004 * fabs (k - 2.5 * m));
  for (guint i = 0; i < 400; i++) /* middle of frame 74 */
    samples[74 * 160 - 200 + i] += (float) sin (0.7 * i);
  for (guint r = 0; r < n_rows; r++) {
    x[r] = suite_upload (suite, samples,
        MAX (lengths[r], 1) * sizeof (float));
    mel[r] = suite_device (suite, n_mels * N_FRAMES * sizeof (float));
  }
  params.filters = suite_upload (suite, filters,
      n_mels * N_BINS * sizeof (float));
  suite->table->mel (suite->queue, &params);
  for (guint r = 0; r < n_rows; r++)
    compare_mel (suite, samples, lengths[r], filters, n_mels,
        suite_download (suite, mel[r], n_mels * N_FRAMES * sizeof (float)));
}

/* ---- convolutions ---- */

static void
check_one_conv (Suite *suite, gboolean channels_first, guint n_frames,
    guint n_in, guint n_out, guint stride, gboolean has_positions)
{
  guint n_to = n_frames / stride, n_rows = 2;
  gsize n_y = (gsize) n_to * n_out, n_x = (gsize) n_frames * n_in;
  double amplitude = 1 / sqrt (3.0 * n_in);
  float *w = suite_random (suite, (gsize) n_out * n_in * 3, amplitude);
  float *bias = suite_random (suite, n_out, 0.3);
  float *positions = suite_random (suite, n_y, 1);
  double *expected = suite_doubles (suite, n_rows * n_y);
  const void *rows[2];
  AsrConvParams params = { n_rows, channels_first, rows, n_frames, n_in,
    n_out, stride, { suite_weight (suite, w, n_out, n_in, 3),
      suite_upload (suite, bias, n_out * sizeof (float)) },
    has_positions ? suite_upload (suite, positions, n_y * sizeof (float))
                  : NULL,
    suite_new_act (suite, n_rows * n_y) };

  for (guint r = 0; r < n_rows; r++) {
    float *x = suite_random (suite, n_x, 1);

    rows[r] = channels_first ? suite_upload (suite, x, n_x * sizeof (float))
                             : suite_upload_act (suite, x, n_x);
    for (guint t = 0; t < n_to; t++)
      for (guint o = 0; o < n_out; o++) {
        double sum = bias[o];

        for (gint tap = 0; tap < 3; tap++)
          for (guint i = 0; i < n_in; i++) {
            gint from = (gint) (t * stride) + tap - 1;

            if (from < 0 || from >= (gint) n_frames)
              continue;
            sum += (double) w[((gsize) o * n_in + i) * 3 + tap]
                * (channels_first ? x[(gsize) i * n_frames + from]
                                  : x[(gsize) from * n_in + i]);
          }
        expected[r * n_y + (gsize) t * n_out + o] = reference_gelu (sum)
            + (has_positions ? positions[(gsize) t * n_out + o] : 0);
      }
  }
  suite->table->conv (suite->queue, &params);
  suite_compare ("conv", suite_download_act (suite, params.y, n_rows * n_y),
      expected, n_rows * n_y, suite->act_tolerance);
}

static void
check_conv (Suite *suite)
{
  check_one_conv (suite, TRUE, 202, 80, 64, 1, FALSE);
  check_one_conv (suite, TRUE, 64, 128, 96, 1, FALSE);
  check_one_conv (suite, FALSE, 202, 64, 64, 2, TRUE);
}

/* ---- norms ---- */

static void
check_norm (Suite *suite)
{
  const guint sizes[] = { 64, 384, 512, 768, 1280 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    guint d = sizes[i], n_x = 37;
    float *x = suite_random (suite, (gsize) n_x * d, 3);
    float *gamma = suite_random (suite, d, 1);
    float *beta = suite_random (suite, d, 0.2);
    guint32 gather[] = { 36, 0, 0, 7, 5, 11 };
    double *expected = to_doubles (suite, x, (gsize) n_x * d);
    void *y_rows[2] = { suite_new_act (suite, 3 * d),
      suite_new_act (suite, 3 * d) };
    AsrNormParams params = { .n_rows = n_x, .d = d,
      .x = suite_upload_act (suite, x, (gsize) n_x * d),
      .weights = { suite_upload (suite, gamma, d * sizeof (float)),
        suite_upload (suite, beta, d * sizeof (float)) },
      .y = suite_new_act (suite, (gsize) n_x * d) };
    double *taken = suite_doubles (suite, 6 * d);

    reference_norm (expected, n_x, d, gamma, beta);
    suite->table->norm (suite->queue, &params);
    suite_compare ("norm", suite_download_act (suite, params.y,
            (gsize) n_x * d), expected, (gsize) n_x * d,
        suite->act_tolerance);

    params.n_rows = 6;
    params.gather = gather;
    params.y_rows = y_rows;
    params.rows_per_y = 3;
    suite->table->norm (suite->queue, &params);
    for (guint r = 0; r < 6; r++)
      memcpy (taken + r * d, expected + gather[r] * d, d * sizeof (double));
    for (guint r = 0; r < 2; r++)
      suite_compare ("norm of rows", suite_download_act (suite, y_rows[r],
              3 * d), taken + r * 3 * d, 3 * d, suite->act_tolerance);
  }
}

/* ---- products ---- */

static void
check_one_linear (Suite *suite, guint n_rows, guint n_in, guint n_out,
    gboolean has_bias, AsrActivation activation, gboolean has_residual,
    gboolean in_place, gboolean y_is_f32)
{
  gsize n_y = (gsize) n_rows * n_out;
  float *x = suite_random (suite, (gsize) n_rows * n_in, 1);
  float *w = suite_random (suite, (gsize) n_out * n_in,
      1 / sqrt ((double) n_in));
  float *bias = suite_random (suite, n_out, 0.5);
  float *residual = suite_random (suite, n_y, 1);
  double *expected = suite_doubles (suite, n_y);
  AsrLinearParams params = { n_rows, n_in, n_out,
    suite_upload_act (suite, x, (gsize) n_rows * n_in),
    { suite_weight (suite, w, n_out, n_in, 1),
      has_bias ? suite_upload (suite, bias, n_out * sizeof (float)) : NULL },
    activation, NULL, y_is_f32, NULL };
  g_autofree char *name = g_strdup_printf ("linear [%u, %u] to %u%s%s%s%s%s",
      n_rows, n_in, n_out, has_bias ? ", bias" : "",
      activation == ASR_ACTIVATION_GELU ? ", GELU" : "",
      has_residual ? ", residual" : "", in_place ? ", in place" : "",
      y_is_f32 ? ", to f32" : "");

  reference_linear (to_doubles (suite, x, (gsize) n_rows * n_in), n_rows,
      n_in, w, has_bias ? bias : NULL, n_out, expected);
  for (gsize i = 0; i < n_y; i++) {
    if (activation == ASR_ACTIVATION_GELU)
      expected[i] = reference_gelu (expected[i]);
    if (has_residual)
      expected[i] += residual[i];
  }
  if (has_residual)
    params.residual = suite_upload_act (suite, residual, n_y);
  params.y = in_place ? (void *) params.residual
      : y_is_f32      ? suite_device (suite, n_y * sizeof (float))
                      : suite_new_act (suite, n_y);
  suite->table->linear (suite->queue, &params);
  suite_compare (name, y_is_f32
          ? suite_download (suite, params.y, n_y * sizeof (float))
          : suite_download_act (suite, params.y, n_y),
      expected, n_y, suite->act_tolerance);
}

static void
check_linear (Suite *suite)
{
  const guint rows[] = { 1, 5, 8, 9, 16, 17, 130 };
  const AsrActivation gelu = ASR_ACTIVATION_GELU, none = ASR_ACTIVATION_NONE;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    check_one_linear (suite, rows[i], 512, 192, TRUE, none, FALSE, FALSE,
        FALSE);
    check_one_linear (suite, rows[i], 64, 256, TRUE, gelu, FALSE, FALSE,
        FALSE);
    check_one_linear (suite, rows[i], 320, 64, FALSE, none, TRUE, TRUE,
        FALSE);
    check_one_linear (suite, rows[i], 128, 128, TRUE, gelu, TRUE, TRUE,
        FALSE);
    check_one_linear (suite, rows[i], 128, 1003, FALSE, none, FALSE, FALSE,
        TRUE);
  }
  check_one_linear (suite, 3, 64, 9000, TRUE, none, TRUE, FALSE, FALSE);
  check_one_linear (suite, 5, 256, 64, TRUE, none, TRUE, FALSE, FALSE);
  check_one_linear (suite, 2, 2048, 5120, TRUE, none, FALSE, FALSE, FALSE);
}

static void
check_linear_types (Suite *suite)
{
  /* the same values as f16 and as bf16 make the same weight */
  guint n_in = 64, n_out = 24, n = n_in * n_out;
  g_autofree guint16 *half = g_new (guint16, n);
  g_autofree guint16 *brain = g_new (guint16, n);
  float *w = suite_random (suite, n, 0);
  AsrTensor tensors[2] = {
    { ASR_DTYPE_F16, 2, { n_out, n_in }, half, n * 2 },
    { ASR_DTYPE_BF16, 2, { n_out, n_in }, brain, n * 2 },
  };
  float *x = suite_random (suite, n_in, 1);
  double *expected = suite_doubles (suite, n_out);

  for (guint i = 0; i < n; i++) {
    guint32 bits;

    w[i] = ((gint) (i * 37 % 255) - 127) / 64.0f; /* eight bits */
    memcpy (&bits, &w[i], 4);
    half[i] = asr_f32_to_f16 (w[i]);
    brain[i] = (guint16) (bits >> 16);
  }
  reference_linear (to_doubles (suite, x, n_in), 1, n_in, w, NULL, n_out,
      expected);
  for (guint i = 0; i < 2; i++) {
    g_autoptr (GError) error = NULL;
    AsrWeight *weight = suite->table->weight_new (suite->compute->device,
        &tensors[i], ASR_WEIGHT_LINEAR, &error);
    AsrLinearParams params = { 1, n_in, n_out,
      suite_upload_act (suite, x, n_in), { weight, NULL },
      ASR_ACTIVATION_NONE, NULL, TRUE,
      suite_device (suite, n_out * sizeof (float)) };

    g_assert_no_error (error);
    g_ptr_array_add (suite->weights, weight);
    suite->table->linear (suite->queue, &params);
    suite_compare ("linear of f16 or bf16", suite_download (suite, params.y,
            n_out * sizeof (float)), expected, n_out, suite->act_tolerance);
  }
}

/* ---- embeddings ---- */

static void
check_embed (Suite *suite)
{
  guint d = 128, n_vocab = 77;
  float *table = suite_random (suite, n_vocab * d, 1);
  float *positions = suite_random (suite, 448 * d, 1);
  AsrTextState states[3] = { { .token = 9, .position = 3 },
    { .token = 76, .position = 447 }, { .token = 2, .position = 5 } };
  AsrRow rows[] = { { 0, 0, 0, 0 }, { 76, 447, 0, 0 },
    { ASR_TOKEN_CHOSEN, 99, 0, 1 }, { 5, 6, 0, 1 },
    { ASR_TOKEN_CHOSEN, 99, 0, 0 } };
  guint places[][2] = { { 0, 0 }, { 76, 447 }, { 76, 447 }, { 5, 6 },
    { 9, 3 } };
  double *expected = suite_doubles (suite, 5 * d);
  AsrEmbedParams params = { 5, rows,
    suite_upload (suite, states, sizeof states),
    suite_weight (suite, table, n_vocab, d, 1),
    suite_upload (suite, positions, 448 * d * sizeof (float)), d,
    suite_new_act (suite, 5 * d) };

  for (guint r = 0; r < 5; r++)
    for (guint i = 0; i < d; i++)
      expected[r * d + i] = (double) table[places[r][0] * d + i]
          + positions[places[r][1] * d + i];
  suite->table->embed (suite->queue, &params);
  suite_compare ("embed", suite_download_act (suite, params.y, 5 * d),
      expected, 5 * d, suite->act_tolerance);
}

/* ---- attention of the encoder ---- */

static void
check_one_encoder (Suite *suite, guint n_sequences, guint n_frames,
    guint n_heads, double amplitude)
{
  guint d = n_heads * ASR_HEAD_SIZE;
  gsize n_rows = (gsize) n_sequences * n_frames;
  float *qkv = suite_random (suite, n_rows * 3 * d, amplitude);
  double *x = to_doubles (suite, qkv, n_rows * 3 * d);
  double *expected = suite_doubles (suite, n_rows * d);
  AsrAttentionParams params = { .kind = ASR_ATTENTION_ENCODER,
    .n_rows = (guint) n_rows, .n_heads = n_heads, .n_frames = n_frames,
    .qkv = suite_upload_act (suite, qkv, n_rows * 3 * d),
    .y = suite_new_act (suite, n_rows * d) };

  for (guint s = 0; s < n_sequences; s++)
    for (guint h = 0; h < n_heads; h++)
      for (guint t = 0; t < n_frames; t++) {
        const double *first = x + (gsize) s * n_frames * 3 * d
            + h * ASR_HEAD_SIZE;

        reference_attend (first + (gsize) t * 3 * d, first + d,
            first + 2 * d, 3 * d, n_frames, NULL,
            expected + ((gsize) s * n_frames + t) * d + h * ASR_HEAD_SIZE);
      }
  suite->table->attention (suite->queue, &params);
  suite_compare ("encoder attention",
      suite_download_act (suite, params.y, n_rows * d), expected, n_rows * d,
      suite->act_tolerance);
}

static void
check_encoder_attention (Suite *suite)
{
  check_one_encoder (suite, 2, 150, 2, 1);
  check_one_encoder (suite, 1, 64, 1, 3);
  check_one_encoder (suite, 1, 1, 2, 1);
  check_one_encoder (suite, 1, 1500, 1, 2);
  check_one_encoder (suite, 5, 130, 20, 1.5); /* 200 blocks of 128 */
}

static void
add_all (void)
{
  suite_add ("/mel", check_mel);
  suite_add ("/conv", check_conv);
  suite_add ("/norm", check_norm);
  suite_add ("/linear", check_linear);
  suite_add ("/linear/types", check_linear_types);
  suite_add ("/embed", check_embed);
  suite_add ("/attention/encoder", check_encoder_attention);
}

int
main (int argc, char **argv)
{
  return suite_main (argc, argv, add_all);
}
