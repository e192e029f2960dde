/* SPDX-License-Identifier: MIT */
/*
 * A queue: a stream with its errors, times, scratch memory and the ring that
 * small host arrays go through. Owns all that its ops keep between calls.
 */
#include "engine/backend/cuda/cuda.h"
#include <string.h>

#define SEGMENT_BYTES ((gsize) 64 << 10)
#define ALIGNMENT 64

void
asr_cuda_fail (AsrQueue *queue, GError *error)
{
  if (queue->error)
    g_error_free (error);
  else
    queue->error = error;
}

gboolean
asr_cuda_keep (AsrQueue *queue, cudaError_t result, const char *what)
{
  GError *error = NULL;

  if (asr_cuda_check (queue->device, result, what, &error))
    return TRUE;
  asr_cuda_fail (queue, error);
  return FALSE;
}

gboolean
asr_cuda_begin (AsrQueue *queue)
{
  GError *error = NULL;

  if (queue->error || g_atomic_int_get (&queue->device->is_lost))
    return FALSE;
  if (asr_cuda_enter (queue->device, &error))
    return TRUE;
  asr_cuda_fail (queue, error);
  return FALSE;
}

/* ---- memory ---- */

void *
asr_cuda_get_scratch (AsrQueue *queue, AsrScratchId id, gsize n_bytes)
{
  GError *error = NULL;

  if (queue->scratch[id].n_bytes < n_bytes) {
    /* waits for the work that uses it */
    asr_cuda_free (queue->device, ASR_MEMORY_DEVICE, queue->scratch[id].data);
    queue->scratch[id].n_bytes = 0;
    queue->scratch[id].data = asr_cuda_alloc (queue->device,
        ASR_MEMORY_DEVICE, n_bytes, &error);
    if (!queue->scratch[id].data) {
      asr_cuda_fail (queue, error);
      return NULL;
    }
    queue->scratch[id].n_bytes = n_bytes;
  }
  return queue->scratch[id].data;
}

/* Leaves the segment, and waits until the next one is free. */
static gboolean
turn_ring (AsrQueue *queue)
{
  guint here = queue->ring_segment;
  guint next = (here + 1) % ASR_CUDA_N_SEGMENTS;

  if (!asr_cuda_try (queue, "cudaEventRecord",
          cudaEventRecord (queue->ring_events[here], queue->stream)))
    return FALSE;
  queue->ring_is_used[here] = TRUE;
  if (queue->ring_is_used[next]
      && !asr_cuda_keep (queue,
          cudaEventSynchronize (queue->ring_events[next]),
          "cudaEventSynchronize"))
    return FALSE;
  queue->ring_segment = next;
  queue->ring_offset = 0;
  return TRUE;
}

const void *
asr_cuda_stage (AsrQueue *queue, const void *data, gsize n_bytes)
{
  gsize n_aligned = (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  gsize place;

  if (n_aligned > SEGMENT_BYTES) {
    asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
        "an array of %" G_GSIZE_FORMAT " bytes for one op: at most %"
        G_GSIZE_FORMAT, n_bytes, SEGMENT_BYTES));
    return NULL;
  }
  if (queue->ring_offset + n_aligned > SEGMENT_BYTES && !turn_ring (queue))
    return NULL;
  place = queue->ring_segment * SEGMENT_BYTES + queue->ring_offset;
  queue->ring_offset += n_aligned;
  memcpy (queue->ring_host + place, data, n_bytes);
  if (!asr_cuda_try (queue, "upload",
          cudaMemcpyAsync (queue->ring_device + place,
              queue->ring_host + place, n_bytes, cudaMemcpyHostToDevice,
              queue->stream)))
    return NULL;
  return queue->ring_device + place;
}

/* ---- life ---- */

void
asr_cuda_queue_free (AsrQueue *queue)
{
  AsrDevice *device;

  if (!queue)
    return;
  device = queue->device;
  if (asr_cuda_enter (device, NULL) && queue->stream)
    cudaStreamSynchronize (queue->stream);
  g_clear_pointer (&queue->graphs, g_ptr_array_unref);
  g_clear_pointer (&queue->plans, g_ptr_array_unref);
  for (guint i = 0; i < queue->n_events; i++) {
    cudaEventDestroy (queue->spans[i].begin);
    cudaEventDestroy (queue->spans[i].end);
  }
  for (guint i = 0; i < ASR_CUDA_N_SEGMENTS; i++)
    if (queue->ring_events[i])
      cudaEventDestroy (queue->ring_events[i]);
  for (guint i = 0; i < ASR_N_SCRATCH; i++)
    asr_cuda_free (device, ASR_MEMORY_DEVICE, queue->scratch[i].data);
  asr_cuda_free (device, ASR_MEMORY_PINNED, queue->ring_host);
  asr_cuda_free (device, ASR_MEMORY_DEVICE, queue->ring_device);
  asr_cuda_free (device, ASR_MEMORY_DEVICE, queue->workspace);
  asr_cuda_free (device, ASR_MEMORY_DEVICE, queue->parts);
  asr_cuda_free (device, ASR_MEMORY_DEVICE, queue->pieces);
  asr_cuda_free (device, ASR_MEMORY_DEVICE, queue->counters);
  asr_cuda_free (device, ASR_MEMORY_DEVICE, queue->input);
  if (queue->stream)
    cudaStreamDestroy (queue->stream);
  cudaGetLastError ();
  g_clear_error (&queue->error);
  g_free (queue);
}

static gboolean
alloc_device (AsrQueue *queue, gpointer place, gsize n_bytes, GError **error)
{
  void *memory = asr_cuda_alloc (queue->device, ASR_MEMORY_DEVICE, n_bytes,
      error);

  *(void **) place = memory;
  return memory != NULL;
}

static gboolean
alloc_all (AsrQueue *queue, GError **error)
{
  guint n_counters = ASR_CUDA_MAX_PARTS + ASR_CUDA_CHOICES_AT_ONCE + 1;

  queue->ring_host = asr_cuda_alloc (queue->device, ASR_MEMORY_PINNED,
      ASR_CUDA_N_SEGMENTS * SEGMENT_BYTES, error);
  if (!queue->ring_host
      || !alloc_device (queue, &queue->ring_device,
          ASR_CUDA_N_SEGMENTS * SEGMENT_BYTES, error)
      || !alloc_device (queue, &queue->workspace, ASR_CUDA_WORKSPACE_BYTES,
          error)
      || !alloc_device (queue, &queue->parts,
          ASR_CUDA_MAX_PARTS * ASR_CUDA_PART_SIZE * sizeof (float), error)
      || !alloc_device (queue, &queue->pieces,
          ASR_CUDA_CHOICES_AT_ONCE * ASR_CUDA_CHOICE_PIECES
              * ASR_CUDA_CHOICE_SIZE * sizeof (float), error)
      || !alloc_device (queue, &queue->counters,
          n_counters * sizeof (guint), error)
      || !alloc_device (queue, &queue->input, sizeof (AsrStepInput), error))
    return FALSE;
  queue->choice_counters = queue->counters + ASR_CUDA_MAX_PARTS;
  queue->top = (float *) (queue->choice_counters + ASR_CUDA_CHOICES_AT_ONCE);
  return asr_cuda_check (queue->device,
      cudaMemsetAsync (queue->counters, 0, n_counters * sizeof (guint),
          queue->stream),
      "cudaMemset", error);
}

static gboolean
create_all (AsrQueue *queue, GError **error)
{
  AsrDevice *device = queue->device;

  if (!asr_cuda_check (device,
          asr_cuda_call (device, cudaErrorMemoryAllocation,
              cudaStreamCreateWithFlags (&queue->stream,
                  cudaStreamNonBlocking)),
          "cudaStreamCreate", error))
    return FALSE;
  for (guint i = 0; i < ASR_CUDA_N_SEGMENTS; i++)
    if (!asr_cuda_check (device,
            asr_cuda_call (device, cudaErrorMemoryAllocation,
                cudaEventCreateWithFlags (&queue->ring_events[i],
                    cudaEventDisableTiming)),
            "cudaEventCreate", error))
      return FALSE;
  return alloc_all (queue, error);
}

AsrQueue *
asr_cuda_queue_new (AsrDevice *device, GError **error)
{
  AsrQueue *queue;

  if (!asr_cuda_enter (device, error))
    return NULL;
  queue = g_new0 (AsrQueue, 1);
  queue->device = device;
  queue->plans = g_ptr_array_new_with_free_func (
      (GDestroyNotify) asr_cuda_blas_plan_free);
  queue->graphs = g_ptr_array_new_with_free_func (
      (GDestroyNotify) asr_cuda_step_graph_free);
  if (!create_all (queue, error)) {
    asr_cuda_queue_free (queue);
    return NULL;
  }
  queue->launch = (AsrLaunch){ queue->stream, device->is_f32,
    device->overlaps };
  return queue;
}

/* ---- times ---- */

/* Adds up the spans that have ended; those still open stay. */
static void
collect_spans (AsrQueue *queue)
{
  guint n_open = 0;

  for (guint i = 0; i < queue->n_spans; i++) {
    AsrSpan *span = &queue->spans[i];
    float ms = 0;

    if (!span->is_ended) {
      AsrSpan swap = queue->spans[n_open];

      queue->spans[n_open++] = *span;
      *span = swap;
    } else if (cudaEventElapsedTime (&ms, span->begin, span->end)
        == cudaSuccess) {
      queue->time_ns[span->id] += (guint64) (ms * 1e6);
    }
  }
  queue->n_spans = n_open;
}

static gboolean
create_span (AsrQueue *queue)
{
  AsrSpan *span = &queue->spans[queue->n_events];

  if (!asr_cuda_keep (queue,
          asr_cuda_call (queue->device, cudaErrorMemoryAllocation,
              cudaEventCreate (&span->begin)),
          "cudaEventCreate"))
    return FALSE;
  if (!asr_cuda_keep (queue,
          asr_cuda_call (queue->device, cudaErrorMemoryAllocation,
              cudaEventCreate (&span->end)),
          "cudaEventCreate")) {
    cudaEventDestroy (span->begin);
    return FALSE;
  }
  queue->n_events++;
  return TRUE;
}

void
asr_cuda_time_begin (AsrQueue *queue, guint id)
{
  AsrSpan *span;

  g_return_if_fail (id < ASR_CUDA_N_TIMERS);
  if (!asr_cuda_begin (queue))
    return;
  if (queue->n_spans == ASR_CUDA_MAX_SPANS) {
    if (!asr_cuda_keep (queue, cudaStreamSynchronize (queue->stream),
            "cudaStreamSynchronize"))
      return;
    collect_spans (queue);
  }
  if (queue->n_spans == ASR_CUDA_MAX_SPANS)
    return; /* none was ever ended */
  if (queue->n_spans == queue->n_events && !create_span (queue))
    return;
  span = &queue->spans[queue->n_spans];
  span->id = id;
  span->is_ended = FALSE;
  if (asr_cuda_try (queue, "cudaEventRecord",
          cudaEventRecord (span->begin, queue->stream)))
    queue->n_spans++;
}

void
asr_cuda_time_end (AsrQueue *queue, guint id)
{
  g_return_if_fail (id < ASR_CUDA_N_TIMERS);
  for (guint i = queue->n_spans; i-- > 0;) {
    AsrSpan *span = &queue->spans[i];

    if (span->is_ended || span->id != id)
      continue;
    if (asr_cuda_begin (queue)
        && asr_cuda_try (queue, "cudaEventRecord",
            cudaEventRecord (span->end, queue->stream)))
      span->is_ended = TRUE;
    return;
  }
}

guint64
asr_cuda_time_read_ns (AsrQueue *queue, guint id)
{
  g_return_val_if_fail (id < ASR_CUDA_N_TIMERS, 0);
  return queue->time_ns[id];
}

gboolean
asr_cuda_queue_wait (AsrQueue *queue, GError **error)
{
  AsrDevice *device = queue->device;
  GError *wait_error = NULL;

  if (!asr_cuda_enter (device, &wait_error)
      || !asr_cuda_check (device, cudaStreamSynchronize (queue->stream),
          "cudaStreamSynchronize", &wait_error))
    asr_cuda_fail (queue, wait_error);
  else
    collect_spans (queue);
  if (!queue->error && g_atomic_int_get (&device->is_lost))
    asr_cuda_fail (queue, g_error_new (ASR_ERROR, ASR_ERROR_DEVICE,
        "CUDA device %d failed earlier", device->index));
  if (!queue->error)
    return TRUE;
  queue->n_spans = 0; /* some may never be ended */
  if (g_error_matches (queue->error, ASR_ERROR, ASR_ERROR_DEVICE))
    g_propagate_error (error, g_error_copy (queue->error));
  else
    g_propagate_error (error, g_steal_pointer (&queue->error));
  return FALSE;
}
