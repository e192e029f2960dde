/* SPDX-License-Identifier: MIT */
/* Weights as a file has them into the type and order of the kernels. */
#include "engine/backend/cuda/kernels/common.cuh"

static __device__ __forceinline__ float
read_value (const void *from, AsrDType dtype, size_t i)
{
  if (dtype == ASR_DTYPE_F16)
    return __half2float (static_cast<const __half *> (from)[i]);
  if (dtype == ASR_DTYPE_BF16)
    return __uint_as_float (
        (unsigned) static_cast<const unsigned short *> (from)[i] << 16);
  return static_cast<const float *> (from)[i];
}

/* A convolution's taps come before its channels. */
template <typename T>
static __global__ void
convert_weights (AsrDType dtype, const void *from, size_t n, unsigned n_in,
    unsigned n_taps, T *to)
{
  size_t step = (size_t) gridDim.x * blockDim.x;

  wait_for_predecessor ();
  for (size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += step) {
    size_t row = i / (n_in * n_taps);
    unsigned column = (unsigned) (i % (n_in * n_taps));
    unsigned tap = column / n_in, channel = column % n_in;

    store (to + i, read_value (from, dtype,
            row * n_in * n_taps + (size_t) channel * n_taps + tap));
  }
}

cudaError_t
asr_cuda_convert (const AsrLaunch *launch, AsrDType dtype, const void *from,
    gsize n_out, guint n_in, guint n_taps, void *to)
{
  size_t n = n_out * n_in * n_taps;
  unsigned n_blocks = (unsigned) MIN ((n + 255) / 256, 4096);

  if (launch->is_f32)
    return start (launch, convert_weights<float>, dim3 (n_blocks), dim3 (256),
        0, dtype, from, n, (unsigned) n_in, (unsigned) n_taps,
        static_cast<float *> (to));
  return start (launch, convert_weights<__half>, dim3 (n_blocks), dim3 (256),
      0, dtype, from, n, (unsigned) n_in, (unsigned) n_taps,
      static_cast<__half *> (to));
}

static __global__ void
convert_bias (const float *from, unsigned n, __half *to)
{
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

  wait_for_predecessor ();
  if (i < n)
    store (to + i, from[i]);
}

cudaError_t
asr_cuda_convert_bias (const AsrLaunch *launch, const float *from, guint n,
    void *to)
{
  return start (launch, convert_bias, dim3 ((n + 255) / 256), dim3 (256), 0,
      from, (unsigned) n, static_cast<__half *> (to));
}
