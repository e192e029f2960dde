/* SPDX-License-Identifier: MIT */
/*
 * Words and their times against what faster-whisper's own functions make of
 * the same tokens and frames (tests/data/words.json, written by
 * tests/tools/make_words_data.py), in scripts of all kinds.
 */
#include "engine/text/words.h"
#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#define N_TEXT 50257 /* of a multilingual vocabulary */
#define N_VOCAB 51865

/* ---- The data ---- */

/* Tokens that no case uses are empty. */
typedef struct {
  JsonNode *root;
  JsonArray *cases;
  AsrTokenBytes *tokens; /* [N_TEXT] */
  GPtrArray *bytes;      /* (element-type guint8*): theirs */
  AsrVocab *vocab;
} Data;

static void
read_token (JsonObject *object, const char *name, JsonNode *node,
    gpointer user_data)
{
  Data *data = user_data;
  const char *hex = json_node_get_string (node);
  gsize n = strlen (hex) / 2;
  guint8 *bytes = g_malloc (n + 1);
  guint id = (guint) g_ascii_strtoull (name, NULL, 10);

  g_assert_cmpuint (id, <, N_TEXT);
  for (gsize i = 0; i < n; i++)
    bytes[i] = (guint8) (g_ascii_xdigit_value (hex[2 * i]) * 16
        + g_ascii_xdigit_value (hex[2 * i + 1]));
  g_ptr_array_add (data->bytes, bytes);
  data->tokens[id] = (AsrTokenBytes){ bytes, (guint32) n };
}

static void
data_init (Data *data)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "words.json",
      NULL);
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) error = NULL;
  JsonObject *object;

  json_parser_load_from_file (parser, path, &error);
  g_assert_no_error (error);
  data->root = json_parser_steal_root (parser);
  object = json_node_get_object (data->root);
  data->cases = json_object_get_array_member (object, "cases");
  data->tokens = g_new0 (AsrTokenBytes, N_TEXT);
  data->bytes = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < N_TEXT; i++)
    data->tokens[i].bytes = (const guint8 *) "";
  json_object_foreach_member (json_object_get_object_member (object,
          "tokens"), read_token, data);
  data->vocab = asr_vocab_new (data->tokens, N_TEXT, N_VOCAB, &error);
  g_assert_no_error (error);
}

static void
data_clear (Data *data)
{
  asr_vocab_free (data->vocab);
  g_ptr_array_unref (data->bytes);
  g_free (data->tokens);
  json_node_unref (data->root);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Data, data_clear)

static double
get_number (JsonArray *array, guint i)
{
  return json_array_get_double_element (array, i);
}

/* As Python's round (x, 2). */
static double
round_2 (double x)
{
  char text[64];

  return g_ascii_strtod (g_ascii_formatd (text, sizeof text, "%.2f", x), NULL);
}

/* ---- One case ---- */

static GArray *
run_case (const Data *data, JsonObject *one, double *typical_s)
{
  JsonArray *ids = json_object_get_array_member (one, "ids");
  JsonArray *frames = json_object_get_array_member (one, "frames");
  JsonArray *values = json_object_get_array_member (one, "probabilities");
  guint n = json_array_get_length (ids);
  /* exactly as long as promised, so that a sanitizer sees any read beyond */
  g_autofree gint32 *some_ids = g_new (gint32, n);
  g_autofree gint16 *some_frames = g_new (gint16, n + 1);
  g_autofree float *probabilities = g_new (float, n);

  g_assert_cmpuint (json_array_get_length (frames), ==, n + 1);
  for (guint i = 0; i <= n; i++)
    some_frames[i] = (gint16) json_array_get_int_element (frames, i);
  for (guint i = 0; i < n; i++) {
    some_ids[i] = (gint32) json_array_get_int_element (ids, i);
    probabilities[i] = (float) get_number (values, i);
  }
  return asr_words_from_tokens (data->vocab, some_ids, n, some_frames,
      probabilities, json_object_get_string_member (one, "language"),
      typical_s);
}

/* What holds for any tokens: valid text, and every token in one word. */
static void
assert_sound (const GArray *words, guint n_tokens)
{
  guint next = 0;

  for (guint i = 0; i < words->len; i++) {
    const AsrTimedWord *word = &g_array_index (words, AsrTimedWord, i);

    g_assert_true (word->text[0] != '\0');
    g_assert_true (g_utf8_validate (word->text, -1, NULL));
    g_assert_cmpuint (word->first_token, ==, next);
    g_assert_cmpuint (word->n_tokens, >, 0);
    next += word->n_tokens;
  }
  g_assert_cmpuint (next, ==, n_tokens);
}

static void
assert_words (const GArray *words, JsonArray *expected)
{
  g_assert_cmpuint (words->len, ==, json_array_get_length (expected));
  for (guint i = 0; i < words->len; i++) {
    const AsrTimedWord *word = &g_array_index (words, AsrTimedWord, i);
    JsonArray *fields = json_array_get_array_element (expected, i);

    g_assert_cmpstr (word->text, ==,
        json_array_get_string_element (fields, 0));
    g_assert_cmpuint (word->first_token, ==,
        json_array_get_int_element (fields, 1));
    g_assert_cmpuint (word->n_tokens, ==,
        json_array_get_int_element (fields, 2));
    g_assert_cmpfloat_with_epsilon (word->start_s, get_number (fields, 3),
        2e-6);
    g_assert_cmpfloat_with_epsilon (word->end_s, get_number (fields, 4),
        2e-6);
    g_assert_cmpfloat_with_epsilon (word->probability,
        get_number (fields, 5), 1e-5);
  }
}

static void
assert_fitted (const GArray *words, const AsrSegmentTimes *segments,
    JsonArray *expected)
{
  guint first = 0;

  for (guint i = 0; i < json_array_get_length (expected); i++) {
    JsonArray *fields = json_array_get_array_element (expected, i);
    JsonArray *times = json_array_get_array_element (fields, 2);
    guint n = json_array_get_length (times);

    g_assert_cmpfloat_with_epsilon (segments[i].start_s,
        get_number (fields, 0), 2e-6);
    g_assert_cmpfloat_with_epsilon (segments[i].end_s,
        get_number (fields, 1), 2e-6);
    g_assert_cmpuint (segments[i].n_words, ==, n);
    g_assert_cmpuint (segments[i].first_word, ==, first);
    for (guint k = 0; k < n; k++) {
      const AsrTimedWord *word
          = &g_array_index (words, AsrTimedWord, first + k);
      JsonArray *time = json_array_get_array_element (times, k);

      g_assert_cmpfloat_with_epsilon (word->start_s, get_number (time, 0),
          2e-6);
      g_assert_cmpfloat_with_epsilon (word->end_s, get_number (time, 1),
          2e-6);
    }
    first += n;
  }
}

static void
check_fit (GArray *words, JsonObject *one, double typical_s)
{
  JsonArray *marks = json_object_get_array_member (one, "segments");
  guint n = json_array_get_length (marks);
  g_autofree AsrSegmentTimes *segments = g_new0 (AsrSegmentTimes, n);
  double offset = json_object_get_double_member (one, "offset");
  double last_speech_s = json_object_get_double_member (one, "last_speech");

  for (guint i = 0; i < n; i++) {
    JsonArray *mark = json_array_get_array_element (marks, i);

    segments[i].start_s = get_number (mark, 0);
    segments[i].end_s = get_number (mark, 1);
    segments[i].n_text_tokens = (guint) json_array_get_int_element (mark, 2);
  }
  for (guint i = 0; i < words->len; i++) {
    AsrTimedWord *word = &g_array_index (words, AsrTimedWord, i);

    word->start_s = round_2 (offset + word->start_s);
    word->end_s = round_2 (offset + word->end_s);
  }
  asr_words_fit_segments (words, segments, n, typical_s, &last_speech_s);
  assert_fitted (words, segments,
      json_object_get_array_member (one, "fitted"));
  g_assert_cmpfloat_with_epsilon (last_speech_s,
      json_object_get_double_member (one, "last_after"), 2e-6);
}

static void
test_faster_whisper (void)
{
  g_auto (Data) data = { 0 };
  guint n_whole = 0;

  data_init (&data);
  for (guint i = 0; i < json_array_get_length (data.cases); i++) {
    JsonObject *one = json_array_get_object_element (data.cases, i);
    double typical_s = -1;
    g_autoptr (GArray) words = run_case (&data, one, &typical_s);

    g_test_message ("case %u", i);
    assert_sound (words,
        json_array_get_length (json_object_get_array_member (one, "ids")));
    if (!json_object_has_member (one, "words"))
      continue;
    assert_words (words, json_object_get_array_member (one, "words"));
    g_assert_cmpfloat_with_epsilon (typical_s,
        json_object_get_double_member (one, "typical"), 2e-6);
    check_fit (words, one, typical_s);
    n_whole++;
  }
  g_assert_cmpuint (n_whole, >, 250);
}

/* ---- Bytes that are made here ---- */

enum { EMPTY = 256, SPACE_A, TWO_BYTES, N_MADE };

/* A token for each byte and some others. */
static AsrVocab *
make_vocab (AsrTokenBytes *tokens, guint8 *bytes)
{
  g_autoptr (GError) error = NULL;
  AsrVocab *vocab;

  for (guint i = 0; i < N_TEXT; i++)
    tokens[i] = (AsrTokenBytes){ bytes, 0 };
  for (guint i = 0; i < 256; i++) {
    bytes[i] = (guint8) i;
    tokens[i] = (AsrTokenBytes){ bytes + i, 1 };
  }
  tokens[SPACE_A] = (AsrTokenBytes){ (const guint8 *) " a", 2 };
  tokens[TWO_BYTES] = (AsrTokenBytes){ (const guint8 *) "\xe3\x81", 2 };
  vocab = asr_vocab_new (tokens, N_TEXT, N_VOCAB, &error);
  g_assert_no_error (error);
  return vocab;
}

static GArray *
run_ids (const AsrVocab *vocab, const gint32 *ids, guint n,
    const char *language)
{
  g_autofree gint16 *frames = g_new (gint16, n + 1);
  g_autofree float *probabilities = g_new (float, n);
  double typical_s = -1;
  GArray *words;

  for (guint i = 0; i <= n; i++)
    frames[i] = (gint16) (i * 5);
  for (guint i = 0; i < n; i++)
    probabilities[i] = 0.5f;
  words = asr_words_from_tokens (vocab, ids, n, frames, probabilities,
      language, &typical_s);
  g_assert_true (typical_s >= 0 && typical_s <= 0.7);
  return words;
}

static void
test_bytes (void)
{
  static const struct {
    const char *language;
    gint32 ids[8];
    guint n;
    const char *words[4];
  } table[] = {
    /* split over tokens */
    { "ja", { 0xe3, 0x81, 0x82, TWO_BYTES, 0x84 }, 5, { "あ", "い" } },
    { "en", { SPACE_A, 0xc3, 0xa9, SPACE_A }, 4, { " aé", " a" } },
    { "en", { 0xf0, 0x9f, 0x8e, 0x89 }, 4, { "🎉" } },
    /* never whole */
    { "en", { SPACE_A, 0xff, SPACE_A }, 3, { " a\uFFFD", " a" } },
    { "en", { SPACE_A, TWO_BYTES, SPACE_A }, 3, { " a\uFFFD", " a" } },
    { "en", { SPACE_A, TWO_BYTES }, 2, { " a\uFFFD" } },
    { "ja", { TWO_BYTES, 0x82, 0x82 }, 3, { "あ", "\uFFFD" } },
    { "ja", { 0xc3, 'x' }, 2, { "\uFFFD", "x" } },
    { "en", { SPACE_A, 0 }, 2, { " a\uFFFD" } },
    /* without text */
    { "en", { EMPTY, SPACE_A, EMPTY }, 3, { " a" } },
    { "en", { 'x', EMPTY, SPACE_A }, 3, { "x", " a" } },
    { "en", { EMPTY }, 0, { NULL } },
  };
  g_autofree AsrTokenBytes *tokens = g_new (AsrTokenBytes, N_TEXT);
  guint8 bytes[256];
  g_autoptr (AsrVocab) vocab = make_vocab (tokens, bytes);

  for (guint i = 0; i < G_N_ELEMENTS (table); i++) {
    g_autoptr (GArray) words = run_ids (vocab, table[i].ids, table[i].n,
        table[i].language);
    guint n = 0;

    for (; table[i].words[n]; n++) {
      g_assert_cmpuint (n, <, words->len);
      g_assert_cmpstr (g_array_index (words, AsrTimedWord, n).text, ==,
          table[i].words[n]);
    }
    g_assert_cmpuint (words->len, ==, n);
    assert_sound (words, table[i].n);
  }
}

/* Whatever a model may say, what comes out is sound. */
static void
test_random (void)
{
  static const char *const languages[] = { "en", "ja", "th", "" };
  guint32 seed = g_test_rand_int ();
  g_autoptr (GRand) source = g_rand_new_with_seed (seed);
  g_autofree AsrTokenBytes *tokens = g_new (AsrTokenBytes, N_TEXT);
  guint8 bytes[256];
  g_autoptr (AsrVocab) vocab = make_vocab (tokens, bytes);

  g_test_message ("seed %u", seed);
  for (guint i = 0; i < 2000; i++) {
    guint n = (guint) g_rand_int_range (source, 1, 40);
    g_autofree gint32 *ids = g_new (gint32, n);
    g_autoptr (GArray) words = NULL;

    for (guint k = 0; k < n; k++)
      ids[k] = g_rand_boolean (source)
          ? g_rand_int_range (source, 0, N_MADE)
          : g_rand_int_range (source, 0x80, 0xf5);
    words = run_ids (vocab, ids, n, languages[i % 4]);
    if (words->len > 0)
      assert_sound (words, n);
  }
}

/* Segments that have no words, and more tokens promised than there are. */
static void
test_odd_segments (void)
{
  g_autofree AsrTokenBytes *tokens = g_new (AsrTokenBytes, N_TEXT);
  guint8 bytes[256];
  g_autoptr (AsrVocab) vocab = make_vocab (tokens, bytes);
  const gint32 ids[] = { SPACE_A, SPACE_A, SPACE_A };
  g_autoptr (GArray) words = run_ids (vocab, ids, 3, "en");
  AsrSegmentTimes segments[] = { { 0, 1, 0 }, { 0, 0.2, 2 }, { 5, 6, 9 },
    { 7, 8, 2 } };
  double last_speech_s = 0;

  asr_words_fit_segments (words, segments, 0, 0.1, &last_speech_s);
  g_assert_true (last_speech_s == 0);
  asr_words_fit_segments (words, segments, 4, 0.1, &last_speech_s);
  g_assert_cmpuint (segments[0].n_words, ==, 0);
  g_assert_cmpuint (segments[1].n_words, ==, 2);
  g_assert_cmpuint (segments[2].first_word, ==, 2);
  g_assert_cmpuint (segments[2].n_words, ==, 1);
  g_assert_cmpuint (segments[3].n_words, ==, 0);
  g_assert_true (segments[3].start_s == 7 && segments[3].end_s == 8);
  g_assert_cmpfloat_with_epsilon (last_speech_s, 0.3, 1e-9);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/words/faster-whisper", test_faster_whisper);
  g_test_add_func ("/words/bytes", test_bytes);
  g_test_add_func ("/words/random", test_random);
  g_test_add_func ("/words/odd-segments", test_odd_segments);
  return g_test_run ();
}
