/* SPDX-License-Identifier: MIT */
/*
 * Reader of safetensors files: a length, a JSON header that says where each
 * tensor lies, and the tensors. In: bytes that may be hostile. Out: views.
 *
 * Format: github.com/huggingface/safetensors, README.
 */
#include "engine/weights/reader.h"

#include <string.h>

/* The format allows 100 MB, but a tensor's entry has some 150 bytes and JSON
 * takes many times its size in memory. */
#define MAX_HEADER_BYTES (16 << 20)

static gboolean
sniff (const guint8 *data, gsize n_bytes)
{
  return n_bytes > 9 && data[8] == '{' && data[7] == 0 && data[6] == 0
      && data[5] == 0;
}

static gboolean
read_dtype (const AsrBytes *bytes, const char *name, const char *text,
    AsrDType *dtype, GError **error)
{
  static const struct {
    const char *text;
    AsrDType dtype;
  } types[] = { { "F32", ASR_DTYPE_F32 }, { "F16", ASR_DTYPE_F16 },
    { "BF16", ASR_DTYPE_BF16 }, { "I8", ASR_DTYPE_I8 },
    { "I16", ASR_DTYPE_I16 }, { "I32", ASR_DTYPE_I32 } };

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (text != NULL && strcmp (text, types[i].text) == 0) {
      *dtype = types[i].dtype;
      return TRUE;
    }
  return asr_bytes_set_corrupt (bytes, 8, error,
      "tensor \"%.64s\" has type \"%.16s\"; F32, F16, BF16, I8, I16 and I32 "
      "are known", name, text && g_str_is_ascii (text) ? text : "(none)");
}

/* A member that is a list of @max whole numbers at most, none negative. */
static gboolean
read_numbers (const AsrBytes *bytes, JsonObject *object, const char *name,
    const char *member, guint max, guint64 *numbers, guint *n, GError **error)
{
  JsonNode *node = json_object_get_member (object, member);
  JsonArray *array;

  if (node == NULL || !JSON_NODE_HOLDS_ARRAY (node)
      || json_array_get_length (json_node_get_array (node)) > max)
    return asr_bytes_set_corrupt (bytes, 8, error,
        "tensor \"%.64s\" has no \"%s\" of at most %u numbers", name, member,
        max);
  array = json_node_get_array (node);
  *n = json_array_get_length (array);
  for (guint i = 0; i < *n; i++) {
    JsonNode *element = json_array_get_element (array, i);

    if (!JSON_NODE_HOLDS_VALUE (element)
        || json_node_get_value_type (element) != G_TYPE_INT64
        || json_node_get_int (element) < 0)
      return asr_bytes_set_corrupt (bytes, 8, error,
          "\"%s\" of tensor \"%.64s\" holds something else than a number",
          member, name);
    numbers[i] = json_node_get_int (element);
  }
  return TRUE;
}

/* @bytes: at the first byte after the header */
static gboolean
read_entry (AsrWeights *weights, const AsrBytes *bytes, const char *name,
    JsonNode *node, GError **error)
{
  guint64 dims[ASR_MAX_RANK], offsets[2];
  gsize n_data = bytes->n_bytes - bytes->offset;
  AsrTensor view = { 0 };
  JsonObject *object;
  JsonNode *dtype;
  guint n_offsets;

  /* messages cut names, which must not be inside a character */
  if (!g_str_is_ascii (name))
    return asr_bytes_set_corrupt (bytes, 8, error,
        "a tensor's name is not ASCII");
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return asr_bytes_set_corrupt (bytes, 8, error,
        "tensor \"%.64s\" is not an object", name);
  object = json_node_get_object (node);
  dtype = json_object_get_member (object, "dtype");
  if (!read_dtype (bytes, name,
          dtype && JSON_NODE_HOLDS_VALUE (dtype)
              ? json_node_get_string (dtype) : NULL, &view.dtype, error)
      || !read_numbers (bytes, object, name, "shape", ASR_MAX_RANK, dims,
          &view.rank, error)
      || !read_numbers (bytes, object, name, "data_offsets", 2, offsets,
          &n_offsets, error))
    return FALSE;
  for (guint i = 0; i < view.rank; i++) {
    if (dims[i] > G_MAXUINT32)
      return asr_bytes_set_corrupt (bytes, 8, error,
          "tensor \"%.64s\" has a dimension of %" G_GUINT64_FORMAT, name,
          dims[i]);
    view.dims[i] = dims[i];
  }
  if (!asr_weights_measure (bytes, name, strlen (name), &view, error))
    return FALSE;
  if (n_offsets != 2 || offsets[0] > offsets[1] || offsets[1] > n_data
      || offsets[1] - offsets[0] != view.n_bytes)
    return asr_bytes_set_corrupt (bytes, bytes->offset, error,
        "tensor \"%.64s\" of %" G_GSIZE_FORMAT " bytes does not lie in the %"
        G_GSIZE_FORMAT " bytes of data", name, view.n_bytes, n_data);
  view.data = bytes->data + bytes->offset + offsets[0];
  return asr_weights_add (weights, bytes, name, strlen (name), &view, error);
}

static gint
compare_views (gconstpointer a, gconstpointer b)
{
  const char *x = (*(const AsrTensor *const *) a)->data;
  const char *y = (*(const AsrTensor *const *) b)->data;

  return x < y ? -1 : x > y;
}

/* No byte may belong to two tensors. */
static gboolean
check_overlaps (AsrWeights *weights, const AsrBytes *bytes, GError **error)
{
  g_autoptr (GPtrArray) views = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer view;

  g_hash_table_iter_init (&iter, weights->tensors);
  while (g_hash_table_iter_next (&iter, NULL, &view))
    g_ptr_array_add (views, view);
  g_ptr_array_sort (views, compare_views);
  for (guint i = 1; i < views->len; i++) {
    const AsrTensor *before = g_ptr_array_index (views, i - 1);
    const AsrTensor *here = g_ptr_array_index (views, i);
    gsize at = (const guint8 *) here->data - bytes->data;

    if ((const guint8 *) before->data + before->n_bytes
        > (const guint8 *) here->data)
      return asr_bytes_set_corrupt (bytes, at, error,
          "two tensors share bytes");
  }
  return TRUE;
}

static gboolean
read_file (AsrWeights *weights, AsrBytes *bytes, GError **error)
{
  g_autoptr (JsonNode) root = NULL;
  g_autoptr (GList) names = NULL;
  const guint8 *text;
  guint64 n_header;
  JsonObject *object;

  if (!asr_bytes_read_u64 (bytes, "header length", &n_header, error))
    return FALSE;
  if (n_header > MAX_HEADER_BYTES)
    return asr_bytes_set_corrupt (bytes, 0, error,
        "a header of %" G_GUINT64_FORMAT " bytes, %d are the most", n_header,
        MAX_HEADER_BYTES);
  if (!asr_bytes_take (bytes, n_header, "header", &text, error))
    return FALSE;
  root = asr_json_parse (bytes->file, (const char *) text, n_header, error);
  if (root == NULL)
    return FALSE;
  if (!JSON_NODE_HOLDS_OBJECT (root))
    return asr_bytes_set_corrupt (bytes, 8, error, "header is not an object");
  object = json_node_get_object (root);
  if (json_object_get_size (object) > ASR_WEIGHTS_MAX_TENSORS)
    return asr_bytes_set_corrupt (bytes, 8, error,
        "%u tensors, %d are the most", json_object_get_size (object),
        ASR_WEIGHTS_MAX_TENSORS);
  names = json_object_get_members (object);
  for (const GList *l = names; l != NULL; l = l->next)
    if (strcmp (l->data, "__metadata__") != 0
        && !read_entry (weights, bytes, l->data,
            json_object_get_member (object, l->data), error))
      return FALSE;
  return check_overlaps (weights, bytes, error);
}

const AsrWeightsReader asr_safetensors_reader
    = { "safetensors", sniff, read_file };
