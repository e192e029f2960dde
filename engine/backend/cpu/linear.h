/* SPDX-License-Identifier: MIT */
/*
 * What weights look like to the CPU's matrix products, and the kernels of
 * each instruction set. Included by the linear*.c files, weight.c, conv.c,
 * embed.c and cpu.c.
 *
 * int8: weights and activations are symmetric, one scale for each row of
 * either, so that a product is an exact integer times two scales whatever the
 * tier. Weights lie in panels of 16 output rows,
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
#define ASR_ROW_TILE 16 /* quantised rows have room for a multiple */

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

/* Panels that a kernel has in work at once. */
#define ASR_PAIR_PANELS 4

/* A product of quantised rows. */
typedef struct {
  const guint8 *x;       /* [n_rows, depth] s8, or u8 where shifted; with
                          * room for a multiple of ASR_ROW_TILE rows */
  const float *x_scales; /* [n_rows]: value = x * scale */
  guint n_rows;
  const AsrWeight *weight;
  AsrEpilogue finish;
  float *partial;        /* NULL, or [ASR_PAIR_PANELS, 16] of this thread:
                          * rows come in pairs, what 8 bits hold of a row and
                          * what they leave; each pair is one row of y */
} AsrProduct;

typedef struct _AsrLinearKernels {
  /* x [n] f32 to q [depth] and its scale; padded as if with zeros. */
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
  guint8 zero;           /* what quantise makes of 0: 0x80 where shifted */
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
