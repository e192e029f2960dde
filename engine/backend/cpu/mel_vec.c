/* SPDX-License-Identifier: MIT */
/*
 * Log-mel of a few frames at a time, one frame in each lane. The transform of
 * 400 real samples is 20 x 20 (Cooley and Tukey 1965): transforms of 20 over
 * every 20th sample, a turn, and transforms of 20 across them; a transform of
 * 20 is 4 x 5 without turns (Good 1958).
 */
#include "engine/backend/cpu/kernels_vec.h"

typedef struct {
  Vec re, im;
} Complex;

static inline Complex
add (Complex a, Complex b)
{
  return (Complex) { a.re + b.re, a.im + b.im };
}

static inline Complex
sub (Complex a, Complex b)
{
  return (Complex) { a.re - b.re, a.im - b.im };
}

/* a - i b */
static inline Complex
sub_i (Complex a, Complex b)
{
  return (Complex) { a.re + b.im, a.im - b.re };
}

/* a + i b */
static inline Complex
add_i (Complex a, Complex b)
{
  return (Complex) { a.re - b.im, a.im + b.re };
}

/* x + a u + b v */
static inline Complex
mix (Complex x, float a, Complex u, float b, Complex v)
{
  x.re = vec_fma (vec_set (a), u.re, vec_fma (vec_set (b), v.re, x.re));
  x.im = vec_fma (vec_set (a), u.im, vec_fma (vec_set (b), v.im, x.im));
  return x;
}

static inline void
transform_4 (const Complex x[4], Complex *y, const guint8 to[4])
{
  Complex even = add (x[0], x[2]), odd = add (x[1], x[3]);
  Complex even_diff = sub (x[0], x[2]), odd_diff = sub (x[1], x[3]);

  y[to[0]] = add (even, odd);
  y[to[1]] = sub_i (even_diff, odd_diff);
  y[to[2]] = sub (even, odd);
  y[to[3]] = add_i (even_diff, odd_diff);
}

static inline void
transform_5 (const Complex x[5], Complex y[5])
{
  const float c1 = 0.309016994f, c2 = -0.809016994f; /* cos (2 pi k / 5) */
  const float s1 = 0.951056516f, s2 = 0.587785252f;  /* sin */
  const Complex zero = { vec_set (0), vec_set (0) };
  Complex sum1 = add (x[1], x[4]), sum2 = add (x[2], x[3]);
  Complex diff1 = sub (x[1], x[4]), diff2 = sub (x[2], x[3]);
  Complex a1 = mix (x[0], c1, sum1, c2, sum2);
  Complex a2 = mix (x[0], c2, sum1, c1, sum2);
  Complex b1 = mix (zero, s1, diff1, s2, diff2);
  Complex b2 = mix (zero, s2, diff1, -s1, diff2);

  y[0] = add (x[0], add (sum1, sum2));
  y[1] = sub_i (a1, b1);
  y[2] = sub_i (a2, b2);
  y[3] = add_i (a2, b2);
  y[4] = add_i (a1, b1);
}

/* Index n of the input is 5 a + 4 b, k of the output 5 a + 16 b, both modulo
 * 20: then n k is 5 a a' + 4 b b', and the two transforms part. */
static void
transform_20 (const Complex *x, guint stride, Complex y[20])
{
  Complex columns[5][4];

  for (guint a = 0; a < 4; a++) {
    Complex in[5], out[5];

    for (guint b = 0; b < 5; b++)
      in[b] = x[(5 * a + 4 * b) % 20 * stride];
    transform_5 (in, out);
    for (guint b = 0; b < 5; b++)
      columns[b][a] = out[b];
  }
  for (guint b = 0; b < 5; b++) {
    guint8 to[4];

    for (guint a = 0; a < 4; a++)
      to[a] = (5 * a + 16 * b) % 20;
    transform_4 (columns[b], y, to);
  }
}

/* Sample @i of the window: zeros behind the last, reflected at both ends. */
static float
get_sample (const AsrMelBlock *block, gint i)
{
  if (i < 0)
    i = -i;
  if (i >= ASR_MEL_SAMPLES)
    i = 2 * (ASR_MEL_SAMPLES - 1) - i;
  return i < (gint) block->n_samples ? block->samples[i] : 0;
}

/* Windowed samples of frame @t into lane @lane. Two real columns make one of
 * complex numbers: sample 20 i + 2 j is the real part of x[i][j], the next
 * one the imaginary part. */
static void
fill_lane (const AsrMelBlock *block, guint t, guint lane, float *x)
{
  gint begin = (gint) (t * ASR_MEL_HOP) - ASR_MEL_FFT / 2;
  const float *samples;
  float edge[ASR_MEL_FFT];

  if (begin < 0 || begin + ASR_MEL_FFT > (gint) block->n_samples) {
    for (gint i = 0; i < ASR_MEL_FFT; i++)
      edge[i] = get_sample (block, begin + i);
    samples = edge;
  } else {
    samples = block->samples + begin;
  }
  for (guint i = 0; i < ASR_MEL_FFT; i++) /* Hann's window */
    x[i * VEC_N + lane] = samples[i] * (0.5f - 0.5f * block->circle[2 * i]);
}

/* [20, 20] samples (two real columns in each of x's 10) into transforms of
 * the columns, turned: y[k][n] for k = 0 .. 10, since the others mirror. */
static void
transform_columns (const Complex *x, const float *circle, Complex y[11][20])
{
  for (guint j = 0; j < 10; j++) {
    Complex z[20];

    transform_20 (x + j, 10, z);
    for (guint k = 0; k <= 10; k++) {
      Complex a = z[k], b = z[(20 - k) % 20];
      /* even column (a + conj b) / 2, odd column (a - conj b) / 2i */
      Complex even = { 0.5f * (a.re + b.re), 0.5f * (a.im - b.im) };
      Complex odd = { 0.5f * (a.im + b.im), 0.5f * (b.re - a.re) };
      const float *turn0 = circle + 2 * (2 * j * k);
      const float *turn1 = circle + 2 * ((2 * j + 1) * k);

      y[k][2 * j].re = even.re * turn0[0] + even.im * turn0[1];
      y[k][2 * j].im = even.im * turn0[0] - even.re * turn0[1];
      y[k][2 * j + 1].re = odd.re * turn1[0] + odd.im * turn1[1];
      y[k][2 * j + 1].im = odd.im * turn1[0] - odd.re * turn1[1];
    }
  }
}

/* Bins above 200 are the mirror of those below. */
static void
get_power (const Complex y[11][20], Vec power[ASR_MEL_BINS])
{
  for (guint k = 0; k <= 10; k++) {
    Complex z[20];

    transform_20 (y[k], 1, z);
    for (guint i = 0; i < 20; i++) {
      guint bin = k + 20 * i;

      bin = bin > ASR_MEL_FFT / 2 ? ASR_MEL_FFT - bin : bin;
      power[bin] = z[i].re * z[i].re + z[i].im * z[i].im;
    }
  }
}

static Vec
apply_filters (const AsrMelBlock *block, const Vec power[ASR_MEL_BINS],
    guint first, guint n)
{
  Vec top = vec_set (-10.0f);

  for (guint m = 0; m < block->n_mels; m++) {
    const float *filter = block->filters + (gsize) m * ASR_MEL_BINS;
    float *mel = block->mel + (gsize) m * ASR_MEL_FRAMES + first;
    Vec energy = vec_set (0);

    for (guint k = block->bins[2 * m]; k < block->bins[2 * m + 1]; k++)
      energy = vec_fma (vec_set (filter[k]), power[k], energy);
    energy = vec_log (vec_max (energy, vec_set (1e-10f)))
        * vec_set ((float) (1 / G_LN10));
    top = vec_max (energy, top);
    memcpy (mel, &energy, n * sizeof (float));
  }
  return top;
}

float
TIER (mel_frames) (const AsrMelBlock *block, guint first, guint n)
{
  Complex x[200], y[11][20];
  Vec power[ASR_MEL_BINS];
  Vec top = vec_set (-10.0f);

  for (guint i = 0; i < n; i += VEC_N) {
    guint n_lanes = MIN (VEC_N, n - i);

    /* Lanes behind the last frame repeat it, so that the maximum holds. */
    for (guint lane = 0; lane < VEC_N; lane++)
      fill_lane (block, first + i + MIN (lane, n_lanes - 1), lane,
          (float *) x);
    transform_columns (x, block->circle, y);
    get_power (y, power);
    top = vec_max (apply_filters (block, power, first + i, n_lanes), top);
  }
  return vec_top (top);
}

void
TIER (mel_scale) (float *x, gsize n, float floor)
{
  const Vec quarter = vec_set (0.25f), one = vec_set (1.0f);
  gsize i = 0;

  for (; i + VEC_N <= n; i += VEC_N)
    vec_store (x + i,
        vec_fma (vec_max (vec_load (x + i), vec_set (floor)), quarter, one));
  for (; i < n; i++)
    x[i] = MAX (x[i], floor) * 0.25f + 1.0f;
}
