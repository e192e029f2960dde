/* SPDX-License-Identifier: MIT */
/* The front doors of a backend: opening, memory, and the entries that a
 * table may lack. */
#include "engine/backend/backend.h"
#include "engine/backend/composite.h"
#include "engine/backend/registry.h"

AsrCompute *
asr_compute_open (const char *backend, const AsrDeviceParams *params,
    GError **error)
{
  const AsrBackend *table = asr_backend_find (backend, error);
  AsrDevice *device = table ? table->device_open (params, error) : NULL;
  AsrCompute *compute;

  if (!device)
    return NULL;
  compute = g_new0 (AsrCompute, 1);
  compute->table = table;
  compute->device = device;
  compute->info = table->device_get_info (device);
  return compute;
}

void
asr_compute_close (AsrCompute *compute)
{
  if (!compute)
    return;
  compute->table->device_close (compute->device);
  g_free (compute);
}

gboolean
asr_memory_init (AsrMemory *memory, const AsrCompute *compute,
    AsrMemoryKind kind, gsize n_bytes, GError **error)
{
  void *data = compute->table->memory_alloc (compute->device, kind, n_bytes,
      error);

  if (!data) {
    *memory = (AsrMemory){ NULL };
    return FALSE;
  }
  *memory = (AsrMemory){ compute, kind, data, n_bytes };
  return TRUE;
}

void
asr_memory_clear (AsrMemory *memory)
{
  if (memory->data)
    memory->compute->table->memory_free (memory->compute->device,
        memory->kind, memory->data);
  *memory = (AsrMemory){ NULL };
}

void
asr_compute_encoder_layer (const AsrCompute *compute, AsrQueue *queue,
    const AsrEncoderLayerParams *params)
{
  g_return_if_fail (params->d == params->n_heads * ASR_HEAD_SIZE);

  if (params->n_sequences == 0)
    return;
  if (compute->table->encoder_layer)
    compute->table->encoder_layer (queue, params);
  else
    asr_composite_encoder_layer (compute, queue, params);
}

void
asr_compute_decoder_step (const AsrCompute *compute, AsrQueue *queue,
    const AsrDecoderStepParams *params)
{
  g_return_if_fail (params->d == params->n_heads * ASR_HEAD_SIZE);
  g_return_if_fail (params->choose.n_choices == 0 || params->max_logits > 0);

  if (params->n_rows == 0)
    return;
  if (compute->table->decoder_step)
    compute->table->decoder_step (queue, params);
  else
    asr_composite_decoder_step (compute, queue, params);
}
