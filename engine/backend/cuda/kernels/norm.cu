/* SPDX-License-Identifier: MIT */
/* Layer norm, a warp for each row, the row in registers. */
#include "engine/backend/cuda/kernels/common.cuh"

#define WARPS 4

/* N: groups of eight that a lane holds */
template <typename T, int N>
static __global__ void
norm_rows (unsigned n_rows, unsigned d, const T *x, const guint32 *gather,
    const float *gamma, const float *beta, void *const *y_rows,
    unsigned rows_per_y, T *y)
{
  unsigned row = blockIdx.x * WARPS + threadIdx.x / 32;
  unsigned lane = threadIdx.x % 32;
  float v[N][8], sum = 0, squares = 0;

  wait_for_predecessor ();
  release_successor ();
  if (row >= n_rows)
    return;
  x += (size_t) (gather ? gather[row] : row) * d;
  y += (size_t) row * d;
  if (y_rows != NULL)
    y = static_cast<T *> (y_rows[row / rows_per_y])
        + (size_t) (row % rows_per_y) * d;

#pragma unroll
  for (int i = 0; i < N; i++) {
    unsigned k = 8 * (lane + 32 * i);

    if (k < d)
      load8 (x + k, v[i]);
    for (int j = 0; j < 8; j++) {
      v[i][j] = k < d ? v[i][j] : 0;
      sum += v[i][j];
    }
  }
  float mean = sum_lanes (sum) / d;

#pragma unroll
  for (int i = 0; i < N; i++) {
    bool is_there = 8 * (lane + 32 * i) < d;

    for (int j = 0; j < 8; j++) {
      v[i][j] = is_there ? v[i][j] - mean : 0;
      squares += v[i][j] * v[i][j];
    }
  }
  float scale = rsqrtf (sum_lanes (squares) / d + 1e-5f);

#pragma unroll
  for (int i = 0; i < N; i++) {
    unsigned k = 8 * (lane + 32 * i);
    float g[8], b[8];

    if (k >= d)
      continue;
    load8 (gamma + k, g);
    load8 (beta + k, b);
    for (int j = 0; j < 8; j++)
      v[i][j] = v[i][j] * scale * g[j] + b[j];
    store8 (y + k, v[i]);
  }
}

template <typename T>
static cudaError_t
start_norm (const AsrLaunch *launch, unsigned n_rows, unsigned d, const T *x,
    const guint32 *gather, const AsrNormWeights *weights,
    void *const *y_rows, unsigned rows_per_y, T *y)
{
  void (*kernel) (unsigned, unsigned, const T *, const guint32 *,
      const float *, const float *, void *const *, unsigned, T *)
      = norm_rows<T, 8>;

  if (d <= 512)
    kernel = norm_rows<T, 2>;
  else if (d <= 768)
    kernel = norm_rows<T, 3>;
  else if (d <= 1280)
    kernel = norm_rows<T, 5>;
  return start (launch, kernel, dim3 ((n_rows + WARPS - 1) / WARPS),
      dim3 (32 * WARPS), 0, n_rows, d, x, gather, weights->gamma,
      weights->beta, y_rows, rows_per_y, y);
}

cudaError_t
asr_cuda_norm (const AsrLaunch *launch, guint n_rows, guint d, const void *x,
    const guint32 *gather, const AsrNormWeights *weights,
    void *const *y_rows, guint rows_per_y, void *y)
{
  if (launch->is_f32)
    return start_norm (launch, n_rows, d, static_cast<const float *> (x),
        gather, weights, y_rows, rows_per_y, static_cast<float *> (y));
  return start_norm (launch, n_rows, d, static_cast<const __half *> (x),
      gather, weights, y_rows, rows_per_y, static_cast<__half *> (y));
}
