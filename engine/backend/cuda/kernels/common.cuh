/* SPDX-License-Identifier: MIT */
/* What the kernels share: launches, conversions, reductions in a warp. */
#ifndef ASR_BACKEND_CUDA_KERNELS_COMMON_CUH
#define ASR_BACKEND_CUDA_KERNELS_COMMON_CUH

#include "engine/backend/cuda/kernels.h"
#include <cuda_fp16.h>

#define ALL_LANES 0xffffffffu

/* With programmatic dependent launch a kernel begins while the one ahead
 * still runs. Every kernel waits before it touches what others write, so that
 * the end of one means the end of all before it, and releases its successor
 * only then: before its own wait a kernel may read what was written two
 * kernels ahead of it or earlier, past the first level of cache. */
__device__ __forceinline__ void
wait_for_predecessor (void)
{
#if __CUDA_ARCH__ >= 900
  asm volatile ("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Lets the next kernel begin as soon as all blocks have come here. */
__device__ __forceinline__ void
release_successor (void)
{
#if __CUDA_ARCH__ >= 900
  asm volatile ("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

template <typename... Args>
static cudaError_t
start (const AsrLaunch *launch, void (*kernel) (Args...), dim3 grid,
    dim3 block, size_t shared_bytes, Args... args)
{
  cudaLaunchAttribute attribute = {};
  cudaLaunchConfig_t config = {};
  cudaError_t result = cudaSuccess;

  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = launch->stream;
  if (launch->overlaps) {
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  if (shared_bytes > 48 * 1024)
    result = cudaFuncSetAttribute (kernel,
        cudaFuncAttributeMaxDynamicSharedMemorySize, (int) shared_bytes);
  if (result != cudaSuccess)
    return result;
  return cudaLaunchKernelEx (&config, kernel, args...);
}

__device__ __forceinline__ void
store (float *to, float x)
{
  *to = x;
}

__device__ __forceinline__ void
store (__half *to, float x)
{
  *to = __float2half_rn (x);
}

/* Eight neighbours, aligned to 16 bytes. */
__device__ __forceinline__ void
unpack8 (const uint4 &packed, float out[8])
{
  const __half2 *pairs = reinterpret_cast<const __half2 *> (&packed);

#pragma unroll
  for (int i = 0; i < 4; i++) {
    float2 pair = __half22float2 (pairs[i]);

    out[2 * i] = pair.x;
    out[2 * i + 1] = pair.y;
  }
}

/* The same as it lies in memory. */
template <typename T> struct Eight;

template <> struct Eight<__half> {
  uint4 v;
};

template <> struct Eight<float> {
  float4 a, b;
};

/* Past the first level of cache. */
__device__ __forceinline__ void
fetch8 (const __half *from, Eight<__half> &to)
{
  to.v = __ldcg (reinterpret_cast<const uint4 *> (from));
}

__device__ __forceinline__ void
fetch8 (const float *from, Eight<float> &to)
{
  to.a = __ldcg (reinterpret_cast<const float4 *> (from));
  to.b = __ldcg (reinterpret_cast<const float4 *> (from) + 1);
}

__device__ __forceinline__ void
unpack8 (const Eight<__half> &from, float out[8])
{
  unpack8 (from.v, out);
}

__device__ __forceinline__ void
unpack8 (const Eight<float> &from, float out[8])
{
  out[0] = from.a.x, out[1] = from.a.y, out[2] = from.a.z;
  out[3] = from.a.w, out[4] = from.b.x, out[5] = from.b.y;
  out[6] = from.b.z, out[7] = from.b.w;
}

__device__ __forceinline__ void
load8 (const __half *from, float out[8])
{
  unpack8 (*reinterpret_cast<const uint4 *> (from), out);
}

__device__ __forceinline__ void
load8 (const float *from, float out[8])
{
  float4 a = reinterpret_cast<const float4 *> (from)[0];
  float4 b = reinterpret_cast<const float4 *> (from)[1];

  out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
  out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
}

__device__ __forceinline__ void
store8 (__half *to, const float x[8])
{
  uint4 packed;
  __half2 *pairs = reinterpret_cast<__half2 *> (&packed);

#pragma unroll
  for (int i = 0; i < 4; i++)
    pairs[i] = __floats2half2_rn (x[2 * i], x[2 * i + 1]);
  *reinterpret_cast<uint4 *> (to) = packed;
}

__device__ __forceinline__ void
store8 (float *to, const float x[8])
{
  reinterpret_cast<float4 *> (to)[0] = make_float4 (x[0], x[1], x[2], x[3]);
  reinterpret_cast<float4 *> (to)[1] = make_float4 (x[4], x[5], x[6], x[7]);
}

/* A struct of whole words, past the first level of cache. */
template <typename T>
__device__ __forceinline__ T
fetch_struct (const T *from)
{
  static_assert (sizeof (T) % sizeof (int) == 0, "words");
  T to;

#pragma unroll
  for (unsigned i = 0; i < sizeof (T) / sizeof (int); i++)
    reinterpret_cast<int *> (&to)[i]
        = __ldcg (reinterpret_cast<const int *> (from) + i);
  return to;
}

/* Over the lanes whose numbers differ in bits @low up to 16 only. */
__device__ __forceinline__ float
sum_lanes (float x, int low = 1)
{
  for (int bit = 16; bit >= low; bit >>= 1)
    x += __shfl_xor_sync (ALL_LANES, x, bit);
  return x;
}

/* Order of floats as order of integers, and back. */
__device__ __forceinline__ int
order_float (float x)
{
  int bits = __float_as_int (x);

  return bits ^ (bits >> 31 & 0x7fffffff);
}

__device__ __forceinline__ float
unorder_float (int ordered)
{
  return __int_as_float (ordered ^ (ordered >> 31 & 0x7fffffff));
}

__device__ __forceinline__ float
gelu (float x)
{
  return 0.5f * x * (1.0f + erff (x * 0.70710678118654752f));
}

#endif
