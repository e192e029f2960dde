/* SPDX-License-Identifier: MIT */
/*
 * Silero's voice detector in plain C: a short-time Fourier transform as a
 * convolution, four small convolutions, an LSTM cell and a sigmoid. All are
 * products of a few rows with a matrix, whose outputs are summed in registers
 * block by block; matrices are laid out for that at load, so that each weight
 * is read once a frame, in order.
 *
 * Source of the network: silero-vad 6 (MIT), tinygrad_model.py and the graph
 * of its ONNX files.
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
#define MAX_SAMPLE 1e6f          /* so that no sum is infinite */
#define N_FFT 256
#define HOP 128
#define N_STEPS 4                /* transforms in one frame */
#define N_BINS 129
#define N_TAPS 3                 /* of each convolution */
#define N_HIDDEN 128
#define N_GATES (4 * N_HIDDEN)
#define LANES 32                 /* outputs in a block */
#define N_BLOCKS(n) (((n) + LANES - 1) / LANES)
#define N_STFT_COLUMNS (N_BLOCKS (2 * N_BINS) * LANES)
#define RESOURCE "/asr/silero_vad_16k.safetensors"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#define FAST __attribute__ ((target_clones ("avx512f", "arch=haswell", \
  "default")))
#else
#define FAST
#endif
#define INLINE static inline __attribute__ ((always_inline))

/**
 * Matrix:
 * @n_blocks: of LANES outputs each; what is beyond the outputs is 0
 * @weights: [n_blocks, n_in, LANES]
 */
typedef struct {
  guint n_in, n_blocks;
  float *weights;
} Matrix;

typedef struct {
  Matrix matrix;                 /* n_in: N_TAPS * channels, by tap */
  float *bias;                   /* [n_out] */
  guint n_channels, n_out;
} Conv;

struct _AsrVadModel {
  Matrix stft;                   /* N_FFT to real, then imaginary bins */
  Conv convs[4];
  Matrix gates;                  /* input and hidden to N_GATES */
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

/* Room for @n_out outputs, filled by read_rows. */
static void
make_matrix (Matrix *matrix, guint n_in, guint n_out)
{
  matrix->n_in = n_in;
  matrix->n_blocks = N_BLOCKS (n_out);
  matrix->weights = g_new0 (float, (gsize) matrix->n_blocks * n_in * LANES);
}

/* Reads the tensor [n_out, n_channels, n_taps] as inputs @first to
 * @first + n_channels * n_taps of @matrix, tap by tap. */
static gboolean
read_rows (Matrix *matrix, const AsrWeights *weights, const char *name,
    guint n_out, guint n_channels, guint n_taps, guint first, GError **error)
{
  gsize n = (gsize) n_out * n_channels * n_taps;
  g_autofree float *values = read_tensor (weights, name, n, error);

  if (values == NULL)
    return FALSE;
  for (gsize i = 0; i < n; i++) {
    guint tap = i % n_taps, channel = i / n_taps % n_channels;
    guint out = i / n_taps / n_channels;
    gsize in = first + tap * n_channels + channel;

    matrix->weights[((gsize) out / LANES * matrix->n_in + in) * LANES
        + out % LANES] = values[i];
  }
  return TRUE;
}

static gboolean
read_convs (AsrVadModel *model, const AsrWeights *weights, GError **error)
{
  static const guint shapes[4][2]
      = { { N_BINS, 128 }, { 128, 64 }, { 64, 64 }, { 64, N_HIDDEN } };

  for (guint i = 0; i < 4; i++) {
    Conv *conv = &model->convs[i];
    g_autofree char *weight = g_strdup_printf ("conv%u.weight", i + 1);
    g_autofree char *bias = g_strdup_printf ("conv%u.bias", i + 1);

    conv->n_channels = shapes[i][0];
    conv->n_out = shapes[i][1];
    make_matrix (&conv->matrix, N_TAPS * conv->n_channels, conv->n_out);
    if (!read_rows (&conv->matrix, weights, weight, conv->n_out,
            conv->n_channels, N_TAPS, 0, error)
        || !(conv->bias = read_tensor (weights, bias, conv->n_out, error)))
      return FALSE;
  }
  return TRUE;
}

static gboolean
read_model (AsrVadModel *model, const AsrWeights *weights, GError **error)
{
  g_autofree float *bias_ih = NULL, *bias_hh = NULL, *last_bias = NULL;

  make_matrix (&model->stft, N_FFT, 2 * N_BINS);
  make_matrix (&model->gates, 2 * N_HIDDEN, N_GATES);
  if (!read_rows (&model->stft, weights, "stft_conv.weight", 2 * N_BINS, 1,
          N_FFT, 0, error)
      || !read_convs (model, weights, error)
      || !read_rows (&model->gates, weights, "lstm_cell.weight_ih", N_GATES,
          N_HIDDEN, 1, 0, error)
      || !read_rows (&model->gates, weights, "lstm_cell.weight_hh", N_GATES,
          N_HIDDEN, 1, N_HIDDEN, error)
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
  g_free (model->stft.weights);
  for (guint i = 0; i < 4; i++) {
    g_free (model->convs[i].matrix.weights);
    g_free (model->convs[i].bias);
  }
  g_free (model->gates.weights);
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

/* y [n_steps, LANES * n_blocks] += x W for blocks next to each other. Inlined
 * with constants, so that all sums stay in registers.
 * @x: rows are @x_stride apart, [n_in] each
 * @w: first block's row of the first input; blocks are @w_stride apart */
INLINE void
add_blocks (const float *x, gsize x_stride, guint n_in, const float *w,
    gsize w_stride, guint n_steps, guint n_blocks, float *y, gsize y_stride)
{
  float sums[N_STEPS][2][LANES];

  for (guint t = 0; t < n_steps; t++)
    for (guint b = 0; b < n_blocks; b++)
      memcpy (sums[t][b], y + t * y_stride + b * LANES, sizeof sums[t][b]);
  for (guint i = 0; i < n_in; i++)
    for (guint t = 0; t < n_steps; t++)
      for (guint b = 0; b < n_blocks; b++)
        for (guint k = 0; k < LANES; k++)
          sums[t][b][k]
              += x[t * x_stride + i] * w[b * w_stride + i * LANES + k];
  for (guint t = 0; t < n_steps; t++)
    for (guint b = 0; b < n_blocks; b++)
      memcpy (y + t * y_stride + b * LANES, sums[t][b], sizeof sums[t][b]);
}

/* Four rows. */
FAST static void
add_product_4 (const float *x, gsize x_stride, guint n_in,
    const Matrix *matrix, float *y, gsize y_stride)
{
  gsize stride = (gsize) matrix->n_in * LANES;

  for (guint b = 0; b < matrix->n_blocks; b++)
    add_blocks (x, x_stride, n_in, matrix->weights + b * stride, stride, 4, 1,
        y + b * LANES, y_stride);
}

/* Two rows. */
FAST static void
add_product_2 (const float *x, gsize x_stride, guint n_in,
    const Matrix *matrix, float *y, gsize y_stride)
{
  gsize stride = (gsize) matrix->n_in * LANES;

  for (guint b = 0; b < matrix->n_blocks; b += 2)
    add_blocks (x, x_stride, n_in, matrix->weights + b * stride, stride, 2, 2,
        y + b * LANES, y_stride);
}

/* One row, of which x is inputs @first to @first + @n_in. */
FAST static void
add_product_1 (const float *x, guint first, guint n_in, const Matrix *matrix,
    float *y)
{
  gsize stride = (gsize) matrix->n_in * LANES;

  for (guint b = 0; b < matrix->n_blocks; b += 2)
    add_blocks (x, 0, n_in, matrix->weights + b * stride + first * LANES,
        stride, 1, 2, y + b * LANES, 0);
}

/* Magnitudes [N_STEPS, N_BINS] of [N_INPUT] samples. */
FAST static void
transform (const Matrix *stft, const float *x, float *magnitudes)
{
  float all[N_STEPS][N_STFT_COLUMNS] = { { 0 } };

  add_product_4 (x, HOP, N_FFT, stft, all[0], N_STFT_COLUMNS);
  for (guint t = 0; t < N_STEPS; t++)
    for (guint k = 0; k < N_BINS; k++)
      magnitudes[t * N_BINS + k] = sqrtf (all[t][k] * all[t][k]
          + all[t][N_BINS + k] * all[t][N_BINS + k]);
}

static void
set_biases (const Conv *conv, guint n_steps, float *y)
{
  for (guint t = 0; t < n_steps; t++)
    memcpy (y + t * conv->n_out, conv->bias, conv->n_out * sizeof (float));
}

static void
rectify (float *y, guint n)
{
  for (guint i = 0; i < n; i++)
    y[i] = MAX (y[i], 0);
}

static float
sigmoid (float x)
{
  return 1 / (1 + expf (-x));
}

/* exp (x) to 1e-7, of a kind that compilers vectorise: 2^n e^r. */
INLINE float
exp_any (float x)
{
  const float shift = 12582912; /* 1.5 * 2^23: the sum's last bit is a one */
  float limited = MIN (MAX (x, -87.0f), 87.0f);
  float whole = limited * 1.44269504f + shift;
  float n = whole - shift;
  float r = limited - n * 0.693359375f + n * 2.12194440e-4f;
  float sum = 1 + r * (1 + r * (1 / 2.0f + r * (1 / 6.0f + r * (1 / 24.0f
      + r * (1 / 120.0f + r * (1 / 720.0f + r * (1 / 5040.0f)))))));
  guint32 bits;
  float power;

  memcpy (&bits, &whole, sizeof bits);
  bits = (bits + 127) << 23;
  memcpy (&power, &bits, sizeof power);
  return sum * power;
}

/* Gates in PyTorch's order: input, forget, cell, output. */
FAST static void
update_cell (const float *gates, float *c, float *h)
{
  for (guint i = 0; i < N_HIDDEN; i++) {
    float in = 1 / (1 + exp_any (-gates[i]));
    float forget = 1 / (1 + exp_any (-gates[N_HIDDEN + i]));
    /* tanh (x) = 2 sigmoid (2 x) - 1 */
    float cell = 2 / (1 + exp_any (-2 * gates[2 * N_HIDDEN + i])) - 1;
    float out = 1 / (1 + exp_any (-gates[3 * N_HIDDEN + i]));

    c[i] = forget * c[i] + in * cell;
    h[i] = out * (2 / (1 + exp_any (-2 * c[i])) - 1);
  }
}

static void
run_lstm (AsrVad *vad, const float *x)
{
  float gates[N_GATES];

  memcpy (gates, vad->model->gate_bias, sizeof gates);
  add_product_1 (x, 0, N_HIDDEN, &vad->model->gates, gates);
  add_product_1 (vad->h, N_HIDDEN, N_HIDDEN, &vad->model->gates, gates);
  update_cell (gates, vad->c, vad->h);
}

/* The four convolutions: kernel 3, padding 1, strides 1, 2, 2, 1, so 4, 2, 1
 * and 1 steps. With a row of zeros before and after, the inputs of a step lie
 * side by side; where a tap meets only zeros it is left out.
 * @x: [1 + N_STEPS + 1, N_BINS], outer rows 0
 * @y: [N_HIDDEN] */
static void
run_convs (const Conv *convs, const float *x, float *y)
{
  float a[(1 + 4) * 128 + 128] = { 0 }, b[2 * 64], c[64];

  set_biases (&convs[0], 4, a + 128);
  add_product_4 (x, N_BINS, N_TAPS * N_BINS, &convs[0].matrix, a + 128, 128);
  rectify (a + 128, 4 * 128);

  set_biases (&convs[1], 2, b);
  add_product_2 (a, 2 * 128, N_TAPS * 128, &convs[1].matrix, b, 64);
  rectify (b, 2 * 64);

  set_biases (&convs[2], 1, c);
  add_product_1 (b, 64, 2 * 64, &convs[2].matrix, c);
  rectify (c, 64);

  set_biases (&convs[3], 1, y);
  add_product_1 (c, 64, 64, &convs[3].matrix, y);
  rectify (y, N_HIDDEN);
}

float
asr_vad_run (AsrVad *vad, const float *samples)
{
  const AsrVadModel *model = vad->model;
  float x[N_INPUT], magnitudes[(1 + N_STEPS + 1) * N_BINS] = { 0 };
  float features[N_HIDDEN], sum = model->last_bias;
  guint n_audio = CONTEXT + ASR_VAD_FRAME_SAMPLES;

  memcpy (x, vad->context, sizeof vad->context);
  for (guint i = 0; i < ASR_VAD_FRAME_SAMPLES; i++)
    x[CONTEXT + i] = CLAMP (samples[i], -MAX_SAMPLE, MAX_SAMPLE);
  for (guint i = 0; i < PAD; i++)
    x[n_audio + i] = x[n_audio - 2 - i];
  memcpy (vad->context, x + ASR_VAD_FRAME_SAMPLES, sizeof vad->context);

  transform (&model->stft, x, magnitudes + N_BINS);
  run_convs (model->convs, magnitudes, features);
  run_lstm (vad, features);
  for (guint i = 0; i < N_HIDDEN; i++)
    sum += MAX (vad->h[i], 0) * model->last[i];
  return sigmoid (sum);
}
