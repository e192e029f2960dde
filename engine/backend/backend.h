/* SPDX-License-Identifier: MIT */
/*
 * The border between the engine and what computes. A backend is one const
 * table; backend.c has the front doors that validate and fall back to
 * composite.c where an optional entry is NULL. Nothing above this layer knows
 * which backend it runs on.
 *
 * Ops return nothing: the queue keeps the first error and queue_wait reports
 * it, so that model code reads like the paper. Work on one queue runs in
 * order. A device may be used from several threads, a queue from one at a
 * time.
 */
#ifndef ASR_BACKEND_BACKEND_H
#define ASR_BACKEND_BACKEND_H

#include "engine/asr.h"
#include "engine/backend/ops.h"

G_BEGIN_DECLS

#define ASR_BACKEND_ABI 1

typedef struct _AsrDevice AsrDevice; /* each backend has its own */
typedef struct _AsrQueue AsrQueue;   /* each backend has its own */

typedef enum {
  ASR_MEMORY_DEVICE,
  ASR_MEMORY_PINNED, /* host memory that copies asynchronously */
} AsrMemoryKind;

typedef struct {
  guint index;
  AsrComputeType compute_type;
  guint n_threads; /* 0: one for each core; CPU only */
} AsrDeviceParams;

typedef struct {
  char description[128];       /* for people */
  AsrDType activation;         /* type of activations between ops */
  AsrDType kv;                 /* type of key/value pools */
  AsrComputeType compute_type; /* what AUTO became */
  guint n_steps_ahead;         /* decoder steps worth enqueuing before the
                                * host looks at a record; 1 where work runs
                                * at once */
} AsrDeviceInfo;

typedef struct {
  guint32 abi;   /* ASR_BACKEND_ABI */
  guint32 n_bytes; /* sizeof (AsrBackend) of whoever built the table */
  const char *name;

  /* Fails with NOT_FOUND where there is no such device, UNSUPPORTED for a
   * compute type that it lacks, DEVICE where it can't be used. */
  AsrDevice *(*device_open) (const AsrDeviceParams *params, GError **error);
  void (*device_close) (AsrDevice *device);
  const AsrDeviceInfo *(*device_get_info) (AsrDevice *device);

  /* Aligned to 64 bytes at least; not cleared. */
  void *(*memory_alloc) (AsrDevice *device, AsrMemoryKind kind,
      gsize n_bytes, GError **error);
  void (*memory_free) (AsrDevice *device, AsrMemoryKind kind, void *memory);

  AsrWeight *(*weight_new) (AsrDevice *device, const AsrTensor *tensor,
      AsrWeightUse use, GError **error);
  void (*weight_free) (AsrDevice *device, AsrWeight *weight);

  AsrQueue *(*queue_new) (AsrDevice *device, GError **error);
  void (*queue_free) (AsrQueue *queue);
  /* Waits for all that was enqueued; reports the first error since the last
   * wait and clears it unless it is sticky (ASR_ERROR_DEVICE). */
  gboolean (*queue_wait) (AsrQueue *queue, GError **error);
  /* Device time between begin and end is added to counter @id (0 to 7). */
  void (*time_begin) (AsrQueue *queue, guint id);
  void (*time_end) (AsrQueue *queue, guint id);
  /* Nanoseconds so far, of work that has been waited for. */
  guint64 (*time_read_ns) (AsrQueue *queue, guint id);

  /* Host and device pointers alike. */
  void (*copy) (AsrQueue *queue, void *to, const void *from, gsize n_bytes);

  void (*mel) (AsrQueue *queue, const AsrMelParams *params);
  void (*conv) (AsrQueue *queue, const AsrConvParams *params);
  void (*norm) (AsrQueue *queue, const AsrNormParams *params);
  void (*linear) (AsrQueue *queue, const AsrLinearParams *params);
  void (*embed) (AsrQueue *queue, const AsrEmbedParams *params);
  void (*attention) (AsrQueue *queue, const AsrAttentionParams *params);
  void (*cross_kv) (AsrQueue *queue, const AsrCrossKvParams *params);
  void (*choose) (AsrQueue *queue, const AsrChooseParams *params);
  void (*align) (AsrQueue *queue, const AsrAlignParams *params);

  /* Optional; NULL: composite.c builds it from the ops above. */
  void (*encoder_layer) (AsrQueue *queue, const AsrEncoderLayerParams *params);
  void (*decoder_step) (AsrQueue *queue, const AsrDecoderStepParams *params);
} AsrBackend;

/* A device with its table, and memory that knows where it came from. */
typedef struct {
  const AsrBackend *table;
  AsrDevice *device;
  const AsrDeviceInfo *info;
} AsrCompute;

typedef struct {
  const AsrCompute *compute;
  AsrMemoryKind kind;
  void *data;
  gsize n_bytes;
} AsrMemory;

/**
 * asr_compute_open: finds a backend by name and opens its device.
 * @backend: "cpu" or "cuda"
 *
 * Returns: (transfer full): free with asr_compute_close after all memory,
 *   weights and queues of it
 */
AsrCompute *asr_compute_open (const char *backend,
    const AsrDeviceParams *params, GError **error);
void asr_compute_close (AsrCompute *compute);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AsrCompute, asr_compute_close)

/* @memory is cleared on failure. */
gboolean asr_memory_init (AsrMemory *memory, const AsrCompute *compute,
    AsrMemoryKind kind, gsize n_bytes, GError **error);
void asr_memory_clear (AsrMemory *memory);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (AsrMemory, asr_memory_clear)

/* The optional entries of a table, or composite.c in their place. */
void asr_compute_encoder_layer (const AsrCompute *compute, AsrQueue *queue,
    const AsrEncoderLayerParams *params);
void asr_compute_decoder_step (const AsrCompute *compute, AsrQueue *queue,
    const AsrDecoderStepParams *params);

G_END_DECLS

#endif
