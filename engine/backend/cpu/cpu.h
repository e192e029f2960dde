/* SPDX-License-Identifier: MIT */
/*
 * What the files of the CPU backend share: the device, its thread pool, the
 * instruction set that was picked, and the ops. Activations are f32; key and
 * value pools are f16. Work on a queue runs at once in the calling thread
 * and the pool.
 */
#ifndef ASR_BACKEND_CPU_CPU_H
#define ASR_BACKEND_CPU_CPU_H

#include "engine/backend/backend.h"

G_BEGIN_DECLS

/* Tiers of x86 instructions; each contains the ones before it. */
typedef enum {
  ASR_ISA_C,          /* portable C, any processor */
  ASR_ISA_AVX2,       /* with FMA and F16C */
  ASR_ISA_AVX512,     /* F, BW, DQ, VL */
  ASR_ISA_AVX512_VNNI,
  ASR_ISA_AMX,        /* tiles of int8 and bf16, and AVX512_BF16 */
} AsrIsa;

/* What this processor and kernel can do, lowered by the environment variable
 * ASR_CPU_ISA ("c", "avx2", "avx512", "avx512_vnni", "amx"). */
AsrIsa asr_isa_detect (void);
const char *asr_isa_get_name (AsrIsa isa);

/* ---- threads.c ---- */

typedef struct _AsrThreads AsrThreads;

/* Runs items [begin, end) on thread @thread (0 to n_threads - 1). */
typedef void (*AsrThreadsFunc) (gpointer data, guint begin, guint end,
    guint thread);

AsrThreads *asr_threads_new (guint n_threads);
void asr_threads_free (AsrThreads *threads);
guint asr_threads_get_n (AsrThreads *threads);

/**
 * asr_threads_run: splits [0, @n_items) into pieces of at least @grain, runs
 * them on all threads with dynamic balancing, and returns when all are done.
 * One caller at a time. Cheap enough for pieces of some microseconds.
 */
void asr_threads_run (AsrThreads *threads, guint n_items, guint grain,
    AsrThreadsFunc func, gpointer data);

/* ---- cpu.c ---- */

struct _AsrDevice {
  AsrDeviceInfo info;
  AsrIsa isa;
  AsrThreads *threads;
  const struct _AsrLinearKernels *linear; /* of isa; linear.h */
};

struct _AsrQueue {
  AsrDevice *device;
  GError *error;       /* the first since the last wait */
  gint64 begin_us[8];
  guint64 time_ns[8];
  /* Scratch that ops grow and reuse: no allocation per token. linear uses
   * the first, conv the first two; the others are for ops that call them. */
  struct {
    void *data;
    gsize n_bytes;
  } scratch[4];
};

/* Scratch of ops that call no other, and of those that call linear. */
#define ASR_SCRATCH_OP 2
#define ASR_SCRATCH_OUTER 3

/* Aligned to 64 bytes, valid until asked for again with the same @index;
 * NULL after it has set the queue's error. */
void *asr_cpu_get_scratch (AsrQueue *queue, guint index, gsize n_bytes);

/* Keeps @error if it is the first; takes ownership. */
void asr_cpu_fail (AsrQueue *queue, GError *error);

/* ---- one file each ---- */

AsrWeight *asr_cpu_weight_new (AsrDevice *device, const AsrTensor *tensor,
    AsrWeightUse use, GError **error);
void asr_cpu_weight_free (AsrDevice *device, AsrWeight *weight);

void asr_cpu_mel (AsrQueue *queue, const AsrMelParams *params);
void asr_cpu_conv (AsrQueue *queue, const AsrConvParams *params);
void asr_cpu_norm (AsrQueue *queue, const AsrNormParams *params);
void asr_cpu_linear (AsrQueue *queue, const AsrLinearParams *params);
void asr_cpu_embed (AsrQueue *queue, const AsrEmbedParams *params);
void asr_cpu_attention (AsrQueue *queue, const AsrAttentionParams *params);
void asr_cpu_cross_kv (AsrQueue *queue, const AsrCrossKvParams *params);
void asr_cpu_choose (AsrQueue *queue, const AsrChooseParams *params);
void asr_cpu_align (AsrQueue *queue, const AsrAlignParams *params);

G_END_DECLS

#endif
