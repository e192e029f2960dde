/* SPDX-License-Identifier: MIT */
/* The kinds of attention; each file checks its own parameters. */
#ifndef ASR_BACKEND_CPU_ATTENTION_H
#define ASR_BACKEND_CPU_ATTENTION_H

#include "engine/backend/cpu/kernels.h"

G_BEGIN_DECLS

void asr_cpu_attention_encoder (AsrQueue *queue,
    const AsrAttentionParams *params);
/* As _encoder, in bf16 on tiles; for ASR_ISA_AMX. */
void asr_cpu_attention_tiles (AsrQueue *queue,
    const AsrAttentionParams *params);
void asr_cpu_attention_cache (AsrQueue *queue,
    const AsrAttentionParams *params);

/* K (@part 0) or V (1) of a slot, layer and head: [n_ctx * 64] f16; K in
 * blocks, see ASR_KEY_BLOCK. */
static inline guint16 *
asr_cpu_get_kv (const AsrKvPool *pool, guint slot, guint layer, guint part,
    guint head)
{
  gsize index = ((gsize) slot * pool->n_layers + layer) * 2 + part;

  return (guint16 *) pool->data
      + (index * pool->n_heads + head) * pool->n_ctx * ASR_HEAD_SIZE;
}

G_END_DECLS

#endif
