/* SPDX-License-Identifier: MIT */
/*
 * Weights from a model's file in device memory. In: a tensor of any type.
 * Out: rows of the activation type, a convolution's taps before its
 * channels. The file's bytes go to the device as they are, a piece at a
 * time, and are converted there.
 */
#include "engine/backend/cuda/cuda.h"
#include <string.h>

#define STAGING_BYTES ((gsize) 16 << 20)
#define N_TAPS 3 /* of a convolution */

static gboolean
check_shape (const AsrTensor *tensor, AsrWeightUse use, GError **error)
{
  guint rank = use == ASR_WEIGHT_CONV ? 3 : 2;
  gboolean is_right = tensor->rank == rank && tensor->dims[0] > 0
      && tensor->dims[1] > 0 && tensor->dims[1] % 8 == 0
      && tensor->dims[0] < G_MAXINT32 / 2
      && tensor->dims[1] < G_MAXUINT16 * 4;

  if (is_right && use == ASR_WEIGHT_CONV)
    is_right = tensor->dims[2] == N_TAPS;
  if (!is_right)
    g_set_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT,
        "a weight of rank %u, [%u, %u, ...], where the CUDA backend needs "
        "rank %u%s and rows of a multiple of 8", tensor->rank,
        tensor->rank > 0 ? tensor->dims[0] : 0,
        tensor->rank > 1 ? tensor->dims[1] : 0, rank,
        use == ASR_WEIGHT_CONV ? ", kernel 3" : "");
  return is_right;
}

static gboolean
is_converted_there (AsrDType dtype)
{
  return dtype == ASR_DTYPE_F32 || dtype == ASR_DTYPE_F16
      || dtype == ASR_DTYPE_BF16;
}

/* Rows [first, first + n) to the staging memory, and from there. */
static gboolean
upload_rows (AsrDevice *device, AsrWeight *weight, const AsrTensor *tensor,
    guint first, guint n, float *values, GError **error)
{
  AsrLaunch launch = { device->staging_stream, device->is_f32, FALSE };
  gsize n_row = (gsize) weight->n_in * weight->n_taps;
  gsize act_bytes = asr_dtype_get_size (device->info.activation);
  AsrDType dtype = tensor->dtype;
  const void *from = values;

  if (is_converted_there (dtype)) {
    from = (const guint8 *) tensor->data
        + first * n_row * asr_dtype_get_size (dtype);
  } else {
    asr_tensor_to_f32 (tensor, first * n_row, n * n_row, values);
    dtype = ASR_DTYPE_F32;
  }
  return asr_cuda_check (device,
             asr_cuda_call (device, cudaErrorLaunchFailure,
                 cudaMemcpyAsync (device->staging, from,
                     n * n_row * asr_dtype_get_size (dtype),
                     cudaMemcpyHostToDevice, device->staging_stream)),
             "upload of a weight", error)
      && asr_cuda_check (device,
          asr_cuda_call (device, cudaErrorLaunchFailure,
              asr_cuda_convert (&launch, dtype, device->staging, n,
                  weight->n_in, weight->n_taps,
                  (guint8 *) weight->data + first * n_row * act_bytes)),
          "conversion of a weight", error)
      && asr_cuda_check (device,
          cudaStreamSynchronize (device->staging_stream),
          "cudaStreamSynchronize", error);
}

static gboolean
fill (AsrDevice *device, AsrWeight *weight, const AsrTensor *tensor,
    GError **error)
{
  gsize row_bytes = (gsize) weight->n_in * weight->n_taps * sizeof (float);
  guint at_once = (guint) MAX (STAGING_BYTES / row_bytes, 1);
  g_autofree float *values = NULL;

  at_once = MIN (at_once, weight->n_out);
  if (!is_converted_there (tensor->dtype))
    values = g_malloc (at_once * row_bytes);
  for (guint first = 0; first < weight->n_out; first += at_once)
    if (!upload_rows (device, weight, tensor, first,
            MIN (at_once, weight->n_out - first), values, error))
      return FALSE;
  return TRUE;
}

static gboolean
fill_locked (AsrDevice *device, AsrWeight *weight, const AsrTensor *tensor,
    GError **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&device->mutex);
  gsize row_bytes = (gsize) weight->n_in * weight->n_taps * sizeof (float);

  (void) locker;
  if (row_bytes > STAGING_BYTES) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
        "a weight with rows of %" G_GSIZE_FORMAT " bytes", row_bytes);
    return FALSE;
  }
  if (!device->staging)
    device->staging = asr_cuda_alloc (device, ASR_MEMORY_DEVICE,
        STAGING_BYTES, error);
  return device->staging && fill (device, weight, tensor, error);
}

void
asr_cuda_weight_free (AsrDevice *device, AsrWeight *weight)
{
  if (!weight)
    return;
  asr_cuda_free (device, ASR_MEMORY_DEVICE, weight->data);
  g_free (weight);
}

AsrWeight *
asr_cuda_weight_new (AsrDevice *device, const AsrTensor *tensor,
    AsrWeightUse use, GError **error)
{
  AsrWeight *weight;
  gsize n_bytes;

  if (!check_shape (tensor, use, error))
    return NULL;
  weight = g_new0 (AsrWeight, 1);
  weight->n_out = tensor->dims[0];
  weight->n_in = tensor->dims[1];
  weight->n_taps = use == ASR_WEIGHT_CONV ? N_TAPS : 1;
  n_bytes = (gsize) weight->n_out * weight->n_in * weight->n_taps
      * asr_dtype_get_size (device->info.activation);
  n_bytes = (n_bytes + 255) / 256 * 256;
  weight->data = asr_cuda_alloc (device, ASR_MEMORY_DEVICE,
      n_bytes + weight->n_out * sizeof (guint16), error);
  if (!weight->data || !fill_locked (device, weight, tensor, error)) {
    asr_cuda_weight_free (device, weight);
    return NULL;
  }
  weight->half_bias = (guint8 *) weight->data + n_bytes;
  return weight;
}

const void *
asr_cuda_weight_get_bias (AsrQueue *queue, AsrWeight *weight,
    const float *bias)
{
  g_autoptr (GMutexLocker) locker
      = g_mutex_locker_new (&queue->device->mutex);

  (void) locker;
  if (weight->bias == bias)
    return weight->half_bias;
  /* once: other queues must find it complete */
  if (!asr_cuda_try (queue, "conversion of a bias",
          asr_cuda_convert_bias (&queue->launch, bias, weight->n_out,
              weight->half_bias))
      || !asr_cuda_keep (queue, cudaStreamSynchronize (queue->stream),
          "cudaStreamSynchronize"))
    return NULL;
  weight->bias = bias;
  return weight->half_bias;
}
