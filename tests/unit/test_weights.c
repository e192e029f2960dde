/* SPDX-License-Identifier: MIT */
/*
 * The reader of CTranslate2 models: right files of several versions, every
 * kind of wrong one, files cut anywhere, and the files beside the weights.
 * TINY_MODEL names the directory of a generated model.
 */
#include "engine/weights/reader.h"
#include "tests/unit/ct2_file.h"
#include "tests/unit/models.h"
#include <glib/gstdio.h>
#include <math.h>
#include <sys/stat.h>

typedef GByteArray File;
G_DEFINE_AUTOPTR_CLEANUP_FUNC (File, g_byte_array_unref)

/* Reads @file from memory of exactly its size, so that a sanitizer sees any
 * read past the end. @copy: (out): keeps the bytes */
static AsrWeights *
read_file (const File *file, gsize n_bytes, guint8 **copy, GError **error)
{
  *copy = g_memdup2 (file->data, n_bytes);
  return asr_weights_read_bytes ("made.bin", *copy, n_bytes, error);
}

static void
assert_error (const File *file, AsrError code, const char *part)
{
  g_autofree guint8 *copy = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (AsrWeights) weights = read_file (file, file->len, &copy, &error);

  g_assert_null (weights);
  g_assert_error (error, ASR_ERROR, (gint) code);
  if (!strstr (error->message, part) || !strstr (error->message, "made.bin"))
    g_error ("\"%s\" is not in \"%s\"", part, error->message);
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
}

/* ---- Right files ---- */

static const guint32 dims_2x3[] = { 2, 3 };
static const guint32 dims_2[] = { 2 };
static const float six[] = { 1, -2, 3, -4, 5, 0.5f };
static const gint8 six_int8[] = { 127, -64, 0, 1, -127, 5 };
static const float two_scales[] = { 2.0f, 0.5f };

static File *
make_good (void)
{
  static const gint16 sixteen[] = { 1024, -512 };
  static const gint16 heads = 8;
  static const float scale = 1024.0f;
  File *file = g_byte_array_new ();

  put_header (file, 6, 6);
  put_variable (file, "f32", 2, dims_2x3, CT2_F32, six, sizeof six);
  put_variable (file, "i8", 2, dims_2x3, CT2_I8, six_int8, 6);
  put_variable (file, "i8_scale", 1, dims_2, CT2_F32, two_scales, 8);
  put_variable (file, "i16", 1, dims_2, CT2_I16, sixteen, 4);
  put_variable (file, "i16_scale", 0, NULL, CT2_F32, &scale, 4);
  put_variable (file, "num_heads", 0, NULL, CT2_I16, &heads, 2);
  put_u32 (file, 2);
  put_string (file, "alias");
  put_string (file, "i8");
  put_string (file, "second");
  put_string (file, "alias");
  return file;
}

static void
assert_values (const AsrWeights *weights, const char *name,
    const float *expected, guint n)
{
  const AsrTensor *view = asr_weights_find (weights, name);
  float out[8];

  g_assert_nonnull (view);
  g_assert_cmpuint (asr_tensor_get_n_elements (view), ==, n);
  asr_tensor_to_f32 (view, 0, n, out);
  g_assert_cmpmem (out, n * sizeof *out, expected, n * sizeof *expected);
}

static void
test_good (void)
{
  static const float i8[] = { 63.5f, -32, 0, 2, -254, 10 };
  static const float i16[] = { 1, -0.5f };
  static const float heads[] = { 8 };
  g_autoptr (File) file = make_good ();
  g_autofree guint8 *copy = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (AsrWeights) weights = read_file (file, file->len, &copy, &error);
  guint n = 7;

  g_assert_no_error (error);
  g_assert_cmpstr (asr_weights_get_format (weights), ==, "ctranslate2");
  g_assert_cmpstr (asr_weights_get_path (weights), ==, "made.bin");
  g_assert_cmpuint (asr_weights_get_n_tensors (weights), ==, 8);
  assert_values (weights, "f32", six, 6);
  assert_values (weights, "i8", i8, 6);
  assert_values (weights, "alias", i8, 6);
  assert_values (weights, "second", i8, 6);
  assert_values (weights, "i16", i16, 2);
  assert_values (weights, "num_heads", heads, 1);
  g_assert_cmpuint (asr_weights_find (weights, "i8")->rank, ==, 2);
  g_assert_cmpuint (asr_weights_find (weights, "i8")->dims[1], ==, 3);
  g_assert_null (asr_weights_find (weights, "i9"));
  g_assert_null (asr_weights_get_vocabulary (weights, &n));
  g_assert_cmpuint (n, ==, 0);
  g_assert_null (asr_weights_get_ids (weights, "lang_ids", &n));
}

/* Older layouts: the size of an item and their number, from version 3 on
 * aliases. */
static void
test_old_versions (void)
{
  static const gint8 byte = 3;

  for (guint version = 2; version <= 3; version++) {
    g_autoptr (File) file = g_byte_array_new ();
    g_autofree guint8 *copy = NULL;
    g_autoptr (GError) error = NULL;
    g_autoptr (AsrWeights) weights = NULL;
    static const float three[] = { 3 };

    put_header (file, version, 2);
    put_shape (file, "x", 2, dims_2x3, 4);
    put_u32 (file, 6);
    g_byte_array_append (file, (const guint8 *) six, sizeof six);
    put_shape (file, "y", 0, NULL, 1);
    put_u32 (file, 1);
    put_u8 (file, byte);
    if (version == 3) {
      put_u32 (file, 1);
      put_string (file, "a");
      put_string (file, "x");
    }
    weights = read_file (file, file->len, &copy, &error);
    g_assert_no_error (error);
    assert_values (weights, version == 3 ? "a" : "x", six, 6);
    assert_values (weights, "y", three, 1);
  }
}

/* ---- Wrong headers ---- */

static void
test_header (void)
{
  static const char *const strangers[] = { "\x89PNG\r\n\x1a\n", "x", "\0\0",
    "version https://git-lfs.github.com/spec/v1", "<!DOCTYPE html>",
    "lmgg\x99\xca", "GGUF", "PK\x03\x04zip" };
  g_autoptr (File) file = g_byte_array_new ();

  assert_error (file, ASR_ERROR_CORRUPT, "empty");
  for (guint i = 0; i < G_N_ELEMENTS (strangers); i++) {
    g_byte_array_set_size (file, 0);
    g_byte_array_append (file, (const guint8 *) strangers[i],
        MAX (1, strlen (strangers[i])));
    assert_error (file, ASR_ERROR_UNSUPPORTED, "");
  }
  g_byte_array_set_size (file, 0);
  put_u32 (file, 7);
  put_string (file, "WhisperSpec");
  assert_error (file, ASR_ERROR_UNSUPPORTED, "binary version 7");
  g_byte_array_set_size (file, 0);
  put_u32 (file, 1);
  put_u32 (file, 1);
  assert_error (file, ASR_ERROR_UNSUPPORTED, "binary version 1");
  g_byte_array_set_size (file, 0);
  put_u32 (file, 6);
  put_string (file, "Transformer\xffSpec");
  put_u32 (file, 7);
  assert_error (file, ASR_ERROR_UNSUPPORTED, "Transformer");
  g_byte_array_set_size (file, 0);
  put_u32 (file, 6);
  put_string (file, "WhisperSpec");
  put_u32 (file, 4);
  assert_error (file, ASR_ERROR_UNSUPPORTED, "revision 4");
}

static void
test_counts (void)
{
  g_autoptr (File) file = g_byte_array_new ();

  put_header (file, 6, G_MAXUINT32);
  assert_error (file, ASR_ERROR_CORRUPT, "4294967295");
  g_byte_array_set_size (file, 0);
  put_header (file, 6, ASR_WEIGHTS_MAX_TENSORS + 1);
  assert_error (file, ASR_ERROR_CORRUPT, "65537");
  /* as many as may be, but the file ends */
  g_byte_array_set_size (file, 0);
  put_header (file, 6, ASR_WEIGHTS_MAX_TENSORS);
  assert_error (file, ASR_ERROR_CORRUPT, "only 0 of");
  g_byte_array_set_size (file, 0);
  put_header (file, 6, 0);
  put_u32 (file, G_MAXUINT32);
  assert_error (file, ASR_ERROR_CORRUPT, "the number of aliases");
}

/* ---- Wrong variables ---- */

static void
test_names (void)
{
  g_autoptr (File) file = g_byte_array_new ();
  g_autofree char *long_name = g_strnfill (ASR_WEIGHTS_MAX_NAME_BYTES, 'x');
  static const char *const unprintable[] = { "a b", "a\n", "\xff", "\x7f" };

  put_header (file, 6, 1);
  put_u16 (file, 0);
  assert_error (file, ASR_ERROR_CORRUPT, "has 0 bytes");
  g_byte_array_set_size (file, 0);
  put_header (file, 6, 1);
  put_string (file, "");
  assert_error (file, ASR_ERROR_CORRUPT, "has 1 bytes");
  g_byte_array_set_size (file, 0);
  put_header (file, 6, 1);
  put_u16 (file, 65535);
  assert_error (file, ASR_ERROR_CORRUPT, "has 65535 bytes");
  g_byte_array_set_size (file, 0);
  put_header (file, 6, 1);
  put_u16 (file, 2);
  put_u16 (file, 0x6161); /* no zero at the end */
  assert_error (file, ASR_ERROR_CORRUPT, "zero byte");
  g_byte_array_set_size (file, 0);
  put_header (file, 6, 1);
  put_u16 (file, 4);
  put_u32 (file, 0x00610061); /* a zero inside */
  put_u8 (file, 0);
  put_u8 (file, CT2_I8);
  put_u32 (file, 1);
  put_u8 (file, 0);
  assert_error (file, ASR_ERROR_CORRUPT, "printable");
  for (guint i = 0; i < G_N_ELEMENTS (unprintable); i++) {
    g_byte_array_set_size (file, 0);
    put_header (file, 6, 1);
    put_variable (file, unprintable[i], 0, NULL, CT2_I8, "", 1);
    assert_error (file, ASR_ERROR_CORRUPT, "printable");
  }
  g_byte_array_set_size (file, 0);
  put_header (file, 6, 2);
  put_variable (file, "same", 0, NULL, CT2_I8, "", 1);
  put_variable (file, "same", 0, NULL, CT2_I8, "", 1);
  assert_error (file, ASR_ERROR_CORRUPT, "twice");
  /* The longest name that may be. */
  g_byte_array_set_size (file, 0);
  put_header (file, 6, 1);
  put_variable (file, long_name, 0, NULL, CT2_I8, "", 1);
  put_u32 (file, 0);
  put_u8 (file, 1);
  assert_error (file, ASR_ERROR_CORRUPT, "1 bytes follow the end");
}

static void
test_shapes (void)
{
  static const struct {
    guint rank;
    guint32 dims[5];
    guint type;
    guint32 n_bytes;
    const char *part;
  } cases[] = {
    { 5, { 1, 1, 1, 1, 1 }, CT2_I8, 1, "rank 5" },
    { 255, { 0 }, CT2_I8, 1, "rank 255" },
    { 1, { 0 }, CT2_I8, 0, "is 0" },
    { 2, { 4, 0 }, CT2_F32, 0, "is 0" },
    { 0, { 0 }, 6, 4, "type 6" },
    { 0, { 0 }, 255, 4, "type 255" },
    { 1, { 3 }, CT2_F32, 11, "claims 11 bytes" },
    { 1, { 3 }, CT2_F32, 13, "take 12" },
    { 0, { 0 }, CT2_F32, 0, "take 4" },
    { 4, { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff }, CT2_I8, 1,
        "too large" },
    /* 2^64 elements are 0 to who multiplies without looking, */
    { 4, { 0x10000, 0x10000, 0x10000, 0x10000 }, CT2_I8, 0, "too large" },
    { 2, { 0x80000000, 0x80000000 }, CT2_F32, 0, "too large" },
    /* and 2^32 to who keeps 32 bits. */
    { 2, { 0x10000, 0x10000 }, CT2_I8, 0, "take 4294967296" },
    { 2, { 0xffff, 0x10001 }, CT2_I8, 0xffffffff, "are left" },
    { 1, { 1000 }, CT2_F16, 2000, "takes 2000 bytes" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (File) file = g_byte_array_new ();

    put_header (file, 6, 1);
    if (cases[i].rank <= 5) {
      put_shape (file, "x", cases[i].rank, cases[i].dims, cases[i].type);
      put_u32 (file, cases[i].n_bytes);
      g_byte_array_append (file, (const guint8 *) six, 16);
    } else {
      put_string (file, "x");
      put_u8 (file, cases[i].rank);
    }
    assert_error (file, ASR_ERROR_CORRUPT, cases[i].part);
  }
}

/* Versions before 4: the number of items times their size. */
static void
test_old_shapes (void)
{
  g_autoptr (File) file = g_byte_array_new ();

  put_header (file, 3, 1);
  put_shape (file, "x", 0, NULL, 8);
  put_u32 (file, 1);
  assert_error (file, ASR_ERROR_CORRUPT, "type 8");
  g_byte_array_set_size (file, 0);
  put_header (file, 3, 1);
  put_shape (file, "x", 0, NULL, 4);
  put_u32 (file, 0x40000001); /* 4 bytes to who keeps 32 bits */
  put_u32 (file, 0);
  assert_error (file, ASR_ERROR_CORRUPT, "claims 4294967300 bytes");
}

static void
check_scale (guint8 type, guint rank, const guint32 *dims, const void *scale,
    guint32 n_bytes, const char *part)
{
  g_autoptr (File) file = g_byte_array_new ();

  put_header (file, 6, 2);
  put_variable (file, "x", 2, dims_2x3, CT2_I8, six_int8, 6);
  put_variable (file, "x_scale", rank, dims, type, scale, n_bytes);
  put_u32 (file, 0);
  assert_error (file, ASR_ERROR_CORRUPT, part);
}

static void
test_scales (void)
{
  static const float zero[] = { 1, 0 }, negative[] = { -1, 1 };
  static const float nan[] = { 1, NAN }, infinite[] = { INFINITY, 1 };

  check_scale (CT2_F32, 0, NULL, six, 4, "has 1 factors, expected 2");
  check_scale (CT2_F32, 2, dims_2x3, six, 24, "has 6 factors");
  check_scale (CT2_F16, 1, dims_2, six, 4, "f32");
  check_scale (CT2_I8, 1, dims_2, six, 2, "f32");
  check_scale (CT2_F32, 1, dims_2, zero, 8, "factor 1");
  check_scale (CT2_F32, 1, dims_2, negative, 8, "factor 0");
  check_scale (CT2_F32, 1, dims_2, nan, 8, "factor 1");
  check_scale (CT2_F32, 1, dims_2, infinite, 8, "factor 0");
}

static void
check_alias (const char *alias, const char *target, const char *part)
{
  g_autoptr (File) file = g_byte_array_new ();

  put_header (file, 6, 1);
  put_variable (file, "x", 0, NULL, CT2_I8, "", 1);
  put_u32 (file, 2);
  put_string (file, alias);
  put_string (file, target);
  put_string (file, "b");
  put_string (file, "a");
  assert_error (file, ASR_ERROR_CORRUPT, part);
}

static void
test_aliases (void)
{
  check_alias ("a", "none", "\"none\", which is not there");
  check_alias ("a", "a", "\"a\", which is not there");
  check_alias ("a", "b", "\"b\", which is not there"); /* a loop */
  check_alias ("a", "\xff\n", "is not there");
  check_alias ("x", "x", "twice");
  check_alias ("a\t", "x", "printable");
  check_alias ("b", "x", "\"a\", which is not there");
}

/* ---- Cut and changed files ---- */

static void
test_cut_made (void)
{
  g_autoptr (File) file = make_good ();

  for (guint n = 0; n < file->len; n++) {
    g_autofree guint8 *copy = NULL;
    g_autoptr (GError) error = NULL;

    g_assert_null (read_file (file, n, &copy, &error));
    g_assert_nonnull (error);
    g_assert_nonnull (strstr (error->message, "made.bin"));
  }
}

static void
test_cut_tiny (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("TINY_MODEL"),
      "model.bin", NULL);
  g_autofree char *data = NULL;
  g_autoptr (File) file = g_byte_array_new ();
  gsize n_bytes;

  g_assert_true (g_file_get_contents (path, &data, &n_bytes, NULL));
  g_byte_array_append (file, (const guint8 *) data, n_bytes);
  for (guint i = 0; i < 500; i++) {
    /* the header byte by byte, then anywhere */
    guint n = i < 200 ? i : (guint) g_test_rand_int_range (200, n_bytes);
    g_autofree guint8 *copy = NULL;
    g_autoptr (GError) error = NULL;

    g_assert_null (read_file (file, n, &copy, &error));
    /* Less than a version number is of no known kind. */
    if (n >= 4 || n == 0)
      g_assert_error (error, ASR_ERROR, ASR_ERROR_CORRUPT);
    else
      g_assert_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED);
  }
}

/* Any byte changed to anything: an error or a model, never a crash, and what
 * views point to can be read. */
static void
test_changed (void)
{
  g_autoptr (File) good = make_good ();

  for (guint i = 0; i < 20000; i++) {
    g_autofree guint8 *copy = g_memdup2 (good->data, good->len);
    g_autoptr (AsrWeights) weights = NULL;
    float out[8];

    for (gint n = g_test_rand_int_range (1, 4); n > 0; n--)
      copy[g_test_rand_int_range (0, good->len)] = g_test_rand_int ();
    weights = asr_weights_read_bytes ("made.bin", copy, good->len, NULL);
    if (weights && asr_weights_find (weights, "i8"))
      asr_tensor_to_f32 (asr_weights_find (weights, "i8"), 0, 6, out);
  }
}

/* ---- Directories ---- */

typedef struct {
  char *directory;
} Fixture;

static void
write_file (const Fixture *fixture, const char *name, const char *text,
    gssize n_bytes)
{
  g_autofree char *path = g_build_filename (fixture->directory, name, NULL);

  g_assert_true (g_file_set_contents (path, text, n_bytes, NULL));
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  g_autoptr (File) file = make_good ();

  fixture->directory = g_dir_make_tmp ("asr-weights-XXXXXX", NULL);
  g_assert_nonnull (fixture->directory);
  write_file (fixture, "model.bin", (const char *) file->data, file->len);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GDir) entries = g_dir_open (fixture->directory, 0, NULL);
  const char *name;

  while ((name = g_dir_read_name (entries))) {
    g_autofree char *path = g_build_filename (fixture->directory, name, NULL);

    g_assert_cmpint (g_remove (path), ==, 0);
  }
  g_assert_cmpint (g_rmdir (fixture->directory), ==, 0);
  g_free (fixture->directory);
}

static AsrWeights *
open_fixture (const Fixture *fixture)
{
  g_autoptr (GError) error = NULL;
  AsrWeights *weights = asr_weights_open (fixture->directory, &error);

  g_assert_no_error (error);
  return weights;
}

static void
assert_open_error (const char *path, AsrError code, const char *part)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (AsrWeights) weights = asr_weights_open (path, &error);

  g_assert_null (weights);
  g_assert_error (error, ASR_ERROR, (gint) code);
  if (!strstr (error->message, part))
    g_error ("\"%s\" is not in \"%s\"", part, error->message);
}

static void
test_directory (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = g_build_filename (fixture->directory, "model.bin",
      NULL);
  g_autoptr (AsrWeights) first = open_fixture (fixture);
  g_autoptr (AsrWeights) second = asr_weights_open (path, NULL);

  g_assert_nonnull (second);
  g_assert_cmpstr (asr_weights_get_path (first), ==, path);
  assert_values (first, "f32", six, 6);
  asr_weights_drop_pages (first);
  assert_values (first, "f32", six, 6);
  assert_open_error ("/nonexistent/model", ASR_ERROR_NOT_FOUND,
      "/nonexistent/model");
  assert_open_error ("", ASR_ERROR_NOT_FOUND, "no such");
  assert_open_error ("/dev/null", ASR_ERROR_UNSUPPORTED, "regular");
  write_file (fixture, "model.bin", "", 0);
  assert_open_error (fixture->directory, ASR_ERROR_CORRUPT, "empty");
  g_assert_cmpint (g_remove (path), ==, 0);
  assert_open_error (fixture->directory, ASR_ERROR_NOT_FOUND, "model.bin");
  g_assert_cmpint (mkfifo (path, 0600), ==, 0);
  assert_open_error (fixture->directory, ASR_ERROR_UNSUPPORTED, "regular");
  g_assert_cmpint (g_remove (path), ==, 0);
  g_assert_cmpint (g_mkdir (path, 0700), ==, 0);
  assert_open_error (fixture->directory, ASR_ERROR_UNSUPPORTED, "regular");
}

static void
assert_token (const AsrWeights *weights, guint id, const char *bytes, gsize n)
{
  guint n_tokens;
  const AsrTokenBytes *tokens = asr_weights_get_vocabulary (weights,
      &n_tokens);

  g_assert_cmpuint (id, <, n_tokens);
  g_assert_cmpmem (tokens[id].bytes, tokens[id].length, bytes, n);
}

static void
test_vocabulary (Fixture *fixture, gconstpointer data)
{
  g_autoptr (AsrWeights) json = NULL;
  g_autoptr (AsrWeights) txt = NULL;
  guint n;

  /* Ġ is the blank, Ċ the line feed, Ā the zero byte; 日本 are no bytes. */
  write_file (fixture, "vocabulary.txt",
      "!\nĠthe\n\nĊ\nĀ\nÃ©\n<|endoftext|>\n日本", -1);
  txt = open_fixture (fixture);
  asr_weights_get_vocabulary (txt, &n);
  g_assert_cmpuint (n, ==, 8);
  assert_token (txt, 0, "!", 1);
  assert_token (txt, 1, " the", 4);
  assert_token (txt, 2, "", 0);
  assert_token (txt, 3, "\n", 1);
  assert_token (txt, 4, "", 1);
  assert_token (txt, 5, "é", 2);
  assert_token (txt, 6, "<|endoftext|>", 13);
  assert_token (txt, 7, "日本", 6);
  /* The list comes before the lines. */
  write_file (fixture, "vocabulary.json", "[\"Ġa\", \"\", \"\\u0120\"]", -1);
  json = open_fixture (fixture);
  asr_weights_get_vocabulary (json, &n);
  g_assert_cmpuint (n, ==, 3);
  assert_token (json, 0, " a", 2);
  assert_token (json, 1, "", 0);
  assert_token (json, 2, " ", 1);
}

static void
test_txt_ends (Fixture *fixture, gconstpointer data)
{
  static const struct {
    const char *text;
    guint n;
  } cases[]
      = { { "a", 1 }, { "a\n", 1 }, { "a\n\n", 2 }, { "\n", 1 }, { "\na", 2 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (AsrWeights) weights = NULL;
    guint n;

    write_file (fixture, "vocabulary.txt", cases[i].text, -1);
    weights = open_fixture (fixture);
    g_assert_nonnull (asr_weights_get_vocabulary (weights, &n));
    g_assert_cmpuint (n, ==, cases[i].n);
  }
}

static void
test_bad_vocabulary (Fixture *fixture, gconstpointer data)
{
  static const char *const bad_json[] = { "", "{}", "[", "[]", "[1]", "[null]",
    "[\"a\", [\"b\"]]", "\"a\"", "[\"\xff\"]", "null", "[\"a\"] x" };
  g_autoptr (GString) lines = g_string_new (NULL);

  write_file (fixture, "vocabulary.txt", "", 0);
  assert_open_error (fixture->directory, ASR_ERROR_CORRUPT, "0 tokens");
  write_file (fixture, "vocabulary.txt", "a\n\xff\n", -1);
  assert_open_error (fixture->directory, ASR_ERROR_CORRUPT, "UTF-8");
  for (guint i = 0; i <= ASR_WEIGHTS_MAX_TOKENS; i++)
    g_string_append_c (lines, '\n');
  write_file (fixture, "vocabulary.txt", lines->str, lines->len);
  assert_open_error (fixture->directory, ASR_ERROR_CORRUPT, "1048577 tokens");
  for (guint i = 0; i < G_N_ELEMENTS (bad_json); i++) {
    write_file (fixture, "vocabulary.json", bad_json[i], -1);
    assert_open_error (fixture->directory, ASR_ERROR_CORRUPT,
        "vocabulary.json");
  }
}

static void
test_config (Fixture *fixture, gconstpointer data)
{
  g_autoptr (AsrWeights) weights = NULL;
  const gint32 *ids;
  guint n;

  write_file (fixture, "config.json",
      "{\"suppress_ids\": [-1, 2, 2147483647], \"suppress_ids_begin\": [],"
      " \"alignment_heads\": [[3, 1], [4, 2]], \"lang_ids\": null,"
      " \"other\": {\"x\": [1.5]}}", -1);
  weights = open_fixture (fixture);
  ids = asr_weights_get_ids (weights, "suppress_ids", &n);
  g_assert_cmpuint (n, ==, 3);
  g_assert_true (ids[0] == -1 && ids[1] == 2 && ids[2] == G_MAXINT32);
  ids = asr_weights_get_ids (weights, "alignment_heads", &n);
  g_assert_cmpuint (n, ==, 4);
  g_assert_true (ids[0] == 3 && ids[1] == 1 && ids[2] == 4 && ids[3] == 2);
  asr_weights_get_ids (weights, "suppress_ids_begin", &n);
  g_assert_cmpuint (n, ==, 0);
  g_assert_null (asr_weights_get_ids (weights, "lang_ids", &n));
  g_assert_null (asr_weights_get_ids (weights, "other", &n));
}

static void
test_bad_config (Fixture *fixture, gconstpointer data)
{
  static const char *const bad[] = { "", " ", "[]", "null", "{", "{\"a\":}",
    "{\"suppress_ids\": 5}", "{\"suppress_ids\": {}}",
    "{\"suppress_ids\": [\"1\"]}", "{\"suppress_ids\": [1.5]}",
    "{\"suppress_ids\": [true]}", "{\"suppress_ids\": [null]}",
    "{\"suppress_ids\": [2147483648]}", "{\"suppress_ids\": [-2147483649]}",
    "{\"suppress_ids\": [99999999999999999999]}",
    "{\"suppress_ids\": [[1]]}", "{\"alignment_heads\": [1, 2]}",
    "{\"alignment_heads\": [[1]]}", "{\"alignment_heads\": [[1, 2, 3]]}",
    "{\"alignment_heads\": [[1, [2]]]}", "{\"lang_ids\": [1]", "\xff{}",
    "{\"a\": \"\xc3\"}", "/**/{}", "{\"a\": 'b'}", "# x\n{}", "\\{}" };
  g_autofree char *deep = g_strnfill (1 << 20, '[');
  g_autofree char *hidden = g_strconcat ("{\"a\": \"\\\"\", \"b\": ", deep,
      NULL);
  g_autoptr (GString) many = g_string_new ("{\"lang_ids\": [0");

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    write_file (fixture, "config.json", bad[i], -1);
    assert_open_error (fixture->directory, ASR_ERROR_CORRUPT, "config.json");
  }
  write_file (fixture, "config.json", deep, -1);
  assert_open_error (fixture->directory, ASR_ERROR_CORRUPT, "deep");
  write_file (fixture, "config.json", hidden, -1);
  assert_open_error (fixture->directory, ASR_ERROR_CORRUPT, "deep");
  for (guint i = 0; i < ASR_WEIGHTS_MAX_IDS; i++)
    g_string_append (many, ",0");
  g_string_append (many, "]}");
  write_file (fixture, "config.json", many->str, -1);
  assert_open_error (fixture->directory, ASR_ERROR_CORRUPT, "at most 65536");
}

static void
test_tiny (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (AsrWeights) weights = asr_weights_open (g_getenv ("TINY_MODEL"),
      &error);
  const AsrTensor *view;
  guint n;

  g_assert_no_error (error);
  view = asr_weights_find (weights, "decoder/projection/weight");
  g_assert_nonnull (view);
  asr_weights_get_vocabulary (weights, &n);
  g_assert_cmpuint (view->dims[0], ==, n);
  g_assert_cmpuint (view->dims[1], ==, 64);
  g_assert_nonnull (asr_weights_get_ids (weights, "suppress_ids", &n));
}

/* Pages of files that are resident, in bytes, as Linux counts them. */
static gint64
get_file_rss_bytes (void)
{
  g_autofree char *status = NULL;
  const char *line;

  if (!g_file_get_contents ("/proc/self/status", &status, NULL, NULL))
    return -1;
  line = strstr (status, "RssFile:");
  return line ? g_ascii_strtoll (line + strlen ("RssFile:"), NULL, 10) * 1024
              : -1;
}

/* What was read of a large file is resident, and after the drop it is not. */
static void
test_drop_pages (void)
{
  g_autoptr (AsrWeights) weights = open_model ("tiny.en");
  const AsrTensor *view;
  g_autofree float *out = NULL;
  gint64 before = get_file_rss_bytes (), after;
  float first, again;
  gsize n;

  if (!weights || before < 0)
    return;
  view = asr_weights_find (weights, "decoder/embeddings/weight");
  n = asr_tensor_get_n_elements (view);
  out = g_new (float, n);
  asr_tensor_to_f32 (view, 0, n, out);
  first = out[n / 2];
  g_assert_cmpint (get_file_rss_bytes () - before, >, view->n_bytes / 2);
  asr_weights_drop_pages (weights);
  after = get_file_rss_bytes ();
  g_assert_cmpint (after - before, <, (gint64) view->n_bytes / 10);
  asr_tensor_to_f32 (view, n / 2, 1, &again);
  g_assert_true (first == again);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/weights/good", test_good);
  g_test_add_func ("/weights/old-versions", test_old_versions);
  g_test_add_func ("/weights/header", test_header);
  g_test_add_func ("/weights/counts", test_counts);
  g_test_add_func ("/weights/names", test_names);
  g_test_add_func ("/weights/shapes", test_shapes);
  g_test_add_func ("/weights/old-shapes", test_old_shapes);
  g_test_add_func ("/weights/scales", test_scales);
  g_test_add_func ("/weights/aliases", test_aliases);
  g_test_add_func ("/weights/cut/made", test_cut_made);
  g_test_add_func ("/weights/cut/tiny", test_cut_tiny);
  g_test_add_func ("/weights/changed", test_changed);
  g_test_add ("/weights/directory", Fixture, NULL, set_up, test_directory,
      tear_down);
  g_test_add ("/weights/vocabulary", Fixture, NULL, set_up, test_vocabulary,
      tear_down);
  g_test_add ("/weights/txt-ends", Fixture, NULL, set_up, test_txt_ends,
      tear_down);
  g_test_add ("/weights/bad-vocabulary", Fixture, NULL, set_up,
      test_bad_vocabulary, tear_down);
  g_test_add ("/weights/config", Fixture, NULL, set_up, test_config,
      tear_down);
  g_test_add ("/weights/bad-config", Fixture, NULL, set_up, test_bad_config,
      tear_down);
  g_test_add_func ("/weights/tiny", test_tiny);
  g_test_add_func ("/weights/drop-pages", test_drop_pages);
  return g_test_run ();
}
