/* SPDX-License-Identifier: MIT */
/*
 * The vocabulary of a Whisper model: special ids, token bytes, and the ids
 * that are never speech. In: token bytes and the rows of the embedding.
 * Text to ids is in encode.c.
 */
#include "engine/asr.h"
#include "engine/text/encode.h"
#include "engine/text/language.h"
#include "engine/text/vocab.h"
#include <string.h>

#define N_TIMESTAMPS 1501
#define MAX_VOCAB (1u << 24)
#define N_VOCAB_ENGLISH 51864 /* a token less than the multilingual ones */

struct _AsrVocab {
  const AsrTokenBytes *tokens;
  guint n_tokens;
  AsrSpecialTokens special;
  AsrEncoder *encoder;
  GArray *non_speech;
};

/* Whether the token at @id is @spelling. */
static gboolean
is_spelled (const AsrVocab *vocab, gint64 id, const char *spelling)
{
  gsize n = strlen (spelling);

  return id >= 0 && id < vocab->n_tokens && vocab->tokens[id].length == n
      && memcmp (vocab->tokens[id].bytes, spelling, n) == 0;
}

/* The end of text that the tokens spell; the last one, since what follows
 * it is not text. -1: none. */
static gint32
find_end_of_text (const AsrVocab *vocab)
{
  for (gint64 id = (gint64) vocab->n_tokens - 1; id >= 0; id--) {
    if (is_spelled (vocab, id, "<|endoftext|>"))
      return (gint32) id;
  }
  return -1;
}

static gboolean
is_language (const AsrVocab *vocab, gint32 id, guint index)
{
  g_autofree char *spelling = g_strdup_printf ("<|%s|>",
      asr_language_get_code (index));

  return is_spelled (vocab, id, spelling);
}

/* All special ids follow from the first one and the number of languages. */
static void
lay_out (AsrSpecialTokens *special, gint32 n_vocab, gint32 eot,
    guint n_languages)
{
  gint32 after = eot + 2 + (gint32) n_languages;

  special->n_vocab = n_vocab;
  special->eot = eot;
  special->sot = eot + 1;
  special->language_begin = eot + 2;
  special->n_languages = n_languages;
  special->translate = after;
  special->transcribe = after + 1;
  special->start_of_lm = after + 2;
  special->start_of_prev = after + 3;
  special->no_speech = after + 4;
  special->no_timestamps = after + 5;
  special->timestamp_begin = after + 6;
  special->multilingual = n_vocab != N_VOCAB_ENGLISH;
}

/* Models of other sizes (fine-tuned, generated) must spell their tokens. */
static gboolean
choose_layout (AsrVocab *vocab, guint n_vocab, GError **error)
{
  static const struct {
    gint32 n_vocab, eot;
    guint n_languages;
  } known[] = { { N_VOCAB_ENGLISH, 50256, 99 }, { 51865, 50257, 99 },
    { 51866, 50257, 100 } };
  guint n_languages = 0;
  gint32 eot;

  for (guint i = 0; i < G_N_ELEMENTS (known); i++) {
    if ((guint) known[i].n_vocab == n_vocab) {
      lay_out (&vocab->special, known[i].n_vocab, known[i].eot,
          known[i].n_languages);
      return TRUE;
    }
  }
  eot = find_end_of_text (vocab);
  while (eot >= 0 && n_languages < ASR_N_LANGUAGES
      && is_language (vocab, eot + 2 + (gint32) n_languages, n_languages))
    n_languages++;
  if (n_languages < ASR_N_LANGUAGES - 1
      || (guint) eot + n_languages + 8 + N_TIMESTAMPS > n_vocab) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
        "the vocabulary of %u tokens has no layout of special tokens that is "
        "known: %s, %u languages after it, %u embeddings", vocab->n_tokens,
        eot < 0 ? "no <|endoftext|>" : "<|endoftext|>", n_languages, n_vocab);
    return FALSE;
  }
  lay_out (&vocab->special, (gint32) n_vocab, eot, n_languages);
  return TRUE;
}

/* Where the vocabulary reaches the special tokens, it must spell them; older
 * vocabularies call the no-speech token otherwise. */
static gboolean
check_spelling (const AsrVocab *vocab, GError **error)
{
  const AsrSpecialTokens *s = &vocab->special;
  const struct {
    gint32 id;
    const char *spelling;
    const char *older;
  } expected[] = {
    { s->eot, "<|endoftext|>", NULL },
    { s->sot, "<|startoftranscript|>", NULL },
    { s->language_begin, "<|en|>", NULL },
    { s->translate, "<|translate|>", NULL },
    { s->transcribe, "<|transcribe|>", NULL },
    { s->start_of_lm, "<|startoflm|>", NULL },
    { s->start_of_prev, "<|startofprev|>", NULL },
    { s->no_speech, "<|nospeech|>", "<|nocaptions|>" },
    { s->no_timestamps, "<|notimestamps|>", NULL },
    { s->timestamp_begin, "<|0.00|>", NULL },
    { s->timestamp_begin + N_TIMESTAMPS - 1, "<|30.00|>", NULL },
  };

  if (vocab->n_tokens < (guint) s->eot) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
        "the vocabulary has %u tokens, but a model of %d has %d of text; "
        "vocabulary and weights are not of the same model", vocab->n_tokens,
        s->n_vocab, s->eot);
    return FALSE;
  }
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++) {
    gint32 id = expected[i].id;

    if (id >= (gint64) vocab->n_tokens
        || is_spelled (vocab, id, expected[i].spelling)
        || (expected[i].older && is_spelled (vocab, id, expected[i].older)))
      continue;
    g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
        "token %d of the vocabulary should be %s for a model of %d tokens; "
        "vocabulary and weights are not of the same model", id,
        expected[i].spelling, s->n_vocab);
    return FALSE;
  }
  return TRUE;
}

static void
add_if_new (GArray *ids, gint32 id)
{
  for (guint i = 0; i < ids->len; i++) {
    if (g_array_index (ids, gint32, i) == id)
      return;
  }
  g_array_append_val (ids, id);
}

static gint
compare_ids (gconstpointer a, gconstpointer b)
{
  gint32 first = *(const gint32 *) a, second = *(const gint32 *) b;

  return (first > second) - (first < second);
}

/* A sign counts when one token says it, with or without a blank before it;
 * @always: its first token counts all the same. */
static void
add_sign (AsrVocab *vocab, const char *sign, gboolean always)
{
  g_autofree char *blank = g_strconcat (" ", sign, NULL);
  const char *forms[] = { sign, blank };

  for (guint i = 0; i < G_N_ELEMENTS (forms); i++) {
    g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));

    asr_encoder_encode (vocab->encoder, forms[i], ids);
    if (ids->len == 1 || (always && ids->len > 1))
      add_if_new (vocab->non_speech, g_array_index (ids, gint32, 0));
  }
}

/* The signs that openai/whisper keeps out of speech: brackets, markup and
 * music, but not the hyphen and apostrophe inside words. */
static void
find_non_speech (AsrVocab *vocab)
{
  static const char *const signs[] = { "\"", "#", "(", ")", "*", "+", "/",
    ":", ";", "<", "=", ">", "@", "[", "\\", "]", "^", "_", "`", "{", "|",
    "}", "~", "「", "」", "『", "』", "<<", ">>", "<<<", ">>>", "--", "---",
    "-(", "-[", "('", "(\"", "((", "))", "(((", ")))", "[[", "]]", "{{",
    "}}", "♪♪", "♪♪♪" };
  static const char *const music[] = { "♩", "♪", "♫", "♬", "♭", "♮", "♯" };
  static const char *const dashes[] = { " -", " '" };

  vocab->non_speech = g_array_new (FALSE, FALSE, sizeof (gint32));
  for (guint i = 0; i < G_N_ELEMENTS (dashes); i++) {
    g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));

    asr_encoder_encode (vocab->encoder, dashes[i], ids);
    if (ids->len > 0)
      add_if_new (vocab->non_speech, g_array_index (ids, gint32, 0));
  }
  for (guint i = 0; i < G_N_ELEMENTS (signs); i++)
    add_sign (vocab, signs[i], FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (music); i++)
    add_sign (vocab, music[i], TRUE);
  g_array_sort (vocab->non_speech, compare_ids);
}

AsrVocab *
asr_vocab_new (const AsrTokenBytes *tokens, guint n_tokens, guint n_vocab,
    GError **error)
{
  g_autoptr (AsrVocab) vocab = g_new0 (AsrVocab, 1);

  vocab->tokens = tokens;
  vocab->n_tokens = n_tokens;
  if (n_tokens > n_vocab || n_vocab > MAX_VOCAB) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
        "the vocabulary has %u tokens, the model %u embeddings (at most %u "
        "are known); they are not of the same model", n_tokens, n_vocab,
        MAX_VOCAB);
    return NULL;
  }
  if (!choose_layout (vocab, n_vocab, error)
      || !check_spelling (vocab, error))
    return NULL;
  vocab->encoder = asr_encoder_new (tokens,
      MIN (n_tokens, (guint) vocab->special.eot));
  find_non_speech (vocab);
  return g_steal_pointer (&vocab);
}

void
asr_vocab_free (AsrVocab *vocab)
{
  if (!vocab)
    return;
  asr_encoder_free (vocab->encoder);
  g_clear_pointer (&vocab->non_speech, g_array_unref);
  g_free (vocab);
}

const AsrSpecialTokens *
asr_vocab_get_special (const AsrVocab *vocab)
{
  return &vocab->special;
}

AsrTokenBytes
asr_vocab_get_bytes (const AsrVocab *vocab, gint32 id)
{
  AsrTokenBytes none = { (const guint8 *) "", 0 };

  if (id < 0 || id >= vocab->special.eot || id >= (gint64) vocab->n_tokens)
    return none;
  return vocab->tokens[id];
}

void
asr_vocab_encode (const AsrVocab *vocab, const char *text, GArray *ids)
{
  asr_encoder_encode (vocab->encoder, text, ids);
}

void
asr_vocab_append_text (const AsrVocab *vocab, const gint32 *ids, guint n,
    GString *bytes)
{
  for (guint i = 0; i < n; i++) {
    AsrTokenBytes token = asr_vocab_get_bytes (vocab, ids[i]);

    g_string_append_len (bytes, (const char *) token.bytes, token.length);
  }
}

const gint32 *
asr_vocab_get_non_speech (const AsrVocab *vocab, guint *n)
{
  *n = vocab->non_speech->len;
  return (const gint32 *) vocab->non_speech->data;
}
