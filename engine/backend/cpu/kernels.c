/* SPDX-License-Identifier: MIT */
/* Picks the table of kernels; see kernels.h. */
#include "engine/backend/cpu/kernels.h"

extern const AsrKernels asr_kernels_c;
#ifdef __x86_64__
extern const AsrKernels asr_kernels_avx2, asr_kernels_avx512;
#endif

const AsrKernels *
asr_kernels_get (AsrIsa isa)
{
#ifdef __x86_64__
  if (isa >= ASR_ISA_AVX512)
    return &asr_kernels_avx512;
  if (isa >= ASR_ISA_AVX2)
    return &asr_kernels_avx2;
#endif
  return &asr_kernels_c;
}
