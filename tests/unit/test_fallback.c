/* SPDX-License-Identifier: MIT */
/*
 * The gates of the temperature ladder: limits and strictness as openai's
 * transcribe.py has them; compression ratios as Python's zlib gives them.
 */
#include "engine/decode/fallback.h"

static void
check_verdicts (void)
{
  static const struct {
    double avg, ratio, no_speech;
    AsrVerdict verdict;
  } cases[] = {
    { -0.3, 1.2, 0.05, ASR_VERDICT_ACCEPT },
    { -1.0, 2.4, 0.6, ASR_VERDICT_ACCEPT },  /* at the limits */
    { -1.01, 1.0, 0.6, ASR_VERDICT_RETRY },  /* unlikely text */
    { -1.01, 1.0, 0.61, ASR_VERDICT_SILENCE },
    { -0.5, 2.41, 0.9, ASR_VERDICT_RETRY },  /* repeats itself */
    { -0.5, 1.0, 0.99, ASR_VERDICT_ACCEPT }, /* likely text is believed */
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    AsrPassScore score = { cases[i].avg, cases[i].ratio, cases[i].no_speech };

    g_assert_cmpint (asr_fallback_judge (&score), ==, cases[i].verdict);
  }
}

static void
check_choice (void)
{
  const AsrPassScore some_repeat[]
      = { { -0.2, 9, 0 }, { -1.5, 2.0, 0 }, { -1.2, 2.4, 0 } };
  const AsrPassScore all_repeat[] = { { -0.9, 9, 0 }, { -0.2, 8, 0 } };

  g_assert_cmpuint (asr_fallback_choose (some_repeat, 3), ==, 2);
  g_assert_cmpuint (asr_fallback_choose (all_repeat, 2), ==, 1);
}

/* python3 -c 'import zlib; b = TEXT.strip().encode(); print (len (b),
 * len (zlib.compress (b)))' */
static void
check_ratio (void)
{
  g_assert_cmpfloat_with_epsilon (asr_fallback_get_compression_ratio (
      " He was not an ill-disposed young man."), 37.0 / 45, 1e-6);
  g_assert_cmpfloat (asr_fallback_get_compression_ratio ("  "), ==, 0);
  g_assert_cmpfloat (asr_fallback_get_compression_ratio (
      "la la la la la la la la la la la la la la la la la la la la"), >, 2.4);
}

static void
check_temperatures (void)
{
  for (guint i = 0; i < ASR_N_TEMPERATURES; i++)
    g_assert_cmpfloat_with_epsilon (asr_fallback_get_temperature (i),
        i / 5.0, 1e-6);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/fallback/verdicts", check_verdicts);
  g_test_add_func ("/fallback/choice", check_choice);
  g_test_add_func ("/fallback/ratio", check_ratio);
  g_test_add_func ("/fallback/temperatures", check_temperatures);
  return g_test_run ();
}
