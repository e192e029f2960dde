/* SPDX-License-Identifier: MIT */
/*
 * The reader of safetensors files: a right one, every kind of wrong one, and
 * one cut anywhere.
 */
#include "engine/weights/reader.h"
#include <math.h>
#include <string.h>

typedef GByteArray File;
G_DEFINE_AUTOPTR_CLEANUP_FUNC (File, g_byte_array_unref)

static void
put_u64 (File *file, guint64 value)
{
  value = GUINT64_TO_LE (value);
  g_byte_array_append (file, (const guint8 *) &value, sizeof value);
}

/* A file of @header and @n_data bytes of data, which are 0, 1, 2 ... */
static File *
make_file (const char *header, guint n_data)
{
  File *file = g_byte_array_new ();

  put_u64 (file, strlen (header));
  g_byte_array_append (file, (const guint8 *) header, strlen (header));
  for (guint i = 0; i < n_data; i++) {
    guint8 byte = (guint8) i;

    g_byte_array_append (file, &byte, 1);
  }
  return file;
}

/* From memory of exactly its size, so that a sanitizer sees any read past
 * the end. */
static AsrWeights *
read_file (const File *file, gsize n_bytes, guint8 **copy, GError **error)
{
  *copy = g_memdup2 (file->data, n_bytes);
  return asr_weights_read_bytes ("made", *copy, n_bytes, error);
}

static void
assert_refused (const File *file, gsize n_bytes, const char *part)
{
  g_autofree guint8 *copy = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (AsrWeights) weights = read_file (file, n_bytes, &copy, &error);

  g_assert_null (weights);
  g_assert_true (error && error->domain == ASR_ERROR);
  if (!strstr (error->message, part) || !strstr (error->message, "made"))
    g_error ("\"%s\" is not in \"%s\"", part, error->message);
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
}

static void
assert_header_refused (const char *header, const char *part)
{
  g_autoptr (File) file = make_file (header, 16);

  assert_refused (file, file->len, part);
}

/* ---- Right files ---- */

static const char good[]
    = "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"a.weight\":{\"dtype\":\"I16\",\"shape\":[2,3],"
      "\"data_offsets\":[0,12]},"
      "\"b\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[13,16]},"
      "\"scalar\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[12,13]}} ";

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
  static const float a[] = { 256, 770, 1284, 1798, 2312, 2826 };
  static const float b[] = { 13, 14, 15 }, scalar[] = { 12 };
  g_autoptr (File) file = make_file (good, 16);
  g_autofree guint8 *copy = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (AsrWeights) weights = read_file (file, file->len, &copy, &error);
  guint n;

  g_assert_no_error (error);
  g_assert_cmpstr (asr_weights_get_format (weights), ==, "safetensors");
  g_assert_cmpuint (asr_weights_get_n_tensors (weights), ==, 3);
  assert_values (weights, "a.weight", a, 6);
  assert_values (weights, "b", b, 3);
  assert_values (weights, "scalar", scalar, 1);
  g_assert_cmpuint (asr_weights_find (weights, "a.weight")->rank, ==, 2);
  g_assert_cmpuint (asr_weights_find (weights, "a.weight")->dims[0], ==, 2);
  /* a view, no copy */
  g_assert_true ((const guint8 *) asr_weights_find (weights, "b")->data
      == copy + file->len - 3);
  g_assert_null (asr_weights_find (weights, "__metadata__"));
  g_assert_null (asr_weights_find (weights, "c"));
  g_assert_null (asr_weights_get_vocabulary (weights, &n));
}

/* Half floats, at an odd address. Values: IEEE 754. */
static void
test_types (void)
{
  static const guint8 data[] = { 0xff, 0x00, 0x3c, 0x00, 0xc0, 0x80, 0x3f,
    0x00, 0x00, 0x20, 0xc0, 0xfe, 0xff, 0xff, 0xff };
  static const float f16[] = { 1, -2 }, bf16[] = { 1 }, f32[] = { -2.5f };
  static const float i32[] = { -2 };
  static const char header[]
      = "{\"f16\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[1,5]},"
        "\"bf16\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[5,7]},"
        "\"f32\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[7,11]},"
        "\"i32\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[11,15]}}";
  g_autoptr (File) file = make_file (header, 0);
  g_autofree guint8 *copy = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (AsrWeights) weights = NULL;

  g_byte_array_append (file, data, sizeof data);
  weights = read_file (file, file->len, &copy, &error);
  g_assert_no_error (error);
  assert_values (weights, "f16", f16, 2);
  assert_values (weights, "bf16", bf16, 1);
  assert_values (weights, "f32", f32, 1);
  assert_values (weights, "i32", i32, 1);
}

/* Every cut is refused: the last byte of data belongs to a tensor. */
static void
test_cut (void)
{
  g_autoptr (File) file = make_file (good, 16);

  for (gsize n = 0; n < file->len; n++)
    assert_refused (file, n, "");
}

/* ---- Wrong headers ---- */

static void
test_header_length (void)
{
  static const guint64 lengths[] = { 0, 1, 2, 300, 1 << 24, (1 << 24) + 1,
    100000001, G_MAXINT64, G_MAXUINT64, G_MAXUINT64 - 7 };
  g_autoptr (File) file = make_file (good, 16);

  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++) {
    guint64 length = GUINT64_TO_LE (lengths[i]);

    memcpy (file->data, &length, sizeof length);
    if (lengths[i] != strlen (good))
      assert_refused (file, file->len, "");
  }
}

static void
test_json (void)
{
  g_autofree char *brackets = g_strnfill (100000, '[');
  g_autofree char *deep = g_strconcat ("{\"a\":", brackets, NULL);
  g_autofree char *braces = g_strnfill (100000, '{');

  assert_header_refused ("{", "");
  assert_header_refused ("{]", "");
  assert_header_refused ("{\"a\":1", "");
  assert_header_refused ("{\"a\" 1}", "");
  assert_header_refused ("{\"a\":1} {\"b\":1}", "");
  assert_header_refused ("{\"a\xff\":1}", "UTF-8");
  assert_header_refused (deep, "nested too deeply");
  assert_header_refused (braces, "nested too deeply");
  assert_header_refused ("{'a':1}", "not JSON");
  assert_header_refused ("{\"a\":1}", "not an object");
  assert_header_refused ("{\"a\":[]}", "not an object");
  assert_header_refused ("{\"a\":null}", "not an object");
  assert_header_refused ("{\"\xc3\xa9\":{}}", "not ASCII");
}

/* One entry "a" with these members. */
static void
assert_entry_refused (const char *members, const char *part)
{
  g_autofree char *header = g_strdup_printf ("{\"a\":{%s}}", members);

  assert_header_refused (header, part);
}

static void
test_members (void)
{
#define TYPE "\"dtype\":\"I8\","
#define SHAPE "\"shape\":[2],"
#define PLACE "\"data_offsets\":[0,2]"
  assert_entry_refused ("", "\"a\"");
  assert_entry_refused (SHAPE PLACE, "type \"(none)\"");
  assert_entry_refused ("\"dtype\":\"F64\"," SHAPE PLACE, "F64");
  assert_entry_refused ("\"dtype\":\"\"," SHAPE PLACE, "type \"\"");
  assert_entry_refused ("\"dtype\":8," SHAPE PLACE, "type");
  assert_entry_refused ("\"dtype\":[\"I8\"]," SHAPE PLACE, "type");
  assert_entry_refused ("\"dtype\":null," SHAPE PLACE, "type");
  assert_entry_refused ("\"dtype\":\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
      "\xc3\xa9\xc3\xa9\xc3\xa9" "1\xc3\xa9\"," SHAPE PLACE, "type");
  assert_entry_refused (TYPE PLACE, "shape");
  assert_entry_refused (TYPE "\"shape\":2," PLACE, "shape");
  assert_entry_refused (TYPE "\"shape\":[1.5]," PLACE, "shape");
  assert_entry_refused (TYPE "\"shape\":[\"2\"]," PLACE, "shape");
  assert_entry_refused (TYPE "\"shape\":[[2]]," PLACE, "shape");
  assert_entry_refused (TYPE "\"shape\":[null]," PLACE, "shape");
  assert_entry_refused (TYPE "\"shape\":[true]," PLACE, "shape");
  assert_entry_refused (TYPE "\"shape\":[-2]," PLACE, "shape");
  assert_entry_refused (TYPE "\"shape\":[0]," PLACE, "is 0");
  assert_entry_refused (TYPE "\"shape\":[1,1,1,1,1,1,1,1,2]," PLACE, "shape");
  assert_entry_refused (TYPE SHAPE "\"data_offsets\":[0]", "data");
  assert_entry_refused (TYPE SHAPE "\"data_offsets\":[0,2,4]", "data");
  assert_entry_refused (TYPE SHAPE "\"data_offsets\":{}", "data");
  assert_entry_refused (TYPE "\"shape\":[2]", "data");
}

static void
test_places (void)
{
  assert_entry_refused (TYPE SHAPE "\"data_offsets\":[0,1]", "16 bytes");
  assert_entry_refused (TYPE SHAPE "\"data_offsets\":[0,3]", "16 bytes");
  assert_entry_refused (TYPE SHAPE "\"data_offsets\":[2,0]", "16 bytes");
  assert_entry_refused (TYPE SHAPE "\"data_offsets\":[15,17]", "16 bytes");
  assert_entry_refused (TYPE SHAPE "\"data_offsets\":[-2,0]", "data_offsets");
  assert_entry_refused (TYPE SHAPE "\"data_offsets\":[999999999999999998,"
      "1000000000000000000]", "too long");
  assert_entry_refused (TYPE SHAPE "\"data_offsets\":[999999999999999997,"
      "999999999999999999]", "16 bytes");
  assert_entry_refused (TYPE SHAPE "\"data_offsets\":[0,2e0]", "data_offsets");
}

static void
test_sizes (void)
{
  assert_entry_refused (TYPE "\"shape\":[4294967295]," PLACE, "16 bytes");
  assert_entry_refused (TYPE "\"shape\":[4294967296]," PLACE, "4294967296");
  assert_entry_refused (TYPE "\"shape\":[18446744073709551618]," PLACE,
      "too long");
  /* products that wrap around to the right size */
  assert_entry_refused (TYPE "\"shape\":[4294967295,4294967295,"
      "4294967295,4294967295]," PLACE, "");
  assert_entry_refused ("\"dtype\":\"I16\",\"shape\":[2147483648,4294967295,"
      "2]," PLACE, "");
}

static void
test_overlaps (void)
{
#define ENTRY(name, n, from, to) \
  "\"" name "\":{\"dtype\":\"I8\",\"shape\":[" n "]," \
  "\"data_offsets\":[" from "," to "]}"
  assert_header_refused ("{" ENTRY ("a", "4", "0", "4") ","
      ENTRY ("b", "4", "3", "7") "}", "share bytes");
  assert_header_refused ("{" ENTRY ("a", "1", "9", "10") ","
      ENTRY ("b", "16", "0", "16") "}", "share bytes");
  assert_header_refused ("{" ENTRY ("a", "4", "4", "8") ","
      ENTRY ("b", "4", "4", "8") "}", "share bytes");
}

static void
test_names (void)
{
  g_autofree char *long_name = g_strnfill (ASR_WEIGHTS_MAX_NAME_BYTES + 1,
      'x');
  g_autofree char *header = g_strdup_printf ("{\"%s\":{\"dtype\":\"I8\","
      "\"shape\":[2],\"data_offsets\":[0,2]}}", long_name);

  assert_header_refused (header, "513 bytes");
  assert_header_refused ("{" ENTRY ("", "2", "0", "2") "}", "0 bytes");
  assert_header_refused ("{" ENTRY ("a b", "2", "0", "2") "}", "printable");
  assert_header_refused ("{" ENTRY ("a\\n", "2", "0", "2") "}", "printable");
}

static void
test_too_many (void)
{
  g_autoptr (GString) header = g_string_new ("{\"t\":0");
  g_autofree char *number = NULL;

  for (guint i = 0; i < ASR_WEIGHTS_MAX_TENSORS; i++)
    g_string_append_printf (header, ",\"t%u\":0", i);
  g_string_append_c (header, '}');
  number = g_strdup_printf ("%d tensors", ASR_WEIGHTS_MAX_TENSORS + 1);
  assert_header_refused (header->str, number);
}

/* Single bytes changed everywhere: read or refused, never worse. */
static void
test_changed_bytes (void)
{
  static const guint8 values[] = { 0, '"', '9', '-', '{', ']', 0x80, 0xff };
  g_autoptr (File) file = make_file (good, 16);
  guint n_read = 0;

  for (guint i = 0; i < file->len; i++) {
    guint8 before = file->data[i];

    for (guint k = 0; k < G_N_ELEMENTS (values); k++) {
      g_autofree guint8 *copy = NULL;
      g_autoptr (GError) error = NULL;
      g_autoptr (AsrWeights) weights = NULL;

      file->data[i] = values[k];
      weights = read_file (file, file->len, &copy, &error);
      g_assert_true ((weights == NULL) == (error != NULL));
      n_read += weights != NULL;
    }
    file->data[i] = before;
  }
  g_assert_cmpuint (n_read, >, 100);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/safetensors/good", test_good);
  g_test_add_func ("/safetensors/types", test_types);
  g_test_add_func ("/safetensors/cut", test_cut);
  g_test_add_func ("/safetensors/header-length", test_header_length);
  g_test_add_func ("/safetensors/json", test_json);
  g_test_add_func ("/safetensors/members", test_members);
  g_test_add_func ("/safetensors/places", test_places);
  g_test_add_func ("/safetensors/sizes", test_sizes);
  g_test_add_func ("/safetensors/overlaps", test_overlaps);
  g_test_add_func ("/safetensors/names", test_names);
  g_test_add_func ("/safetensors/too-many", test_too_many);
  g_test_add_func ("/safetensors/changed-bytes", test_changed_bytes);
  return g_test_run ();
}
