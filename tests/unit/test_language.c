/* SPDX-License-Identifier: MIT */
/* Language codes: lookups, and the order against the tokens of real models. */
#include "engine/text/language.h"
#include "tests/unit/models.h"

static void
test_find (void)
{
  g_assert_cmpint (asr_language_find ("en"), ==, 0);
  g_assert_cmpint (asr_language_find ("EN"), ==, 0);
  g_assert_cmpint (asr_language_find ("en-US"), ==, 0);
  g_assert_cmpint (asr_language_find ("en_US"), ==, 0);
  g_assert_cmpint (asr_language_find ("English"), ==, 0);
  g_assert_cmpint (asr_language_find ("zh-Hans-CN"), ==, 1);
  g_assert_cmpint (asr_language_find ("de"), ==, 2);
  g_assert_cmpint (asr_language_find ("yue"), ==, 99);
  g_assert_cmpint (asr_language_find ("haitian creole"), ==, 80);
  g_assert_cmpint (asr_language_find (""), ==, -1);
  g_assert_cmpint (asr_language_find ("-"), ==, -1);
  g_assert_cmpint (asr_language_find ("e"), ==, -1);
  g_assert_cmpint (asr_language_find ("eng"), ==, -1);
  g_assert_cmpint (asr_language_find ("english-US"), ==, -1);
  g_assert_cmpint (asr_language_find ("xx"), ==, -1);
  g_assert_cmpint (asr_language_find ("auto"), ==, -1);
  g_assert_null (asr_language_get_code (ASR_N_LANGUAGES));
  g_assert_null (asr_language_get_code (G_MAXUINT));
}

static void
test_unspaced (void)
{
  static const char *const unspaced[]
      = { "zh", "ja", "th", "lo", "my", "yue" };
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (unspaced); i++)
    g_assert_true (asr_language_is_unspaced (unspaced[i]));
  for (guint i = 0; i < ASR_N_LANGUAGES; i++)
    n += asr_language_is_unspaced (asr_language_get_code (i));
  g_assert_cmpuint (n, ==, G_N_ELEMENTS (unspaced));
  g_assert_false (asr_language_is_unspaced (""));
}

/* Every code once, and found again. */
static void
test_codes (void)
{
  for (guint i = 0; i < ASR_N_LANGUAGES; i++) {
    const char *code = asr_language_get_code (i);

    g_assert_nonnull (code);
    g_assert_cmpint (asr_language_find (code), ==, (gint) i);
  }
}

static void
test_model (void)
{
  g_autoptr (AsrWeights) weights = open_model ("base");
  const AsrTokenBytes *tokens;
  guint n_tokens;

  if (!weights)
    return;
  tokens = asr_weights_get_vocabulary (weights, &n_tokens);
  g_assert_cmpuint (n_tokens, >, 50358);
  for (guint i = 0; i < 99; i++) {
    g_autofree char *spelling = g_strdup_printf ("<|%s|>",
        asr_language_get_code (i));

    g_assert_cmpmem (tokens[50259 + i].bytes, tokens[50259 + i].length,
        spelling, strlen (spelling));
  }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/language/find", test_find);
  g_test_add_func ("/language/unspaced", test_unspaced);
  g_test_add_func ("/language/codes", test_codes);
  g_test_add_func ("/language/model", test_model);
  return g_test_run ();
}
