/* SPDX-License-Identifier: MIT */
/*
 * Frames at which tokens begin, from the cross-attention scores of the
 * alignment heads: softmax over the real frames, columns normalised over
 * rows, median filter, mean over heads, dynamic time warping. Source:
 * openai/whisper timing.py (MIT); for its ties, the CPU form of dtw there.
 */
#include "engine/backend/cuda/kernels/common.cuh"

#define THREADS 256
#define MAX_ROWS ASR_CUDA_MAX_WARP_ROWS
#define AHEAD 8

typedef enum {
  STEP_DIAGONAL,
  STEP_DOWN,  /* next row, same frame */
  STEP_RIGHT, /* same row, next frame */
} Step;

/* Over all threads of a block of THREADS. */
template <bool IS_MAX>
static __device__ float
reduce_block (float x)
{
  __shared__ float shared[THREADS / 32];

  for (int bit = 16; bit > 0; bit >>= 1) {
    float other = __shfl_xor_sync (ALL_LANES, x, bit);

    x = IS_MAX ? fmaxf (x, other) : x + other;
  }
  __syncthreads ();
  if (threadIdx.x % 32 == 0)
    shared[threadIdx.x / 32] = x;
  __syncthreads ();
  x = shared[0];
  for (int w = 1; w < THREADS / 32; w++)
    x = IS_MAX ? fmaxf (x, shared[w]) : x + shared[w];
  return x;
}

static __global__ void
soften_rows (float *scores, unsigned max_rows, unsigned n_ctx,
    unsigned n_frames)
{
  float *x = scores + ((size_t) blockIdx.y * max_rows + blockIdx.x) * n_ctx;
  float top = -INFINITY, sum = 0;

  wait_for_predecessor ();
  for (unsigned t = threadIdx.x; t < n_frames; t += THREADS)
    top = fmaxf (top, x[t]);
  top = reduce_block<true> (top);
  for (unsigned t = threadIdx.x; t < n_frames; t += THREADS) {
    float e = expf (x[t] - top);

    x[t] = e;
    sum += e;
  }
  sum = reduce_block<false> (sum);
  for (unsigned t = threadIdx.x; t < n_frames; t += THREADS)
    x[t] /= sum;
}

/* A column without spread has nothing to say and becomes zeros. */
static __global__ void
standardise_columns (float *scores, unsigned max_rows, unsigned n_rows,
    unsigned n_ctx, unsigned n_frames)
{
  unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  float *x = scores + (size_t) blockIdx.y * max_rows * n_ctx + t;
  float mean = 0, variance = 0;

  wait_for_predecessor ();
  if (t >= n_frames)
    return;
  for (unsigned r = 0; r < n_rows; r++)
    mean += x[(size_t) r * n_ctx];
  mean /= n_rows;
  for (unsigned r = 0; r < n_rows; r++) {
    float difference = x[(size_t) r * n_ctx] - mean;

    variance += difference * difference;
  }
  variance /= n_rows;
  float scale = variance > 0 ? 1 / sqrtf (variance) : 0;

  for (unsigned r = 0; r < n_rows; r++)
    x[(size_t) r * n_ctx] = (x[(size_t) r * n_ctx] - mean) * scale;
}

static __device__ __forceinline__ void
order (float &a, float &b)
{
  float low = fminf (a, b);

  b = fmaxf (a, b);
  a = low;
}

/* Of seven around @t, reflected at both ends; three or fewer values are too
 * short to be reflected. */
static __device__ float
find_median (const float *x, int n, int t)
{
  float v[7];

  if (n <= 3)
    return x[t];
  for (int k = 0; k < 7; k++) {
    int i = abs (t + k - 3);

    v[k] = x[i >= n ? 2 * (n - 1) - i : i];
  }
  /* the four lowest in front, in order */
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int k = 6; k > i; k--)
      order (v[k - 1], v[k]);
  return v[3];
}

static __global__ void
filter_rows (const float *scores, unsigned n_heads, unsigned max_rows,
    unsigned first_row, unsigned n_ctx, unsigned n_frames, float *matrix)
{
  unsigned t = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
  float sum = 0;

  wait_for_predecessor ();
  if (t >= n_frames)
    return;
  for (unsigned h = 0; h < n_heads; h++)
    sum += find_median (scores
            + ((size_t) h * max_rows + first_row + r) * n_ctx,
        (int) n_frames, (int) t);
  matrix[(size_t) r * n_frames + t] = sum / n_heads;
}

/* Steps are packed by 16 along a row. */
static __device__ __forceinline__ int
count_words (int n_frames)
{
  return (n_frames + 15) / 16;
}

/* From the last cell back to the first: the first row only right, the first
 * frame only down. */
static __device__ void
trace_path (const unsigned *steps, int n_rows, int n_frames, gint16 *frames)
{
  int row = n_rows - 1, t = n_frames - 1, at = -1;
  unsigned word = 0;

  frames[row] = (gint16) t;
  while (row > 0 || t > 0) {
    int place = row * count_words (n_frames) + t / 16;

    if (place != at)
      word = steps[place];
    at = place;
    int step = row == 0 ? STEP_RIGHT
        : t == 0        ? STEP_DOWN
                        : (int) (word >> 2 * (t % 16) & 3);

    row -= step != STEP_RIGHT;
    t -= step != STEP_DOWN;
    frames[row] = (gint16) t;
  }
}

/* A thread for each row; what it needs of the row above, that row's thread
 * has made one step earlier. Each has AHEAD values of its row in flight. */
static __global__ void
__launch_bounds__ (MAX_ROWS)
warp_rows (const float *matrix, int n_rows, int n_frames, unsigned *steps,
    gint16 *frames)
{
  __shared__ float costs[2][MAX_ROWS + 1];
  __shared__ gint16 path[MAX_ROWS];
  int r = threadIdx.x, n_steps = n_frames + n_rows - 1;
  const float *row = matrix + (size_t) min (r, n_rows - 1) * n_frames;
  float diagonal = r == 0 ? 0 : INFINITY, right = INFINITY;
  float ahead[AHEAD];
  unsigned word = 0;

  wait_for_predecessor ();
#pragma unroll
  for (int k = 0; k < AHEAD; k++)
    ahead[k] = row[max (min (k - r, n_frames - 1), 0)];
  costs[0][r + 1] = costs[1][r + 1] = INFINITY;
  if (r == 0)
    costs[0][0] = costs[1][0] = INFINITY;
  __syncthreads ();
  for (int first = 0; first < n_steps; first += AHEAD) {
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
      int s = first + k, t = s - r;
      float x = ahead[k];

      if (s >= n_steps)
        break;
      ahead[k] = row[max (min (t + AHEAD, n_frames - 1), 0)];
      if (r < n_rows && t >= 0 && t < n_frames) {
        float down = costs[(s + 1) & 1][r], best = right;
        unsigned step = STEP_RIGHT;

        if (diagonal < down && diagonal < right) {
          best = diagonal;
          step = STEP_DIAGONAL;
        } else if (down < diagonal && down < right) {
          best = down;
          step = STEP_DOWN;
        }
        right = best - x;
        word |= step << 2 * (t % 16);
        if (t % 16 == 15 || t == n_frames - 1) {
          steps[r * count_words (n_frames) + t / 16] = word;
          word = 0;
        }
        costs[s & 1][r + 1] = right;
        diagonal = down;
      }
      __syncthreads ();
    }
  }
  if (r == 0)
    trace_path (steps, n_rows, n_frames, path);
  __syncthreads ();
  if (r < n_rows)
    frames[r] = path[r];
}

cudaError_t
asr_cuda_align (const AsrLaunch *launch, const AsrAlignParams *p,
    float *matrix, guint32 *steps)
{
  unsigned n_rows = p->n_rows - 1 - p->first_row;
  dim3 columns ((p->n_frames + THREADS - 1) / THREADS, p->n_heads);
  cudaError_t result = start (launch, soften_rows,
      dim3 (p->n_rows, p->n_heads), dim3 (THREADS), 0, p->scores,
      (unsigned) p->max_rows, (unsigned) p->n_ctx, (unsigned) p->n_frames);

  if (result == cudaSuccess)
    result = start (launch, standardise_columns, columns, dim3 (THREADS), 0,
        p->scores, (unsigned) p->max_rows, (unsigned) p->n_rows,
        (unsigned) p->n_ctx, (unsigned) p->n_frames);
  if (result == cudaSuccess)
    result = start (launch, filter_rows, dim3 (columns.x, n_rows),
        dim3 (THREADS), 0, static_cast<const float *> (p->scores),
        (unsigned) p->n_heads, (unsigned) p->max_rows,
        (unsigned) p->first_row, (unsigned) p->n_ctx, (unsigned) p->n_frames,
        matrix);
  if (result == cudaSuccess)
    result = start (launch, warp_rows, dim3 (1),
        dim3 ((n_rows + 31) / 32 * 32), 0,
        static_cast<const float *> (matrix), (int) n_rows, (int) p->n_frames,
        steps, p->frames);
  return result;
}
