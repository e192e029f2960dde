/* SPDX-License-Identifier: MIT */
/*
 * Opens a model: finds its files, maps the one with the weights, lets the
 * reader that recognises it fill the table of tensors, and reads the small
 * files beside it. Knows no format itself.
 */
#include "engine/weights/reader.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <glib/gstdio.h>

static const AsrWeightsReader *const readers[] = {
  &asr_ctranslate2_reader,
  &asr_safetensors_reader,
};

/* In a directory the first of these that is there is the model. */
static const char *const weight_files[] = { "model.bin", "model.safetensors" };

/* Files that are often met in place of weights. */
static const struct {
  const char *begin;
  const char *message;
} strangers[] = {
  { "version https://git-lfs", "a Git LFS pointer stands where the weights "
                               "should be: fetch the file itself" },
  { "<!DOCTYPE", "this is a web page: the download failed, fetch it again" },
  { "<html", "this is a web page: the download failed, fetch it again" },
  { "lmgg", "this is a ggml model as whisper.cpp reads it; it can't be read "
            "yet, convert the original model to CTranslate2" },
  { "GGUF", "this is a GGUF model; it can't be read yet, convert the "
            "original model to CTranslate2" },
  { "PK\x03\x04", "this is a PyTorch checkpoint or another zip file; convert "
                  "it to CTranslate2" },
};

static AsrWeights *
new_weights (const char *file)
{
  AsrWeights *weights = g_new0 (AsrWeights, 1);

  weights->file = g_strdup (file);
  weights->tensors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
      g_free);
  weights->scales = g_ptr_array_new_with_free_func (g_free);
  weights->id_lists = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
      (GDestroyNotify) g_array_unref);
  return weights;
}

void
asr_weights_free (AsrWeights *weights)
{
  if (!weights)
    return;
  g_hash_table_unref (weights->tensors);
  g_ptr_array_unref (weights->scales);
  g_hash_table_unref (weights->id_lists);
  g_free (weights->token_bytes);
  g_free (weights->tokens);
  g_free (weights->file);
  if (weights->map)
    munmap (weights->map, weights->map_bytes);
  g_free (weights);
}

gboolean
asr_weights_measure (const AsrBytes *bytes, const char *name,
    gsize name_length, AsrTensor *view, GError **error)
{
  gsize n = asr_dtype_get_size (view->dtype);

  for (guint i = 0; i < view->rank; i++) {
    if (view->dims[i] == 0) {
      return asr_bytes_set_corrupt (bytes, bytes->offset, error,
          "dimension %u of \"%.*s\" is 0", i, (int) name_length, name);
    }
    if (!g_size_checked_mul (&n, n, view->dims[i])) {
      return asr_bytes_set_corrupt (bytes, bytes->offset, error,
          "the dimensions of \"%.*s\" are too large", (int) name_length,
          name);
    }
  }
  view->n_bytes = n;
  return TRUE;
}

gboolean
asr_weights_add (AsrWeights *weights, const AsrBytes *bytes, const char *name,
    gsize name_length, const AsrTensor *view, GError **error)
{
  g_autofree char *key = NULL;

  if (name_length == 0 || name_length > ASR_WEIGHTS_MAX_NAME_BYTES) {
    return asr_bytes_set_corrupt (bytes, bytes->offset, error,
        "a tensor's name has %" G_GSIZE_FORMAT " bytes, expected 1 to %d",
        name_length, ASR_WEIGHTS_MAX_NAME_BYTES);
  }
  for (gsize i = 0; i < name_length; i++) {
    if (!g_ascii_isgraph (name[i])) {
      return asr_bytes_set_corrupt (bytes, bytes->offset, error,
          "byte %" G_GSIZE_FORMAT " of a tensor's name is 0x%02x, expected "
          "printable ASCII", i, (guint8) name[i]);
    }
  }
  if (g_hash_table_size (weights->tensors) >= ASR_WEIGHTS_MAX_TENSORS) {
    return asr_bytes_set_corrupt (bytes, bytes->offset, error,
        "more than %d tensors", ASR_WEIGHTS_MAX_TENSORS);
  }
  key = g_strndup (name, name_length);
  if (g_hash_table_contains (weights->tensors, key)) {
    return asr_bytes_set_corrupt (bytes, bytes->offset, error,
        "the name \"%s\" is used twice", key);
  }
  g_hash_table_insert (weights->tensors, g_steal_pointer (&key),
      g_memdup2 (view, sizeof *view));
  return TRUE;
}

static void
set_unknown_format (const AsrBytes *bytes, GError **error)
{
  GString *begin = NULL;
  g_autofree char *hex = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (strangers); i++) {
    const char *known = strangers[i].begin;
    gsize n = strlen (known);

    if (bytes->n_bytes >= n && memcmp (bytes->data, known, n) == 0) {
      g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED, "%s: %s",
          bytes->file, strangers[i].message);
      return;
    }
  }
  begin = g_string_new (NULL);
  for (guint i = 0; i < MIN (bytes->n_bytes, 8); i++)
    g_string_append_printf (begin, " %02x", bytes->data[i]);
  hex = g_string_free (begin, FALSE);
  g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
      "%s: not a model file of a known kind (%" G_GSIZE_FORMAT
      " bytes, it begins with%s); expected CTranslate2's model.bin or "
      "safetensors", bytes->file, bytes->n_bytes, hex);
}

static gboolean
read_tensors (AsrWeights *weights, const guint8 *data, gsize n_bytes,
    GError **error)
{
  AsrBytes bytes = { weights->file, data, n_bytes, 0 };

  if (n_bytes == 0) {
    return asr_bytes_set_corrupt (&bytes, 0, error, "the file is empty");
  }
  for (guint i = 0; i < G_N_ELEMENTS (readers); i++) {
    if (!readers[i]->sniff (data, n_bytes))
      continue;
    weights->reader = readers[i];
    return readers[i]->read (weights, &bytes, error);
  }
  set_unknown_format (&bytes, error);
  return FALSE;
}

AsrWeights *
asr_weights_read_bytes (const char *label, const guint8 *data, gsize n_bytes,
    GError **error)
{
  g_autoptr (AsrWeights) weights = new_weights (label);

  if (!read_tensors (weights, data, n_bytes, error))
    return NULL;
  return g_steal_pointer (&weights);
}

/* Maps a regular file; an empty one has no mapping and no error. */
static gboolean
map_file (AsrWeights *weights, const char *path, GError **error)
{
  /* Without O_NONBLOCK the open of a pipe would wait for a writer. */
  int fd = g_open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  struct stat status;
  void *map = NULL;
  int failure;

  if (fd < 0) {
    failure = errno;
    g_set_error (error, ASR_ERROR, ASR_ERROR_NOT_FOUND,
        "%s: can't open the model: %s", weights->file, g_strerror (failure));
    return FALSE;
  }
  if (fstat (fd, &status) != 0 || !S_ISREG (status.st_mode)) {
    close (fd);
    g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
        "%s: not a regular file, so it can't be a model", weights->file);
    return FALSE;
  }
  if (status.st_size > 0)
    map = mmap (NULL, status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  failure = errno;
  close (fd);
  if (map == MAP_FAILED) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_MEMORY,
        "%s: can't map %" G_GINT64_FORMAT " bytes: %s", weights->file,
        (gint64) status.st_size, g_strerror (failure));
    return FALSE;
  }
  weights->map = map;
  weights->map_bytes = status.st_size;
  return TRUE;
}

/* The file with the weights that @path means. */
static char *
find_weight_file (const char *path, GError **error)
{
  g_autofree char *shown = g_filename_display_name (path);

  if (!g_file_test (path, G_FILE_TEST_EXISTS)) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_NOT_FOUND,
        "%s: there is no such model file or directory", shown);
    return NULL;
  }
  if (!g_file_test (path, G_FILE_TEST_IS_DIR))
    return g_strdup (path);
  for (guint i = 0; i < G_N_ELEMENTS (weight_files); i++) {
    g_autofree char *file = g_build_filename (path, weight_files[i], NULL);

    if (g_file_test (file, G_FILE_TEST_EXISTS))
      return g_steal_pointer (&file);
  }
  g_set_error (error, ASR_ERROR, ASR_ERROR_NOT_FOUND,
      "%s: no model in this directory: it has neither %s nor %s", shown,
      weight_files[0], weight_files[1]);
  return NULL;
}

typedef gboolean (*SideReader) (AsrWeights *weights, const char *file,
    const char *text, gsize n_bytes, GError **error);

/* Reads a file beside the weights. @found: (out): FALSE and no error where
 * there is none. */
static gboolean
read_side_file (AsrWeights *weights, const char *directory, const char *name,
    SideReader read, gboolean *found, GError **error)
{
  g_autofree char *path = g_build_filename (directory, name, NULL);
  g_autofree char *shown = g_filename_display_name (path);
  g_autofree char *text = NULL;
  g_autoptr (GError) failure = NULL;
  GStatBuf status;
  gsize n_bytes;

  *found = g_stat (path, &status) == 0;
  if (!*found)
    return TRUE;
  if (!S_ISREG (status.st_mode)
      || status.st_size > ASR_WEIGHTS_MAX_JSON_BYTES) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
        "%s: not a file of at most %u bytes (it has %" G_GINT64_FORMAT ")",
        shown, ASR_WEIGHTS_MAX_JSON_BYTES, (gint64) status.st_size);
    return FALSE;
  }
  if (!g_file_get_contents (path, &text, &n_bytes, &failure)) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_NOT_FOUND, "%s: can't read: %s",
        shown, failure->message);
    return FALSE;
  }
  return read (weights, shown, text, n_bytes, error);
}

static gboolean
read_side_files (AsrWeights *weights, const char *path, GError **error)
{
  g_autofree char *directory = g_path_get_dirname (path);
  gboolean found;

  if (!read_side_file (weights, directory, "config.json",
          asr_weights_read_config, &found, error))
    return FALSE;
  if (!read_side_file (weights, directory, "vocabulary.json",
          asr_weights_read_vocabulary_json, &found, error))
    return FALSE;
  if (found)
    return TRUE;
  return read_side_file (weights, directory, "vocabulary.txt",
      asr_weights_read_vocabulary_txt, &found, error);
}

AsrWeights *
asr_weights_open (const char *path, GError **error)
{
  g_autofree char *file = find_weight_file (path, error);
  g_autofree char *shown = NULL;
  g_autoptr (AsrWeights) weights = NULL;

  if (!file)
    return NULL;
  shown = g_filename_display_name (file);
  weights = new_weights (shown);
  if (!map_file (weights, file, error)
      || !read_tensors (weights, weights->map, weights->map_bytes, error)
      || !read_side_files (weights, file, error))
    return NULL;
  return g_steal_pointer (&weights);
}

const char *
asr_weights_get_format (const AsrWeights *weights)
{
  return weights->reader->name;
}

const char *
asr_weights_get_path (const AsrWeights *weights)
{
  return weights->file;
}

const AsrTensor *
asr_weights_find (const AsrWeights *weights, const char *name)
{
  return g_hash_table_lookup (weights->tensors, name);
}

guint
asr_weights_get_n_tensors (const AsrWeights *weights)
{
  return g_hash_table_size (weights->tensors);
}

void
asr_weights_drop_pages (const AsrWeights *weights)
{
  /* The mapping is private and never written, so its pages are clean. */
  if (weights->map)
    madvise (weights->map, weights->map_bytes, MADV_DONTNEED);
}

const AsrTokenBytes *
asr_weights_get_vocabulary (const AsrWeights *weights, guint *n_tokens)
{
  *n_tokens = weights->n_tokens;
  return weights->tokens;
}

const gint32 *
asr_weights_get_ids (const AsrWeights *weights, const char *key, guint *n)
{
  const GArray *ids = g_hash_table_lookup (weights->id_lists, key);

  *n = ids ? ids->len : 0;
  return ids ? (const gint32 *) ids->data : NULL;
}
