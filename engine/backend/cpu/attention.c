/* SPDX-License-Identifier: MIT */
/* Attention by kind; see attention.h. */
#include "engine/backend/cpu/attention.h"

void
asr_cpu_attention (AsrQueue *queue, const AsrAttentionParams *params)
{
  switch (params->kind) {
    case ASR_ATTENTION_ENCODER:
      asr_cpu_attention_encoder (queue, params);
      break;
    case ASR_ATTENTION_SELF:
    case ASR_ATTENTION_CROSS:
      asr_cpu_attention_cache (queue, params);
      break;
  }
}
