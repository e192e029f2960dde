/* SPDX-License-Identifier: MIT */
/*
 * Everything that reads a model's files, fed with bytes: the first byte
 * chooses the file that the rest stands for. With -Dfuzz=true a libFuzzer
 * target; otherwise a program that runs each file and directory it is given,
 * so that the corpus is a test.
 */
#include <stdlib.h>
#include <string.h>
#include "engine/text/encode.h"
#include "engine/text/vocab.h"
#include "engine/weights/reader.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize n_bytes);

enum { MODEL, CONFIG, VOCABULARY_JSON, VOCABULARY_TXT, TEXT, N_KINDS };

/* The least model: no tensors. */
static const guint8 empty_model[] = { 6, 0, 0, 0, 12, 0, 'W', 'h', 'i', 's',
  'p', 'e', 'r', 'S', 'p', 'e', 'c', 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };

/* Reads what every view points to, so that a sanitizer sees a wrong one. */
static void
touch_tensors (const AsrWeights *weights)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, weights->tensors);
  while (g_hash_table_iter_next (&iter, NULL, &value)) {
    const AsrTensor *view = value;
    gsize n = asr_tensor_get_n_elements (view);
    float out[64];

    asr_tensor_to_f32 (view, 0, MIN (n, G_N_ELEMENTS (out)), out);
    asr_tensor_to_f32 (view, n - 1, 1, out);
  }
}

static void
touch_vocabulary (const AsrWeights *weights, const char *text)
{
  guint n_tokens;
  const AsrTokenBytes *tokens = asr_weights_get_vocabulary (weights,
      &n_tokens);
  const guint sizes[] = { n_tokens, 51864, 51865, 51866 };

  for (guint i = 0; tokens && i < G_N_ELEMENTS (sizes); i++) {
    g_autoptr (AsrVocab) vocab = asr_vocab_new (tokens, n_tokens, sizes[i],
        NULL);
    g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));

    if (vocab)
      asr_vocab_encode (vocab, text, ids);
  }
}

/* Encodes arbitrary text with the 256 bytes and a few tokens more; what comes
 * back must be the text. */
static void
encode_text (const char *text)
{
  static const char *const joined[] = { "th", "he", " t", " th", "\xc3\xa9" };
  guint8 bytes[256];
  AsrTokenBytes tokens[256 + G_N_ELEMENTS (joined)];
  AsrEncoder *encoder;
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr (GString) back = g_string_new (NULL);

  for (guint i = 0; i < 256; i++) {
    bytes[i] = i;
    tokens[i].bytes = bytes + i;
    tokens[i].length = 1;
  }
  for (guint i = 0; i < G_N_ELEMENTS (joined); i++) {
    tokens[256 + i].bytes = (const guint8 *) joined[i];
    tokens[256 + i].length = strlen (joined[i]);
  }
  encoder = asr_encoder_new (tokens, G_N_ELEMENTS (tokens));
  asr_encoder_encode (encoder, text, ids);
  asr_encoder_free (encoder);
  for (guint i = 0; i < ids->len; i++) {
    AsrTokenBytes token = tokens[g_array_index (ids, gint32, i)];

    g_string_append_len (back, (const char *) token.bytes, token.length);
  }
  g_assert (!g_utf8_validate (text, -1, NULL)
      || g_str_equal (back->str, text));
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize n_bytes)
{
  g_autoptr (AsrWeights) weights = NULL;
  g_autofree char *text = NULL;
  gsize n = n_bytes ? n_bytes - 1 : 0;

  if (n_bytes == 0)
    return 0;
  /* Exactly the bytes, so that reads past the end are seen. */
  text = g_malloc (n + 1);
  memcpy (text, data + 1, n);
  text[n] = 0;
  if (data[0] % N_KINDS == MODEL) {
    g_autofree guint8 *exact = g_memdup2 (text, n);

    weights = asr_weights_read_bytes ("fuzz", exact, n, NULL);
    if (weights)
      touch_tensors (weights);
    return 0;
  }
  weights = asr_weights_read_bytes ("fuzz", empty_model, sizeof empty_model,
      NULL);
  switch (data[0] % N_KINDS) {
    case CONFIG:
      asr_weights_read_config (weights, "fuzz", text, n, NULL);
      break;
    case VOCABULARY_JSON:
      asr_weights_read_vocabulary_json (weights, "fuzz", text, n, NULL);
      touch_vocabulary (weights, " the");
      break;
    case VOCABULARY_TXT:
      asr_weights_read_vocabulary_txt (weights, "fuzz", text, n, NULL);
      touch_vocabulary (weights, " the");
      break;
    case TEXT:
      encode_text (text);
      break;
  }
  return 0;
}

#ifndef ASR_LIBFUZZER
static guint
run_path (const char *path)
{
  g_autoptr (GDir) entries = g_dir_open (path, 0, NULL);
  g_autofree char *data = NULL;
  const char *name;
  gsize n_bytes;
  guint n = 0;

  if (!entries) {
    if (!g_file_get_contents (path, &data, &n_bytes, NULL))
      return 0;
    LLVMFuzzerTestOneInput ((const guint8 *) data, n_bytes);
    return 1;
  }
  while ((name = g_dir_read_name (entries))) {
    g_autofree char *inside = g_build_filename (path, name, NULL);

    n += run_path (inside);
  }
  return n;
}

int
main (int argc, char **argv)
{
  guint n = 0;

  for (int i = 1; i < argc; i++)
    n += run_path (argv[i]);
  g_print ("%u inputs\n", n);
  /* A corpus that is not there is a failure too. */
  return n > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
#endif
