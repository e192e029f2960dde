/* SPDX-License-Identifier: MIT */
/*
 * Linear kernels for AMX. A tile of weights is 16 lines of a panel, a tile
 * of activations 16 rows of 64 bytes as they lie, so nothing is rearranged.
 * Two by two tiles of sums use each load twice. Few rows would leave tiles
 * empty and go to VNNI.
 */
#include "engine/backend/cpu/linear_vnni.h"

#define FEW_ROWS 4
#define TILE_ROWS 16 /* lines: 8 pairs */
#define TILE_PAIRS (TILE_ROWS / 2)
#define TILE_BYTES 64
#define PANELS 2 /* of sums side by side */

/* Tiles: 0 to 3 sums [row half][panel], 4 and 5 activations, 6 and 7
 * weights. Layout of the 64 bytes: Intel SDM vol. 1, 18.2. */
typedef struct {
  guint8 palette, start_row, reserved[14];
  guint16 row_bytes[16];
  guint8 rows[16];
} TileConfig;

static void
load_config (void)
{
  TileConfig config = { .palette = 1 };

  for (guint i = 0; i < 8; i++) {
    config.row_bytes[i] = TILE_BYTES;
    config.rows[i] = TILE_ROWS;
  }
  /* GCC's intrinsic tells of its first eight bytes only. */
  __asm__ volatile ("" : : "m" (config));
  _tile_loadconfig (&config);
}

/* Sums of 32 lines (or the first 16 of them) by two panels (or one). */
typedef gint32 Sums[2][PANELS][TILE_ROWS][ASR_PANEL];

ALWAYS_INLINE void
fetch_tile (const gint8 *tile)
{
  for (guint i = 0; i < TILE_ROWS; i++)
    _mm_prefetch ((const char *) tile + i * TILE_BYTES, _MM_HINT_T0);
}

ALWAYS_INLINE void
multiply_tiles (const guint8 *x, gsize ldx, const gint8 *w, gsize panel_bytes,
    guint depth, gboolean is_tall, gboolean is_wide, Sums sums)
{
  _tile_zero (0);
  _tile_zero (1);
  _tile_zero (2);
  _tile_zero (3);
  for (guint k = 0; k < depth; k += TILE_BYTES) {
    const gint8 *tile = w + (gsize) k * ASR_PANEL;

    /* A core's first cache has no room for all weights of a panel. */
    fetch_tile (tile + TILE_ROWS * TILE_BYTES);
    if (is_wide)
      fetch_tile (tile + TILE_ROWS * TILE_BYTES + panel_bytes);
    _tile_loadd (4, x + k, ldx);
    _tile_loadd (6, tile, TILE_BYTES);
    _tile_dpbusd (0, 4, 6);
    if (is_wide) {
      _tile_loadd (7, tile + panel_bytes, TILE_BYTES);
      _tile_dpbusd (1, 4, 7);
    }
    if (is_tall) {
      _tile_loadd (5, x + k + TILE_ROWS * ldx, ldx);
      _tile_dpbusd (2, 5, 6);
    }
    if (is_tall && is_wide)
      _tile_dpbusd (3, 5, 7);
  }
  _tile_stored (0, sums[0][0], TILE_BYTES);
  _tile_stored (1, sums[0][1], TILE_BYTES);
  _tile_stored (2, sums[1][0], TILE_BYTES);
  _tile_stored (3, sums[1][1], TILE_BYTES);
}

/* A panel's sums of up to 8 pairs. What does not change with the row is
 * loaded once; @gelu and @residual are constants. */
ALWAYS_INLINE void
finish_whole (const AsrProduct *p, guint row, guint n_rows, guint panel,
    gint32 (*sums)[ASR_PANEL], gboolean gelu, gboolean residual)
{
  const AsrEpilogue *finish = &p->finish;
  guint column = panel * ASR_PANEL;
  __m512i correction = _mm512_loadu_si512 (p->weight->corrections + column);
  V16 scales = load_16 (p->weight->scales + column);
  V16 bias = finish->bias ? load_16 (finish->bias + column) : (V16){ 0 };
  gsize at = (gsize) row * finish->n_out + column;

  for (guint i = 0; i < n_rows; i++) {
    V16 sum = (V16) _mm512_cvtepi32_ps (_mm512_add_epi32 (
        _mm512_load_si512 (sums[2 * i]), correction));
    V16 rest = (V16) _mm512_cvtepi32_ps (_mm512_add_epi32 (
        _mm512_load_si512 (sums[2 * i + 1]), correction));
    V16 value
        = (sum + rest * ASR_REST_STEP) * (scales * p->x_scales[row + i])
        + bias;

    if (gelu)
      value = gelu_16 (value);
    if (residual)
      value += load_16 (finish->residual + at);
    store_16 (finish->y + at, value);
    at += finish->n_out;
  }
}

/* The last panel may be cut. */
static void
finish_cut (const AsrProduct *p, guint row, guint n_rows, guint panel,
    gint32 (*sums)[ASR_PANEL])
{
  const gint32 *corrections = p->weight->corrections + panel * ASR_PANEL;

  for (guint i = 0; i < 2 * n_rows; i++) {
    for (guint j = 0; j < ASR_PANEL; j++)
      sums[i][j] += corrections[j];
  }
  for (guint i = 0; i < n_rows; i++)
    finish_pair (p, row + i, panel, sums[2 * i], sums[2 * i + 1]);
}

ALWAYS_INLINE void
finish_tile (const AsrProduct *p, guint row, guint n_rows, guint panel,
    gint32 (*sums)[ASR_PANEL])
{
  gboolean gelu = p->finish.activation == ASR_ACTIVATION_GELU;
  gboolean residual = p->finish.residual != NULL;

  if ((panel + 1) * ASR_PANEL > p->finish.n_out)
    finish_cut (p, row, n_rows, panel, sums);
  else if (gelu && residual)
    finish_whole (p, row, n_rows, panel, sums, TRUE, TRUE);
  else if (gelu)
    finish_whole (p, row, n_rows, panel, sums, TRUE, FALSE);
  else if (residual)
    finish_whole (p, row, n_rows, panel, sums, FALSE, TRUE);
  else
    finish_whole (p, row, n_rows, panel, sums, FALSE, FALSE);
}

ALWAYS_INLINE void
multiply_block (const AsrProduct *p, guint row, guint panel,
    gboolean is_tall, gboolean is_wide)
{
  guint depth = p->weight->depth;
  gsize panel_bytes = (gsize) depth * ASR_PANEL;
  guint n_rows
      = MIN (p->n_rows - row, is_tall ? 2 * TILE_PAIRS : TILE_PAIRS);
  _Alignas (64) Sums sums;

  multiply_tiles (p->x + (gsize) 2 * row * depth, depth,
      p->weight->i8 + panel * panel_bytes, panel_bytes, depth, is_tall,
      is_wide, sums);
  for (guint i = 0; i < n_rows; i += TILE_PAIRS) {
    for (guint j = 0; j < (is_wide ? PANELS : 1); j++)
      finish_tile (p, row + i, MIN (TILE_PAIRS, n_rows - i), panel + j,
          sums[i / TILE_PAIRS][j]);
  }
}

static void
multiply_rows (const AsrProduct *p, guint panel, gboolean is_wide)
{
  guint row = 0;

  for (; row + TILE_PAIRS < p->n_rows; row += 2 * TILE_PAIRS) {
    if (is_wide)
      multiply_block (p, row, panel, TRUE, TRUE);
    else
      multiply_block (p, row, panel, TRUE, FALSE);
  }
  if (row >= p->n_rows)
    return;
  if (is_wide)
    multiply_block (p, row, panel, FALSE, TRUE);
  else
    multiply_block (p, row, panel, FALSE, FALSE);
}

static void
product (const AsrProduct *p, guint begin, guint end)
{
  guint panel = begin;

  if (p->n_rows <= FEW_ROWS) {
    vnni_product (p, begin, end);
    return;
  }
  load_config ();
  for (; panel + PANELS <= end; panel += PANELS)
    multiply_rows (p, panel, TRUE);
  if (panel < end)
    multiply_rows (p, panel, FALSE);
  _tile_release ();
}

const AsrLinearKernels asr_linear_kernels_amx
    = { quantise_shifted, product, product_f32, finish_rows };
