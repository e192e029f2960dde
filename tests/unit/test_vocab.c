/* SPDX-License-Identifier: MIT */
/*
 * Vocabularies: special ids, non-speech lists, and encoding against what
 * Hugging Face's tokenizers gives (tests/data/encode.tsv, written by
 * tests/tools/make_encode_data.py).
 */
#include "engine/asr.h"
#include "engine/text/encode.h"
#include "engine/text/vocab.h"
#include "tests/unit/models.h"

#define N_TIMESTAMPS 1501

/* ---- A vocabulary that is made here ---- */

typedef struct {
  GPtrArray *text;   /* (element-type utf8) */
  GArray *tokens;    /* (element-type AsrTokenBytes) */
} Made;

static void
add_token (Made *made, const char *format, ...) G_GNUC_PRINTF (2, 3);

static void
add_token (Made *made, const char *format, ...)
{
  AsrTokenBytes token;
  va_list args;
  char *text;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_ptr_array_add (made->text, text);
  token.bytes = (const guint8 *) text;
  token.length = strlen (text);
  g_array_append_val (made->tokens, token);
}

static const char *const language_codes[] = {
  "en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt", "tr", "pl", "ca",
  "nl", "ar", "sv", "it", "id", "hi", "fi", "vi", "he", "uk", "el", "ms",
  "cs", "ro", "da", "hu", "ta", "no", "th", "ur", "hr", "bg", "lt", "la",
  "mi", "ml", "cy", "sk", "te", "fa", "lv", "bn", "sr", "az", "sl", "kn",
  "et", "mk", "br", "eu", "is", "hy", "ne", "mn", "bs", "kk", "sq", "sw",
  "gl", "mr", "pa", "si", "km", "sn", "yo", "so", "af", "oc", "ka", "be",
  "tg", "sd", "gu", "am", "yi", "lo", "uz", "fo", "ht", "ps", "tk", "nn",
  "mt", "sa", "lb", "my", "bo", "tl", "mg", "as", "tt", "haw", "ln", "ha",
  "ba", "jw", "su", "yue",
};

/* @n_text tokens "t0", "t1" ... and the special ones. */
static void
make (Made *made, guint n_text, guint n_languages, const char *no_speech)
{
  made->text = g_ptr_array_new_with_free_func (g_free);
  made->tokens = g_array_new (FALSE, FALSE, sizeof (AsrTokenBytes));
  for (guint i = 0; i < n_text; i++)
    add_token (made, "t%u", i);
  add_token (made, "<|endoftext|>");
  add_token (made, "<|startoftranscript|>");
  for (guint i = 0; i < n_languages; i++)
    add_token (made, "<|%s|>", language_codes[i]);
  add_token (made, "<|translate|>");
  add_token (made, "<|transcribe|>");
  add_token (made, "<|startoflm|>");
  add_token (made, "<|startofprev|>");
  add_token (made, "<|%s|>", no_speech);
  add_token (made, "<|notimestamps|>");
  for (guint i = 0; i < N_TIMESTAMPS; i++)
    add_token (made, "<|%.2f|>", i * 0.02);
}

static void
made_clear (Made *made)
{
  g_ptr_array_unref (made->text);
  g_array_unref (made->tokens);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Made, made_clear)

static AsrVocab *
new_vocab (const Made *made, guint n_tokens, guint n_vocab, GError **error)
{
  return asr_vocab_new ((const AsrTokenBytes *) made->tokens->data, n_tokens,
      n_vocab, error);
}

static void
test_made (void)
{
  g_auto (Made) made = { 0 };
  g_autoptr (AsrVocab) vocab = NULL;
  g_autoptr (GString) text = g_string_new (NULL);
  static const gint32 ids[] = { 3, 10, -1, 2, 11, 99999, 0, G_MAXINT32 };
  const AsrSpecialTokens *s;

  make (&made, 10, 99, "nospeech");
  vocab = new_vocab (&made, made.tokens->len, made.tokens->len, NULL);
  g_assert_nonnull (vocab);
  s = asr_vocab_get_special (vocab);
  g_assert_cmpint (s->n_vocab, ==, (gint) made.tokens->len);
  g_assert_cmpint (s->eot, ==, 10);
  g_assert_cmpint (s->sot, ==, 11);
  g_assert_cmpint (s->language_begin, ==, 12);
  g_assert_cmpuint (s->n_languages, ==, 99);
  g_assert_cmpint (s->translate, ==, 111);
  g_assert_cmpint (s->timestamp_begin, ==, 117);
  g_assert_true (s->multilingual);
  g_assert_cmpuint (asr_vocab_get_bytes (vocab, 10).length, ==, 0);
  g_assert_cmpuint (asr_vocab_get_bytes (vocab, -1).length, ==, 0);
  g_assert_cmpuint (asr_vocab_get_bytes (vocab, 100000).length, ==, 0);
  asr_vocab_append_text (vocab, ids, G_N_ELEMENTS (ids), text);
  g_assert_cmpstr (text->str, ==, "t3t2t0");
}

static void
test_made_100 (void)
{
  g_auto (Made) made = { 0 };
  g_autoptr (AsrVocab) vocab = NULL;

  make (&made, 0, 100, "nocaptions");
  vocab = new_vocab (&made, made.tokens->len, made.tokens->len + 7, NULL);
  g_assert_nonnull (vocab);
  g_assert_cmpuint (asr_vocab_get_special (vocab)->n_languages, ==, 100);
  g_assert_cmpint (asr_vocab_get_special (vocab)->eot, ==, 0);
}

static void
assert_no_vocab (const Made *made, guint n_tokens, guint n_vocab, gint code)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (new_vocab (made, n_tokens, n_vocab, &error));
  g_assert_error (error, ASR_ERROR, code);
}

static void
test_refused (void)
{
  g_auto (Made) made = { 0 };
  g_auto (Made) few = { 0 };
  AsrTokenBytes *tokens;
  guint n;

  make (&made, 10, 99, "nospeech");
  n = made.tokens->len;
  tokens = (AsrTokenBytes *) made.tokens->data;
  assert_no_vocab (&made, n, n - 1, ASR_ERROR_CORRUPT);
  assert_no_vocab (&made, n, G_MAXUINT, ASR_ERROR_CORRUPT);
  assert_no_vocab (&made, 0, n, ASR_ERROR_UNSUPPORTED);
  assert_no_vocab (&made, 11, n, ASR_ERROR_UNSUPPORTED);
  assert_no_vocab (&made, n - 1, n - 1, ASR_ERROR_UNSUPPORTED);
  /* The sizes of real models with the tokens of another. */
  assert_no_vocab (&made, n, 51864, ASR_ERROR_CORRUPT);
  tokens[112] = tokens[113];
  assert_no_vocab (&made, n, n, ASR_ERROR_CORRUPT);
  make (&few, 10, 98, "nospeech");
  assert_no_vocab (&few, few.tokens->len, few.tokens->len,
      ASR_ERROR_UNSUPPORTED);
}

/* ---- Splitting ---- */

static void
test_split (void)
{
  static const struct {
    const char *text;
    gsize n;
  } cases[] = { { "a", 1 }, { " a", 2 }, { "  a", 1 }, { " ", 1 },
    { "   ", 3 }, { "\ta", 1 }, { "\t\ta", 1 }, { "'s", 2 }, { "'sa", 2 },
    { "'S", 1 }, { " 's", 2 }, { "ab1", 2 }, { "12a", 2 }, { " 12a", 3 },
    { "!?a", 2 }, { " !?a", 3 }, { "é!", 2 }, { " \n a", 2 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_assert_cmpuint (asr_encode_next_piece (cases[i].text), ==, cases[i].n);
}

/* ---- Real models ---- */

static AsrVocab *
open_vocab (AsrWeights *weights)
{
  const AsrTokenBytes *tokens;
  g_autoptr (GError) error = NULL;
  AsrVocab *vocab;
  guint n;

  tokens = asr_weights_get_vocabulary (weights, &n);
  vocab = asr_vocab_new (tokens, n,
      asr_weights_find (weights, "decoder/embeddings/weight")->dims[0],
      &error);
  g_assert_no_error (error);
  return vocab;
}

static void
check_encode (const AsrVocab *vocab, const char *escaped, const char *line)
{
  g_autofree char *text = g_strcompress (escaped);
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr (GString) shown = g_string_new (NULL);
  g_autoptr (GString) back = g_string_new (NULL);

  asr_vocab_encode (vocab, text, ids);
  for (guint i = 0; i < ids->len; i++)
    g_string_append_printf (shown, "%s%d", i ? " " : "",
        g_array_index (ids, gint32, i));
  g_assert_cmpstr (shown->str, ==, line);
  asr_vocab_append_text (vocab, (gint32 *) ids->data, ids->len, back);
  g_assert_cmpstr (back->str, ==, text);
}

static void
test_encode (gconstpointer data)
{
  const char *model = data;
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "encode.tsv",
      NULL);
  g_autoptr (AsrWeights) weights = open_model (model);
  g_autoptr (AsrVocab) vocab = NULL;
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;
  guint n = 0;

  if (!weights)
    return;
  vocab = open_vocab (weights);
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] && lines[i][0]; i++) {
    g_auto (GStrv) fields = g_strsplit (lines[i], "\t", -1);

    g_assert_cmpuint (g_strv_length (fields), ==, 3);
    if (!g_str_equal (fields[0], model))
      continue;
    check_encode (vocab, fields[1], fields[2]);
    n++;
  }
  g_assert_cmpuint (n, >=, 150);
}

/* A run without blanks takes time in proportion to its length, and comes
 * back whole. */
static void
test_long_run (void)
{
  g_autoptr (AsrWeights) weights = open_model ("tiny.en");
  g_autoptr (AsrVocab) vocab = NULL;
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GString) back = g_string_new (NULL);
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));

  if (!weights)
    return;
  vocab = open_vocab (weights);
  for (guint i = 0; i < 20000; i++)
    g_string_append (text, "añb");
  asr_vocab_encode (vocab, text->str, ids);
  asr_vocab_append_text (vocab, (gint32 *) ids->data, ids->len, back);
  g_assert_cmpstr (back->str, ==, text->str);
}

static void
test_invalid_text (void)
{
  g_autoptr (AsrWeights) weights = open_model ("tiny.en");
  g_autoptr (AsrVocab) vocab = NULL;
  g_autoptr (GString) back = g_string_new (NULL);
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));

  if (!weights)
    return;
  vocab = open_vocab (weights);
  asr_vocab_encode (vocab, "a\xff b\xe3\x81", ids);
  asr_vocab_append_text (vocab, (gint32 *) ids->data, ids->len, back);
  g_assert_cmpstr (back->str, ==, "a\ufffd b\ufffd");
}

/* The lists that two other engines compute from these vocabularies; the
 * models' own configuration holds the same and the special tokens. */
static const gint32 non_speech_multilingual[] = { 1, 2, 7, 8, 9, 10, 14, 25,
  26, 27, 28, 29, 31, 58, 59, 60, 61, 62, 63, 90, 91, 92, 93, 359, 503, 522,
  542, 873, 893, 902, 918, 922, 931, 1350, 1853, 1982, 2460, 2627, 3246, 3253,
  3268, 3536, 3846, 3961, 4183, 4667, 6585, 6647, 7273, 9061, 9383, 10428,
  10929, 11938, 12033, 12331, 12562, 13793, 14157, 14635, 15265, 15618, 16553,
  16604, 18362, 18956, 20075, 21675, 22520, 26130, 26161, 26435, 28279, 29464,
  31650, 32302, 32470, 36865, 42863, 47425, 49870, 50254 };
static const gint32 non_speech_english[] = { 1, 2, 7, 8, 9, 10, 14, 25, 26, 27,
  28, 29, 31, 58, 59, 60, 61, 62, 63, 90, 91, 92, 93, 357, 366, 438, 532, 685,
  705, 796, 930, 1058, 1220, 1267, 1279, 1303, 1343, 1377, 1391, 1635, 1782,
  1875, 2162, 2361, 2488, 3467, 4008, 4211, 4600, 4808, 5299, 5855, 6329, 7203,
  9609, 9959, 10563, 10786, 11420, 11709, 11907, 13163, 13697, 13700, 14808,
  15306, 16410, 16791, 17992, 19203, 19510, 20724, 22305, 22935, 27007, 30109,
  30420, 33409, 34949, 40283, 40493, 40549, 47282, 49146 };

static void
check_non_speech (const AsrWeights *weights, const AsrVocab *vocab,
    const gint32 *expected, guint n_expected)
{
  const AsrSpecialTokens *s = asr_vocab_get_special (vocab);
  guint n, n_config;
  const gint32 *ids = asr_vocab_get_non_speech (vocab, &n);
  const gint32 *config = asr_weights_get_ids (weights, "suppress_ids",
      &n_config);

  g_assert_cmpmem (ids, n * sizeof *ids, expected,
      n_expected * sizeof *expected);
  g_assert_cmpuint (n_config, ==, n + 6);
  g_assert_cmpmem (config, n * sizeof *ids, ids, n * sizeof *ids);
  g_assert_cmpint (config[n], ==, s->sot);
  g_assert_cmpint (config[n + 1], ==, s->translate);
  g_assert_cmpint (config[n + 5], ==, s->no_speech);
}

static void
test_base (void)
{
  g_autoptr (AsrWeights) weights = open_model ("base");
  g_autoptr (AsrVocab) vocab = NULL;
  g_autoptr (AsrVocab) short_vocab = NULL;
  const AsrTokenBytes *tokens;
  const AsrSpecialTokens *s;
  guint n;

  if (!weights)
    return;
  vocab = open_vocab (weights);
  s = asr_vocab_get_special (vocab);
  g_assert_cmpint (s->eot, ==, 50257);
  g_assert_cmpint (s->sot, ==, 50258);
  g_assert_cmpint (s->language_begin, ==, 50259);
  g_assert_cmpint (s->translate, ==, 50358);
  g_assert_cmpint (s->no_speech, ==, 50362);
  g_assert_cmpint (s->no_timestamps, ==, 50363);
  g_assert_cmpint (s->timestamp_begin, ==, 50364);
  g_assert_true (s->multilingual);
  g_assert_cmpuint (asr_vocab_get_bytes (vocab, 50256).length, ==, 0);
  check_non_speech (weights, vocab, non_speech_multilingual,
      G_N_ELEMENTS (non_speech_multilingual));
  /* A vocabulary of text tokens alone, as other formats store it. */
  tokens = asr_weights_get_vocabulary (weights, &n);
  short_vocab = asr_vocab_new (tokens, 50257, 51866, NULL);
  g_assert_nonnull (short_vocab);
  s = asr_vocab_get_special (short_vocab);
  g_assert_cmpint (s->timestamp_begin, ==, 50365);
  g_assert_cmpuint (s->n_languages, ==, 100);
  /* and one that belongs to other weights. */
  g_assert_null (asr_vocab_new (tokens, n, 51866, NULL));
}

static void
test_tiny_en (void)
{
  g_autoptr (AsrWeights) weights = open_model ("tiny.en");
  g_autoptr (AsrVocab) vocab = NULL;
  const AsrSpecialTokens *s;

  if (!weights)
    return;
  vocab = open_vocab (weights);
  s = asr_vocab_get_special (vocab);
  g_assert_cmpint (s->eot, ==, 50256);
  g_assert_cmpint (s->no_speech, ==, 50361);
  g_assert_cmpint (s->timestamp_begin, ==, 50363);
  g_assert_false (s->multilingual);
  check_non_speech (weights, vocab, non_speech_english,
      G_N_ELEMENTS (non_speech_english));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/vocab/made", test_made);
  g_test_add_func ("/vocab/made-100", test_made_100);
  g_test_add_func ("/vocab/refused", test_refused);
  g_test_add_func ("/vocab/split", test_split);
  g_test_add_func ("/vocab/base", test_base);
  g_test_add_func ("/vocab/tiny-en", test_tiny_en);
  g_test_add_data_func ("/vocab/encode/base", "base", test_encode);
  g_test_add_data_func ("/vocab/encode/tiny-en", "tiny.en", test_encode);
  g_test_add_func ("/vocab/long-run", test_long_run);
  g_test_add_func ("/vocab/invalid-text", test_invalid_text);
  return g_test_run ();
}
