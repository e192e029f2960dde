/* SPDX-License-Identifier: MIT */
/*
 * Silero's voice detector in plain C: a short-time Fourier transform as a
 * convolution, four small convolutions, an LSTM cell and a sigmoid. Loops run
 * over contiguous outputs, for the compiler to vectorise; weights are
 * transposed for that at load.
 *
 * Source of the network: silero-vad 6 (MIT), tinygrad_model.py and its
 * weights.
 */
#include "engine/audio/vad.h"

#include <gio/gio.h>
#include <math.h>
#include <string.h>

#include "engine/audio/asr-resources.h" /* generated */
#include "engine/weights/reader.h"

#define CONTEXT 64               /* samples of the frame before */
#define PAD 64                   /* mirrored at the end */
#define N_INPUT (CONTEXT + ASR_VAD_FRAME_SAMPLES + PAD)
#define N_FFT 256
#define HOP 128
#define N_STEPS 4                /* transforms in one frame */
#define N_BINS 129
#define N_HIDDEN 128
#define N_GATES (4 * N_HIDDEN)
/* Real and imaginary bins, in whole blocks of STFT_LANES sums. */
#define STFT_LANES 32
#define STFT_STRIDE ((2 * N_BINS + STFT_LANES - 1) / STFT_LANES * STFT_LANES)
#define RESOURCE "/asr/silero_vad_16k.safetensors"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#define FAST __attribute__ ((target_clones ("avx512f", "avx2", "default")))
#else
#define FAST
#endif

typedef struct {
  guint n_in, n_out, stride;
  float *weight;                 /* [n_in, 3, n_out] */
  float *bias;                   /* [n_out] */
} Conv;

struct _AsrVadModel {
  float *stft;                   /* [N_FFT, STFT_STRIDE] */
  Conv convs[4];
  float *input;                  /* [N_HIDDEN, N_GATES] */
  float *hidden;                 /* [N_HIDDEN, N_GATES] */
  float *gate_bias;              /* [N_GATES] */
  float *last;                   /* [N_HIDDEN] */
  float last_bias;
};

struct _AsrVad {
  const AsrVadModel *model;
  float context[CONTEXT];
  float h[N_HIDDEN], c[N_HIDDEN];
};

/* ---- weights ---- */

/* f32 [n], or NULL with an error that names the tensor */
static float *
read_tensor (const AsrWeights *weights, const char *name, gsize n,
    GError **error)
{
  const AsrTensor *tensor = asr_weights_find (weights, name);
  float *values;

  if (tensor == NULL || asr_tensor_get_n_elements (tensor) != n) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
        "the voice detector's weights have no \"%s\" of %" G_GSIZE_FORMAT
        " values", name, n);
    return NULL;
  }
  values = g_new (float, n);
  asr_tensor_to_f32 (tensor, 0, n, values);
  return values;
}

/* [n_rows, n_columns] to [n_columns, stride], zeros beyond n_rows */
static float *
read_transposed (const AsrWeights *weights, const char *name, guint n_rows,
    guint n_columns, guint stride, GError **error)
{
  g_autofree float *rows
      = read_tensor (weights, name, (gsize) n_rows * n_columns, error);
  float *columns;

  if (rows == NULL)
    return NULL;
  columns = g_new0 (float, (gsize) stride * n_columns);
  for (guint r = 0; r < n_rows; r++)
    for (guint c = 0; c < n_columns; c++)
      columns[(gsize) c * stride + r] = rows[(gsize) r * n_columns + c];
  return columns;
}

static gboolean
read_convs (AsrVadModel *model, const AsrWeights *weights, GError **error)
{
  static const guint shapes[4][3] = { { N_BINS, 128, 1 }, { 128, 64, 2 },
    { 64, 64, 2 }, { 64, N_HIDDEN, 1 } };

  for (guint i = 0; i < 4; i++) {
    Conv *conv = &model->convs[i];
    g_autofree char *weight = g_strdup_printf ("conv%u.weight", i + 1);
    g_autofree char *bias = g_strdup_printf ("conv%u.bias", i + 1);

    conv->n_in = shapes[i][0];
    conv->n_out = shapes[i][1];
    conv->stride = shapes[i][2];
    conv->weight = read_transposed (weights, weight, conv->n_out,
        conv->n_in * 3, conv->n_out, error);
    conv->bias = conv->weight
        ? read_tensor (weights, bias, conv->n_out, error) : NULL;
    if (conv->bias == NULL)
      return FALSE;
  }
  return TRUE;
}

static gboolean
read_model (AsrVadModel *model, const AsrWeights *weights, GError **error)
{
  g_autofree float *bias_ih = NULL, *bias_hh = NULL, *last_bias = NULL;

  if (!(model->stft = read_transposed (weights, "stft_conv.weight",
            2 * N_BINS, N_FFT, STFT_STRIDE, error))
      || !read_convs (model, weights, error)
      || !(model->input = read_transposed (weights, "lstm_cell.weight_ih",
               N_GATES, N_HIDDEN, N_GATES, error))
      || !(model->hidden = read_transposed (weights, "lstm_cell.weight_hh",
               N_GATES, N_HIDDEN, N_GATES, error))
      || !(bias_ih
          = read_tensor (weights, "lstm_cell.bias_ih", N_GATES, error))
      || !(bias_hh
          = read_tensor (weights, "lstm_cell.bias_hh", N_GATES, error))
      || !(model->last
          = read_tensor (weights, "final_conv.weight", N_HIDDEN, error))
      || !(last_bias = read_tensor (weights, "final_conv.bias", 1, error)))
    return FALSE;
  model->gate_bias = g_new (float, N_GATES);
  for (guint i = 0; i < N_GATES; i++)
    model->gate_bias[i] = bias_ih[i] + bias_hh[i];
  model->last_bias = last_bias[0];
  return TRUE;
}

AsrVadModel *
asr_vad_model_new (GError **error)
{
  g_autoptr (AsrVadModel) model = g_new0 (AsrVadModel, 1);
  g_autoptr (GBytes) bytes = g_resource_lookup_data (
      asr_resources_get_resource (), RESOURCE, G_RESOURCE_LOOKUP_FLAGS_NONE,
      error);
  g_autoptr (AsrWeights) weights = NULL;
  gsize n_bytes;
  const guint8 *data;

  if (bytes == NULL)
    return NULL;
  data = g_bytes_get_data (bytes, &n_bytes);
  weights = asr_weights_read_bytes ("voice detector", data, n_bytes, error);
  if (weights == NULL || !read_model (model, weights, error))
    return NULL;
  return g_steal_pointer (&model);
}

void
asr_vad_model_free (AsrVadModel *model)
{
  if (model == NULL)
    return;
  g_free (model->stft);
  for (guint i = 0; i < 4; i++) {
    g_free (model->convs[i].weight);
    g_free (model->convs[i].bias);
  }
  g_free (model->input);
  g_free (model->hidden);
  g_free (model->gate_bias);
  g_free (model->last);
  g_free (model);
}

AsrVad *
asr_vad_new (const AsrVadModel *model)
{
  AsrVad *vad = g_new0 (AsrVad, 1);

  vad->model = model;
  return vad;
}

void
asr_vad_free (AsrVad *vad)
{
  g_free (vad);
}

void
asr_vad_reset (AsrVad *vad)
{
  memset (vad->context, 0, sizeof vad->context);
  memset (vad->h, 0, sizeof vad->h);
  memset (vad->c, 0, sizeof vad->c);
}

/* ---- the network ---- */

/* Outputs that are summed in registers at a time. */
#define LANES 64

/* y [n_out] += x [n_in] W, W [n_in, n_out]; n_out a multiple of LANES */
FAST static void
add_product (const float *x, guint n_in, const float *w, guint n_out,
    float *restrict y)
{
  for (guint first = 0; first < n_out; first += LANES) {
    float sums[LANES];

    memcpy (sums, y + first, sizeof sums);
    for (guint i = 0; i < n_in; i++) {
      const float *row = w + (gsize) i * n_out + first;

      for (guint k = 0; k < LANES; k++)
        sums[k] += x[i] * row[k];
    }
    memcpy (y + first, sums, sizeof sums);
  }
}

/* Magnitudes [N_STEPS, N_BINS] of [N_INPUT] samples. */
FAST static void
transform (const float *stft, const float *x, float *magnitudes)
{
  float all[N_STEPS][STFT_STRIDE];

  for (guint first = 0; first < STFT_STRIDE; first += STFT_LANES) {
    float sums[N_STEPS][STFT_LANES] = { { 0 } };

    for (guint i = 0; i < N_FFT; i++) {
      const float *row = stft + (gsize) i * STFT_STRIDE + first;

      for (guint t = 0; t < N_STEPS; t++)
        for (guint k = 0; k < STFT_LANES; k++)
          sums[t][k] += x[i + t * HOP] * row[k];
    }
    for (guint t = 0; t < N_STEPS; t++)
      memcpy (all[t] + first, sums[t], sizeof sums[t]);
  }
  for (guint t = 0; t < N_STEPS; t++)
    for (guint k = 0; k < N_BINS; k++)
      magnitudes[t * N_BINS + k] = sqrtf (all[t][k] * all[t][k]
          + all[t][N_BINS + k] * all[t][N_BINS + k]);
}

/* Kernel 3, padding 1, ReLU. x [n_steps, n_in], y [returned, n_out] */
static guint
convolve (const Conv *conv, const float *x, guint n_steps, float *y)
{
  guint n_out_steps = (n_steps - 1) / conv->stride + 1;
  float columns[N_BINS * 3];

  for (guint t = 0; t < n_out_steps; t++) {
    float *out = y + t * conv->n_out;

    for (guint i = 0; i < conv->n_in; i++)
      for (guint k = 0; k < 3; k++) {
        gint from = (gint) (t * conv->stride + k) - 1;

        columns[i * 3 + k] = from >= 0 && from < (gint) n_steps
            ? x[from * conv->n_in + i] : 0;
      }
    memcpy (out, conv->bias, conv->n_out * sizeof (float));
    add_product (columns, conv->n_in * 3, conv->weight, conv->n_out, out);
    for (guint k = 0; k < conv->n_out; k++)
      out[k] = MAX (out[k], 0);
  }
  return n_out_steps;
}

static float
sigmoid (float x)
{
  return 1 / (1 + expf (-x));
}

/* Gates in PyTorch's order: input, forget, cell, output. */
static void
run_lstm (AsrVad *vad, const float *x)
{
  float gates[N_GATES];

  memcpy (gates, vad->model->gate_bias, sizeof gates);
  add_product (x, N_HIDDEN, vad->model->input, N_GATES, gates);
  add_product (vad->h, N_HIDDEN, vad->model->hidden, N_GATES, gates);
  for (guint i = 0; i < N_HIDDEN; i++) {
    float in = sigmoid (gates[i]), forget = sigmoid (gates[N_HIDDEN + i]);
    float cell = tanhf (gates[2 * N_HIDDEN + i]);
    float out = sigmoid (gates[3 * N_HIDDEN + i]);

    vad->c[i] = forget * vad->c[i] + in * cell;
    vad->h[i] = out * tanhf (vad->c[i]);
  }
}

float
asr_vad_run (AsrVad *vad, const float *samples)
{
  const AsrVadModel *model = vad->model;
  float x[N_INPUT], a[N_STEPS * N_BINS], b[N_STEPS * N_BINS];
  guint n_audio = CONTEXT + ASR_VAD_FRAME_SAMPLES, n_steps = N_STEPS;
  float sum = model->last_bias;

  memcpy (x, vad->context, sizeof vad->context);
  memcpy (x + CONTEXT, samples, ASR_VAD_FRAME_SAMPLES * sizeof (float));
  for (guint i = 0; i < PAD; i++)
    x[n_audio + i] = x[n_audio - 2 - i];
  memcpy (vad->context, samples + ASR_VAD_FRAME_SAMPLES - CONTEXT,
      sizeof vad->context);

  transform (model->stft, x, a);
  n_steps = convolve (&model->convs[0], a, n_steps, b);
  n_steps = convolve (&model->convs[1], b, n_steps, a);
  n_steps = convolve (&model->convs[2], a, n_steps, b);
  convolve (&model->convs[3], b, n_steps, a);
  run_lstm (vad, a);
  for (guint i = 0; i < N_HIDDEN; i++)
    sum += MAX (vad->h[i], 0) * model->last[i];
  return sigmoid (sum);
}
