/* SPDX-License-Identifier: MIT */
/* The table of one tier of instructions. */
#include "engine/backend/cpu/kernels_vec.h"

#define STRING_OF(x) #x
#define STRING(x) STRING_OF (x)

const AsrKernels TIER (kernels) = {
  .name = STRING (ASR_TIER),
  .tile = { TILE_COLUMNS, TILE_ROWS },
  .mel_frames = TIER (mel_frames),
  .mel_scale = TIER (mel_scale),
  .norm = TIER (norm),
  .append = TIER (append),
  .attend = TIER (attend),
  .encoder_pack = TIER (encoder_pack),
  .encoder_attend = TIER (encoder_attend),
  .find_max = TIER (find_max),
  .sum_exp = TIER (sum_exp),
  .find_gumbel = TIER (find_gumbel),
  .softmax = TIER (softmax),
  .standardise = TIER (standardise),
  .add_median = TIER (add_median),
};
