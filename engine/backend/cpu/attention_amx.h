/* SPDX-License-Identifier: MIT */
/* The encoder's attention on AMX tiles; see attention_amx.c. */
#ifndef ASR_BACKEND_CPU_ATTENTION_AMX_H
#define ASR_BACKEND_CPU_ATTENTION_AMX_H

#include "engine/backend/cpu/cpu.h"

G_BEGIN_DECLS

/* Query rows that are worth one task: whole blocks of the tile code. */
#define ASR_AMX_QUERY_PART 256

/**
 * AsrAmxHead: one head of one sequence.
 * @qkv: [n_frames, 3d] f32 from the head's first column of Q on
 * @y: [n_frames, d] f32 from the head's first column on
 * @packed: of get_pack_bytes, aligned to 64: K and V as pack left them
 */
typedef struct {
  guint n_frames, d;
  const float *qkv;
  float *y;
  void *packed;
} AsrAmxHead;

gsize asr_attention_amx_get_pack_bytes (guint n_frames);
gsize asr_attention_amx_get_scratch_bytes (guint n_frames);
void asr_attention_amx_pack (const AsrAmxHead *head);

/* Query rows [begin, end). @scratch: of get_scratch_bytes, aligned to 64 */
void asr_attention_amx_run (const AsrAmxHead *head, guint begin, guint end,
    void *scratch);

G_END_DECLS

#endif
