/* SPDX-License-Identifier: MIT */
/*
 * What weights look like to the CPU's matrix products, and the kernels of
 * each instruction set. Included by the linear*.c files, weight.c, conv.c,
 * embed.c and cpu.c.
 *
 * int8: weights and activations are symmetric, one scale for each row of
 * either, so that a product is an exact integer times two scales whatever the
 * tier. Weights have 8 bits, activations twice 8: single bytes of these cost a
 * tenth more word errors. Weights lie in panels of 16 output rows,
 * [n_panels, n_in / 4, 16, 4]: 64 contiguous bytes hold four inputs of 16
 * outputs, and 16 such lines are one AMX tile. One copy serves one row as
 * well as many, and a panel is one stream of memory.
 */
#ifndef ASR_BACKEND_CPU_LINEAR_H
#define ASR_BACKEND_CPU_LINEAR_H

#include "engine/backend/cpu/cpu.h"

G_BEGIN_DECLS

#define ASR_PANEL 16   /* output rows side by side */
#define ASR_DEPTH 64   /* inputs are padded with zeros to a multiple */
#define ASR_ROW_TILE 16 /* lines of quantised rows, two to a row */

struct _AsrWeight {
  AsrWeightUse use;
  guint n_out, n_in;    /* a convolution's n_in is 3 times its channels:
                         * [n_out, 3, channels] */
  guint depth;          /* n_in padded */
  guint n_panels;

  float *f32;           /* [n_out, n_in], or NULL */

  gint8 *i8;            /* panels, or NULL */
  float *scales;        /* [n_panels * 16]: value = i8 * scale */
  gint32 *corrections;  /* [n_panels * 16]: -128 * sum over the row, for
                         * kernels that shift activations by 128 */
};

/* Value [row, column] of a weight in panels, as its place in i8. */
static inline gsize
asr_panel_index (const AsrWeight *weight, guint row, guint column)
{
  gsize panel = (gsize) (row / ASR_PANEL) * weight->depth * ASR_PANEL;

  return panel + (column / 4) * 4 * ASR_PANEL + (row % ASR_PANEL) * 4
      + column % 4;
}

/* What follows the product; y = activation (product + bias) + residual. */
typedef struct {
  const float *bias;     /* [n_out] or NULL */
  AsrActivation activation;
  const float *residual; /* [n_rows, n_out] or NULL; may be y */
  float *y;              /* [n_rows, n_out] */
  guint n_out;
} AsrEpilogue;

/* The second of a pair of quantised rows counts this much of the first: what
 * rounding leaves is half a step at most, 127 of these. */
#define ASR_REST_STEP (1.0f / 254.0f)

/* A product of quantised rows. Each row of x is a pair: what 8 bits hold of
 * it, and 8 bits of what they leave. */
typedef struct {
  const guint8 *x;       /* [n_rows, 2, depth] s8, or u8 where shifted; with
                          * room for a multiple of ASR_ROW_TILE lines */
  const float *x_scales; /* [n_rows]: value = (x[0] + x[1] / 254) * scale */
  guint n_rows;
  const AsrWeight *weight;
  AsrEpilogue finish;
} AsrProduct;

typedef struct _AsrLinearKernels {
  /* x [n] f32 to q [2, depth] and its scale; padded as if with zeros. */
  void (*quantise) (const float *x, guint n, guint depth, guint8 *q,
      float *scale);
  /* Output rows of panels [begin, end), for all rows of the product. */
  void (*product) (const AsrProduct *product, guint begin, guint end);
  /* The same with f32 weights, for few rows of x, @ldx apart. */
  void (*product_f32) (const float *x, gsize ldx, guint n_rows,
      const AsrWeight *weight, const AsrEpilogue *finish, guint begin,
      guint end);
  /* The epilogue alone. @sums: [n_rows, n_out], may be y */
  void (*finish) (const float *sums, const AsrEpilogue *finish,
      guint n_rows);
} AsrLinearKernels;

extern const AsrLinearKernels asr_linear_kernels_c;
extern const AsrLinearKernels asr_linear_kernels_avx2;
extern const AsrLinearKernels asr_linear_kernels_avx512;
extern const AsrLinearKernels asr_linear_kernels_avx512_vnni;
extern const AsrLinearKernels asr_linear_kernels_amx;

const AsrLinearKernels *asr_cpu_linear_get_kernels (AsrIsa isa);

/**
 * asr_cpu_linear_run: what linear and conv share.
 * @x: [n_rows, n_in] f32, rows @ldx apart, which may be less than n_in
 */
void asr_cpu_linear_run (AsrQueue *queue, const float *x, gsize ldx,
    guint n_rows, const AsrWeight *weight, const AsrEpilogue *finish);

G_END_DECLS

#endif
