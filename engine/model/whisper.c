/* SPDX-License-Identifier: MIT */
/*
 * The Whisper family over the op table: memory of a loaded model, and the
 * methods mel, encoder and decoder. In: samples and token rows. Out: slots on
 * the device, and token records. Knows no backend, no windows and no rules.
 *
 * Source: "Robust Speech Recognition via Large-Scale Weak Supervision",
 * Radford et al. 2022, and openai/whisper model.py (MIT).
 */
#include "engine/model/whisper.h"

#include <string.h>

/* Counters of the queue's clock. */
enum { TIME_MEL, TIME_ENCODER, TIME_DECODER };

gsize
asr_whisper_get_act_size (const AsrModel *model)
{
  return asr_dtype_get_size (model->compute->info->activation);
}

/* ---- memory ---- */

static gboolean
init_pool (AsrModel *model, AsrMemory *memory, AsrKvPool *pool, guint n_slots,
    guint n_ctx, GError **error)
{
  *pool = (AsrKvPool){ NULL, model->compute->info->kv, n_slots,
    model->info.n_decoder_layers, model->n_heads, n_ctx };
  if (!asr_memory_init (memory, model->compute, ASR_MEMORY_DEVICE,
          (gsize) n_slots * pool->n_layers * 2 * pool->n_heads * n_ctx
              * ASR_HEAD_SIZE * asr_dtype_get_size (pool->dtype), error))
    return FALSE;
  pool->data = memory->data;
  return TRUE;
}

static gboolean
init_memory (AsrModel *model, GError **error)
{
  const AsrModelLimits *limits = &model->limits;
  gsize act = asr_whisper_get_act_size (model), d = model->info.d_model;
  gsize n_seq = limits->max_sequences;
  gsize n_rows = MAX (limits->max_rows, n_seq * WHISPER_AUDIO_CTX);
  gsize mel_bytes = (gsize) model->info.n_mels * WHISPER_MEL_FRAMES * 4;
  gsize encoded_bytes = WHISPER_AUDIO_CTX * d * act;
  gsize logits_bytes = (gsize) WHISPER_MAX_LOGITS * model->info.n_vocab * 4;
  gsize n_records
      = (gsize) limits->max_rows * asr_model_get_steps_ahead (model);
  struct {
    AsrMemory *memory;
    AsrMemoryKind kind;
    gsize n_bytes;
  } parts[] = {
    { &model->mel, ASR_MEMORY_DEVICE, limits->n_audio_slots * mel_bytes },
    { &model->encoded, ASR_MEMORY_DEVICE,
        limits->n_audio_slots * encoded_bytes },
    { &model->states, ASR_MEMORY_DEVICE,
        limits->n_text_slots * sizeof (AsrTextState) },
    { &model->samples, ASR_MEMORY_DEVICE, n_seq * WHISPER_WINDOW_SAMPLES * 4 },
    { &model->frames, ASR_MEMORY_DEVICE,
        n_seq * WHISPER_MEL_FRAMES * d * act },
    { &model->x, ASR_MEMORY_DEVICE, n_rows * d * act },
    { &model->wide, ASR_MEMORY_DEVICE, n_rows * 8 * d * act },
    { &model->logits, ASR_MEMORY_DEVICE, logits_bytes },
    { &model->scores, ASR_MEMORY_DEVICE, (gsize) model->n_align
        * limits->max_rows * WHISPER_AUDIO_CTX * sizeof (float) },
    { &model->staged_samples, ASR_MEMORY_PINNED,
        n_seq * WHISPER_WINDOW_SAMPLES * 4 },
    { &model->staged_states, ASR_MEMORY_PINNED,
        limits->n_text_slots * sizeof (AsrTextState) },
    { &model->staged_output, ASR_MEMORY_PINNED,
        MAX (MAX (mel_bytes, encoded_bytes), logits_bytes) },
    { &model->records, ASR_MEMORY_PINNED,
        n_records * sizeof (AsrTokenRecord) },
    { &model->align_frames, ASR_MEMORY_PINNED,
        limits->max_rows * sizeof (gint16) },
  };

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    if (!asr_memory_init (parts[i].memory, model->compute, parts[i].kind,
            parts[i].n_bytes, error))
      return FALSE;
  return init_pool (model, &model->cross_memory, &model->cross,
      limits->n_audio_slots, WHISPER_AUDIO_CTX, error)
      && init_pool (model, &model->self_memory, &model->self,
          limits->n_text_slots, WHISPER_TEXT_CTX, error);
}

static void
clear_memory (AsrModel *model)
{
  AsrMemory *parts[] = { &model->vectors, &model->masks, &model->mel,
    &model->encoded, &model->cross_memory, &model->self_memory,
    &model->states, &model->samples, &model->frames, &model->x, &model->wide,
    &model->logits, &model->scores, &model->staged_samples,
    &model->staged_states, &model->staged_output, &model->records,
    &model->align_frames };

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    asr_memory_clear (parts[i]);
}

static gboolean
init_vocab (AsrModel *model, const AsrWeights *weights, GError **error)
{
  guint n_tokens = 0;
  const AsrTokenBytes *tokens
      = asr_weights_get_vocabulary (weights, &n_tokens);
  const AsrSpecialTokens *special;

  if (tokens == NULL) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_NOT_FOUND,
        "%s: no vocabulary.json or vocabulary.txt beside it; fetch the whole "
        "model directory", asr_weights_get_path (weights));
    return FALSE;
  }
  model->vocab
      = asr_vocab_new (tokens, n_tokens, model->info.n_vocab, error);
  if (model->vocab == NULL)
    return FALSE;
  special = asr_vocab_get_special (model->vocab);
  model->info.multilingual = special->multilingual;
  model->rule_tokens = (AsrRuleTokens){ special->n_vocab, special->eot,
    special->language_begin,
    special->language_begin + (gint32) special->n_languages,
    special->timestamp_begin,
    special->timestamp_begin + 50 /* 1.0 s, as openai/whisper has it */ };
  return TRUE;
}

AsrModel *
asr_model_load (const AsrCompute *compute, const AsrWeights *weights,
    const AsrModelLimits *limits, AsrProgressFunc progress,
    gpointer user_data, GError **error)
{
  g_autoptr (AsrModel) model = g_new0 (AsrModel, 1);

  model->compute = compute;
  model->limits = *limits;
  model->owned_weights = g_ptr_array_new ();
  if (!asr_model_describe (weights, &model->info, error)
      || !init_vocab (model, weights, error))
    return NULL;
  model->n_heads = model->info.d_model / ASR_HEAD_SIZE;
  model->queue = compute->table->queue_new (compute->device, error);
  if (model->queue == NULL
      || !asr_whisper_load_weights (model, weights, progress, user_data,
          error)
      || !init_memory (model, error))
    return NULL;
  return g_steal_pointer (&model);
}

void
asr_model_free (AsrModel *model)
{
  if (model == NULL)
    return;
  for (guint i = 0; i < model->owned_weights->len; i++)
    model->compute->table->weight_free (model->compute->device,
        g_ptr_array_index (model->owned_weights, i));
  g_ptr_array_unref (model->owned_weights);
  clear_memory (model);
  if (model->queue)
    model->compute->table->queue_free (model->queue);
  asr_vocab_free (model->vocab);
  g_free (model->encoder);
  g_free (model->decoder);
  g_free (model->align_layers);
  g_free (model->align_heads);
  g_free (model);
}

const AsrModelInfo *
asr_model_get_info (const AsrModel *model)
{
  return &model->info;
}

const AsrModelLimits *
asr_model_get_limits (const AsrModel *model)
{
  return &model->limits;
}

const AsrVocab *
asr_model_get_vocab (const AsrModel *model)
{
  return model->vocab;
}

guint
asr_model_get_steps_ahead (const AsrModel *model)
{
  return MAX (1, model->compute->info->n_steps_ahead);
}

gsize
asr_model_get_slot_bytes (const AsrModel *model, AsrMethod method)
{
  const AsrModelLimits *limits = &model->limits;

  switch (method) {
    case ASR_METHOD_MEL:
      return model->mel.n_bytes / limits->n_audio_slots;
    case ASR_METHOD_ENCODER:
      return model->encoded.n_bytes / limits->n_audio_slots;
    case ASR_METHOD_DECODER:
      return model->cross_memory.n_bytes / limits->n_audio_slots;
  }
  return 0;
}

/* ---- where a slot's outputs stand ---- */

static float *
get_mel (const AsrModel *model, guint slot)
{
  return (float *) ((char *) model->mel.data
      + slot * asr_model_get_slot_bytes (model, ASR_METHOD_MEL));
}

static void *
get_encoded (const AsrModel *model, guint slot)
{
  return (char *) model->encoded.data
      + slot * asr_model_get_slot_bytes (model, ASR_METHOD_ENCODER);
}

/* To pinned host memory and back: what a method costs whose output does not
 * stay on the device. */
static void
round_trip (AsrModel *model, void *output, gsize n_bytes, AsrMethodCost *cost)
{
  model->compute->table->copy (model->queue, model->staged_output.data,
      output, n_bytes);
  model->compute->table->copy (model->queue, output,
      model->staged_output.data, n_bytes);
  cost->to_host_bytes += n_bytes;
  cost->to_device_bytes += n_bytes;
}

/* ---- mel and encoder ---- */

static void
run_mel (AsrModel *model, const AsrEncodeRow *rows, guint n_rows)
{
  const AsrBackend *table = model->compute->table;
  const float **samples = g_newa (const float *, n_rows);
  float **mel = g_newa (float *, n_rows);
  guint *n_samples = g_newa (guint, n_rows);
  AsrMelParams params = { n_rows, samples, n_samples, model->filters,
    model->info.n_mels, mel };

  for (guint i = 0; i < n_rows; i++) {
    gsize offset = (gsize) i * WHISPER_WINDOW_SAMPLES;
    float *staged = (float *) model->staged_samples.data + offset;
    float *device = (float *) model->samples.data + offset;

    memcpy (staged, rows[i].samples, rows[i].n_samples * sizeof (float));
    table->copy (model->queue, device, staged,
        rows[i].n_samples * sizeof (float));
    rows[i].cost[ASR_METHOD_MEL].to_device_bytes
        += rows[i].n_samples * sizeof (float);
    samples[i] = device;
    n_samples[i] = rows[i].n_samples;
    mel[i] = get_mel (model, rows[i].audio_slot);
  }
  table->mel (model->queue, &params);
  for (guint i = 0; i < n_rows; i++)
    if (!(rows[i].skip_copy & ASR_METHOD_MASK (ASR_METHOD_MEL)))
      round_trip (model, mel[i],
          asr_model_get_slot_bytes (model, ASR_METHOD_MEL),
          &rows[i].cost[ASR_METHOD_MEL]);
}

/* Two convolutions: [n_mels, 3000] to [1500, d], with positions added. */
static void
run_conv_stem (AsrModel *model, const AsrEncodeRow *rows, guint n_rows)
{
  guint d = model->info.d_model;
  gsize frame_bytes = WHISPER_MEL_FRAMES * d * asr_whisper_get_act_size (model);
  const void **x = g_newa (const void *, n_rows);
  AsrConvParams params = { n_rows, TRUE, x, WHISPER_MEL_FRAMES,
    model->info.n_mels, d, 1, model->conv[0], NULL, model->frames.data };

  for (guint i = 0; i < n_rows; i++)
    x[i] = get_mel (model, rows[i].audio_slot);
  model->compute->table->conv (model->queue, &params);

  for (guint i = 0; i < n_rows; i++)
    x[i] = (char *) model->frames.data + i * frame_bytes;
  params = (AsrConvParams){ n_rows, FALSE, x, WHISPER_MEL_FRAMES, d, d, 2,
    model->conv[1], model->audio_positions, model->x.data };
  model->compute->table->conv (model->queue, &params);
}

/* Returns: FALSE when cancelled half-way */
static gboolean
run_encoder (AsrModel *model, const AsrEncodeRow *rows, guint n_rows,
    AsrCancelFunc cancel, gpointer user_data)
{
  guint d = model->info.d_model;
  void **encoded = g_newa (void *, n_rows);
  AsrNormParams norm = { n_rows * WHISPER_AUDIO_CTX, d, model->x.data, NULL,
    model->encoder_norm, encoded, WHISPER_AUDIO_CTX, NULL };

  run_conv_stem (model, rows, n_rows);
  for (guint i = 0; i < model->info.n_encoder_layers; i++) {
    AsrEncoderLayerParams layer = { n_rows, WHISPER_AUDIO_CTX, d,
      model->n_heads, &model->encoder[i], model->x.data, model->wide.data };

    if (cancel && cancel (user_data))
      return FALSE;
    asr_compute_encoder_layer (model->compute, model->queue, &layer);
  }
  for (guint i = 0; i < n_rows; i++)
    encoded[i] = get_encoded (model, rows[i].audio_slot);
  model->compute->table->norm (model->queue, &norm);
  for (guint i = 0; i < n_rows; i++)
    if (!(rows[i].skip_copy & ASR_METHOD_MASK (ASR_METHOD_ENCODER)))
      round_trip (model, encoded[i],
          asr_model_get_slot_bytes (model, ASR_METHOD_ENCODER),
          &rows[i].cost[ASR_METHOD_ENCODER]);
  return TRUE;
}

static void
run_cross_kv (AsrModel *model, guint audio_slot)
{
  AsrCrossKvParams params = { WHISPER_AUDIO_CTX, model->info.d_model,
    get_encoded (model, audio_slot), model->decoder, &model->cross,
    audio_slot };

  model->compute->table->cross_kv (model->queue, &params);
}

gboolean
asr_model_encode (AsrModel *model, const AsrEncodeRow *rows, guint n_rows,
    AsrCancelFunc cancel, gpointer user_data, GError **error)
{
  const AsrBackend *table = model->compute->table;
  guint64 before[3], spent[3];
  gboolean finished;

  g_return_val_if_fail (n_rows > 0 && n_rows <= model->limits.max_sequences,
      FALSE);
  for (guint i = 0; i < 3; i++)
    before[i] = table->time_read_ns (model->queue, i);
  table->time_begin (model->queue, TIME_MEL);
  run_mel (model, rows, n_rows);
  table->time_end (model->queue, TIME_MEL);
  table->time_begin (model->queue, TIME_ENCODER);
  finished = run_encoder (model, rows, n_rows, cancel, user_data);
  table->time_end (model->queue, TIME_ENCODER);
  table->time_begin (model->queue, TIME_DECODER);
  for (guint i = 0; finished && i < n_rows; i++)
    run_cross_kv (model, rows[i].audio_slot);
  table->time_end (model->queue, TIME_DECODER);
  if (!table->queue_wait (model->queue, error))
    return FALSE;
  for (guint i = 0; i < 3; i++)
    spent[i] = table->time_read_ns (model->queue, i) - before[i];
  for (guint i = 0; i < n_rows; i++)
    for (guint m = 0; m < ASR_N_METHODS; m++)
      rows[i].cost[m].time_ns += spent[m] / n_rows;
  return TRUE;
}

void
asr_model_get_output_shape (const AsrModel *model, AsrMethod method,
    guint shape[2])
{
  gboolean is_mel = method == ASR_METHOD_MEL;

  g_return_if_fail (method != ASR_METHOD_DECODER);
  shape[0] = is_mel ? model->info.n_mels : WHISPER_AUDIO_CTX;
  shape[1] = is_mel ? WHISPER_MEL_FRAMES : model->info.d_model;
}

gboolean
asr_model_read_output (AsrModel *model, AsrMethod method, guint audio_slot,
    float *out, GError **error)
{
  gsize n_bytes = asr_model_get_slot_bytes (model, method), n;
  gboolean is_mel = method == ASR_METHOD_MEL;
  AsrTensor view = { is_mel ? ASR_DTYPE_F32 : model->compute->info->activation,
    1 };

  g_return_val_if_fail (method != ASR_METHOD_DECODER, FALSE);
  model->compute->table->copy (model->queue, model->staged_output.data,
      is_mel ? (void *) get_mel (model, audio_slot)
             : get_encoded (model, audio_slot), n_bytes);
  if (!model->compute->table->queue_wait (model->queue, error))
    return FALSE;
  n = n_bytes / asr_dtype_get_size (view.dtype);
  view.dims[0] = n;
  view.data = model->staged_output.data;
  view.n_bytes = n_bytes;
  asr_tensor_to_f32 (&view, 0, n, out);
  return TRUE;
}

/* ---- decoder ---- */

void
asr_model_set_text_state (AsrModel *model, guint text_slot,
    const AsrTextState *state)
{
  AsrTextState *staged
      = (AsrTextState *) model->staged_states.data + text_slot;

  *staged = *state;
  model->compute->table->copy (model->queue,
      (AsrTextState *) model->states.data + text_slot, staged,
      sizeof (AsrTextState));
}

static AsrDecoderStepParams
make_step (AsrModel *model, const AsrRow *rows, guint n_rows,
    const AsrChoice *choices, guint n_choices)
{
  AsrDecoderStepParams step = { n_rows, rows, model->info.d_model,
    model->n_heads, model->info.n_decoder_layers, model->decoder,
    model->table, model->text_positions, model->decoder_norm, &model->self,
    &model->cross, NULL };

  step.choose = (AsrChooseParams){ n_choices, choices, model->logits.data,
    &model->rule_tokens, model->masks.data, model->states.data,
    model->records.data };
  step.max_logits = WHISPER_MAX_LOGITS;
  step.x = model->x.data;
  step.scratch = model->wide.data;
  return step;
}

gboolean
asr_model_decode (AsrModel *model, const AsrRow *rows, guint n_rows,
    const AsrChoice *choices, guint n_choices, guint n_steps, guint skip_copy,
    AsrTokenRecord *records, AsrMethodCost *cost, GError **error)
{
  const AsrBackend *table = model->compute->table;
  AsrDecoderStepParams step
      = make_step (model, rows, n_rows, choices, n_choices);
  guint64 before = table->time_read_ns (model->queue, TIME_DECODER);

  g_return_val_if_fail (n_rows > 0 && n_rows <= model->limits.max_rows, FALSE);
  g_return_val_if_fail (n_choices <= model->limits.max_rows, FALSE);
  g_return_val_if_fail (n_steps <= asr_model_get_steps_ahead (model), FALSE);
  if (!(skip_copy & ASR_METHOD_MASK (ASR_METHOD_DECODER))) {
    step.host_logits = model->staged_output.data;
    cost->to_host_bytes
        += (gsize) n_steps * n_choices * model->info.n_vocab * sizeof (float);
  }
  table->time_begin (model->queue, TIME_DECODER);
  for (guint i = 0; i < n_steps; i++) {
    step.choose.records
        = (AsrTokenRecord *) model->records.data + i * n_choices;
    asr_compute_decoder_step (model->compute, model->queue, &step);
  }
  table->time_end (model->queue, TIME_DECODER);
  if (!table->queue_wait (model->queue, error))
    return FALSE;
  cost->time_ns += table->time_read_ns (model->queue, TIME_DECODER) - before;
  cost->to_host_bytes += n_steps * n_choices * sizeof (AsrTokenRecord);
  memcpy (records, model->records.data,
      n_steps * n_choices * sizeof (AsrTokenRecord));
  return TRUE;
}

const float *
asr_model_get_host_logits (const AsrModel *model)
{
  return model->staged_output.data;
}

gboolean
asr_model_align (AsrModel *model, const AsrRow *rows, guint n_rows,
    guint first_row, guint n_frames, gint16 *frames, AsrMethodCost *cost,
    GError **error)
{
  const AsrBackend *table = model->compute->table;
  AsrDecoderStepParams step = make_step (model, rows, n_rows, NULL, 0);
  AsrAlignHeads heads = { model->n_align, model->align_layers,
    model->align_heads, model->limits.max_rows, model->scores.data };
  AsrAlignParams align = { model->n_align, model->limits.max_rows, n_rows,
    first_row, WHISPER_AUDIO_CTX, n_frames, model->scores.data,
    model->align_frames.data };
  guint n_out = n_rows - 1 - first_row;
  guint64 before = table->time_read_ns (model->queue, TIME_DECODER);

  g_return_val_if_fail (n_rows <= model->limits.max_rows, FALSE);
  g_return_val_if_fail (first_row + 1 < n_rows, FALSE);
  g_return_val_if_fail (n_frames > 0 && n_frames <= WHISPER_AUDIO_CTX, FALSE);
  step.align = &heads;
  table->time_begin (model->queue, TIME_DECODER);
  asr_compute_decoder_step (model->compute, model->queue, &step);
  table->align (model->queue, &align);
  table->time_end (model->queue, TIME_DECODER);
  if (!table->queue_wait (model->queue, error))
    return FALSE;
  cost->time_ns += table->time_read_ns (model->queue, TIME_DECODER) - before;
  cost->to_host_bytes += n_out * sizeof (gint16);
  memcpy (frames, model->align_frames.data, n_out * sizeof (gint16));
  return TRUE;
}

#define WARM_UP_ROWS 8

gboolean
asr_model_warm_up (AsrModel *model, GError **error)
{
  float silence[160] = { 0 };
  gint16 frames[WARM_UP_ROWS];
  AsrMethodCost costs[ASR_N_METHODS] = { { 0 } };
  AsrEncodeRow window = { silence, G_N_ELEMENTS (silence), 0,
    ASR_METHOD_MASK_ALL, costs };
  AsrRow rows[WARM_UP_ROWS] = { { 0 } }, chosen = { ASR_TOKEN_CHOSEN };
  AsrChoice choice = { ASR_CHOICE_SAMPLE, WARM_UP_ROWS - 1 };
  AsrTextState state = { asr_rules_start (ASR_RULES_TEXT), -1,
    WARM_UP_ROWS - 1 };
  AsrTokenRecord record;

  for (guint i = 0; i < WARM_UP_ROWS; i++)
    rows[i].position = i;
  if (!asr_model_encode (model, &window, 1, NULL, NULL, error))
    return FALSE;
  asr_model_set_text_state (model, 0, &state);
  if (!asr_model_decode (model, rows, WARM_UP_ROWS, &choice, 1, 1,
          ASR_METHOD_MASK_ALL, &record, costs, error))
    return FALSE;
  choice.row = 0;
  return asr_model_decode (model, &chosen, 1, &choice, 1, 1,
             ASR_METHOD_MASK_ALL, &record, costs, error)
      && asr_model_align (model, rows, WARM_UP_ROWS, 0, 1, frames, costs,
          error);
}
