/* SPDX-License-Identifier: MIT */
/*
 * The decoding machine, fed by hand with the tokens that CTranslate2 and
 * openai/whisper give for a LibriVox clip (base: 0880 of Sense and
 * Sensibility), and with texts that its gates must turn down.
 */
#include "engine/decode/decoding.h"

#include <math.h>

#include "engine/decode/phrases.h"
#include "models.h"

typedef struct {
  AsrWeights *weights;
  AsrVocab *vocab;
  AsrDecoding *decoding;
  GArray *rows, *choices;
  AsrTextState state;
} Fixture;

static gboolean
open_fixture (Fixture *f, const char *model, guint n_vocab)
{
  const AsrTokenBytes *tokens;
  guint n;

  f->weights = open_model (model);
  if (f->weights == NULL)
    return FALSE;
  tokens = asr_weights_get_vocabulary (f->weights, &n);
  f->vocab = asr_vocab_new (tokens, n, n_vocab, NULL);
  g_assert_nonnull (f->vocab);
  f->decoding = asr_decoding_new (f->vocab);
  f->rows = g_array_new (FALSE, FALSE, sizeof (AsrRow));
  f->choices = g_array_new (FALSE, FALSE, sizeof (AsrChoice));
  return TRUE;
}

static void
close_fixture (Fixture *f)
{
  asr_decoding_free (f->decoding);
  asr_vocab_free (f->vocab);
  asr_weights_free (f->weights);
  g_array_unref (f->rows);
  g_array_unref (f->choices);
}

static gboolean
ask (Fixture *f)
{
  g_array_set_size (f->rows, 0);
  g_array_set_size (f->choices, 0);
  return asr_decoding_get_rows (f->decoding, f->rows, f->choices, &f->state);
}

static void
assert_tokens (Fixture *f, const gint32 *ids, guint n)
{
  g_assert_cmpuint (f->rows->len, ==, n);
  for (guint i = 0; i < n; i++) {
    const AsrRow *row = &g_array_index (f->rows, AsrRow, i);

    g_assert_cmpint (row->token, ==, ids[i]);
    g_assert_cmpuint (row->position, ==, i);
  }
}

/* Answers the prompt, then each step, with ids of one log-probability; the
 * last is eot. */
static void
feed (Fixture *f, double no_speech, const gint32 *ids, guint n, gint32 eot,
    float log_prob)
{
  for (guint i = 0; i <= n; i++) {
    AsrTokenRecord record = { i < n ? ids[i] : eot, log_prob,
      i < n ? 0 : ASR_TOKEN_EOT };
    AsrTokenRecord both[2] = { { 0, log (no_speech) }, record };

    ask (f);
    if (f->choices->len == 2)
      asr_decoding_feed (f->decoding, both, 2);
    else
      asr_decoding_feed (f->decoding, &record, 1);
  }
}

static const gint32 clip[] = { 50364, 634, 390, 406, 364, 3171, 12, 67, 7631,
  1744, 2037, 587, 13, 50514 };
#define N_CLIP G_N_ELEMENTS (clip)

static void
check_clip (void)
{
  static const gint32 start[] = { 50258, 50259, 50359 };
  static const gint32 aligned[] = { 50258, 50259, 50359, 50363, 634, 390, 406,
    364, 3171, 12, 67, 7631, 1744, 2037, 587, 13, 50257 };
  static const gint16 frames[]
      = { 0, 17, 26, 40, 65, 73, 81, 81, 88, 102, 114, 130, 148 };
  AsrDecodingParams params = { 0, ASR_TASK_TRANSCRIBE, NULL, 0, 299, 0, 0, 1 };
  AsrDecodingResult result;
  Fixture f;

  if (!open_fixture (&f, "base", 51865))
    return;
  asr_decoding_start (f.decoding, &params);
  g_assert_true (ask (&f));
  assert_tokens (&f, start, 3);
  g_assert_cmpuint (f.state.position, ==, 2);
  g_assert_cmpint (g_array_index (f.choices, AsrChoice, 0).target, ==, 50362);
  g_assert_cmpint (g_array_index (f.choices, AsrChoice, 0).limit, ==, 51865);
  g_assert_cmpuint (g_array_index (f.choices, AsrChoice, 0).row, ==, 0);
  g_assert_cmpint (g_array_index (f.choices, AsrChoice, 1).kind, ==,
      ASR_CHOICE_SAMPLE);
  g_assert_cmpuint (g_array_index (f.choices, AsrChoice, 1).row, ==, 2);

  feed (&f, 0.0777, clip, N_CLIP, 50257, -0.33f);
  g_assert_cmpint (asr_decoding_get_phase (f.decoding), ==,
      ASR_DECODING_ALIGN);
  g_assert_false (ask (&f));
  assert_tokens (&f, aligned, 17);
  g_assert_cmpuint (f.choices->len, ==, 0); /* nothing but frames comes back */
  g_assert_cmpuint (asr_decoding_get_first_row (f.decoding), ==, 3);
  g_assert_cmpuint (asr_decoding_get_n_frames (f.decoding), ==, 149);

  asr_decoding_feed_frames (f.decoding, frames);
  asr_decoding_get_result (f.decoding, &result);
  g_assert_false (result.is_silence);
  g_assert_true (result.is_whole);
  g_assert_cmpuint (result.n_text, ==, 12);
  g_assert_cmpuint (result.phrases->len, ==, 1);
  g_assert_cmpint (result.frames[12], ==, 148);
  for (guint i = 0; i < 12; i++)
    g_assert_cmpfloat_with_epsilon (result.probabilities[i], exp (-0.33), 1e-5);
  /* 15 tokens with eot at -0.33, by 14 without it and one */
  g_assert_cmpfloat_with_epsilon (result.score.avg_log_prob, -0.33, 1e-5);
  g_assert_cmpfloat_with_epsilon (result.score.compression_ratio, 37.0 / 45,
      1e-6);
  close_fixture (&f);
}

static void
check_retry (void)
{
  AsrDecodingParams params = { 0, ASR_TASK_TRANSCRIBE, NULL, 0, 299, 0, 0, 1 };
  Fixture f;

  if (!open_fixture (&f, "base", 51865))
    return;
  asr_decoding_start (f.decoding, &params);
  feed (&f, 0.1, clip, N_CLIP, 50257, -1.5f);
  g_assert_cmpint (asr_decoding_get_phase (f.decoding), ==,
      ASR_DECODING_PROMPT);
  /* the cache holds the prompt: only its last row again, a little warmer */
  g_assert_true (ask (&f));
  g_assert_cmpuint (f.rows->len, ==, 1);
  g_assert_cmpint (g_array_index (f.rows, AsrRow, 0).token, ==, 50359);
  g_assert_cmpuint (g_array_index (f.rows, AsrRow, 0).position, ==, 2);
  g_assert_cmpuint (f.choices->len, ==, 1);
  g_assert_cmpfloat_with_epsilon (f.state.temperature, 0.2, 1e-6);

  /* better now: this pass counts */
  feed (&f, 0.1, clip, N_CLIP, 50257, -0.5f);
  g_assert_cmpint (asr_decoding_get_phase (f.decoding), ==,
      ASR_DECODING_ALIGN);
  close_fixture (&f);
}

static void
check_silence (void)
{
  AsrDecodingParams params = { 0, ASR_TASK_TRANSCRIBE, NULL, 0, 299, 0, 0, 1 };
  AsrDecodingResult result;
  Fixture f;

  if (!open_fixture (&f, "base", 51865))
    return;
  asr_decoding_start (f.decoding, &params);
  feed (&f, 0.75, clip, N_CLIP, 50257, -1.04f);
  g_assert_cmpint (asr_decoding_get_phase (f.decoding), ==, ASR_DECODING_DONE);
  asr_decoding_get_result (f.decoding, &result);
  g_assert_true (result.is_silence);
  close_fixture (&f);
}

/* " Again." three times: what a loop of the decoder looks like, and a person
 * who says it three times; time marks tell them apart. */
static void
check_repeats (void)
{
  AsrDecodingParams params
      = { 0, ASR_TASK_TRANSCRIBE, NULL, 0, 1200, 0, 0, 1 };
  gint32 ids[6 * 14 + 1];
  guint n = 0;
  Fixture f;

  if (!open_fixture (&f, "base", 51865))
    return;
  for (guint is_loop = 0; is_loop < 2; is_loop++) {
    n = 0;
    for (guint k = 0; k < 5; k++) {
      ids[n++] = 50364 + (is_loop ? k : 100 * k);
      memcpy (ids + n, clip + 1, 12 * sizeof (gint32));
      n += 12;
      ids[n++] = 50364 + (is_loop ? k + 1 : 100 * k + 100);
    }
    asr_decoding_start (f.decoding, &params);
    feed (&f, 0.1, ids, n, 50257, -0.2f);
    g_assert_cmpint (asr_decoding_get_phase (f.decoding), ==,
        is_loop ? ASR_DECODING_PROMPT : ASR_DECODING_ALIGN);
  }
  close_fixture (&f);
}

static void
check_prompt_and_language (void)
{
  gint32 prompt[300];
  AsrDecodingParams params
      = { -1, ASR_TASK_TRANSLATE, prompt, 300, 3000, 0, 0, 1 };
  AsrTokenRecord spanish = { 50262 };
  static const gint32 sot[] = { 50258 };
  Fixture f;

  if (!open_fixture (&f, "base", 51865))
    return;
  for (guint i = 0; i < 300; i++)
    prompt[i] = 1000 + i;
  asr_decoding_start (f.decoding, &params);
  g_assert_true (ask (&f));
  assert_tokens (&f, sot, 1);
  g_assert_cmpint (f.state.rules.mode, ==, ASR_RULES_LANGUAGE);
  asr_decoding_feed (f.decoding, &spanish, 1);
  g_assert_true (ask (&f));
  g_assert_cmpuint (f.rows->len, ==, 1 + 223 + 3);
  g_assert_cmpint (g_array_index (f.rows, AsrRow, 0).token, ==, 50361);
  g_assert_cmpint (g_array_index (f.rows, AsrRow, 1).token, ==, 1077);
  g_assert_cmpint (g_array_index (f.rows, AsrRow, 223).token, ==, 1299);
  g_assert_cmpint (g_array_index (f.rows, AsrRow, 225).token, ==, 50262);
  g_assert_cmpint (g_array_index (f.rows, AsrRow, 226).token, ==, 50358);
  /* no speech is judged at the start token, wherever it stands */
  g_assert_cmpuint (g_array_index (f.choices, AsrChoice, 0).row, ==, 224);
  close_fixture (&f);
}

static void
check_english_model (void)
{
  static const gint32 sot[] = { 50257 };
  AsrDecodingParams params
      = { -1, ASR_TASK_TRANSCRIBE, NULL, 0, 3000, 0, 0, 1 };
  Fixture f;

  if (!open_fixture (&f, "tiny.en", 51864))
    return;
  asr_decoding_start (f.decoding, &params);
  g_assert_true (ask (&f));
  assert_tokens (&f, sot, 1); /* no language, no task */
  g_assert_cmpuint (f.choices->len, ==, 2); /* both of one row */
  g_assert_cmpint (g_array_index (f.choices, AsrChoice, 0).target, ==, 50361);
  close_fixture (&f);
}

/* A text that never ends is cut, and what was said of it is kept. */
static void
check_limit (void)
{
  AsrDecodingParams params
      = { 0, ASR_TASK_TRANSCRIBE, NULL, 0, 3000, 0, 0, 1 };
  AsrDecodingResult result;
  guint n_fed = 0;
  Fixture f;

  if (!open_fixture (&f, "base", 51865))
    return;
  asr_decoding_start (f.decoding, &params);
  while (asr_decoding_get_phase (f.decoding) < ASR_DECODING_ALIGN
      && n_fed < 1000) {
    /* different words, so that it does not look like a loop */
    AsrTokenRecord record = { n_fed == 0 ? 50364 : 1000 + 37 * n_fed, -0.1f };
    AsrTokenRecord both[2] = { { 0, -3 }, record };

    ask (&f);
    if (f.choices->len == 2)
      asr_decoding_feed (f.decoding, both, 2);
    else
      asr_decoding_feed (f.decoding, &record, 1);
    n_fed++;
  }
  g_assert_cmpuint (n_fed, ==, 224);
  {
    g_autofree gint16 *frames = g_new0 (gint16, 225);

    asr_decoding_feed_frames (f.decoding, frames);
  }
  asr_decoding_get_result (f.decoding, &result);
  g_assert_cmpuint (result.n_text, ==, 223);
  close_fixture (&f);
}

/* Speech that goes on: what stays is the prefix, no marks, one pass; and a
 * loop adds nothing to it. */
static void
check_growing (void)
{
  static const gint32 rows[] = { 50258, 50259, 50359, 50363, 634, 390, 406 };
  static const gint32 aligned[] = { 50258, 50259, 50359, 50363, 634, 390, 406,
    364, 3171, 50257 };
  gint32 loop[200];

  for (guint i = 0; i < G_N_ELEMENTS (loop); i++)
    loop[i] = 3171;
  for (guint is_loop = 0; is_loop < 2; is_loop++) {
    AsrDecodingParams params = { .task = ASR_TASK_TRANSCRIBE,
      .n_mel_frames = 299, .seed = 1, .is_growing = TRUE, .prefix = rows + 4,
      .n_prefix = 3 };
    Fixture f;

    if (!open_fixture (&f, "base", 51865))
      return;
    asr_decoding_start (f.decoding, &params);
    g_assert_true (ask (&f));
    assert_tokens (&f, rows, 7);
    g_assert_cmpint (f.state.rules.mode, ==, ASR_RULES_TEXT);
    /* eot may follow: not the first token of a text */
    g_assert_cmpint (f.state.rules.n_sampled, >, 0);
    g_assert_cmpuint (f.state.position, ==, 6);
    if (is_loop)
      feed (&f, 0.1, loop, G_N_ELEMENTS (loop), 50257, -0.1f);
    else
      feed (&f, 0.1, aligned + 7, 2, 50257, -0.1f);
    g_assert_cmpint (asr_decoding_get_phase (f.decoding), ==,
        ASR_DECODING_ALIGN);
    ask (&f);
    if (is_loop)
      g_assert_cmpuint (f.rows->len, ==, 4 + 3 + 1);
    else
      assert_tokens (&f, aligned, 10);
    close_fixture (&f);
  }
}

/* A draft's tokens are verified with the prompt; what follows the first wrong
 * one goes on as if each had been sampled. */
static void
check_draft (void)
{
  static const gint32 rows[] = { 50258, 50259, 50359, 50363, 634, 390, 406,
    364, 3171 };
  AsrDecodingParams params = { .task = ASR_TASK_TRANSCRIBE,
    .n_mel_frames = 299, .seed = 1, .is_growing = TRUE, .prefix = rows + 4,
    .n_prefix = 1, .draft = rows + 5, .n_draft = 4 };
  AsrTokenRecord records[6] = { { 0, -3 }, { 390, -0.1f }, { 406, -0.2f },
    { 777, -0.3f }, { 50257, -0.1f, ASR_TOKEN_EOT }, { 5, -0.1f } };
  AsrTokenRecord end = { 50257, -0.1f, ASR_TOKEN_EOT };
  AsrDecodingResult result;
  gint16 frames[6] = { 0 };
  Fixture f;

  if (!open_fixture (&f, "base", 51865))
    return;
  asr_decoding_start (f.decoding, &params);
  g_assert_true (ask (&f));
  assert_tokens (&f, rows, 9);
  g_assert_cmpuint (f.choices->len, ==, 6);
  for (guint i = 1; i < 6; i++) {
    const AsrChoice *choice = &g_array_index (f.choices, AsrChoice, i);

    g_assert_cmpint (choice->kind, ==, ASR_CHOICE_VERIFY);
    g_assert_cmpuint (choice->row, ==, 3 + i);
    g_assert_cmpint (choice->target, ==, i);
  }
  asr_decoding_feed (f.decoding, records, 6);
  g_assert_cmpint (asr_decoding_get_phase (f.decoding), ==,
      ASR_DECODING_STEP);

  /* a batch that had no room asks again */
  for (guint i = 0; i < 2; i++) {
    g_assert_true (ask (&f));
    g_assert_cmpuint (f.rows->len, ==, 1);
    g_assert_cmpint (f.state.token, ==, 777);
    g_assert_cmpuint (f.state.position, ==, 7); /* of the fourth text token */
    g_assert_cmpint (f.state.rules.n_sampled, ==, 4);
    g_assert_cmpuint (f.state.is_finished, ==, FALSE);
  }
  end.id = 888;
  end.flags = 0;
  asr_decoding_feed (f.decoding, &end, 1);
  g_assert_false (ask (&f)); /* the slot knows now */
  end.id = 50257;
  end.flags = ASR_TOKEN_EOT;
  asr_decoding_feed (f.decoding, &end, 1);
  g_assert_cmpint (asr_decoding_get_phase (f.decoding), ==,
      ASR_DECODING_ALIGN);
  asr_decoding_feed_frames (f.decoding, frames);
  asr_decoding_get_result (f.decoding, &result);
  g_assert_cmpuint (result.n_text, ==, 5);
  g_assert_cmpint (result.text[3], ==, 777);
  g_assert_cmpint (result.text[4], ==, 888);
  g_assert_cmpfloat_with_epsilon (result.probabilities[3], exp (-0.3), 1e-5);
  g_assert_cmpuint (result.n_sampled, ==, 5);
  close_fixture (&f);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/decoding/clip", check_clip);
  g_test_add_func ("/decoding/retry", check_retry);
  g_test_add_func ("/decoding/silence", check_silence);
  g_test_add_func ("/decoding/repeats", check_repeats);
  g_test_add_func ("/decoding/prompt-and-language", check_prompt_and_language);
  g_test_add_func ("/decoding/english-model", check_english_model);
  g_test_add_func ("/decoding/limit", check_limit);
  g_test_add_func ("/decoding/growing", check_growing);
  g_test_add_func ("/decoding/draft", check_draft);
  return g_test_run ();
}
