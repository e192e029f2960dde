/* SPDX-License-Identifier: MIT */
/*
 * What the files of the CUDA backend share: the device, the queue and what
 * it owns, errors, and the ops. Activations and key/value pools are f16, or
 * f32 throughout in f32 mode. A queue is a stream: everything on it runs in
 * order and nothing waits for the host.
 */
#ifndef ASR_BACKEND_CUDA_CUDA_H
#define ASR_BACKEND_CUDA_CUDA_H

#include "engine/backend/backend.h"
#include "engine/backend/cuda/kernels.h"
#include <cublasLt.h>

G_BEGIN_DECLS

struct _AsrDevice {
  AsrDeviceInfo info;
  int index;
  gboolean is_f32;
  gboolean overlaps;      /* programmatic dependent launch */
  cublasLtHandle_t blas;  /* thread-safe */
  gint is_lost;           /* atomic: an error that CUDA can't recover from */
  gint fail_at;           /* atomic: see asr_cuda_injects */
  GMutex mutex;           /* for what follows */
  void *staging;          /* device memory that weights pass through */
  cudaStream_t staging_stream;
};

struct _AsrWeight {
  guint n_out, n_in, n_taps;
  void *data;        /* device act [n_out, n_taps, n_in] */
  void *half_bias;   /* device [n_out]: cuBLASLt wants the bias in the type of
                      * its output */
  const float *bias; /* whose copy half_bias is, or NULL */
};

/* ---- cuda.c: errors ---- */

/**
 * asr_cuda_injects: whether the next call shall fail. Tests set the
 * environment variable ASR_CUDA_FAIL_AT to n before they open a device, and
 * its n-th allocation or launch then fails without being made.
 */
gboolean asr_cuda_injects (AsrDevice *device);

/* A call of CUDA, or the failure in its place. */
#define asr_cuda_call(device, failure, call) \
  (asr_cuda_injects (device) ? (failure) : (call))

/* Returns: whether @result is success; else sets @error, with @what and
 * CUDA's name for it */
gboolean asr_cuda_check (AsrDevice *device, cudaError_t result,
    const char *what, GError **error);
gboolean asr_cuda_check_blas (AsrDevice *device, cublasStatus_t result,
    const char *what, GError **error);

/* Makes the calling thread speak to @device. */
gboolean asr_cuda_enter (AsrDevice *device, GError **error);

/* Device or pinned memory. */
void *asr_cuda_alloc (AsrDevice *device, AsrMemoryKind kind, gsize n_bytes,
    GError **error);
void asr_cuda_free (AsrDevice *device, AsrMemoryKind kind, void *memory);

/* ---- queue.c ---- */

#define ASR_CUDA_N_TIMERS 8
#define ASR_CUDA_MAX_SPANS 128
#define ASR_CUDA_N_SEGMENTS 4
#define ASR_CUDA_CHOICES_AT_ONCE 64
#define ASR_CUDA_WORKSPACE_BYTES ((gsize) 32 << 20)

/* Device time between two events. */
typedef struct {
  cudaEvent_t begin, end;
  guint id;
  gboolean is_ended;
} AsrSpan;

typedef enum {
  ASR_SCRATCH_OP,     /* of an op that calls no other */
  ASR_SCRATCH_LINEAR, /* of linear */
  ASR_N_SCRATCH,
} AsrScratchId;

typedef struct _AsrBlasPlan AsrBlasPlan;
typedef struct _AsrStepGraph AsrStepGraph;

struct _AsrQueue {
  AsrDevice *device;
  cudaStream_t stream;
  AsrLaunch launch;
  GError *error; /* the first since the last wait */

  AsrSpan spans[ASR_CUDA_MAX_SPANS]; /* the first n_spans are in use */
  guint n_events;                    /* spans that have events */
  guint n_spans;
  guint64 time_ns[ASR_CUDA_N_TIMERS];

  /* Small host arrays go through a pinned ring of segments, each free again
   * when its event has come. */
  guint8 *ring_host, *ring_device;
  cudaEvent_t ring_events[ASR_CUDA_N_SEGMENTS];
  gboolean ring_is_used[ASR_CUDA_N_SEGMENTS];
  guint ring_segment;
  gsize ring_offset; /* in the segment */

  struct {
    void *data;
    gsize n_bytes;
  } scratch[ASR_N_SCRATCH];
  void *workspace;      /* of cuBLASLt */
  float *parts;         /* see AsrCacheAttention */
  guint *counters;
  float *pieces;        /* see AsrChoose */
  guint *choice_counters;
  float *top;           /* of a window's mel */
  AsrStepInput *input;

  GPtrArray *plans;     /* of AsrBlasPlan */
  GPtrArray *graphs;    /* of AsrStepGraph, last used last */
};

AsrQueue *asr_cuda_queue_new (AsrDevice *device, GError **error);
void asr_cuda_queue_free (AsrQueue *queue);
gboolean asr_cuda_queue_wait (AsrQueue *queue, GError **error);
void asr_cuda_time_begin (AsrQueue *queue, guint id);
void asr_cuda_time_end (AsrQueue *queue, guint id);
guint64 asr_cuda_time_read_ns (AsrQueue *queue, guint id);

/* Whether an op may begin: not after an error. */
gboolean asr_cuda_begin (AsrQueue *queue);

/* Keeps @error if it is the first; takes ownership. */
void asr_cuda_fail (AsrQueue *queue, GError *error);

/* Result of a launch: FALSE after it has become the queue's error. */
gboolean asr_cuda_keep (AsrQueue *queue, cudaError_t result,
    const char *what);
#define asr_cuda_try(queue, what, call) \
  asr_cuda_keep (queue, \
      asr_cuda_call ((queue)->device, cudaErrorLaunchFailure, call), what)

/* Device memory valid until asked for again with the same @id; NULL after it
 * has become the queue's error. */
void *asr_cuda_get_scratch (AsrQueue *queue, AsrScratchId id, gsize n_bytes);

/* @data, copied to device memory, for ops enqueued before the ring comes
 * round; NULL after it has become the queue's error. */
const void *asr_cuda_stage (AsrQueue *queue, const void *data,
    gsize n_bytes);

/* ---- weight.c ---- */

AsrWeight *asr_cuda_weight_new (AsrDevice *device, const AsrTensor *tensor,
    AsrWeightUse use, GError **error);
void asr_cuda_weight_free (AsrDevice *device, AsrWeight *weight);

/* The bias as cuBLASLt wants it; NULL after it has become the queue's
 * error. A model's bias does not change once it has been used. */
const void *asr_cuda_weight_get_bias (AsrQueue *queue, AsrWeight *weight,
    const float *bias);

/* ---- blas.c ---- */

/* y = x W^T + bias, and + y if @adds; for each of @n_batches the next n_out
 * rows of W and the next [n_rows, n_out] of y. */
typedef struct {
  guint n_rows, n_in, n_out;
  guint n_batches;
  gboolean has_bias;
  gboolean adds;
} AsrBlasShape;

gboolean asr_cuda_blas (AsrQueue *queue, const AsrBlasShape *shape,
    const void *x, const void *weight, const void *bias,
    const void *residual, void *y);
void asr_cuda_blas_plan_free (AsrBlasPlan *plan);

/* ---- ops.c, linear.c, attention.c, step.c ---- */

void asr_cuda_op_mel (AsrQueue *queue, const AsrMelParams *params);
void asr_cuda_op_conv (AsrQueue *queue, const AsrConvParams *params);
void asr_cuda_op_norm (AsrQueue *queue, const AsrNormParams *params);
void asr_cuda_op_linear (AsrQueue *queue, const AsrLinearParams *params);
void asr_cuda_op_embed (AsrQueue *queue, const AsrEmbedParams *params);
void asr_cuda_op_attention (AsrQueue *queue,
    const AsrAttentionParams *params);
void asr_cuda_op_cross_kv (AsrQueue *queue, const AsrCrossKvParams *params);
void asr_cuda_op_choose (AsrQueue *queue, const AsrChooseParams *params);
void asr_cuda_op_align (AsrQueue *queue, const AsrAlignParams *params);
void asr_cuda_decoder_step (AsrQueue *queue,
    const AsrDecoderStepParams *params);

/* The rows of x that are normalised first, with beta NULL: none. */
void asr_cuda_linear (AsrQueue *queue, const AsrLinearParams *params,
    const AsrNormWeights *norm, const guint32 *gather, void *normalised);

/* Whether the rows of each text slot are at most ASR_CUDA_MAX_ROWS in all,
 * with positions that follow each other. */
gboolean asr_cuda_rows_follow (const AsrRow *rows, guint n_rows);

/* SELF and CROSS; @rows: device; @is_early: see AsrCacheAttention */
void asr_cuda_attend (AsrQueue *queue, const AsrAttentionParams *params,
    const AsrRow *rows, gboolean appends, gboolean is_early);

/* @choices: device; @input: (nullable): device, has the records; @is_early:
 * see AsrChoose */
void asr_cuda_choose_from (AsrQueue *queue, const AsrChooseParams *params,
    const AsrChoice *choices, const AsrStepInput *input, gboolean is_early);

void asr_cuda_step_graph_free (AsrStepGraph *graph);

G_END_DECLS

#endif
