/* SPDX-License-Identifier: MIT */
/*
 * The CPU backend's pool: every item runs once, whatever the counts, with
 * more threads than cores, from several callers, and after the workers slept.
 */
#include "engine/backend/cpu/cpu.h"

#define MAX_ITEMS 5000
#define N_CALLERS 3
#define N_RUNS 300

typedef struct {
  gint counts[MAX_ITEMS]; /* atomic */
  guint n_threads;
  gint n_bad_threads;
} Tally;

static void
count_items (gpointer data, guint begin, guint end, guint thread)
{
  Tally *tally = data;

  if (thread >= tally->n_threads)
    g_atomic_int_inc (&tally->n_bad_threads);
  for (guint i = begin; i < end; i++)
    g_atomic_int_inc (&tally->counts[i]);
}

static void
check_run (AsrThreads *threads, guint n_items, guint grain)
{
  g_autofree Tally *tally = g_new0 (Tally, 1);

  tally->n_threads = asr_threads_get_n (threads);
  asr_threads_run (threads, n_items, grain, count_items, tally);
  g_assert_cmpint (tally->n_bad_threads, ==, 0);
  for (guint i = 0; i < MAX_ITEMS; i++)
    g_assert_cmpint (tally->counts[i], ==, i < n_items);
}

static void
test_counts (void)
{
  static const guint n_items[] = { 0, 1, 2, 3, 7, 8, 64, 1001, MAX_ITEMS };
  static const guint grains[] = { 0, 1, 3, 64, 10000 };
  static const guint n_threads[] = { 0, 1, 2, 3, 17 };

  for (guint t = 0; t < G_N_ELEMENTS (n_threads); t++) {
    AsrThreads *threads = asr_threads_new (n_threads[t]);

    g_assert_cmpuint (asr_threads_get_n (threads), ==,
        MAX (n_threads[t], 1));
    for (guint i = 0; i < G_N_ELEMENTS (n_items); i++) {
      for (guint g = 0; g < G_N_ELEMENTS (grains); g++)
        check_run (threads, n_items[i], grains[g]);
    }
    asr_threads_free (threads);
  }
  asr_threads_free (NULL);
}

typedef struct {
  gint n_pieces; /* atomic */
} Pieces;

static void
note_piece (gpointer data, guint begin, guint end, guint thread)
{
  Pieces *pieces = data;

  g_atomic_int_inc (&pieces->n_pieces);
  g_assert_cmpuint (end, >, begin);
  g_assert_cmpuint (end - begin, >=, 10);
}

/* Where there are enough items, no piece is smaller than the grain. */
static void
test_grain (void)
{
  AsrThreads *threads = asr_threads_new (4);

  for (guint n_items = 10; n_items < 400; n_items += 13) {
    Pieces pieces = { 0 };

    asr_threads_run (threads, n_items, 10, note_piece, &pieces);
    g_assert_cmpint (pieces.n_pieces, >=, 1);
    g_assert_cmpint (pieces.n_pieces, <=, (gint) n_items / 10);
  }
  asr_threads_free (threads);
}

/* What one run wrote, the next one reads without atomics. */
typedef struct {
  guint64 values[256];
} Chain;

static void
advance (gpointer data, guint begin, guint end, guint thread)
{
  Chain *chain = data;

  for (guint i = begin; i < end; i++)
    chain->values[i] = chain->values[i] * 3 + i;
}

static void
test_order (void)
{
  AsrThreads *threads = asr_threads_new (3);
  Chain chain = { { 0 } }, expected = { { 0 } };

  for (guint run = 0; run < 2000; run++) {
    asr_threads_run (threads, G_N_ELEMENTS (chain.values), 1, advance,
        &chain);
    for (guint i = 0; i < G_N_ELEMENTS (expected.values); i++)
      expected.values[i] = expected.values[i] * 3 + i;
    /* long enough for workers to fall asleep */
    if (run % 500 == 0)
      g_usleep (2000);
  }
  for (guint i = 0; i < G_N_ELEMENTS (expected.values); i++)
    g_assert_cmpuint (chain.values[i], ==, expected.values[i]);
  asr_threads_free (threads);
}

static gpointer
call_often (gpointer data)
{
  AsrThreads *threads = data;

  for (guint run = 0; run < N_RUNS; run++)
    check_run (threads, 1 + run % 50, 1);
  return NULL;
}

static void
test_callers (void)
{
  AsrThreads *threads = asr_threads_new (2);
  GThread *callers[N_CALLERS];

  for (guint i = 0; i < N_CALLERS; i++)
    callers[i] = g_thread_new ("caller", call_often, threads);
  for (guint i = 0; i < N_CALLERS; i++)
    g_thread_join (callers[i]);
  asr_threads_free (threads);
}

static void
test_isa (void)
{
  static const char *const names[]
      = { "c", "avx2", "avx512", "avx512_vnni", "amx" };
  AsrIsa most;

  g_unsetenv ("ASR_CPU_ISA");
  most = asr_isa_detect ();
  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_assert_cmpstr (asr_isa_get_name (i), ==, names[i]);
    g_setenv ("ASR_CPU_ISA", names[i], TRUE);
    g_assert_cmpint (asr_isa_detect (), ==, MIN (most, (AsrIsa) i));
  }
  g_setenv ("ASR_CPU_ISA", "no such tier", TRUE);
  g_assert_cmpint (asr_isa_detect (), ==, most);
  g_unsetenv ("ASR_CPU_ISA");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/threads/counts", test_counts);
  g_test_add_func ("/threads/grain", test_grain);
  g_test_add_func ("/threads/order", test_order);
  g_test_add_func ("/threads/callers", test_callers);
  g_test_add_func ("/threads/isa", test_isa);
  return g_test_run ();
}
