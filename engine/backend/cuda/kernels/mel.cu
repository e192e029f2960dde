/* SPDX-License-Identifier: MIT */
/*
 * Log-mel of a whole window. The transform of 400 real samples is 20 x 20
 * (Cooley and Tukey 1965): transforms of 20 over every 20th sample, a turn,
 * and transforms of 20 across them. A block takes eight frames; a second
 * kernel applies the floor that the window's maximum sets.
 */
#include "engine/backend/cuda/kernels/common.cuh"

#define FFT 400
#define HOP 160
#define BINS 201
#define SIDE 20
#define HALF_SIDE 11      /* the other outputs of real columns mirror */
#define STRETCHES ((BINS + 31) / 32)
#define N_FRAMES 3000
#define N_SAMPLES 480000
#define FRAMES 8          /* of a block */
#define THREADS 256
#define SILENCE (-10.0f)  /* log10 (1e-10) */

/* Zeros behind the last sample, reflected at both ends of the window. */
static __device__ __forceinline__ float
get_sample (const float *samples, int n_samples, int i)
{
  i = abs (i);
  if (i >= N_SAMPLES)
    i = 2 * (N_SAMPLES - 1) - i;
  return i < n_samples ? samples[i] : 0;
}

static __device__ void
fill_circle (float2 *circle)
{
  for (int i = threadIdx.x; i < FFT; i += THREADS) {
    float sine, cosine;

    sincospif (2.0f * i / FFT, &sine, &cosine);
    circle[i] = make_float2 (cosine, sine);
  }
}

/* x: [FRAMES][FFT] windowed samples; y: [FRAMES][HALF_SIDE][SIDE], the
 * transforms of the columns x[n1 * 20 + n2] over n1, turned. */
static __device__ void
transform_columns (const float *x, const float2 *circle, float2 *y)
{
  for (int i = threadIdx.x; i < FRAMES * HALF_SIDE * SIDE; i += THREADS) {
    int n2 = i % SIDE, k1 = i / SIDE % HALF_SIDE;
    const float *column = x + i / (SIDE * HALF_SIDE) * FFT + n2;
    float re = 0, im = 0;
    int angle = 0; /* n1 k1 modulo 20 */

#pragma unroll
    for (int n1 = 0; n1 < SIDE; n1++) {
      float2 turn = circle[angle * SIDE];
      float value = column[n1 * SIDE];

      re += value * turn.x;
      im -= value * turn.y;
      angle += k1;
      angle -= angle >= SIDE ? SIDE : 0;
    }
    float2 turn = circle[n2 * k1];
    y[i] = make_float2 (re * turn.x + im * turn.y,
        im * turn.x - re * turn.y);
  }
}

/* Bin k1 + 20 k2 is the transform of row k1 at k2; rows above 10 mirror:
 * bin k is the conjugate of bin 400 - k. Rows 0 and 10 mirror themselves, and
 * only one of each pair is taken: they are rounded differently, and who came
 * last would decide. power: [BINS][FRAMES] */
static __device__ void
transform_rows (const float2 *y, const float2 *circle, float *power)
{
  for (int i = threadIdx.x; i < FRAMES * HALF_SIDE * SIDE; i += THREADS) {
    int k2 = i % SIDE, k1 = i / SIDE % HALF_SIDE;
    int frame = i / (SIDE * HALF_SIDE), bin = k1 + SIDE * k2;
    const float2 *row = y + (i - k2);
    float re = 0, im = 0;
    int angle = 0; /* n2 k2 modulo 20 */

#pragma unroll
    for (int n2 = 0; n2 < SIDE; n2++) {
      float2 turn = circle[angle * SIDE];

      re += row[n2].x * turn.x + row[n2].y * turn.y;
      im += row[n2].y * turn.x - row[n2].x * turn.y;
      angle += k2;
      angle -= angle >= SIDE ? SIDE : 0;
    }
    if (bin > FFT / 2) {
      if (k1 % (SIDE / 2) == 0)
        continue;
      bin = FFT - bin;
    }
    power[bin * FRAMES + frame] = re * re + im * im;
  }
}

/* A warp for each filter; most of its stretches of 32 bins are zeros. */
static __device__ float
apply_filters (const float *filters, int n_mels, const float *power,
    int first, float *mel)
{
  int lane = threadIdx.x % 32;
  float top = SILENCE;

  for (int m = threadIdx.x / 32; m < n_mels; m += THREADS / 32) {
    float energy[FRAMES] = {}, weights[STRETCHES];

#pragma unroll
    for (int i = 0; i < STRETCHES; i++)
      weights[i] = lane + 32 * i < BINS ? filters[m * BINS + lane + 32 * i]
                                        : 0;
#pragma unroll
    for (int i = 0; i < STRETCHES; i++) {
      if (!__any_sync (ALL_LANES, weights[i] != 0))
        continue;
#pragma unroll
      for (int f = 0; f < FRAMES; f++)
        if (lane + 32 * i < BINS)
          energy[f] += weights[i] * power[(lane + 32 * i) * FRAMES + f];
    }
    float mine = 0;
#pragma unroll
    for (int f = 0; f < FRAMES; f++) {
      float sum = sum_lanes (energy[f]);

      mine = lane == f ? sum : mine;
    }
    if (lane < FRAMES && first + lane < N_FRAMES) {
      mine = log10f (fmaxf (mine, 1e-10f));
      mel[(size_t) m * N_FRAMES + first + lane] = mine;
      top = fmaxf (top, mine);
    }
  }
  return top;
}

static __global__ void
mel_frames (const float *samples, int n_samples, const float *filters,
    int n_mels, int *top, float *mel)
{
  __shared__ float2 circle[FFT];
  __shared__ float x[FRAMES * FFT];
  __shared__ float2 y[FRAMES * HALF_SIDE * SIDE];
  __shared__ float power[BINS * FRAMES];
  int first = blockIdx.x * FRAMES;

  wait_for_predecessor ();
  fill_circle (circle);
  __syncthreads ();
  for (int i = threadIdx.x; i < FRAMES * FFT; i += THREADS) {
    int n = i % FFT;
    /* the last block may have fewer frames: it repeats the last one */
    int frame = min (first + i / FFT, N_FRAMES - 1);

    x[i] = get_sample (samples, n_samples, frame * HOP - FFT / 2 + n)
        * (0.5f - 0.5f * circle[n].x);
  }
  __syncthreads ();
  transform_columns (x, circle, y);
  __syncthreads ();
  transform_rows (y, circle, power);
  __syncthreads ();
  float greatest = apply_filters (filters, n_mels, power, first, mel);
  int ordered = __reduce_max_sync (ALL_LANES, order_float (greatest));

  if (threadIdx.x % 32 == 0)
    atomicMax (top, ordered);
}

static __global__ void
mel_scale (float *mel, int n, const int *top)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;

  wait_for_predecessor ();
  if (i >= n)
    return;
  float floor = unorder_float (*top) - 8.0f;

  mel[i] = (fmaxf (mel[i], floor) + 4.0f) * 0.25f;
}

cudaError_t
asr_cuda_mel (const AsrLaunch *launch, const float *samples, guint n_samples,
    const float *filters, guint n_mels, float *top, float *mel)
{
  int *ordered_top = reinterpret_cast<int *> (top);
  int n = (int) n_mels * N_FRAMES;
  /* every byte 0x80: below all values */
  cudaError_t result = cudaMemsetAsync (top, 0x80, sizeof *top,
      launch->stream);
  AsrLaunch plain = *launch;

  plain.overlaps = FALSE;
  if (result == cudaSuccess)
    result = start (&plain, mel_frames,
        dim3 ((N_FRAMES + FRAMES - 1) / FRAMES), dim3 (THREADS), 0, samples,
        (int) n_samples, filters, (int) n_mels, ordered_top, mel);
  if (result == cudaSuccess)
    result = start (launch, mel_scale, dim3 ((n + 255) / 256), dim3 (256), 0,
        mel, n, static_cast<const int *> (ordered_top));
  return result;
}
