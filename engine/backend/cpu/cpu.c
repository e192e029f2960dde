/* SPDX-License-Identifier: MIT */
/*
 * The CPU backend's table, its device and its queue. Work runs when it is
 * enqueued; the queue only keeps errors, times and scratch memory.
 */
#include "engine/backend/cpu/cpu.h"
#include "engine/backend/cpu/linear.h"
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64
#define MAX_THREADS 256

extern const AsrBackend asr_backend_cpu;

static gboolean
check_params (const AsrDeviceParams *params, GError **error)
{
  if (params->index != 0) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_NOT_FOUND,
        "there is no CPU device %u: all cores are device 0", params->index);
    return FALSE;
  }
  if (params->n_threads > MAX_THREADS) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT,
        "%u threads: the CPU backend takes at most %d", params->n_threads,
        MAX_THREADS);
    return FALSE;
  }
  switch (params->compute_type) {
    case ASR_COMPUTE_AUTO:
    case ASR_COMPUTE_F32:
    case ASR_COMPUTE_INT8:
      return TRUE;
    case ASR_COMPUTE_F16:
      break;
  }
  g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
      "the CPU backend computes in int8 or f32, not in f16: ask for one of "
      "those, or for auto");
  return FALSE;
}

static AsrDevice *
device_open (const AsrDeviceParams *params, GError **error)
{
  AsrDevice *device;
  gboolean is_f32 = params->compute_type == ASR_COMPUTE_F32;
  guint n_threads = params->n_threads;

  if (!check_params (params, error))
    return NULL;
  if (n_threads == 0)
    n_threads = MIN (g_get_num_processors (), MAX_THREADS);
  device = g_new0 (AsrDevice, 1);
  device->isa = asr_isa_detect ();
  device->linear = asr_cpu_linear_get_kernels (device->isa);
  device->threads = asr_threads_new (n_threads);
  device->info.activation = ASR_DTYPE_F32;
  device->info.kv = ASR_DTYPE_F16;
  device->info.compute_type = is_f32 ? ASR_COMPUTE_F32 : ASR_COMPUTE_INT8;
  device->info.n_steps_ahead = 1;
  g_snprintf (device->info.description, sizeof device->info.description,
      "CPU, %s, %s, %u thread%s", asr_isa_get_name (device->isa),
      is_f32 ? "f32" : "int8", n_threads, n_threads == 1 ? "" : "s");
  return device;
}

static void
device_close (AsrDevice *device)
{
  if (!device)
    return;
  asr_threads_free (device->threads);
  g_free (device);
}

static const AsrDeviceInfo *
device_get_info (AsrDevice *device)
{
  return &device->info;
}

static void *
memory_alloc (AsrDevice *device, AsrMemoryKind kind, gsize n_bytes,
    GError **error)
{
  void *memory = NULL;

  if (posix_memalign (&memory, ALIGNMENT, MAX (n_bytes, 1)) != 0) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_MEMORY,
        "no memory for %" G_GSIZE_FORMAT " bytes", n_bytes);
    return NULL;
  }
  return memory;
}

static void
memory_free (AsrDevice *device, AsrMemoryKind kind, void *memory)
{
  free (memory);
}

static AsrQueue *
queue_new (AsrDevice *device, GError **error)
{
  AsrQueue *queue = g_new0 (AsrQueue, 1);

  queue->device = device;
  return queue;
}

static void
queue_free (AsrQueue *queue)
{
  if (!queue)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (queue->scratch); i++)
    free (queue->scratch[i].data);
  g_clear_error (&queue->error);
  g_free (queue);
}

static gboolean
queue_wait (AsrQueue *queue, GError **error)
{
  if (!queue->error)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&queue->error));
  return FALSE;
}

static void
time_begin (AsrQueue *queue, guint id)
{
  g_return_if_fail (id < G_N_ELEMENTS (queue->begin_us));
  queue->begin_us[id] = g_get_monotonic_time ();
}

static void
time_end (AsrQueue *queue, guint id)
{
  g_return_if_fail (id < G_N_ELEMENTS (queue->begin_us));
  queue->time_ns[id]
      += (guint64) (g_get_monotonic_time () - queue->begin_us[id]) * 1000;
}

static guint64
time_read_ns (AsrQueue *queue, guint id)
{
  g_return_val_if_fail (id < G_N_ELEMENTS (queue->begin_us), 0);
  return queue->time_ns[id];
}

static void
copy (AsrQueue *queue, void *to, const void *from, gsize n_bytes)
{
  memmove (to, from, n_bytes);
}

void *
asr_cpu_get_scratch (AsrQueue *queue, guint index, gsize n_bytes)
{
  GError *error = NULL;

  if (queue->scratch[index].n_bytes < n_bytes) {
    free (queue->scratch[index].data);
    queue->scratch[index].n_bytes = 0;
    queue->scratch[index].data
        = memory_alloc (queue->device, ASR_MEMORY_DEVICE, n_bytes, &error);
    if (!queue->scratch[index].data) {
      asr_cpu_fail (queue, error);
      return NULL;
    }
    queue->scratch[index].n_bytes = n_bytes;
  }
  return queue->scratch[index].data;
}

void
asr_cpu_fail (AsrQueue *queue, GError *error)
{
  if (queue->error)
    g_error_free (error);
  else
    queue->error = error;
}

const AsrBackend asr_backend_cpu = {
  .abi = ASR_BACKEND_ABI,
  .n_bytes = sizeof (AsrBackend),
  .name = "cpu",
  .device_open = device_open,
  .device_close = device_close,
  .device_get_info = device_get_info,
  .memory_alloc = memory_alloc,
  .memory_free = memory_free,
  .weight_new = asr_cpu_weight_new,
  .weight_free = asr_cpu_weight_free,
  .queue_new = queue_new,
  .queue_free = queue_free,
  .queue_wait = queue_wait,
  .time_begin = time_begin,
  .time_end = time_end,
  .time_read_ns = time_read_ns,
  .copy = copy,
  .mel = asr_cpu_mel,
  .conv = asr_cpu_conv,
  .norm = asr_cpu_norm,
  .linear = asr_cpu_linear,
  .embed = asr_cpu_embed,
  .attention = asr_cpu_attention,
  .cross_kv = asr_cpu_cross_kv,
  .choose = asr_cpu_choose,
  .align = asr_cpu_align,
};
