/* SPDX-License-Identifier: MIT */
/*
 * Around the products that are the convolutions: the frames under a kernel
 * side by side, since cuBLASLt takes no rows that overlap; and what follows
 * a product and it lacks, the exact GELU.
 */
#include "engine/backend/cuda/kernels/common.cuh"

#define TILE 32

/* Mel, channels first, through a tile in shared memory. Frame f is under tap
 * k of output frame t where t * stride + k = f + 1. */
template <typename T>
static __global__ void
unfold_channels_first (const float *x, unsigned n_frames, unsigned n_in,
    unsigned stride, T *unfolded)
{
  __shared__ float tile[TILE][TILE + 1];
  unsigned first_frame = blockIdx.x * TILE, first_in = blockIdx.y * TILE;

  wait_for_predecessor ();
  for (unsigned i = threadIdx.y; i < TILE; i += blockDim.y) {
    /* frame 0 of those with a zero at either end */
    long frame = (long) first_frame + threadIdx.x - 1;
    unsigned channel = first_in + i;

    tile[i][threadIdx.x] = channel < n_in && frame >= 0 && frame < n_frames
        ? x[(size_t) channel * n_frames + frame]
        : 0.0f;
  }
  __syncthreads ();
  for (unsigned i = threadIdx.y; i < TILE; i += blockDim.y) {
    unsigned frame = first_frame + i, channel = first_in + threadIdx.x;

    for (unsigned tap = 0; tap < 3 && channel < n_in; tap++) {
      unsigned t = (frame - tap) / stride;

      if (frame >= tap && (frame - tap) % stride == 0
          && t < n_frames / stride)
        store (unfolded + ((size_t) t * 3 + tap) * n_in + channel,
            tile[threadIdx.x][i]);
    }
  }
}

/* @n_row: 16-byte pieces of one frame; @n: of the output. The three frames
 * under a kernel are neighbours already. */
static __global__ void
unfold_time_first (const uint4 *x, unsigned n_frames, unsigned n_row,
    unsigned stride, size_t n, uint4 *unfolded)
{
  size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;

  wait_for_predecessor ();
  if (i >= n)
    return;
  long t = (long) (i / (3 * n_row)), column = (long) (i % (3 * n_row));
  long place = (t * stride - 1) * n_row + column;

  unfolded[i] = place >= 0 && place < (long) n_frames * n_row
      ? x[place]
      : make_uint4 (0, 0, 0, 0);
}

cudaError_t
asr_cuda_unfold (const AsrLaunch *launch, gboolean channels_first,
    const void *x, guint n_frames, guint n_in, guint stride, void *unfolded)
{
  dim3 grid ((n_frames + 2 + TILE - 1) / TILE, (n_in + TILE - 1) / TILE);
  size_t act_bytes = launch->is_f32 ? sizeof (float) : sizeof (__half);
  unsigned n_row = (unsigned) (n_in * act_bytes / sizeof (uint4));
  size_t n = (size_t) (n_frames / stride) * 3 * n_row;

  if (!channels_first)
    return start (launch, unfold_time_first,
        dim3 ((unsigned) ((n + 255) / 256)), dim3 (256), 0,
        static_cast<const uint4 *> (x), (unsigned) n_frames, n_row,
        (unsigned) stride, n, static_cast<uint4 *> (unfolded));
  if (launch->is_f32)
    return start (launch, unfold_channels_first<float>, grid, dim3 (TILE, 8),
        0, static_cast<const float *> (x), (unsigned) n_frames,
        (unsigned) n_in, (unsigned) stride, static_cast<float *> (unfolded));
  return start (launch, unfold_channels_first<__half>, grid, dim3 (TILE, 8),
      0, static_cast<const float *> (x), (unsigned) n_frames,
      (unsigned) n_in, (unsigned) stride, static_cast<__half *> (unfolded));
}

template <typename T>
static __device__ __forceinline__ void
add8 (float x[8], const T *from)
{
  float add[8];

  load8 (from, add);
#pragma unroll
  for (int k = 0; k < 8; k++)
    x[k] += add[k];
}

/* @n: groups of eight */
template <typename T>
static __global__ void
apply_gelu (const T *from, const T *residual, const float *positions,
    size_t n, T *y)
{
  size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;
  float x[8];

  wait_for_predecessor ();
  release_successor ();
  if (i >= n)
    return;
  load8 (from + 8 * i, x);
#pragma unroll
  for (int k = 0; k < 8; k++)
    x[k] = gelu (x[k]);
  if (positions != NULL)
    add8 (x, positions + 8 * i);
  if (residual != NULL)
    add8 (x, residual + 8 * i);
  store8 (y + 8 * i, x);
}

template <typename T>
static cudaError_t
start_gelu (const AsrLaunch *launch, const void *x, const void *residual,
    const float *positions, size_t n, void *y)
{
  return start (launch, apply_gelu<T>, dim3 ((unsigned) ((n + 255) / 256)),
      dim3 (256), 0, static_cast<const T *> (x),
      static_cast<const T *> (residual), positions, n, static_cast<T *> (y));
}

cudaError_t
asr_cuda_gelu (const AsrLaunch *launch, gboolean is_f32, const void *x,
    const void *residual, const float *positions, gsize n, void *y)
{
  if (is_f32)
    return start_gelu<float> (launch, x, residual, positions, n / 8, y);
  return start_gelu<__half> (launch, x, residual, positions, n / 8, y);
}
