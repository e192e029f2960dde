/* SPDX-License-Identifier: MIT */
/* Attention by kind; see attention.h. */
#include "engine/backend/cpu/attention.h"

void
asr_cpu_attention (AsrQueue *queue, const AsrAttentionParams *params)
{
  switch (params->kind) {
    case ASR_ATTENTION_ENCODER:
#if defined(__x86_64__)
      /* bf16 is as good as int8 products are, and several times as fast */
      if (queue->device->isa == ASR_ISA_AMX
          && queue->device->info.compute_type != ASR_COMPUTE_F32) {
        asr_cpu_attention_tiles (queue, params);
        break;
      }
#endif
      asr_cpu_attention_encoder (queue, params);
      break;
    case ASR_ATTENTION_SELF:
    case ASR_ATTENTION_CROSS:
      asr_cpu_attention_cache (queue, params);
      break;
  }
}
