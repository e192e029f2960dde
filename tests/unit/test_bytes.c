/* SPDX-License-Identifier: MIT */
/* Checked reads: values, order of bytes, and every border. */
#include "engine/util/bytes.h"
#include <string.h>

static void
test_values (void)
{
  static const guint8 data[] = { 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07,
    0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f };
  AsrBytes bytes = { "file", data, sizeof data, 0 };
  GError *error = NULL;
  guint8 u8;
  guint16 u16;
  guint32 u32;
  guint64 u64;

  g_assert_true (asr_bytes_read_u8 (&bytes, "a", &u8, &error));
  g_assert_cmphex (u8, ==, 0x01);
  g_assert_true (asr_bytes_read_u16 (&bytes, "b", &u16, &error));
  g_assert_cmphex (u16, ==, 0x0302);
  g_assert_true (asr_bytes_read_u32 (&bytes, "c", &u32, &error));
  g_assert_cmphex (u32, ==, 0x07060504);
  g_assert_true (asr_bytes_read_u64 (&bytes, "d", &u64, &error));
  g_assert_cmphex (u64, ==, 0x0f0e0d0c0b0a0908);
  g_assert_cmpuint (bytes.offset, ==, sizeof data);
  g_assert_no_error (error);
}

static void
assert_refused (AsrBytes *bytes, guint64 n)
{
  const guint8 *out = NULL;
  gsize offset = bytes->offset;
  GError *error = NULL;

  g_assert_false (asr_bytes_take (bytes, n, "the thing", &out, &error));
  g_assert_error (error, ASR_ERROR, ASR_ERROR_CORRUPT);
  g_assert_nonnull (strstr (error->message, "file"));
  g_assert_nonnull (strstr (error->message, "the thing"));
  g_assert_null (out);
  g_assert_cmpuint (bytes->offset, ==, offset);
  g_clear_error (&error);
}

static void
test_borders (void)
{
  static const guint8 data[4] = { 1, 2, 3, 4 };
  AsrBytes bytes = { "file", data, sizeof data, 0 };
  const guint8 *out;
  guint64 u64 = 7;
  guint32 u32 = 7;
  guint16 u16 = 7;
  guint8 u8 = 7;

  assert_refused (&bytes, 5);
  assert_refused (&bytes, G_MAXUINT64);
  g_assert_false (asr_bytes_read_u64 (&bytes, "x", &u64, NULL));
  g_assert_true (asr_bytes_take (&bytes, 1, "x", &out, NULL));
  g_assert_true (out == data);
  /* offset + n overflows */
  assert_refused (&bytes, G_MAXUINT64);
  assert_refused (&bytes, 4);
  g_assert_false (asr_bytes_read_u32 (&bytes, "x", &u32, NULL));
  g_assert_true (asr_bytes_take (&bytes, 2, "x", &out, NULL));
  g_assert_false (asr_bytes_read_u16 (&bytes, "x", &u16, NULL));
  g_assert_true (asr_bytes_take (&bytes, 1, "x", &out, NULL));
  g_assert_true (asr_bytes_take (&bytes, 0, "x", &out, NULL));
  g_assert_false (asr_bytes_read_u8 (&bytes, "x", &u8, NULL));
  assert_refused (&bytes, 1);
  g_assert_true (u64 == 7 && u32 == 7 && u16 == 7 && u8 == 7);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/bytes/values", test_values);
  g_test_add_func ("/bytes/borders", test_borders);
  return g_test_run ();
}
