/* SPDX-License-Identifier: MIT */
/*
 * Linear kernels for AVX-512 with VNNI. Activations are shifted by 128, as
 * vpdpbusd wants them; the sums start from the correction for that.
 */
#include "engine/backend/cpu/linear_vnni.h"

static void
product (const AsrProduct *p, guint begin, guint end)
{
  vnni_product (p, begin, end);
}

const AsrLinearKernels asr_linear_kernels_avx512_vnni
    = { quantise_shifted, product, product_f32, finish_rows };
