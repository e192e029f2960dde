/* SPDX-License-Identifier: MIT */
/*
 * The CUDA backend's table, its device, memory and errors. In: which device
 * and in what type to compute. Knows no model.
 */
#include "engine/backend/cuda/cuda.h"
#include <string.h>

/* Compute capability that the kernels need, and the one from which a kernel
 * may begin before the one ahead has ended. */
#define MIN_CAPABILITY 80
#define OVERLAP_CAPABILITY 90
#define STEPS_AHEAD 8

extern __attribute__ ((visibility ("default")))
const AsrBackend asr_backend_cuda;

gboolean
asr_cuda_injects (AsrDevice *device)
{
  return g_atomic_int_get (&device->fail_at) > 0
      && g_atomic_int_dec_and_test (&device->fail_at);
}

gboolean
asr_cuda_check (AsrDevice *device, cudaError_t result, const char *what,
    GError **error)
{
  AsrError code = ASR_ERROR_DEVICE;

  if (result == cudaSuccess)
    return TRUE;
  cudaGetLastError (); /* else it is reported again by the next launch */
  if (result == cudaErrorMemoryAllocation)
    code = ASR_ERROR_MEMORY;
  else
    g_atomic_int_set (&device->is_lost, TRUE);
  g_set_error (error, ASR_ERROR, code, "CUDA device %d: %s: %s (%s)",
      device->index, what, cudaGetErrorString (result),
      cudaGetErrorName (result));
  return FALSE;
}

gboolean
asr_cuda_check_blas (AsrDevice *device, cublasStatus_t result,
    const char *what, GError **error)
{
  if (result == CUBLAS_STATUS_SUCCESS)
    return TRUE;
  g_set_error (error, ASR_ERROR,
      result == CUBLAS_STATUS_ALLOC_FAILED ? ASR_ERROR_MEMORY
                                           : ASR_ERROR_DEVICE,
      "CUDA device %d: %s: %s", device->index, what,
      cublasLtGetStatusName (result));
  return FALSE;
}

gboolean
asr_cuda_enter (AsrDevice *device, GError **error)
{
  return asr_cuda_check (device, cudaSetDevice (device->index),
      "cudaSetDevice", error);
}

void *
asr_cuda_alloc (AsrDevice *device, AsrMemoryKind kind, gsize n_bytes,
    GError **error)
{
  gboolean is_pinned = kind == ASR_MEMORY_PINNED;
  g_autofree char *what = g_strdup_printf ("%s of %" G_GSIZE_FORMAT " bytes",
      is_pinned ? "cudaHostAlloc" : "cudaMalloc", n_bytes);
  void *memory = NULL;
  cudaError_t result;

  if (!asr_cuda_enter (device, error))
    return NULL;
  n_bytes = MAX (n_bytes, 1);
  result = asr_cuda_call (device, cudaErrorMemoryAllocation,
      is_pinned ? cudaHostAlloc (&memory, n_bytes, cudaHostAllocPortable)
                : cudaMalloc (&memory, n_bytes));
  return asr_cuda_check (device, result, what, error) ? memory : NULL;
}

void
asr_cuda_free (AsrDevice *device, AsrMemoryKind kind, void *memory)
{
  if (!memory || !asr_cuda_enter (device, NULL))
    return;
  if (kind == ASR_MEMORY_PINNED)
    cudaFreeHost (memory);
  else
    cudaFree (memory);
}

/* Whether there is a driver and the device; the reasons have different
 * codes, since no GPU is nothing to warn of. */
static gboolean
find_device (guint index, GError **error)
{
  int n_devices = 0, version = 0;
  cudaError_t result = cudaDriverGetVersion (&version);

  if (result != cudaSuccess || version == 0) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_NOT_FOUND,
        "there is no NVIDIA driver");
    return FALSE;
  }
  result = cudaGetDeviceCount (&n_devices);
  cudaGetLastError ();
  if (result == cudaErrorNoDevice) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_NOT_FOUND,
        "there is no CUDA device");
    return FALSE;
  }
  if (result != cudaSuccess) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_DEVICE,
        "CUDA can't be used: %s (%s); the driver knows CUDA %d.%d, this "
        "module is made for %d.%d", cudaGetErrorString (result),
        cudaGetErrorName (result), version / 1000, version % 1000 / 10,
        CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return FALSE;
  }
  if (index >= (guint) n_devices) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT,
        "there is no CUDA device %u, only %d", index, n_devices);
    return FALSE;
  }
  return TRUE;
}

static gboolean
check_compute_type (AsrComputeType type, GError **error)
{
  if (type == ASR_COMPUTE_AUTO || type == ASR_COMPUTE_F16
      || type == ASR_COMPUTE_F32)
    return TRUE;
  g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
      "the CUDA backend computes in f16 or f32, not in int8: ask for one of "
      "those, or for auto");
  return FALSE;
}

static gboolean
describe (AsrDevice *device, GError **error)
{
  struct cudaDeviceProp properties;
  AsrDeviceInfo *info = &device->info;
  int capability;

  if (!asr_cuda_check (device,
          cudaGetDeviceProperties (&properties, device->index),
          "cudaGetDeviceProperties", error))
    return FALSE;
  capability = 10 * properties.major + properties.minor;
  if (capability < MIN_CAPABILITY) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_DEVICE,
        "CUDA device %d, %s, has compute capability %d.%d, but %d.%d is "
        "needed", device->index, properties.name, properties.major,
        properties.minor, MIN_CAPABILITY / 10, MIN_CAPABILITY % 10);
    return FALSE;
  }
  device->overlaps = capability >= OVERLAP_CAPABILITY;
  info->activation = device->is_f32 ? ASR_DTYPE_F32 : ASR_DTYPE_F16;
  info->kv = info->activation;
  info->compute_type = device->is_f32 ? ASR_COMPUTE_F32 : ASR_COMPUTE_F16;
  info->n_steps_ahead = STEPS_AHEAD;
  g_snprintf (info->description, sizeof info->description,
      "CUDA device %d, %.60s, %.0f GiB, %s", device->index, properties.name,
      properties.totalGlobalMem / 1073741824.0,
      device->is_f32 ? "f32" : "f16");
  return TRUE;
}

static void
device_close (AsrDevice *device)
{
  if (!device)
    return;
  asr_cuda_free (device, ASR_MEMORY_DEVICE, device->staging);
  if (device->staging_stream)
    cudaStreamDestroy (device->staging_stream);
  if (device->blas)
    cublasLtDestroy (device->blas);
  g_mutex_clear (&device->mutex);
  g_free (device);
}

static AsrDevice *
device_open (const AsrDeviceParams *params, GError **error)
{
  const char *fail_at = g_getenv ("ASR_CUDA_FAIL_AT");
  AsrDevice *device;

  if (!check_compute_type (params->compute_type, error)
      || !find_device (params->index, error))
    return NULL;
  device = g_new0 (AsrDevice, 1);
  g_mutex_init (&device->mutex);
  device->index = (int) params->index;
  device->is_f32 = params->compute_type == ASR_COMPUTE_F32;
  device->fail_at = fail_at ? (gint) g_ascii_strtoll (fail_at, NULL, 10) : 0;
  if (asr_cuda_enter (device, error) && describe (device, error)
      && asr_cuda_check (device,
          asr_cuda_call (device, cudaErrorMemoryAllocation,
              cudaStreamCreateWithFlags (&device->staging_stream,
                  cudaStreamNonBlocking)),
          "cudaStreamCreate", error)
      && asr_cuda_check_blas (device,
          asr_cuda_call (device, CUBLAS_STATUS_ALLOC_FAILED,
              cublasLtCreate (&device->blas)),
          "cublasLtCreate", error))
    return device;
  device_close (device);
  return NULL;
}

static const AsrDeviceInfo *
device_get_info (AsrDevice *device)
{
  return &device->info;
}

static void
copy (AsrQueue *queue, void *to, const void *from, gsize n_bytes)
{
  if (n_bytes > 0 && asr_cuda_begin (queue))
    asr_cuda_try (queue, "copy",
        cudaMemcpyAsync (to, from, n_bytes, cudaMemcpyDefault,
            queue->stream));
}

const AsrBackend asr_backend_cuda = {
  .abi = ASR_BACKEND_ABI,
  .n_bytes = sizeof (AsrBackend),
  .name = "cuda",
  .device_open = device_open,
  .device_close = device_close,
  .device_get_info = device_get_info,
  .memory_alloc = asr_cuda_alloc,
  .memory_free = asr_cuda_free,
  .weight_new = asr_cuda_weight_new,
  .weight_free = asr_cuda_weight_free,
  .queue_new = asr_cuda_queue_new,
  .queue_free = asr_cuda_queue_free,
  .queue_wait = asr_cuda_queue_wait,
  .time_begin = asr_cuda_time_begin,
  .time_end = asr_cuda_time_end,
  .time_read_ns = asr_cuda_time_read_ns,
  .copy = copy,
  .mel = asr_cuda_op_mel,
  .conv = asr_cuda_op_conv,
  .norm = asr_cuda_op_norm,
  .linear = asr_cuda_op_linear,
  .embed = asr_cuda_op_embed,
  .attention = asr_cuda_op_attention,
  .cross_kv = asr_cuda_op_cross_kv,
  .choose = asr_cuda_op_choose,
  .align = asr_cuda_op_align,
  .decoder_step = asr_cuda_decoder_step,
};
