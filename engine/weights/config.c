/* SPDX-License-Identifier: MIT */
/*
 * JSON that nobody vouches for, and the lists of ids in a model's
 * config.json. What is missing is fine; what is there must be right.
 */
#include "engine/weights/reader.h"
#include <string.h>

static const char *const id_keys[] = { "suppress_ids", "suppress_ids_begin",
  "lang_ids", "alignment_heads" };

/* What json-glib must not be given: it recurses without a limit, so a file of
 * brackets alone would overflow the stack, it lets numbers wrap around, and
 * it takes comments and strings in other quotes, which would hide brackets
 * from who counts them. */
typedef struct {
  guint depth;        /* deepest nesting of brackets */
  guint n_digits;     /* longest run of digits */
  gboolean has_other; /* characters that JSON has not outside strings */
} JsonExtent;

static JsonExtent
measure_json (const char *text, gsize n_bytes)
{
  JsonExtent extent = { 0, 0, FALSE };
  gboolean in_string = FALSE;
  guint depth = 0, n_digits = 0;

  for (gsize i = 0; i < n_bytes; i++) {
    char c = text[i];

    if (in_string && c == '\\')
      i++;
    else if (c == '"')
      in_string = !in_string;
    if (in_string)
      continue;
    if (c == '[' || c == '{') {
      depth++;
      extent.depth = MAX (extent.depth, depth);
    } else if ((c == ']' || c == '}') && depth > 0)
      depth--;
    else if (!g_ascii_isalnum (c) && !strchr ("]}\":,.+- \t\r\n", c))
      extent.has_other = TRUE;
    n_digits = g_ascii_isdigit (c) ? n_digits + 1 : 0;
    extent.n_digits = MAX (extent.n_digits, n_digits);
  }
  return extent;
}

static gboolean
set_corrupt (const char *file, GError **error, const char *message)
{
  g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
      "%s: %s; the file is damaged, fetch it again", file, message);
  return FALSE;
}

JsonNode *
asr_json_parse (const char *file, const char *text, gsize n_bytes,
    GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new_immutable ();
  g_autoptr (GError) failure = NULL;
  JsonExtent extent;
  JsonNode *root;

  if (n_bytes == 0 || n_bytes > ASR_WEIGHTS_MAX_JSON_BYTES) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
        "%s: %" G_GSIZE_FORMAT " bytes of JSON, expected 1 to %u", file,
        n_bytes, ASR_WEIGHTS_MAX_JSON_BYTES);
    return NULL;
  }
  extent = measure_json (text, n_bytes);
  if (extent.has_other) {
    set_corrupt (file, error, "this is not JSON");
    return NULL;
  }
  if (extent.depth > ASR_WEIGHTS_MAX_JSON_DEPTH) {
    set_corrupt (file, error, "the JSON is nested too deeply");
    return NULL;
  }
  if (extent.n_digits > ASR_WEIGHTS_MAX_JSON_DIGITS) {
    set_corrupt (file, error, "the JSON has a number that is too long");
    return NULL;
  }
  if (!g_utf8_validate_len (text, n_bytes, NULL)) {
    set_corrupt (file, error, "the JSON is not valid UTF-8");
    return NULL;
  }
  if (!json_parser_load_from_data (parser, text, n_bytes, &failure)) {
    set_corrupt (file, error, failure->message);
    return NULL;
  }
  root = json_parser_steal_root (parser);
  if (!root)
    set_corrupt (file, error, "there is no JSON in it");
  return root;
}

/* Appends one integer, or the integers of a list of exactly @n_inner. */
static gboolean
append_ids (JsonNode *node, guint n_inner, GArray *ids)
{
  JsonArray *inner;

  if (n_inner > 0) {
    if (!JSON_NODE_HOLDS_ARRAY (node))
      return FALSE;
    inner = json_node_get_array (node);
    if (json_array_get_length (inner) != n_inner)
      return FALSE;
    for (guint i = 0; i < n_inner; i++) {
      if (!append_ids (json_array_get_element (inner, i), 0, ids))
        return FALSE;
    }
    return TRUE;
  }
  if (JSON_NODE_HOLDS_VALUE (node)
      && json_node_get_value_type (node) == G_TYPE_INT64) {
    gint64 wide = json_node_get_int (node);
    gint32 id = (gint32) wide;

    g_array_append_val (ids, id);
    return id == wide;
  }
  return FALSE;
}

static gboolean
read_ids (AsrWeights *weights, const char *file, const char *key,
    JsonNode *node, GError **error)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  guint n_inner = g_str_equal (key, "alignment_heads") ? 2 : 0;
  JsonArray *list;

  if (JSON_NODE_HOLDS_NULL (node))
    return TRUE;
  list = JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
  if (!list || json_array_get_length (list) > ASR_WEIGHTS_MAX_IDS) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
        "%s: \"%s\" is not a list of at most %d entries", file, key,
        ASR_WEIGHTS_MAX_IDS);
    return FALSE;
  }
  for (guint i = 0; i < json_array_get_length (list); i++) {
    if (!append_ids (json_array_get_element (list, i), n_inner, ids)) {
      g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
          "%s: entry %u of \"%s\" is not %s", file, i, key,
          n_inner ? "a pair of integers" : "an integer of 32 bits");
      return FALSE;
    }
  }
  g_hash_table_replace (weights->id_lists, g_strdup (key),
      g_steal_pointer (&ids));
  return TRUE;
}

gboolean
asr_weights_read_config (AsrWeights *weights, const char *file,
    const char *text, gsize n_bytes, GError **error)
{
  g_autoptr (JsonNode) root = asr_json_parse (file, text, n_bytes, error);
  JsonObject *object;

  if (!root)
    return FALSE;
  if (!JSON_NODE_HOLDS_OBJECT (root))
    return set_corrupt (file, error, "the JSON is not an object");
  object = json_node_get_object (root);
  for (guint i = 0; i < G_N_ELEMENTS (id_keys); i++) {
    JsonNode *node = json_object_get_member (object, id_keys[i]);

    if (node && !read_ids (weights, file, id_keys[i], node, error))
      return FALSE;
  }
  return TRUE;
}
