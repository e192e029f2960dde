/* SPDX-License-Identifier: MIT */
/* The optional entries of a backend's table, made of its other ops. */
#ifndef ASR_BACKEND_COMPOSITE_H
#define ASR_BACKEND_COMPOSITE_H

#include "engine/backend/backend.h"

G_BEGIN_DECLS

void asr_composite_encoder_layer (const AsrCompute *compute, AsrQueue *queue,
    const AsrEncoderLayerParams *params);
void asr_composite_decoder_step (const AsrCompute *compute, AsrQueue *queue,
    const AsrDecoderStepParams *params);

G_END_DECLS

#endif
