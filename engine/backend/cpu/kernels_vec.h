/* SPDX-License-Identifier: MIT */
/* Names of the kernels of the tier that is being compiled; see kernels.h. */
#ifndef ASR_BACKEND_CPU_KERNELS_VEC_H
#define ASR_BACKEND_CPU_KERNELS_VEC_H

#include "engine/backend/cpu/kernels.h"
#include "engine/backend/cpu/vec.h"

#define TIER_JOIN(name, tier) asr_##name##_##tier
#define TIER_OF(name, tier) TIER_JOIN (name, tier)
#define TIER(name) TIER_OF (name, ASR_TIER)

float TIER (mel_frames) (const AsrMelBlock *block, guint first, guint n);
void TIER (mel_scale) (float *x, gsize n, float floor);
void TIER (norm) (const float *x, guint d, const float *gamma,
    const float *beta, float *y);
void TIER (append) (const float *k, const float *v, guint position,
    guint n_ctx, guint16 *k_slot, guint16 *v_slot);
void TIER (attend) (const AsrAttend *attend);
void TIER (encoder_pack) (const AsrEncoderHead *head, guint panel);
void TIER (encoder_attend) (const AsrEncoderHead *head, guint first, guint n,
    float *p, float *y, gsize y_stride);
float TIER (find_max) (const float *x, guint n, guint *index);
double TIER (sum_exp) (const float *x, guint n, float shift);
float TIER (find_gumbel) (const float *x, guint n, float temperature,
    guint64 seed, guint32 step, guint32 first_id, guint *index);
void TIER (softmax) (float *x, guint n);
void TIER (standardise) (float *x, guint n_rows, gsize stride,
    guint n_columns);
void TIER (add_median) (const float *x, guint n, float *sum);

/* Tiles of the encoder's attention: as many accumulators as there are
 * registers for. */
#define TILE_VECS 2
#define TILE_COLUMNS (TILE_VECS * VEC_N)
#if VEC_N == 16
#define TILE_ROWS 12
#else
#define TILE_ROWS 6
#endif

extern const AsrKernels TIER (kernels);

#endif
