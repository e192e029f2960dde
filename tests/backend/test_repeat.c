/* SPDX-License-Identifier: MIT */
/*
 * The same work twice gives the same bytes: no sum whose order depends on
 * which block or thread came first, and nothing that differs between outputs
 * that stay on the device and those that go to the host and back.
 */
#include "tests/backend/tiny.h"
#include <math.h>
#include <string.h>

#define N_REPEATS 12
#define N_FRAMES 1500
#define D 128
#define HEADS 2

/* @run fills @n_bytes at @device. */
typedef struct {
  Suite *suite;
  const void *device;
  gsize n_bytes;
  const void *params;
  void (*run) (Suite *suite, const void *params);
} Repeated;

static void
check_same (const char *name, const Repeated *r)
{
  void *first;

  r->run (r->suite, r->params);
  first = suite_download (r->suite, r->device, r->n_bytes);
  for (guint i = 1; i < N_REPEATS; i++) {
    r->run (r->suite, r->params);
    if (memcmp (first, suite_download (r->suite, r->device, r->n_bytes),
            r->n_bytes) != 0)
      g_error ("%s: run %u gave other bytes than the first", name, i + 1);
  }
}

static void
run_mel (Suite *suite, const void *params)
{
  suite->table->mel (suite->queue, params);
}

static void
check_mel (Suite *suite)
{
  const guint n_mels = 80, n = 480000;
  float *filters = suite_random (suite, n_mels * 201, 0.01);
  const float *samples = suite_upload (suite, suite_random (suite, n, 0.1),
      n * sizeof (float));
  float *mel = suite_device (suite, n_mels * 3000 * sizeof (float));
  AsrMelParams params = { 1, &samples, &n, NULL, n_mels, &mel };

  for (guint i = 0; i < n_mels * 201; i++)
    filters[i] = fabsf (filters[i]);
  params.filters = suite_upload (suite, filters,
      n_mels * 201 * sizeof (float));
  check_same ("mel", &(Repeated){ suite, mel,
      n_mels * 3000 * sizeof (float), &params, run_mel });
}

static void
run_conv (Suite *suite, const void *params)
{
  suite->table->conv (suite->queue, params);
}

static void
check_conv (Suite *suite)
{
  const void *x = suite_upload_act (suite,
      suite_random (suite, 2 * N_FRAMES * D, 1), 2 * N_FRAMES * D);
  gsize n = (gsize) N_FRAMES * D;
  float *w = suite_random (suite, D * D * 3, 0.05);
  AsrConvParams params = { 1, FALSE, &x, 2 * N_FRAMES, D, D, 2,
    { suite_weight (suite, w, D, D, 3),
        suite_upload (suite, suite_random (suite, D, 0.3),
            D * sizeof (float)) },
    NULL, suite_new_act (suite, n) };

  check_same ("conv", &(Repeated){ suite, params.y,
      n * asr_dtype_get_size (suite->compute->info->activation), &params,
      run_conv });
}

typedef struct {
  AsrEncoderLayerParams params;
  AsrLayerWeights weights;
  void *kept; /* x before the layer */
  gsize n_bytes;
} Layer;

static void
run_layer (Suite *suite, const void *data)
{
  const Layer *layer = data;

  suite->table->copy (suite->queue, layer->params.x, layer->kept,
      layer->n_bytes);
  asr_compute_encoder_layer (suite->compute, suite->queue, &layer->params);
}

static void
check_encoder (Suite *suite)
{
  gsize n = (gsize) N_FRAMES * D;
  double a = 1 / sqrt (D);
  Layer layer = { { 1, N_FRAMES, D, HEADS, NULL, suite_new_act (suite, n),
      suite_new_act (suite, 8 * n) } };
  AsrLayerWeights *w = &layer.weights;

  w->self_norm = suite_norm (suite, D);
  w->self_qkv = suite_linear (suite, 3 * D, D, a);
  w->self_out = suite_linear (suite, D, D, a);
  w->ffn_norm = suite_norm (suite, D);
  w->ffn_up = suite_linear (suite, 4 * D, D, a);
  w->ffn_down = suite_linear (suite, D, 4 * D, a / 2);
  layer.params.weights = w;
  layer.kept = suite_upload_act (suite, suite_random (suite, n, 1), n);
  layer.n_bytes = n * asr_dtype_get_size (suite->compute->info->activation);
  check_same ("encoder layer", &(Repeated){ suite, layer.params.x,
      layer.n_bytes, &layer, run_layer });
}

static void
run_cross_kv (Suite *suite, const void *params)
{
  suite->table->cross_kv (suite->queue, params);
}

static void
check_cross_kv (Suite *suite)
{
  gsize n = (gsize) 2 * D * N_FRAMES, n_x = (gsize) N_FRAMES * D;
  AsrLayerWeights weights
      = { .cross_kv = suite_linear (suite, 2 * D, D, 1 / sqrt (D)) };
  AsrKvPool pool = { NULL, suite->compute->info->kv, 1, 1, HEADS, N_FRAMES };
  AsrCrossKvParams params = { N_FRAMES, D,
    suite_upload_act (suite, suite_random (suite, n_x, 1), n_x), &weights,
    &pool, 0 };

  pool.data = suite_device (suite, n * asr_dtype_get_size (pool.dtype));
  check_same ("cross K/V", &(Repeated){ suite, pool.data,
      n * asr_dtype_get_size (pool.dtype), &params, run_cross_kv });
}

/* ---- decoder steps ---- */

/* A prompt of @n_rows and 30 tokens of a text; @records: [31] */
static void
run_text (Tiny *tiny, guint n_rows, float *host_logits,
    AsrTokenRecord *records)
{
  Suite *suite = tiny->suite;
  AsrRow rows[TINY_MAX_ROWS], next = { ASR_TOKEN_CHOSEN, 0, 0, 0 };
  AsrChoice choice = { ASR_CHOICE_SAMPLE, n_rows - 1, 0, 0, 0 };
  AsrTextState state = { asr_rules_start (ASR_RULES_TIMESTAMPS), -1,
    n_rows - 1 };
  AsrDecoderStepParams params;

  for (guint r = 0; r < n_rows; r++)
    rows[r] = (AsrRow){ (gint32) (r * 31 % 900), r, 0, 0 };
  suite->table->copy (suite->queue, tiny->states, &state, sizeof state);
  suite_wait (suite);
  params = tiny_step (tiny, rows, n_rows, &choice, 1, 0);
  params.host_logits = host_logits;
  asr_compute_decoder_step (suite->compute, suite->queue, &params);
  choice.row = 0;
  for (guint i = 1; i <= 30; i++) {
    params = tiny_step (tiny, &next, 1, &choice, 1, i);
    params.host_logits = host_logits;
    asr_compute_decoder_step (suite->compute, suite->queue, &params);
    if (i % 8 == 0) /* the host is ahead, as far as it may be */
      suite_wait (suite);
  }
  suite_wait (suite);
  memcpy (records, tiny->records, 31 * sizeof *records);
}

static void
check_steps (Suite *suite)
{
  const guint prompts[] = { 3, 15, 16, 17, 40 };
  float *host_logits = suite_pinned (suite,
      TINY_MAX_LOGITS * TINY_VOCAB * sizeof (float));
  AsrTokenRecord first[31], again[31];
  Tiny tiny;

  tiny_init (&tiny, suite);
  for (guint p = 0; p < G_N_ELEMENTS (prompts); p++) {
    run_text (&tiny, prompts[p], NULL, first);
    for (guint i = 1; i < N_REPEATS; i++) {
      /* every second time with logits that go to the host and back */
      run_text (&tiny, prompts[p], i % 2 ? host_logits : NULL, again);
      g_assert_cmpmem (first, sizeof first, again, sizeof again);
    }
  }
}

static void
add_all (void)
{
  suite_add ("/repeat/mel", check_mel);
  suite_add ("/repeat/conv", check_conv);
  suite_add ("/repeat/encoder", check_encoder);
  suite_add ("/repeat/cross-kv", check_cross_kv);
  suite_add ("/repeat/steps", check_steps);
}

int
main (int argc, char **argv)
{
  return suite_main (argc, argv, add_all);
}
