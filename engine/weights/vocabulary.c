/* SPDX-License-Identifier: MIT */
/*
 * The vocabulary beside CTranslate2 weights: a JSON list, or one token a
 * line. In: GPT-2's spelling, which gives each byte a printable character.
 * Out: raw bytes by token id.
 */
#include "engine/weights/reader.h"
#include <string.h>

/* GPT-2's characters end at U+0143: the 68 bytes that are not printable in
 * Latin-1 follow each other from U+0100 on. */
#define N_BYTE_CHARS 0x144

/* Bytes that stand for themselves. */
static gboolean
is_plain (guint byte)
{
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac)
      || byte >= 0xae;
}

/* @bytes: [N_BYTE_CHARS]: the byte of each character, or -1 */
static void
make_byte_table (gint16 *bytes)
{
  guint next = 0x100;

  for (guint i = 0; i < N_BYTE_CHARS; i++)
    bytes[i] = -1;
  for (guint byte = 0; byte < 0x100; byte++)
    bytes[is_plain (byte) ? byte : next++] = (gint16) byte;
}

/* Appends the bytes that a token's spelling stands for. A token that was
 * added later may have other characters: it is its own spelling. */
static void
append_token (const gint16 *table, const char *text, gsize length,
    GByteArray *bytes)
{
  const char *end = text + length;
  guint start = bytes->len;

  for (const char *p = text; p < end; p = g_utf8_next_char (p)) {
    gunichar c = g_utf8_get_char (p);
    guint8 byte;

    if (c >= N_BYTE_CHARS || table[c] < 0) {
      g_byte_array_set_size (bytes, start);
      g_byte_array_append (bytes, (const guint8 *) text, length);
      return;
    }
    byte = (guint8) table[c];
    g_byte_array_append (bytes, &byte, 1);
  }
}

/* @ends: (element-type guint): where each token's bytes end */
static void
take_tokens (AsrWeights *weights, GByteArray *bytes, const GArray *ends)
{
  guint start = 0;

  g_free (weights->tokens);
  g_free (weights->token_bytes);
  weights->n_tokens = ends->len;
  weights->tokens = g_new (AsrTokenBytes, ends->len);
  /* An array that holds nothing has no memory to point to. */
  g_byte_array_append (bytes, (const guint8 *) "", 1);
  weights->token_bytes = g_byte_array_free (bytes, FALSE);
  for (guint i = 0; i < ends->len; i++) {
    guint end = g_array_index (ends, guint, i);

    weights->tokens[i].bytes = weights->token_bytes + start;
    weights->tokens[i].length = end - start;
    start = end;
  }
}

static gboolean
check_count (const char *file, gsize n, GError **error)
{
  if (n >= 1 && n <= ASR_WEIGHTS_MAX_TOKENS)
    return TRUE;
  g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
      "%s: a vocabulary of %" G_GSIZE_FORMAT " tokens, expected 1 to %u; the "
      "file is damaged, fetch it again", file, n, ASR_WEIGHTS_MAX_TOKENS);
  return FALSE;
}

gboolean
asr_weights_read_vocabulary_json (AsrWeights *weights, const char *file,
    const char *text, gsize n_bytes, GError **error)
{
  g_autoptr (JsonNode) root = asr_json_parse (file, text, n_bytes, error);
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  g_autoptr (GArray) ends = g_array_new (FALSE, FALSE, sizeof (guint));
  gint16 table[N_BYTE_CHARS];
  JsonArray *list;

  if (!root)
    return FALSE;
  if (!JSON_NODE_HOLDS_ARRAY (root)) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
        "%s: a vocabulary is a list, this JSON is not", file);
    return FALSE;
  }
  list = json_node_get_array (root);
  if (!check_count (file, json_array_get_length (list), error))
    return FALSE;
  make_byte_table (table);
  for (guint i = 0; i < json_array_get_length (list); i++) {
    JsonNode *node = json_array_get_element (list, i);
    const char *token = NULL;

    if (JSON_NODE_HOLDS_VALUE (node)
        && json_node_get_value_type (node) == G_TYPE_STRING)
      token = json_node_get_string (node);
    if (!token) {
      g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
          "%s: token %u is not a string", file, i);
      return FALSE;
    }
    append_token (table, token, strlen (token), bytes);
    g_array_append_val (ends, bytes->len);
  }
  take_tokens (weights, g_steal_pointer (&bytes), ends);
  return TRUE;
}

gboolean
asr_weights_read_vocabulary_txt (AsrWeights *weights, const char *file,
    const char *text, gsize n_bytes, GError **error)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  g_autoptr (GArray) ends = g_array_new (FALSE, FALSE, sizeof (guint));
  const char *end = text + n_bytes;
  gint16 table[N_BYTE_CHARS];
  gsize n_lines = 0;

  if (!g_utf8_validate_len (text, n_bytes, NULL)) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
        "%s: the vocabulary is not valid UTF-8 text", file);
    return FALSE;
  }
  for (const char *p = text; p < end; p++)
    n_lines += *p == '\n' || p + 1 == end;
  if (!check_count (file, n_lines, error))
    return FALSE;
  make_byte_table (table);
  /* An empty line is an empty token; nothing follows the last line end. */
  while (text < end) {
    const char *stop = memchr (text, '\n', end - text);
    gsize length = (stop ? stop : end) - text;

    append_token (table, text, length, bytes);
    g_array_append_val (ends, bytes->len);
    text = stop ? stop + 1 : end;
  }
  take_tokens (weights, g_steal_pointer (&bytes), ends);
  return TRUE;
}
