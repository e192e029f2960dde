/* SPDX-License-Identifier: MIT */
/*
 * Which ids may follow, rule by rule (openai/whisper decoding.py), with the
 * ids of the multilingual models; and the uniform numbers, against published
 * outputs of splitmix64.
 */
#include "engine/backend/rules.h"
#include <glib.h>

#define EOT 50257
#define TS 50364
#define N_VOCAB 51865

static const AsrRuleTokens tokens
    = { N_VOCAB, EOT, 50259, 50358, TS, TS + 50 };

static AsrAllowed
follow (AsrRuleMode mode, const gint32 *ids, guint n)
{
  AsrRuleState state = asr_rules_start (mode);

  for (guint i = 0; i < n; i++)
    asr_rules_advance (&tokens, &state, ids[i]);
  g_assert_cmpint (state.n_sampled, ==, n);
  return asr_rules_get_allowed (&tokens, &state);
}

/* Empty ranges are as good as each other. */
static void
assert_allowed (AsrAllowed a, gint32 text_begin, gint32 text_end,
    gint32 timestamp_begin, gint32 timestamp_end, AsrMaskId mask)
{
  if (text_begin < text_end || a.text_begin < a.text_end) {
    g_assert_cmpint (a.text_begin, ==, text_begin);
    g_assert_cmpint (a.text_end, ==, text_end);
  }
  if (timestamp_begin < timestamp_end || a.timestamp_begin < a.timestamp_end) {
    g_assert_cmpint (a.timestamp_begin, ==, timestamp_begin);
    g_assert_cmpint (a.timestamp_end, ==, timestamp_end);
  }
  g_assert_cmpint (a.mask, ==, mask);
}

static void
test_timestamps (void)
{
  static const struct {
    gint32 ids[5];
    guint n;
    gint32 text_begin, text_end, timestamp_begin, timestamp_end;
    AsrMaskId mask;
  } cases[] = {
    /* the first is a time mark, of the first second */
    { { 0 }, 0, 0, 0, TS, TS + 51, ASR_MASK_FIRST },
    /* behind an opening mark: text or eot */
    { { TS + 3 }, 1, 0, TS, 0, 0, ASR_MASK_STEP },
    /* in a text: more of it, or a later mark */
    { { TS + 3, 400 }, 2, 0, TS, TS + 4, N_VOCAB, ASR_MASK_STEP },
    /* behind a closing mark: the same again to open, or a later one, or eot
     * and what is above it */
    { { TS + 3, 400, TS + 9 }, 3, EOT, TS, TS + 9, N_VOCAB, ASR_MASK_STEP },
    /* behind a pair: text or eot */
    { { TS + 3, 400, TS + 9, TS + 9 }, 4, 0, TS, 0, 0, ASR_MASK_STEP },
    { { TS + 3, 400, TS + 9, TS + 9, 7 }, 5, 0, TS, TS + 10, N_VOCAB,
        ASR_MASK_STEP },
    /* the last mark of all closes: it alone may open again */
    { { TS, 400, N_VOCAB - 1 }, 3, EOT, TS, N_VOCAB - 1, N_VOCAB,
        ASR_MASK_STEP },
    /* behind the last mark in a text there is no other */
    { { N_VOCAB - 1, 400 }, 2, 0, TS, 0, 0, ASR_MASK_STEP },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    assert_allowed (follow (ASR_RULES_TIMESTAMPS, cases[i].ids, cases[i].n),
        cases[i].text_begin, cases[i].text_end, cases[i].timestamp_begin,
        cases[i].timestamp_end, cases[i].mask);
}

static void
test_other_modes (void)
{
  const gint32 ids[] = { 400, 220 };

  assert_allowed (follow (ASR_RULES_TEXT, ids, 0), 0, TS, 0, 0,
      ASR_MASK_FIRST);
  assert_allowed (follow (ASR_RULES_TEXT, ids, 2), 0, TS, 0, 0,
      ASR_MASK_STEP);
  assert_allowed (follow (ASR_RULES_LANGUAGE, ids, 0), 50259, 50358, 0, 0,
      ASR_MASK_NONE);
}

static void
test_uniform (void)
{
  /* splitmix64 seeded with 1234567 */
  static const guint64 outputs[] = { 6457827717110365317u,
    3203168211198807973u, 9817491932198370423u, 4593380528125082431u,
    16408922859458223821u };

  for (guint32 i = 0; i < G_N_ELEMENTS (outputs); i++)
    g_assert_cmpfloat (asr_rules_uniform (1234567, 0, i), ==,
        ((outputs[i] >> 41) + 0.5) / 8388608.0);
  for (guint32 i = 0; i < 100000; i++) {
    float u = asr_rules_uniform (1, i, 7);

    g_assert_cmpfloat (u, >, 0);
    g_assert_cmpfloat (u, <, 1);
  }
  g_assert_cmpfloat (asr_rules_uniform (1, 2, 3), !=,
      asr_rules_uniform (1, 3, 2));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/rules/timestamps", test_timestamps);
  g_test_add_func ("/rules/other-modes", test_other_modes);
  g_test_add_func ("/rules/uniform", test_uniform);
  return g_test_run ();
}
