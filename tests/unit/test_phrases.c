/* SPDX-License-Identifier: MIT */
/*
 * Phrases cut at pairs of time marks. Expected values follow by hand from
 * openai/whisper transcribe.py; the first is a real text of the base model
 * (LibriVox clip 0880) with the ids that CTranslate2 gave.
 */
#include "engine/decode/phrases.h"

#define MARK 50364
#define EOT 50257

typedef struct {
  const char *name;
  gint32 tokens[20];
  guint n_tokens, n_mel_frames;
  guint n_phrases, advance;
  gboolean is_whole;
  struct { guint first, n, n_text, start, end; } phrases[3];
} Case;

static const Case cases[] = {
  { "librivox",
      { 50364, 634, 390, 406, 364, 3171, 12, 67, 7631, 1744, 2037, 587, 13,
          50514 },
      14, 299, 1, 299, TRUE, { { 0, 14, 12, 0, 150 } } },
  { "nothing", { 0 }, 0, 3000, 0, 3000, FALSE, { { 0 } } },
  { "no closing mark", { MARK, 5, 6 }, 3, 2000, 1, 2000, FALSE,
      { { 0, 3, 2, 0, 1000 } } },
  { "tail is heard again",
      { MARK, 5, MARK + 100, MARK + 100, 6, 7, MARK + 250, MARK + 250, 8 },
      9, 3000, 2, 500, FALSE,
      { { 0, 3, 1, 0, 100 }, { 3, 4, 2, 100, 250 } } },
  { "pairs to the end",
      { MARK, 5, MARK + 100, MARK + 120, 6, MARK + 250 }, 6, 3000, 2, 3000,
      TRUE, { { 0, 3, 1, 0, 100 }, { 3, 3, 1, 120, 250 } } },
  { "pair at the end", { MARK, 5, MARK + 100, MARK + 100 }, 4, 3000, 1, 200,
      FALSE, { { 0, 3, 1, 0, 100 } } },
};

static void
check_case (gconstpointer data)
{
  const Case *c = data;
  guint advance;
  gboolean is_whole;
  g_autoptr (GArray) phrases = asr_phrases_cut (c->tokens, c->n_tokens, MARK,
      EOT, c->n_mel_frames, &advance, &is_whole);

  g_assert_cmpuint (phrases->len, ==, c->n_phrases);
  g_assert_cmpuint (advance, ==, c->advance);
  g_assert_cmpint (is_whole, ==, c->is_whole);
  for (guint i = 0; i < phrases->len; i++) {
    const AsrPhrase *p = &g_array_index (phrases, AsrPhrase, i);

    g_assert_cmpuint (p->first, ==, c->phrases[i].first);
    g_assert_cmpuint (p->n_tokens, ==, c->phrases[i].n);
    g_assert_cmpuint (p->n_text_tokens, ==, c->phrases[i].n_text);
    g_assert_cmpuint (p->start_mark, ==, c->phrases[i].start);
    g_assert_cmpuint (p->end_mark, ==, c->phrases[i].end);
  }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *path = g_strdup_printf ("/phrases/%s", cases[i].name);

    g_test_add_data_func (path, &cases[i], check_case);
  }
  return g_test_run ();
}
