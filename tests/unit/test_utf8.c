/* SPDX-License-Identifier: MIT */
/*
 * UTF-8 in pieces against what Python's decoder made of the same bytes
 * (tests/data/utf8.tsv, written by tests/tools/make_utf8_data.py).
 */
#include "engine/util/utf8.h"
#include <string.h>

/* @hex as bytes. Returns: (transfer full) */
static GString *
from_hex (const char *hex)
{
  GString *bytes = g_string_new (NULL);

  for (; hex[0] && hex[1]; hex += 2)
    g_string_append_c (bytes, (char) (g_ascii_xdigit_value (hex[0]) * 16
        + g_ascii_xdigit_value (hex[1])));
  return bytes;
}

static void
assert_append (const GString *bytes, gboolean final, const char *hex,
    gsize n_used)
{
  g_autoptr (GString) expected = from_hex (hex);
  g_autoptr (GString) text = g_string_new (NULL);
  gsize used = asr_utf8_append (text, (const guint8 *) bytes->str, bytes->len,
      final);

  g_assert_cmpmem (text->str, text->len, expected->str, expected->len);
  g_assert_cmpuint (used, ==, n_used);
  g_assert_true (g_utf8_validate (text->str, -1, NULL));
}

static void
check_line (char **fields)
{
  g_autoptr (GString) bytes = from_hex (fields[0]);
  gsize n_valid = 99, n_tail = 99;
  gsize valid = g_ascii_strtoull (fields[1], NULL, 10);
  gsize kept = g_ascii_strtoull (fields[2], NULL, 10);

  asr_utf8_scan ((const guint8 *) bytes->str, bytes->len, &n_valid, &n_tail);
  g_assert_cmpuint (n_valid, ==, valid);
  /* A tail after something invalid is none to the scan, which stops there. */
  g_assert_cmpuint (n_tail, ==, valid + kept == bytes->len ? kept : 0);
  assert_append (bytes, FALSE, fields[3], bytes->len - kept);
  assert_append (bytes, TRUE, fields[4], bytes->len);
}

static void
test_python (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "utf8.tsv",
      NULL);
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;
  guint n = 0;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] && lines[i][0]; i++) {
    g_auto (GStrv) fields = g_strsplit (lines[i], "\t", -1);

    g_assert_cmpuint (g_strv_length (fields), ==, 5);
    check_line (fields);
    n++;
  }
  g_assert_cmpuint (n, >=, 400);
}

/* However a text is cut into pieces, what comes out is the same. */
static void
test_pieces (void)
{
  static const char text[] = "aé日🎵\xff\xe3\x81z\xf0\x9f";
  gsize n = sizeof text - 1;
  g_autoptr (GString) whole = g_string_new (NULL);

  asr_utf8_append (whole, (const guint8 *) text, n, TRUE);
  g_assert_cmpstr (whole->str, ==, "aé日🎵\ufffd\ufffdz\ufffd");
  for (gsize cut = 0; cut <= n; cut++) {
    g_autoptr (GString) out = g_string_new (NULL);
    gsize used = asr_utf8_append (out, (const guint8 *) text, cut, FALSE);

    asr_utf8_append (out, (const guint8 *) text + used, n - used, TRUE);
    g_assert_cmpstr (out->str, ==, whole->str);
  }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/utf8/python", test_python);
  g_test_add_func ("/utf8/pieces", test_pieces);
  return g_test_run ();
}
