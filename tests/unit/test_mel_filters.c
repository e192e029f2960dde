/* SPDX-License-Identifier: MIT */
/*
 * The mel filter bank against the one that transformers' feature extractor
 * makes (tests/data/mel_filters.tsv, written by
 * tests/tools/make_mel_filter_data.py).
 */
#include "engine/audio/mel.h"
#include <math.h>
#include <stdlib.h>

/* A line: number of bands, band, bin, weight; those that are not 0. */
static void
check_bank (guint n_mels)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST,
      "mel_filters.tsv", NULL);
  g_autofree char *text = NULL;
  g_autofree float *filters = g_new (float, n_mels * ASR_MEL_BINS + 1);
  g_auto (GStrv) lines = NULL;
  guint n = 0, n_not_zero = 0;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  filters[n_mels * ASR_MEL_BINS] = 1234;
  asr_mel_fill_filters (n_mels, filters);
  g_assert_true (filters[n_mels * ASR_MEL_BINS] == 1234);
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] && lines[i][0]; i++) {
    g_auto (GStrv) fields = g_strsplit (lines[i], "\t", -1);
    double expected, got;

    g_assert_cmpuint (g_strv_length (fields), ==, 4);
    if ((guint) atoi (fields[0]) != n_mels)
      continue;
    got = filters[atoi (fields[1]) * ASR_MEL_BINS + atoi (fields[2])];
    expected = g_ascii_strtod (fields[3], NULL);
    g_assert_cmpfloat (fabs (got - expected), <, 1e-8);
    n++;
  }
  g_assert_cmpuint (n, >, n_mels);
  for (guint i = 0; i < n_mels * ASR_MEL_BINS; i++) {
    g_assert_true (filters[i] >= 0);
    n_not_zero += filters[i] > 1e-8f;
  }
  g_assert_cmpuint (n_not_zero, <=, n);
}

static void
test_80 (void)
{
  check_bank (80);
}

static void
test_128 (void)
{
  check_bank (128);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/mel-filters/80", test_80);
  g_test_add_func ("/mel-filters/128", test_128);
  return g_test_run ();
}
