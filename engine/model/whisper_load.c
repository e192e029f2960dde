/* SPDX-License-Identifier: MIT */
/*
 * Loading of the Whisper family: finds each tensor by its CTranslate2 name,
 * checks its shape against the model's dimensions, and hands it to the
 * backend. All sizes (tiny to large-v3, English and multilingual) are one
 * set of formulas; nothing here runs the model.
 *
 * Names: CTranslate2 WhisperSpec revision 3.
 */
#include "engine/model/whisper.h"

#include <string.h>

#include "engine/audio/mel.h"

#define MAX_D_MODEL 8192
/* Floats that a vector may be padded by, so that each starts on 64 bytes. */
#define VECTOR_ALIGN 16

typedef struct {
  AsrModel *model;
  const AsrWeights *weights;
  float *staged;     /* host image of model->vectors */
  gsize used;        /* floats */
  gsize max_floats;
  AsrProgressFunc progress;
  gpointer user_data;
  guint n_loaded, n_total;
} Loader;

static const AsrTensor *
find_tensor (const AsrWeights *weights, GError **error, const char *name)
{
  const AsrTensor *tensor = asr_weights_find (weights, name);

  if (tensor == NULL)
    g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
        "%s: no tensor \"%s\": not a Whisper model, or not a whole one",
        asr_weights_get_path (weights), name);
  return tensor;
}

/* @dims: [rank] */
static const AsrTensor *
find_shaped (const AsrWeights *weights, const char *name, guint rank,
    const guint32 *dims, GError **error)
{
  const AsrTensor *tensor = find_tensor (weights, error, name);
  gsize n = 1, n_wanted = 1;

  if (tensor == NULL)
    return NULL;
  for (guint i = 0; i < tensor->rank; i++)
    n *= tensor->dims[i];
  for (guint i = 0; i < rank; i++)
    n_wanted *= dims[i];
  /* Quantised convolutions are stored flat: [out, in * 3]. */
  if (n != n_wanted || tensor->rank == 0 || tensor->dims[0] != dims[0]) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
        "%s: tensor \"%s\" has %" G_GSIZE_FORMAT " elements in rows of %u, "
        "the model's other tensors ask for %" G_GSIZE_FORMAT " in %u",
        asr_weights_get_path (weights), name, n,
        tensor->rank > 0 ? tensor->dims[0] : 0, n_wanted, dims[0]);
    return NULL;
  }
  return tensor;
}

static guint
count_layers (const AsrWeights *weights, const char *side)
{
  guint n = 0;

  while (n < WHISPER_MAX_LAYERS) {
    g_autofree char *name
        = g_strdup_printf ("%s/layer_%u/ffn/linear_0/weight", side, n);

    if (asr_weights_find (weights, name) == NULL)
      break;
    n++;
  }
  return n;
}

gboolean
asr_model_describe (const AsrWeights *weights, AsrModelInfo *info,
    GError **error)
{
  const AsrTensor *conv
      = find_tensor (weights, error, "encoder/conv1/weight");
  const AsrTensor *table
      = conv ? find_tensor (weights, error, "decoder/embeddings/weight") : NULL;
  const AsrTensor *conv_bias
      = table ? find_tensor (weights, error, "encoder/conv1/bias") : NULL;
  AsrModelInfo found = { "whisper" };
  gsize n_conv;

  if (conv_bias == NULL)
    return FALSE;
  n_conv = asr_tensor_get_n_elements (conv);
  found.d_model = conv->rank > 0 ? conv->dims[0] : 0;
  found.n_vocab = table->rank == 2 ? table->dims[0] : 0;
  found.n_mels = found.d_model > 0 ? n_conv / found.d_model / 3 : 0;
  found.n_encoder_layers = count_layers (weights, "encoder");
  found.n_decoder_layers = count_layers (weights, "decoder");
  if (found.d_model == 0 || found.d_model > MAX_D_MODEL
      || found.d_model % ASR_HEAD_SIZE != 0 || found.n_encoder_layers == 0
      || found.n_decoder_layers == 0 || found.n_vocab == 0
      || (found.n_mels != 80 && found.n_mels != 128)) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
        "%s: not a Whisper shape that is known: width %u (a multiple of 64 "
        "up to %d), %u mel bins (80 or 128), %u encoder and %u decoder layers, "
        "vocabulary of %u", asr_weights_get_path (weights), found.d_model,
        MAX_D_MODEL, found.n_mels, found.n_encoder_layers,
        found.n_decoder_layers, found.n_vocab);
    return FALSE;
  }
  found.multilingual = found.n_vocab >= 51865;
  /* turbo was trained without translation; nothing in the file says so but
   * its four decoder layers below the wide encoder. */
  found.can_translate = found.multilingual
      && !(found.n_encoder_layers == 32 && found.n_decoder_layers == 4);
  found.has_timestamps = TRUE;
  found.has_alignment = TRUE;
  found.max_window_samples = WHISPER_WINDOW_SAMPLES;
  found.pads_window = TRUE;
  found.encoder_frame_samples = 320;
  *info = found;
  return TRUE;
}

/* f32 [n] into the block of vectors; *vector becomes its device address. */
static gboolean
load_vector (Loader *loader, const char *name, gsize n, const float **vector,
    GError **error)
{
  guint32 dims[1] = { n };
  const AsrTensor *tensor
      = find_shaped (loader->weights, name, 1, dims, error);

  if (tensor == NULL)
    return FALSE;
  g_assert (loader->used + n <= loader->max_floats);
  asr_tensor_to_f32 (tensor, 0, n, loader->staged + loader->used);
  *vector = (const float *) loader->model->vectors.data + loader->used;
  loader->used += (n + VECTOR_ALIGN - 1) / VECTOR_ALIGN * VECTOR_ALIGN;
  return TRUE;
}

/* f32 [n_rows, d], a table that the file stores with two dimensions */
static gboolean
load_table (Loader *loader, const char *name, guint n_rows, guint d,
    const float **vector, GError **error)
{
  guint32 dims[2] = { n_rows, d };
  const AsrTensor *tensor
      = find_shaped (loader->weights, name, 2, dims, error);
  gsize n = (gsize) n_rows * d;

  if (tensor == NULL)
    return FALSE;
  g_assert (loader->used + n <= loader->max_floats);
  asr_tensor_to_f32 (tensor, 0, n, loader->staged + loader->used);
  *vector = (const float *) loader->model->vectors.data + loader->used;
  loader->used += (n + VECTOR_ALIGN - 1) / VECTOR_ALIGN * VECTOR_ALIGN;
  return TRUE;
}

static gboolean
load_norm (Loader *loader, const char *prefix, AsrNormWeights *norm,
    GError **error)
{
  g_autofree char *gamma = g_strconcat (prefix, "/gamma", NULL);
  g_autofree char *beta = g_strconcat (prefix, "/beta", NULL);
  guint d = loader->model->info.d_model;

  return load_vector (loader, gamma, d, &norm->gamma, error)
      && load_vector (loader, beta, d, &norm->beta, error);
}

static gboolean
load_weight (Loader *loader, const char *name, guint rank,
    const guint32 *dims, AsrWeightUse use, AsrWeight **weight, GError **error)
{
  AsrModel *model = loader->model;
  const AsrTensor *tensor
      = find_shaped (loader->weights, name, rank, dims, error);
  AsrTensor shaped;

  if (tensor == NULL)
    return FALSE;
  shaped = *tensor;
  shaped.rank = rank;
  for (guint i = 0; i < rank; i++)
    shaped.dims[i] = dims[i];
  *weight = model->compute->table->weight_new (model->compute->device,
      &shaped, use, error);
  if (*weight == NULL)
    return FALSE;
  g_ptr_array_add (model->owned_weights, *weight);
  asr_weights_drop_pages (loader->weights);
  loader->n_loaded++;
  if (loader->progress
      && !loader->progress ((double) loader->n_loaded / loader->n_total,
          loader->user_data)) {
    g_set_error_literal (error, ASR_ERROR, ASR_ERROR_CANCELLED,
        "loading was cancelled");
    return FALSE;
  }
  return TRUE;
}

static gboolean
load_linear (Loader *loader, const char *prefix, guint n_out, guint n_in,
    AsrLinearWeights *linear, GError **error)
{
  g_autofree char *weight = g_strconcat (prefix, "/weight", NULL);
  g_autofree char *bias = g_strconcat (prefix, "/bias", NULL);
  guint32 dims[2] = { n_out, n_in };

  return load_weight (loader, weight, 2, dims, ASR_WEIGHT_LINEAR,
      &linear->weight, error)
      && load_vector (loader, bias, n_out, &linear->bias, error);
}

static gboolean
load_layer (Loader *loader, const char *side, guint index,
    AsrLayerWeights *layer, GError **error)
{
  guint d = loader->model->info.d_model;
  struct {
    const char *suffix;
    guint n_out, n_in; /* 0: a norm */
    gpointer to;
  } parts[] = {
    { "self_attention/layer_norm", 0, 0, &layer->self_norm },
    { "self_attention/linear_0", 3 * d, d, &layer->self_qkv },
    { "self_attention/linear_1", d, d, &layer->self_out },
    { "ffn/layer_norm", 0, 0, &layer->ffn_norm },
    { "ffn/linear_0", 4 * d, d, &layer->ffn_up },
    { "ffn/linear_1", d, 4 * d, &layer->ffn_down },
    { "attention/layer_norm", 0, 0, &layer->cross_norm },
    { "attention/linear_0", d, d, &layer->cross_q },
    { "attention/linear_1", 2 * d, d, &layer->cross_kv },
    { "attention/linear_2", d, d, &layer->cross_out },
  };
  guint n_parts = strcmp (side, "encoder") == 0 ? 6 : G_N_ELEMENTS (parts);

  for (guint i = 0; i < n_parts; i++) {
    g_autofree char *name
        = g_strdup_printf ("%s/layer_%u/%s", side, index, parts[i].suffix);
    gboolean ok = parts[i].n_out == 0
        ? load_norm (loader, name, parts[i].to, error)
        : load_linear (loader, name, parts[i].n_out, parts[i].n_in,
            parts[i].to, error);

    if (!ok)
      return FALSE;
  }
  return TRUE;
}

static gboolean
load_conv (Loader *loader, guint index, guint n_in, GError **error)
{
  AsrLinearWeights *conv = &loader->model->conv[index];
  guint d = loader->model->info.d_model;
  guint32 dims[3] = { d, n_in, 3 };
  g_autofree char *weight
      = g_strdup_printf ("encoder/conv%u/weight", index + 1);
  g_autofree char *bias = g_strdup_printf ("encoder/conv%u/bias", index + 1);

  return load_weight (loader, weight, 3, dims, ASR_WEIGHT_CONV,
      &conv->weight, error)
      && load_vector (loader, bias, d, &conv->bias, error);
}

/* Which heads tell where a token was heard: the list of config.json, or all
 * heads of the last half of the layers, as openai/whisper does without one. */
static gboolean
load_align_heads (AsrModel *model, const AsrWeights *weights, GError **error)
{
  guint n = 0, n_layers = model->info.n_decoder_layers;
  const gint32 *pairs = asr_weights_get_ids (weights, "alignment_heads", &n);

  if (pairs == NULL || n < 2) {
    guint first = n_layers / 2;

    model->n_align = (n_layers - first) * model->n_heads;
    model->align_layers = g_new (guint8, model->n_align);
    model->align_heads = g_new (guint8, model->n_align);
    for (guint i = 0; i < model->n_align; i++) {
      model->align_layers[i] = first + i / model->n_heads;
      model->align_heads[i] = i % model->n_heads;
    }
    return TRUE;
  }
  model->n_align = n / 2;
  model->align_layers = g_new (guint8, model->n_align);
  model->align_heads = g_new (guint8, model->n_align);
  for (guint i = 0; i < model->n_align; i++) {
    gint32 layer = pairs[2 * i], head = pairs[2 * i + 1];

    if (layer < 0 || (guint) layer >= n_layers || head < 0
        || (guint) head >= model->n_heads) {
      g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
          "%s: alignment head %d of layer %d does not exist in %u layers of "
          "%u heads", asr_weights_get_path (weights), head, layer, n_layers,
          model->n_heads);
      return FALSE;
    }
    model->align_layers[i] = layer;
    model->align_heads[i] = head;
  }
  return TRUE;
}

static void
set_mask_bits (guint32 *mask, guint n_vocab, const gint32 *ids, guint n)
{
  for (guint i = 0; i < n; i++)
    if (ids[i] >= 0 && (guint) ids[i] < n_vocab)
      mask[ids[i] / 32] |= 1u << (ids[i] % 32);
}

/* The suppress lists, see whisper's tokenizer.non_speech_tokens: what the
 * model's configuration names, or the family's own list; special tokens that
 * may never be written are added in either case. */
static gboolean
load_masks (AsrModel *model, const AsrWeights *weights, GError **error)
{
  guint n_vocab = model->info.n_vocab, n_words = (n_vocab + 31) / 32, n = 0;
  const AsrSpecialTokens *special = asr_vocab_get_special (model->vocab);
  g_autofree guint32 *masks = g_new0 (guint32, ASR_N_MASKS * n_words);
  guint32 *step = masks + ASR_MASK_STEP * n_words;
  guint32 *first = masks + ASR_MASK_FIRST * n_words;
  const gint32 *ids = asr_weights_get_ids (weights, "suppress_ids", &n);
  const gint32 never[] = { special->translate, special->transcribe,
    special->sot, special->start_of_prev, special->start_of_lm,
    special->no_speech, special->no_timestamps };

  if (ids == NULL)
    ids = asr_vocab_get_non_speech (model->vocab, &n);
  set_mask_bits (step, n_vocab, ids, n);
  set_mask_bits (step, n_vocab, never, G_N_ELEMENTS (never));
  memcpy (first, step, n_words * sizeof (guint32));
  set_mask_bits (first, n_vocab, &special->eot, 1);
  ids = asr_weights_get_ids (weights, "suppress_ids_begin", &n);
  if (ids != NULL)
    set_mask_bits (first, n_vocab, ids, n);
  if (!asr_memory_init (&model->masks, model->compute, ASR_MEMORY_DEVICE,
          ASR_N_MASKS * n_words * sizeof (guint32), error))
    return FALSE;
  model->compute->table->copy (model->queue, model->masks.data, masks,
      ASR_N_MASKS * n_words * sizeof (guint32));
  return model->compute->table->queue_wait (model->queue, error);
}

static gboolean
load_all (Loader *loader, GError **error)
{
  AsrModel *model = loader->model;
  guint d = model->info.d_model;
  guint32 table_dims[2] = { model->info.n_vocab, d };

  if (!load_conv (loader, 0, model->info.n_mels, error)
      || !load_conv (loader, 1, d, error)
      || !load_table (loader, "encoder/position_encodings/encodings",
          WHISPER_AUDIO_CTX, d, &model->audio_positions, error)
      || !load_table (loader, "decoder/position_encodings/encodings",
          WHISPER_TEXT_CTX, d, &model->text_positions, error)
      || !load_norm (loader, "encoder/layer_norm", &model->encoder_norm, error)
      || !load_norm (loader, "decoder/layer_norm", &model->decoder_norm, error)
      || !load_weight (loader, "decoder/embeddings/weight", 2, table_dims,
          ASR_WEIGHT_TABLE, &model->table, error))
    return FALSE;
  for (guint i = 0; i < model->info.n_encoder_layers; i++)
    if (!load_layer (loader, "encoder", i, &model->encoder[i], error))
      return FALSE;
  for (guint i = 0; i < model->info.n_decoder_layers; i++)
    if (!load_layer (loader, "decoder", i, &model->decoder[i], error))
      return FALSE;
  return TRUE;
}

/* Floats of all vectors: each layer has 13 d (encoder) or 19 d (decoder) in
 * norms and biases; the rest is tables. */
static gsize
count_vector_floats (const AsrModelInfo *info)
{
  gsize d = info->d_model;
  gsize n_vectors = 16 + 16 * (info->n_encoder_layers + info->n_decoder_layers);

  return d * (13 * info->n_encoder_layers + 19 * info->n_decoder_layers)
      + d * (WHISPER_AUDIO_CTX + WHISPER_TEXT_CTX + 2 + 4)
      + info->n_mels * WHISPER_FFT_BINS + n_vectors * VECTOR_ALIGN;
}

gboolean
asr_whisper_load_weights (AsrModel *model, const AsrWeights *weights,
    AsrProgressFunc progress, gpointer user_data, GError **error)
{
  const AsrModelInfo *info = &model->info;
  Loader loader = { model, weights };
  g_autofree float *staged = NULL;

  loader.max_floats = count_vector_floats (info);
  loader.staged = staged = g_try_new0 (float, loader.max_floats);
  loader.progress = progress;
  loader.user_data = user_data;
  loader.n_total
      = 3 + 4 * info->n_encoder_layers + 7 * info->n_decoder_layers;
  if (staged == NULL) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_MEMORY,
        "no memory for %" G_GSIZE_FORMAT " floats", loader.max_floats);
    return FALSE;
  }
  model->encoder = g_new0 (AsrLayerWeights, info->n_encoder_layers);
  model->decoder = g_new0 (AsrLayerWeights, info->n_decoder_layers);
  if (!asr_memory_init (&model->vectors, model->compute, ASR_MEMORY_DEVICE,
          loader.max_floats * sizeof (float), error)
      || !load_all (&loader, error)
      || !load_align_heads (model, weights, error)
      || !load_masks (model, weights, error))
    return FALSE;

  g_assert (loader.used + info->n_mels * WHISPER_FFT_BINS
      <= loader.max_floats);
  asr_mel_fill_filters (info->n_mels, staged + loader.used);
  model->filters = (const float *) model->vectors.data + loader.used;
  model->compute->table->copy (model->queue, model->vectors.data, staged,
      loader.max_floats * sizeof (float));
  return model->compute->table->queue_wait (model->queue, error);
}
