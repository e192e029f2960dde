/* SPDX-License-Identifier: MIT */
#include "tests/backend/tiny.h"
#include <math.h>
#include <string.h>

static void
fill_layer (Suite *suite, AsrLayerWeights *w)
{
  const guint d = TINY_D;
  double a = 1 / sqrt (d);

  w->self_norm = suite_norm (suite, d);
  w->self_qkv = suite_linear (suite, 3 * d, d, a);
  w->self_out = suite_linear (suite, d, d, a);
  w->cross_norm = suite_norm (suite, d);
  w->cross_q = suite_linear (suite, d, d, a);
  w->cross_kv = suite_linear (suite, 2 * d, d, a);
  w->cross_out = suite_linear (suite, d, d, a);
  w->ffn_norm = suite_norm (suite, d);
  w->ffn_up = suite_linear (suite, 4 * d, d, a);
  w->ffn_down = suite_linear (suite, d, 4 * d, a / 2);
}

static AsrKvPool
new_pool (Suite *suite, guint n_ctx)
{
  AsrKvPool pool = { NULL, suite->compute->info->kv, TINY_SLOTS, TINY_LAYERS,
    TINY_HEADS, n_ctx };
  gsize n = (gsize) TINY_SLOTS * TINY_LAYERS * 2 * TINY_HEADS * n_ctx
      * ASR_HEAD_SIZE;

  pool.data = suite_upload_kv (suite, suite_random (suite, n, 1), n);
  return pool;
}

void
tiny_init (Tiny *tiny, Suite *suite)
{
  const guint n_words = (TINY_VOCAB + 31) / 32;
  g_autofree guint32 *masks = g_new0 (guint32, ASR_N_MASKS * n_words);

  *tiny = (Tiny){ suite };
  for (guint l = 0; l < TINY_LAYERS; l++)
    fill_layer (suite, &tiny->layers[l]);
  tiny->table = suite_weight (suite,
      suite_random (suite, TINY_VOCAB * TINY_D, 0.3), TINY_VOCAB, TINY_D, 1);
  tiny->positions = suite_upload (suite,
      suite_random (suite, 448 * TINY_D, 0.5), 448 * TINY_D * sizeof (float));
  tiny->norm = suite_norm (suite, TINY_D);
  tiny->self = new_pool (suite, 448);
  tiny->cross = new_pool (suite, TINY_FRAMES);
  /* eot is never chosen unless a test wants it */
  tiny->tokens = (AsrRuleTokens){ TINY_VOCAB, 900, 902, 910, 950, 960 };
  masks[ASR_MASK_STEP * n_words + 900 / 32] |= 1u << 900 % 32;
  masks[ASR_MASK_FIRST * n_words + 900 / 32] |= 1u << 900 % 32;
  tiny->masks = suite_upload (suite, masks, ASR_N_MASKS * n_words * 4);
  tiny->states = suite_device (suite, TINY_SLOTS * sizeof (AsrTextState));
  tiny->logits = suite_device (suite,
      TINY_MAX_LOGITS * TINY_VOCAB * sizeof (float));
  tiny->x = suite_new_act (suite, TINY_MAX_ROWS * TINY_D);
  tiny->scratch = suite_new_act (suite, TINY_MAX_ROWS * 8 * TINY_D);
  tiny->records = suite_pinned (suite,
      64 * TINY_MAX_ROWS * sizeof (AsrTokenRecord));
  tiny_start (tiny, 0);
}

void
tiny_start (Tiny *tiny, float temperature)
{
  AsrTextState states[TINY_SLOTS] = { { .token = 0 } };

  for (guint i = 0; i < TINY_SLOTS; i++) {
    states[i].rules = asr_rules_start (i % 2 ? ASR_RULES_TEXT
                                             : ASR_RULES_TIMESTAMPS);
    states[i].token = -1;
    states[i].position = 3;
    states[i].temperature = temperature;
    states[i].seed = 77 + i;
  }
  tiny->suite->table->copy (tiny->suite->queue, tiny->states, states,
      sizeof states);
  suite_wait (tiny->suite);
}

AsrDecoderStepParams
tiny_step (Tiny *tiny, const AsrRow *rows, guint n_rows,
    const AsrChoice *choices, guint n_choices, guint first_record)
{
  return (AsrDecoderStepParams){
    .n_rows = n_rows,
    .rows = rows,
    .d = TINY_D,
    .n_heads = TINY_HEADS,
    .n_layers = TINY_LAYERS,
    .layers = tiny->layers,
    .table = tiny->table,
    .positions = tiny->positions,
    .norm = tiny->norm,
    .self = &tiny->self,
    .cross = &tiny->cross,
    .choose = { n_choices, choices, tiny->logits, &tiny->tokens, tiny->masks,
      tiny->states, tiny->records + first_record },
    .max_logits = TINY_MAX_LOGITS,
    .x = tiny->x,
    .scratch = tiny->scratch,
  };
}
