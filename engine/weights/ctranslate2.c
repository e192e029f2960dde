/* SPDX-License-Identifier: MIT */
/*
 * Reader of CTranslate2's model.bin, layout as its model specification
 * serialises it (binary versions 2 to 6, all little-endian):
 *
 *   u32 binary version; str spec; u32 spec revision
 *   u32 n; n variables: str name; u8 rank; u32 dims[rank];
 *     from version 4: u8 type; u32 n_bytes   before: u8 item size; u32 items
 *     data
 *   from version 3: u32 n; n aliases: str alias; str name
 *   str: u16 length with the NUL that ends it; bytes
 *
 * A tensor "x" that is quantised has its factors in "x_scale".
 */
#include "engine/weights/reader.h"
#include <string.h>

#define NEWEST_VERSION 6
#define OLDEST_VERSION 2
#define TYPED_VERSION 4   /* first with a type byte */
#define ALIASES_VERSION 3 /* first with aliases */
#define SPEC "WhisperSpec"
#define SPEC_REVISION 3
#define SCALE_SUFFIX "_scale"

/* A str of the file, without its NUL. */
typedef struct {
  const char *text;
  gsize length;
} Name;

/* Any version below 256, since a file of a newer one should be told so. */
static gboolean
sniff (const guint8 *data, gsize n_bytes)
{
  static const guint8 zeros[3] = { 0 };

  if (n_bytes < 4 || data[0] == 0 || memcmp (data + 1, zeros, 3) != 0)
    return FALSE;
  /* A spec's name is not empty; a u64 that is small (safetensors) is. */
  return n_bytes < 6 || data[4] != 0 || data[5] != 0;
}

static gboolean
read_name (AsrBytes *bytes, const char *what, Name *name, GError **error)
{
  gsize start = bytes->offset;
  guint16 length;
  const guint8 *text;

  if (!asr_bytes_read_u16 (bytes, what, &length, error))
    return FALSE;
  if (length < 2 || length > ASR_WEIGHTS_MAX_NAME_BYTES + 1) {
    return asr_bytes_set_corrupt (bytes, start, error,
        "%s has %u bytes, expected 2 to %d", what, length,
        ASR_WEIGHTS_MAX_NAME_BYTES + 1);
  }
  if (!asr_bytes_take (bytes, length, what, &text, error))
    return FALSE;
  if (text[length - 1] != 0) {
    return asr_bytes_set_corrupt (bytes, bytes->offset - 1, error,
        "%s does not end in a zero byte", what);
  }
  name->text = (const char *) text;
  name->length = length - 1;
  return TRUE;
}

static gboolean
read_header (AsrBytes *bytes, guint32 *version, GError **error)
{
  guint32 revision;
  Name spec;

  if (!asr_bytes_read_u32 (bytes, "the binary version", version, error))
    return FALSE;
  if (*version < OLDEST_VERSION || *version > NEWEST_VERSION) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
        "%s: CTranslate2 binary version %u, but only %d to %d can be read; "
        "convert the model with a CTranslate2 that writes one of them",
        bytes->file, *version, OLDEST_VERSION, NEWEST_VERSION);
    return FALSE;
  }
  if (!read_name (bytes, "the model specification", &spec, error)
      || !asr_bytes_read_u32 (bytes, "the revision", &revision, error))
    return FALSE;
  if (spec.length != strlen (SPEC) || memcmp (spec.text, SPEC, spec.length)) {
    g_autofree char *shown = g_strndup (spec.text, spec.length);
    g_autofree char *quoted = g_strescape (shown, NULL);

    g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
        "%s: a CTranslate2 model of kind \"%s\", only " SPEC " can be read",
        bytes->file, quoted);
    return FALSE;
  }
  if (revision != SPEC_REVISION) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
        "%s: " SPEC " revision %u, only %d can be read; convert the original "
        "model again", bytes->file, revision, SPEC_REVISION);
    return FALSE;
  }
  return TRUE;
}

static gboolean
read_type (AsrBytes *bytes, guint32 version, const Name *name,
    AsrDType *dtype, GError **error)
{
  static const AsrDType by_id[] = { ASR_DTYPE_F32, ASR_DTYPE_I8,
    ASR_DTYPE_I16, ASR_DTYPE_I32, ASR_DTYPE_F16, ASR_DTYPE_BF16 };
  gsize start = bytes->offset;
  guint8 type;

  if (!asr_bytes_read_u8 (bytes, "a tensor's type", &type, error))
    return FALSE;
  if (version >= TYPED_VERSION && type < G_N_ELEMENTS (by_id)) {
    *dtype = by_id[type];
    return TRUE;
  }
  if (version < TYPED_VERSION && (type == 1 || type == 2 || type == 4)) {
    *dtype = type == 1 ? ASR_DTYPE_I8
        : type == 2    ? ASR_DTYPE_I16
                       : ASR_DTYPE_F32;
    return TRUE;
  }
  return asr_bytes_set_corrupt (bytes, start, error,
      "type %u of \"%.*s\" is unknown in version %u", type,
      (int) name->length, name->text, version);
}

static gboolean
read_dims (AsrBytes *bytes, const Name *name, AsrTensor *view, GError **error)
{
  gsize start = bytes->offset;
  guint8 rank;

  if (!asr_bytes_read_u8 (bytes, "a tensor's rank", &rank, error))
    return FALSE;
  if (rank > ASR_MAX_RANK) {
    return asr_bytes_set_corrupt (bytes, start, error,
        "\"%.*s\" has rank %u, at most %d is known", (int) name->length,
        name->text, rank, ASR_MAX_RANK);
  }
  view->rank = rank;
  for (guint i = 0; i < rank; i++) {
    if (!asr_bytes_read_u32 (bytes, "a dimension", &view->dims[i], error))
      return FALSE;
  }
  return TRUE;
}

static gboolean
read_variable (AsrWeights *weights, AsrBytes *bytes, guint32 version,
    GError **error)
{
  AsrTensor view = { 0 };
  const guint8 *data;
  guint64 n_bytes;
  guint32 n;
  Name name;

  if (!read_name (bytes, "a tensor's name", &name, error)
      || !read_dims (bytes, &name, &view, error)
      || !read_type (bytes, version, &name, &view.dtype, error)
      || !asr_weights_measure (bytes, name.text, name.length, &view, error)
      || !asr_bytes_read_u32 (bytes, "a tensor's size", &n, error))
    return FALSE;
  n_bytes = n;
  if (version < TYPED_VERSION)
    n_bytes *= asr_dtype_get_size (view.dtype);
  if (n_bytes != view.n_bytes) {
    return asr_bytes_set_corrupt (bytes, bytes->offset - sizeof n, error,
        "\"%.*s\" claims %" G_GUINT64_FORMAT " bytes, but its dimensions "
        "take %" G_GSIZE_FORMAT, (int) name.length, name.text, n_bytes,
        view.n_bytes);
  }
  if (!asr_bytes_take (bytes, n_bytes, "a tensor's data", &data, error))
    return FALSE;
  view.data = data;
  return asr_weights_add (weights, bytes, name.text, name.length, &view,
      error);
}

/* Gives @view, named @name, the factors in @scale: one for each row of I8,
 * one for all of I16, as aligned f32 that @weights owns. */
static gboolean
attach_scale (AsrWeights *weights, const AsrBytes *bytes, const char *name,
    AsrTensor *view, const AsrTensor *scale, GError **error)
{
  gsize n = asr_tensor_get_n_elements (scale);
  gsize expected = 1;
  float *values;

  if (view->dtype == ASR_DTYPE_I8 && view->rank > 0)
    expected = view->dims[0];
  if (scale->dtype != ASR_DTYPE_F32 || n != expected) {
    return asr_bytes_set_corrupt (bytes, bytes->offset, error,
        "\"%s" SCALE_SUFFIX "\" has %" G_GSIZE_FORMAT " factors, expected %"
        G_GSIZE_FORMAT " of type f32", name, n, expected);
  }
  values = g_new (float, n);
  g_ptr_array_add (weights->scales, values);
  asr_tensor_to_f32 (scale, 0, n, values);
  for (gsize i = 0; i < n; i++) {
    if (!(values[i] > 0.0f) || values[i] > G_MAXFLOAT) {
      return asr_bytes_set_corrupt (bytes, bytes->offset, error,
          "factor %" G_GSIZE_FORMAT " of \"%s" SCALE_SUFFIX "\" is %g", i,
          name, values[i]);
    }
  }
  view->scale = values;
  return TRUE;
}

static gboolean
attach_scales (AsrWeights *weights, const AsrBytes *bytes, GError **error)
{
  GHashTableIter iter;
  gpointer key, value;

  g_hash_table_iter_init (&iter, weights->tensors);
  while (g_hash_table_iter_next (&iter, &key, &value)) {
    g_autofree char *scale_name = NULL;
    const AsrTensor *scale;
    AsrTensor *view = value;

    if (view->dtype != ASR_DTYPE_I8 && view->dtype != ASR_DTYPE_I16)
      continue;
    scale_name = g_strconcat (key, SCALE_SUFFIX, NULL);
    scale = g_hash_table_lookup (weights->tensors, scale_name);
    if (scale && !attach_scale (weights, bytes, key, view, scale, error))
      return FALSE;
  }
  return TRUE;
}

/* An alias names a variable or an earlier alias, so there are no loops. */
static gboolean
read_alias (AsrWeights *weights, AsrBytes *bytes, GError **error)
{
  g_autofree char *key = NULL;
  const AsrTensor *view;
  Name alias, target;

  if (!read_name (bytes, "an alias", &alias, error)
      || !read_name (bytes, "an alias's target", &target, error))
    return FALSE;
  key = g_strndup (target.text, target.length);
  view = asr_weights_find (weights, key);
  if (!view) {
    g_autofree char *quoted = g_strescape (key, NULL);

    return asr_bytes_set_corrupt (bytes, bytes->offset, error,
        "an alias stands for \"%s\", which is not there", quoted);
  }
  return asr_weights_add (weights, bytes, alias.text, alias.length, view,
      error);
}

static gboolean
read_count (AsrBytes *bytes, const char *what, guint32 *n, GError **error)
{
  gsize start = bytes->offset;

  if (!asr_bytes_read_u32 (bytes, what, n, error))
    return FALSE;
  if (*n > ASR_WEIGHTS_MAX_TENSORS) {
    return asr_bytes_set_corrupt (bytes, start, error,
        "%s is %u, at most %d is known", what, *n, ASR_WEIGHTS_MAX_TENSORS);
  }
  return TRUE;
}

static gboolean
read_model (AsrWeights *weights, AsrBytes *bytes, GError **error)
{
  guint32 version, n;

  if (!read_header (bytes, &version, error)
      || !read_count (bytes, "the number of tensors", &n, error))
    return FALSE;
  for (guint32 i = 0; i < n; i++) {
    if (!read_variable (weights, bytes, version, error))
      return FALSE;
  }
  /* Before the aliases, which copy a view together with its factors. */
  if (!attach_scales (weights, bytes, error))
    return FALSE;
  if (version >= ALIASES_VERSION) {
    if (!read_count (bytes, "the number of aliases", &n, error))
      return FALSE;
    for (guint32 i = 0; i < n; i++) {
      if (!read_alias (weights, bytes, error))
        return FALSE;
    }
  }
  if (bytes->offset != bytes->n_bytes) {
    return asr_bytes_set_corrupt (bytes, bytes->offset, error,
        "%" G_GSIZE_FORMAT " bytes follow the end of the model",
        bytes->n_bytes - bytes->offset);
  }
  return TRUE;
}

const AsrWeightsReader asr_ctranslate2_reader = {
  .name = "ctranslate2",
  .sniff = sniff,
  .read = read_model,
};
