/* SPDX-License-Identifier: MIT */
/*
 * Times of a backend on models of real shapes with random weights: each
 * method, and the ops that make it, beside the floor that arithmetic or
 * memory bandwidth set; then the methods with outputs that stay on the device
 * beside outputs that go to the host and back.
 *
 * Usage: bench_backend [--full] [base small turbo large-v3 ...]
 * ASR_TEST_BACKEND and ASR_TEST_COMPUTE as in suite.h. --full: also steps of
 * more than one row.
 */
#include "tests/backend/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_FRAMES 1500
#define N_MEL 3000
#define POSITION 64
#define REPEATS 20
#define MAX_ROWS 16
#define N_AHEAD 8     /* steps that the engine enqueues at once */
#define N_TOKENS 100  /* of a window, for the sum */
#define N_ALIGN 8     /* alignment heads */
#define ALIGN_ROWS (N_TOKENS + 5) /* with start sequence and end */

/* Of an H200, as measured: bytes a second, f16 operations a second. */
#define BANDWIDTH 4.3e12
#define ARITHMETIC 790e12

typedef struct {
  const char *name;
  guint d, n_heads, n_encoder, n_decoder, n_mels, n_vocab;
} Shape;

static const Shape shapes[] = {
  { "base", 512, 8, 6, 6, 80, 51865 },
  { "small", 768, 12, 12, 12, 80, 51865 },
  { "turbo", 1280, 20, 32, 4, 128, 51866 },
  { "large-v3", 1280, 20, 32, 32, 128, 51866 },
};

typedef struct {
  const Shape *shape;
  const AsrCompute *compute;
  const AsrBackend *table;
  AsrQueue *queue;
  GArray *memories;    /* AsrMemory */
  GPtrArray *weights;  /* AsrWeight */
  guint16 *random;     /* f16 values that every weight is made of */
  gsize n_random;
  gsize act_bytes;
  AsrLinearWeights conv1, conv2;
  AsrLayerWeights *encoder, *decoder;
  AsrWeight *vocabulary;
  AsrNormWeights norm;
  float *positions, *decoder_positions;
  AsrKvPool self, cross;
  AsrTextState *states;
  guint32 *masks;
  AsrRuleTokens tokens;
  float *samples, *filters, *mel, *logits, *host_logits;
  void *host_output;   /* pinned: mel or encoder output */
  void *x, *scratch, *stem, *output, *decoder_x, *decoder_scratch;
  AsrTokenRecord *records;
  float *scores;
  gint16 *align_frames;
} Bench;

static void
fail (const char *what, GError *error)
{
  fprintf (stderr, "%s: %s\n", what, error->message);
  exit (1);
}

static void *
new_memory (Bench *b, AsrMemoryKind kind, gsize n_bytes)
{
  GError *error = NULL;
  AsrMemory memory;

  if (!asr_memory_init (&memory, b->compute, kind, n_bytes, &error))
    fail ("memory", error);
  g_array_append_val (b->memories, memory);
  return memory.data;
}

static void
wait_all (Bench *b)
{
  GError *error = NULL;

  if (!b->table->queue_wait (b->queue, &error))
    fail ("wait", error);
}

/* Floats of about @amplitude. */
static float *
new_floats (Bench *b, gsize n, float amplitude)
{
  float *device = new_memory (b, ASR_MEMORY_DEVICE, n * sizeof (float));
  g_autofree float *x = g_new (float, n);

  for (gsize i = 0; i < n; i++)
    x[i] = amplitude * 32 * asr_f16_to_f32 (b->random[i % b->n_random]);
  b->table->copy (b->queue, device, x, n * sizeof (float));
  wait_all (b);
  return device;
}

static AsrWeight *
new_weight (Bench *b, guint n_out, guint n_in, guint n_taps)
{
  GError *error = NULL;
  AsrTensor tensor = { ASR_DTYPE_F16, n_taps == 1 ? 2 : 3,
    { n_out, n_in, n_taps }, b->random, (gsize) n_out * n_in * n_taps * 2 };
  AsrWeight *weight = b->table->weight_new (b->compute->device, &tensor,
      n_taps == 1 ? ASR_WEIGHT_TABLE : ASR_WEIGHT_CONV, &error);

  if (!weight)
    fail ("weight", error);
  g_ptr_array_add (b->weights, weight);
  return weight;
}

static AsrLinearWeights
new_linear (Bench *b, guint n_out, guint n_in, guint n_taps)
{
  return (AsrLinearWeights){ new_weight (b, n_out, n_in, n_taps),
    new_floats (b, n_out, 0.1f) };
}

static AsrNormWeights
new_norm (Bench *b)
{
  return (AsrNormWeights){ new_floats (b, b->shape->d, 1),
    new_floats (b, b->shape->d, 0.1f) };
}

static void
fill_layer (Bench *b, AsrLayerWeights *w, gboolean is_decoder)
{
  guint d = b->shape->d;

  w->self_norm = new_norm (b);
  w->self_qkv = new_linear (b, 3 * d, d, 1);
  w->self_out = new_linear (b, d, d, 1);
  if (is_decoder) {
    w->cross_norm = new_norm (b);
    w->cross_q = new_linear (b, d, d, 1);
    w->cross_kv = new_linear (b, 2 * d, d, 1);
    w->cross_out = new_linear (b, d, d, 1);
  }
  w->ffn_norm = new_norm (b);
  w->ffn_up = new_linear (b, 4 * d, d, 1);
  w->ffn_down = new_linear (b, d, 4 * d, 1);
}

static AsrKvPool
new_pool (Bench *b, guint n_slots, guint n_ctx)
{
  const Shape *s = b->shape;
  gsize n = (gsize) n_slots * s->n_decoder * 2 * s->d * n_ctx;

  return (AsrKvPool){
    new_memory (b, ASR_MEMORY_DEVICE,
        n * asr_dtype_get_size (b->compute->info->kv)),
    b->compute->info->kv, n_slots, s->n_decoder, s->n_heads, n_ctx };
}

static void
fill_random (Bench *b)
{
  guint64 state = 1;

  b->n_random = (gsize) b->shape->n_vocab * b->shape->d;
  b->random = g_new (guint16, b->n_random);
  for (gsize i = 0; i < b->n_random; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    /* uniform up to 0.03: a sign, an exponent of 2^-6, any fraction */
    b->random[i] = (guint16) ((state >> 63) << 15 | 9 << 10
        | (state >> 40 & 0x3ff));
  }
}

static void
fill_model (Bench *b)
{
  const Shape *s = b->shape;
  gsize d = s->d;

  b->encoder = g_new0 (AsrLayerWeights, s->n_encoder);
  b->decoder = g_new0 (AsrLayerWeights, s->n_decoder);
  b->conv1 = new_linear (b, s->d, s->n_mels, 3);
  b->conv2 = new_linear (b, s->d, s->d, 3);
  for (guint i = 0; i < s->n_encoder; i++)
    fill_layer (b, &b->encoder[i], FALSE);
  for (guint i = 0; i < s->n_decoder; i++)
    fill_layer (b, &b->decoder[i], TRUE);
  b->vocabulary = new_weight (b, s->n_vocab, s->d, 1);
  b->norm = new_norm (b);
  b->positions = new_floats (b, N_FRAMES * d, 1);
  b->decoder_positions = new_floats (b, 448 * d, 1);
  b->self = new_pool (b, MAX_ROWS, 448);
  b->cross = new_pool (b, MAX_ROWS, N_FRAMES);
  b->tokens = (AsrRuleTokens){ (gint32) s->n_vocab, 50257, 50259, 50358,
    50364, 50414 };
}

static void
fill_buffers (Bench *b)
{
  const Shape *s = b->shape;
  gsize d = s->d, act = b->act_bytes, n_words = (s->n_vocab + 31) / 32;
  g_autofree guint32 *masks = g_new0 (guint32, ASR_N_MASKS * n_words);

  masks[ASR_MASK_STEP * n_words + 50257 / 32] = 1u << 50257 % 32;
  masks[ASR_MASK_FIRST * n_words + 50257 / 32] = 1u << 50257 % 32;
  b->masks = new_memory (b, ASR_MEMORY_DEVICE, ASR_N_MASKS * n_words * 4);
  b->table->copy (b->queue, b->masks, masks, ASR_N_MASKS * n_words * 4);
  b->states = new_memory (b, ASR_MEMORY_DEVICE,
      MAX_ROWS * sizeof (AsrTextState));
  b->samples = new_floats (b, 480000, 0.1f);
  b->filters = new_floats (b, s->n_mels * 201, 0.01f);
  b->mel = new_floats (b, (gsize) s->n_mels * N_MEL, 1);
  b->logits = new_memory (b, ASR_MEMORY_DEVICE,
      MAX_ROWS * s->n_vocab * sizeof (float));
  b->host_logits = new_memory (b, ASR_MEMORY_PINNED,
      MAX_ROWS * s->n_vocab * sizeof (float));
  b->host_output = new_memory (b, ASR_MEMORY_PINNED,
      MAX (s->n_mels * N_MEL * sizeof (float), N_FRAMES * d * act));
  b->x = new_memory (b, ASR_MEMORY_DEVICE, N_FRAMES * d * act);
  b->output = new_memory (b, ASR_MEMORY_DEVICE, N_FRAMES * d * act);
  b->scratch = new_memory (b, ASR_MEMORY_DEVICE, N_FRAMES * 8 * d * act);
  b->stem = new_memory (b, ASR_MEMORY_DEVICE, N_MEL * d * act);
  b->decoder_x = new_memory (b, ASR_MEMORY_DEVICE, ALIGN_ROWS * d * act);
  b->decoder_scratch
      = new_memory (b, ASR_MEMORY_DEVICE, ALIGN_ROWS * 8 * d * act);
  b->scores = new_floats (b, (gsize) N_ALIGN * ALIGN_ROWS * N_FRAMES, 1);
  b->align_frames = new_memory (b, ASR_MEMORY_PINNED,
      ALIGN_ROWS * sizeof (gint16));
  b->records = new_memory (b, ASR_MEMORY_PINNED,
      ALIGN_ROWS * sizeof (AsrTokenRecord));
  wait_all (b);
}

/* ---- what is timed ---- */

static void
run_mel (Bench *b)
{
  const float *samples = b->samples;
  guint n = 480000;
  AsrMelParams params = { 1, &samples, &n, b->filters, b->shape->n_mels,
    &b->mel };

  b->table->mel (b->queue, &params);
}

static void
run_stem (Bench *b)
{
  const Shape *s = b->shape;
  const void *mel = b->mel, *stem = b->stem;
  AsrConvParams first = { 1, TRUE, &mel, N_MEL, s->n_mels, s->d, 1, b->conv1,
    NULL, b->stem };
  AsrConvParams second = { 1, FALSE, &stem, N_MEL, s->d, s->d, 2, b->conv2,
    b->positions, b->x };

  b->table->conv (b->queue, &first);
  b->table->conv (b->queue, &second);
}

static void
run_encoder (Bench *b)
{
  const Shape *s = b->shape;
  AsrNormParams norm = { .n_rows = N_FRAMES, .d = s->d, .x = b->x,
    .weights = b->norm, .y = b->output };

  run_stem (b);
  for (guint i = 0; i < s->n_encoder; i++) {
    AsrEncoderLayerParams layer = { 1, N_FRAMES, s->d, s->n_heads,
      &b->encoder[i], b->x, b->scratch };

    asr_compute_encoder_layer (b->compute, b->queue, &layer);
  }
  b->table->norm (b->queue, &norm);
}

static void
copy_both_ways (Bench *b, void *output, gsize n_bytes)
{
  b->table->copy (b->queue, b->host_output, output, n_bytes);
  b->table->copy (b->queue, output, b->host_output, n_bytes);
}

static void
run_mel_copied (Bench *b)
{
  run_mel (b);
  copy_both_ways (b, b->mel, b->shape->n_mels * N_MEL * sizeof (float));
}

static void
run_encoder_copied (Bench *b)
{
  run_encoder (b);
  copy_both_ways (b, b->output, N_FRAMES * b->shape->d * b->act_bytes);
}

static void
run_cross_kv (Bench *b)
{
  AsrCrossKvParams params = { N_FRAMES, b->shape->d, b->output, b->decoder,
    &b->cross, 0 };

  b->table->cross_kv (b->queue, &params);
}

/* Scores to frames; not the decoder pass that makes the scores. */
static void
run_align (Bench *b)
{
  AsrAlignParams params = { N_ALIGN, ALIGN_ROWS, ALIGN_ROWS, 3, N_FRAMES,
    N_FRAMES, b->scores, b->align_frames };

  b->table->align (b->queue, &params);
}

static void
run_norm (Bench *b)
{
  AsrNormParams norm = { .n_rows = N_FRAMES, .d = b->shape->d, .x = b->x,
    .weights = b->norm, .y = b->output };

  b->table->norm (b->queue, &norm);
}

static void
run_product (Bench *b, const AsrLinearWeights *w, guint n_in, guint n_out,
    AsrActivation activation, gboolean adds)
{
  AsrLinearParams params = { N_FRAMES, n_in, n_out, b->stem, *w, activation,
    adds ? b->output : NULL, FALSE, adds ? b->output : b->scratch };

  b->table->linear (b->queue, &params);
}

static void
run_qkv (Bench *b)
{
  run_product (b, &b->encoder[0].self_qkv, b->shape->d, 3 * b->shape->d,
      ASR_ACTIVATION_NONE, FALSE);
}

static void
run_out (Bench *b)
{
  run_product (b, &b->encoder[0].self_out, b->shape->d, b->shape->d,
      ASR_ACTIVATION_NONE, TRUE);
}

static void
run_up (Bench *b)
{
  run_product (b, &b->encoder[0].ffn_up, b->shape->d, 4 * b->shape->d,
      ASR_ACTIVATION_GELU, FALSE);
}

static void
run_down (Bench *b)
{
  AsrLinearParams params = { N_FRAMES, 4 * b->shape->d, b->shape->d,
    b->scratch, b->encoder[0].ffn_down, ASR_ACTIVATION_NONE, b->output,
    FALSE, b->output };

  b->table->linear (b->queue, &params);
}

static void
run_attention (Bench *b)
{
  AsrAttentionParams params = { .kind = ASR_ATTENTION_ENCODER,
    .n_rows = N_FRAMES, .n_heads = b->shape->n_heads, .n_frames = N_FRAMES,
    .qkv = b->scratch, .y = b->output };

  b->table->attention (b->queue, &params);
}

/* Median device time of @run in microseconds. */
static double
time_us (Bench *b, void (*run) (Bench *))
{
  double times[REPEATS];

  for (guint i = 0; i < 3; i++)
    run (b);
  wait_all (b);
  for (guint i = 0; i < REPEATS; i++) {
    guint64 before = b->table->time_read_ns (b->queue, 0);

    b->table->time_begin (b->queue, 0);
    run (b);
    b->table->time_end (b->queue, 0);
    wait_all (b);
    times[i] = (b->table->time_read_ns (b->queue, 0) - before) / 1e3;
  }
  for (guint i = 1; i < REPEATS; i++)
    for (guint k = i; k > 0 && times[k] < times[k - 1]; k--) {
      double swap = times[k];

      times[k] = times[k - 1];
      times[k - 1] = swap;
    }
  return times[REPEATS / 2];
}

static void
report (Bench *b, const char *what, void (*run) (Bench *), double gflop,
    double mbytes)
{
  double us = time_us (b, run);
  double floor_us
      = MAX (gflop * 1e9 / ARITHMETIC, mbytes * 1e6 / BANDWIDTH) * 1e6;

  printf ("%-9s %-22s %9.1f us  floor %8.1f us  %5.1f %%  %6.1f Tflop/s "
      "%5.2f TB/s\n", b->shape->name, what, us, floor_us,
      100 * floor_us / us, gflop / us * 1e3,
      mbytes / us);
}

/* ---- decoder steps ---- */

static void
start_texts (Bench *b)
{
  AsrTextState states[MAX_ROWS] = { { .token = 1 } };

  for (guint i = 0; i < MAX_ROWS; i++) {
    states[i].rules = asr_rules_start (ASR_RULES_TEXT);
    states[i].rules.n_sampled = 1;
    states[i].rules.last = 1;
    states[i].token = (gint32) (1000 + i);
    states[i].position = POSITION;
  }
  b->table->copy (b->queue, b->states, states, sizeof states);
  wait_all (b);
}

static AsrDecoderStepParams
make_step (Bench *b, const AsrRow *rows, guint n_rows,
    const AsrChoice *choices)
{
  const Shape *s = b->shape;

  return (AsrDecoderStepParams){ .n_rows = n_rows, .rows = rows, .d = s->d,
    .n_heads = s->n_heads, .n_layers = s->n_decoder, .layers = b->decoder,
    .table = b->vocabulary, .positions = b->decoder_positions,
    .norm = b->norm, .self = &b->self, .cross = &b->cross,
    .choose = { n_rows, choices, b->logits, &b->tokens, b->masks, b->states,
      b->records },
    .max_logits = MAX_ROWS, .x = b->decoder_x,
    .scratch = b->decoder_scratch };
}

/* Host time of a step, of @n_steps enqueued at once. */
static double
time_steps_us (Bench *b, guint n_rows, guint n_steps, gboolean round_trip)
{
  AsrRow rows[MAX_ROWS];
  AsrChoice choices[MAX_ROWS];
  AsrDecoderStepParams step = make_step (b, rows, n_rows, choices);
  gint64 best = G_MAXINT64;

  step.host_logits = round_trip ? b->host_logits : NULL;
  for (guint i = 0; i < n_rows; i++) {
    rows[i] = (AsrRow){ ASR_TOKEN_CHOSEN, 0, (guint16) i, (guint16) i };
    choices[i] = (AsrChoice){ ASR_CHOICE_SAMPLE, i, (guint16) i, 0, 0 };
  }
  for (guint repeat = 0; repeat < 5; repeat++) {
    gint64 begin;

    start_texts (b);
    begin = g_get_monotonic_time ();
    for (guint i = 0; i < n_steps; i++)
      asr_compute_decoder_step (b->compute, b->queue, &step);
    wait_all (b);
    best = MIN (best, g_get_monotonic_time () - begin);
  }
  return (double) best / n_steps;
}

/* Host time of a pass over a whole text: as alignment needs it, and each
 * text as long as none before. */
static double
time_passes_us (Bench *b, guint first, guint n_passes)
{
  AsrRow rows[ALIGN_ROWS];
  AsrChoice choices[ALIGN_ROWS];
  gint64 begin = g_get_monotonic_time ();

  for (guint i = 0; i < ALIGN_ROWS; i++) {
    rows[i] = (AsrRow){ (gint32) (1000 + i), i, 0, 0 };
    choices[i] = (AsrChoice){ ASR_CHOICE_SCORE, i, 0, 7, 50257 };
  }
  for (guint i = 0; i < n_passes; i++) {
    AsrDecoderStepParams step = make_step (b, rows, first + i, choices);

    asr_compute_decoder_step (b->compute, b->queue, &step);
    wait_all (b);
  }
  return (double) (g_get_monotonic_time () - begin) / n_passes;
}

static void
report_passes (Bench *b)
{
  double first = time_passes_us (b, 81, 20), again
      = time_passes_us (b, 81, 20);

  printf ("%-9s pass over a text       %9.1f us, of a length seen before "
      "%.1f us\n", b->shape->name, first, again);
}

static void
report_steps (Bench *b, guint n_rows, guint n_steps)
{
  const Shape *s = b->shape;
  double d = s->d;
  double weights = s->n_decoder * 14 * d * d + s->n_vocab * d;
  double kv = n_rows * s->n_decoder * 2 * d * (N_FRAMES + POSITION);
  double floor_us = (weights + kv) * b->act_bytes / BANDWIDTH * 1e6;
  double us = time_steps_us (b, n_rows, n_steps, FALSE);

  printf ("%-9s step, %2u row%s %2u ahead  %9.1f us  floor %8.1f us  "
      "%5.1f %%\n", s->name, n_rows, n_rows == 1 ? " " : "s", n_steps, us,
      floor_us, 100 * floor_us / us);
}

/* What it is worth that outputs stay on the device. */
static void
report_copies (Bench *b)
{
  const char *name = b->shape->name;
  double kept[3] = { time_us (b, run_mel), time_us (b, run_encoder),
    time_steps_us (b, 1, N_AHEAD, FALSE) };
  double copied[3] = { time_us (b, run_mel_copied),
    time_us (b, run_encoder_copied), time_steps_us (b, 1, N_AHEAD, TRUE) };
  double cross = time_us (b, run_cross_kv);
  double all_kept = kept[0] + kept[1] + cross + N_TOKENS * kept[2];
  double all_copied = copied[0] + copied[1] + cross + N_TOKENS * copied[2];
  const char *methods[] = { "mel, a window", "encoder, a window",
    "decoder, a token" };

  for (guint i = 0; i < 3; i++)
    printf ("%-9s %-22s %9.1f us  copied %7.1f us  %+5.1f us\n", name,
        methods[i], kept[i], copied[i], copied[i] - kept[i]);
  printf ("%-9s %-22s %9.1f us  copied %7.1f us  %+5.1f %%\n", name,
      "window of 100 tokens", all_kept, all_copied,
      100 * (all_copied / all_kept - 1));
}

static void
report_all (Bench *b, gboolean is_full)
{
  const Shape *s = b->shape;
  double d = s->d, t = N_FRAMES, act = b->act_bytes;
  double conv = 2 * (3000 * d * s->n_mels * 3 + 1500 * d * d * 3) / 1e9;
  double attend = 4 * t * t * d / 1e9, dense = 2 * t * d * d / 1e9;
  double row = t * d * act / 1e6, weight = d * d * act / 1e6;

  report (b, "mel", run_mel, 0.5, 2 + s->n_mels * 0.012);
  report (b, "stem", run_stem, conv, 8 * row);
  report (b, "norm", run_norm, 0, 2 * row);
  report (b, "qkv", run_qkv, 3 * dense, 4 * row + 3 * weight);
  report (b, "attention", run_attention, attend, 4 * row);
  report (b, "out + residual", run_out, dense, 3 * row + weight);
  report (b, "up, GELU", run_up, 4 * dense, 5 * row + 4 * weight);
  report (b, "down + residual", run_down, 4 * dense, 6 * row + 4 * weight);
  report (b, "encode", run_encoder,
      conv + s->n_encoder * (12 * dense + attend),
      s->n_encoder * 12 * weight);
  report (b, "cross K/V", run_cross_kv, s->n_decoder * 2 * dense,
      s->n_decoder * 2 * (row + weight));
  report (b, "align, 100 tokens", run_align, 0,
      4.0 * N_ALIGN * ALIGN_ROWS * N_FRAMES * sizeof (float) / 1e6);
  report_passes (b);
  report_steps (b, 1, 50);
  report_steps (b, 1, 1);
  if (is_full) {
    report_steps (b, 4, 50);
    report_steps (b, 16, 50);
  }
  report_copies (b);
  fflush (stdout);
}

static void
bench_shape (const AsrCompute *compute, const Shape *shape, gboolean is_full)
{
  GError *error = NULL;
  Bench b = { shape, compute, compute->table };

  b.queue = b.table->queue_new (compute->device, &error);
  if (!b.queue)
    fail ("queue", error);
  b.memories = g_array_new (FALSE, FALSE, sizeof (AsrMemory));
  b.weights = g_ptr_array_new ();
  b.act_bytes = asr_dtype_get_size (compute->info->activation);
  fill_random (&b);
  fill_model (&b);
  fill_buffers (&b);
  report_all (&b, is_full);
  b.table->queue_free (b.queue);
  for (guint i = 0; i < b.weights->len; i++)
    b.table->weight_free (compute->device, g_ptr_array_index (b.weights, i));
  for (guint i = 0; i < b.memories->len; i++)
    asr_memory_clear (&g_array_index (b.memories, AsrMemory, i));
  g_ptr_array_unref (b.weights);
  g_array_unref (b.memories);
  g_free (b.encoder);
  g_free (b.decoder);
  g_free (b.random);
}

static gboolean
is_wanted (const Shape *shape, int argc, char **argv)
{
  guint n_named = 0;

  for (int i = 1; i < argc; i++) {
    if (argv[i][0] == '-')
      continue;
    if (g_str_equal (argv[i], shape->name))
      return TRUE;
    n_named++;
  }
  return n_named == 0;
}

int
main (int argc, char **argv)
{
  const char *backend = g_getenv ("ASR_TEST_BACKEND");
  gboolean is_f32 = g_strcmp0 (g_getenv ("ASR_TEST_COMPUTE"), "f32") == 0;
  AsrDeviceParams params = { 0, is_f32 ? ASR_COMPUTE_F32 : ASR_COMPUTE_AUTO,
    0 };
  GError *error = NULL;
  AsrCompute *compute = asr_compute_open (backend ? backend : "cuda",
      &params, &error);
  gboolean is_full = argc > 1 && g_str_equal (argv[1], "--full");

  if (!compute) {
    fprintf (stderr, "skipped: %s\n", error->message);
    return 77;
  }
  printf ("%s\n", compute->info->description);
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    if (is_wanted (&shapes[i], argc, argv))
      bench_shape (compute, &shapes[i], is_full);
  asr_compute_close (compute);
  return 0;
}
