/* SPDX-License-Identifier: MIT */
/* Token embedding plus position, from the table that the projection to
 * logits shares. */
#include "engine/backend/cpu/linear.h"
#include <string.h>

#define MAX_POSITIONS 448

static void
read_table (const AsrWeight *table, guint row, guint d, float *y)
{
  if (table->f32) {
    memcpy (y, table->f32 + (gsize) row * d, d * sizeof (float));
    return;
  }
  for (guint i = 0; i < d; i++)
    y[i] = table->i8[asr_panel_index (table, row, i)] * table->scales[row];
}

void
asr_cpu_embed (AsrQueue *queue, const AsrEmbedParams *params)
{
  for (guint r = 0; r < params->n_rows; r++) {
    const AsrRow *row = &params->rows[r];
    float *y = (float *) params->y + (gsize) r * params->d;
    guint32 position = row->position;
    gint32 token = row->token;
    const float *add;

    if (token == ASR_TOKEN_CHOSEN) {
      token = params->states[row->text_slot].token;
      position = params->states[row->text_slot].position;
    }
    if (token < 0 || (guint) token >= params->table->n_out
        || position >= MAX_POSITIONS) {
      asr_cpu_fail (queue,
          g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
              "token %d at position %u: the table has %u, the decoder %d",
              token, position, params->table->n_out, MAX_POSITIONS));
      return;
    }
    add = params->positions + (gsize) position * params->d;
    read_table (params->table, token, params->d, y);
    for (guint i = 0; i < params->d; i++)
      y[i] += add[i];
  }
}
