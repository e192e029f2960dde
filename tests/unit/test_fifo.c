/* SPDX-License-Identifier: MIT */
/*
 * The store of samples: against a plain array over random operations, and
 * its memory over hours.
 */
#include "engine/audio/fifo.h"
#include <math.h>
#include <malloc.h>
#include <string.h>

/* ---- A plain array as the model ---- */

#define MAX_SAMPLES 400000

typedef struct {
  float samples[MAX_SAMPLES];
  gboolean is_audio[MAX_SAMPLES];
  gint64 start, end;
} Plain;

static gsize
count_stored (const Plain *plain)
{
  gsize n = 0;

  for (gint64 i = plain->start; i < plain->end; i++)
    n += plain->is_audio[i];
  return n;
}

static gint64
find_audio (const Plain *plain, gint64 from)
{
  while (from < plain->end && !plain->is_audio[from])
    from++;
  return from;
}

static void
assert_read (const AsrFifo *fifo, const Plain *plain, gint64 start, gsize n)
{
  g_autofree float *out = g_new (float, n + 1);
  gboolean has_audio = FALSE;

  out[n] = 1234;
  for (gsize i = 0; i < n; i++)
    has_audio |= plain->is_audio[start + i];
  g_assert_cmpint (asr_fifo_read (fifo, start, n, out), ==, has_audio);
  g_assert_true (memcmp (out, plain->samples + start, n * sizeof *out) == 0);
  g_assert_true (out[n] == 1234);
}

/* Bytes of these lengths are met: none, one, a buffer, several chunks. */
static gsize
choose_length (GRand *source)
{
  static const gint32 most[] = { 1, 2, 500, 5000, 40000 };

  return g_rand_int_range (source, 0,
      most[g_rand_int_range (source, 0, G_N_ELEMENTS (most))]);
}

static void
push_random (AsrFifo *fifo, Plain *plain, GRand *source, gsize n)
{
  g_autofree float *samples = g_new (float, n + 1);

  for (gsize i = 0; i < n; i++) {
    samples[i] = g_rand_double_range (source, -1, 1);
    plain->samples[plain->end + i] = samples[i];
    plain->is_audio[plain->end + i] = TRUE;
  }
  asr_fifo_push (fifo, samples, n);
  plain->end += n;
}

static void
step (AsrFifo *fifo, Plain *plain, GRand *source)
{
  gint32 kind = g_rand_int_range (source, 0, 100);
  gsize n = choose_length (source);

  n = MIN (n, (gsize) (MAX_SAMPLES - plain->end));
  if (kind < 55) {
    push_random (fifo, plain, source, n);
  } else if (kind < 80) {
    asr_fifo_skip (fifo, n);
    plain->end += n;
  } else if (kind < 98) {
    gint64 to = plain->start - 10 + (gint64) choose_length (source);

    asr_fifo_drop (fifo, to);
    plain->start = CLAMP (to, plain->start, plain->end);
  } else {
    asr_fifo_reset (fifo);
    memset (plain, 0, sizeof *plain);
  }
}

static void
check (const AsrFifo *fifo, const Plain *plain, GRand *source)
{
  gint64 all = plain->end - plain->start;
  gint64 at = g_rand_double_range (source, 0, 1) * all;
  gsize n = g_rand_double_range (source, 0, 1) * (all - at);

  at += plain->start;
  g_assert_cmpint (asr_fifo_get_start (fifo), ==, plain->start);
  g_assert_cmpint (asr_fifo_get_end (fifo), ==, plain->end);
  g_assert_cmpuint (asr_fifo_get_n_stored (fifo), ==, count_stored (plain));
  g_assert_cmpint (asr_fifo_find_audio (fifo, at), ==,
      find_audio (plain, at));
  assert_read (fifo, plain, at, n);
}

static void
test_random (void)
{
  guint32 seed = g_test_rand_int ();
  g_autoptr (GRand) source = g_rand_new_with_seed (seed);
  g_autofree Plain *plain = g_new0 (Plain, 1);

  g_test_message ("seed %u", seed);
  for (guint round = 0; round < 20; round++) {
    g_autoptr (AsrFifo) fifo = asr_fifo_new ();

    memset (plain, 0, sizeof *plain);
    for (guint i = 0; i < 60; i++) {
      step (fifo, plain, source);
      check (fifo, plain, source);
    }
    assert_read (fifo, plain, plain->start, plain->end - plain->start);
  }
}

/* ---- Borders ---- */

static void
test_empty (void)
{
  g_autoptr (AsrFifo) fifo = asr_fifo_new ();
  float one = 5;

  asr_fifo_push (fifo, NULL, 0);
  asr_fifo_skip (fifo, 0);
  g_assert_cmpint (asr_fifo_find_audio (fifo, 0), ==, 0);
  g_assert_false (asr_fifo_read (fifo, 0, 0, &one));
  asr_fifo_drop (fifo, 100);
  g_assert_cmpint (asr_fifo_get_start (fifo), ==, 0);
  g_assert_true (one == 5);
  asr_fifo_free (NULL);
}

static void
test_not_finite (void)
{
  const float samples[] = { 1, NAN, INFINITY, -INFINITY, -1, 1e30f };
  const float expected[] = { 1, 0, 0, 0, -1, 1e30f };
  g_autoptr (AsrFifo) fifo = asr_fifo_new ();
  float out[6];

  asr_fifo_push (fifo, samples, 6);
  g_assert_true (asr_fifo_read (fifo, 0, 6, out));
  g_assert_cmpmem (out, sizeof out, expected, sizeof expected);
}

/* Outside what is kept nothing is read. */
static void
test_outside (void)
{
  g_autoptr (AsrFifo) fifo = asr_fifo_new ();
  const float samples[4] = { 1, 2, 3, 4 };
  float out[4] = { 9, 9, 9, 9 };
  static const struct {
    gint64 start;
    gsize n;
  } outside[] = { { 0, 2 }, { -1, 1 }, { 3, 2 }, { 5, 0 }, { 2, G_MAXSIZE },
    { G_MAXINT64, 1 } };

  asr_fifo_push (fifo, samples, 4);
  asr_fifo_drop (fifo, 1);
  for (guint i = 0; i < G_N_ELEMENTS (outside); i++) {
    g_test_expect_message ("asr", G_LOG_LEVEL_CRITICAL, "*failed*");
    g_assert_false (asr_fifo_read (fifo, outside[i].start, outside[i].n,
        out));
    g_test_assert_expected_messages ();
    g_assert_true (out[0] == 9);
  }
}

/* Gaps cost no memory, and no length of them breaks an index. */
static void
test_long_gaps (void)
{
  g_autoptr (AsrFifo) fifo = asr_fifo_new ();
  const float sample = 0.5f;
  float out;
  gint64 last;

  for (guint i = 0; i < 3; i++) {
    asr_fifo_push (fifo, &sample, 1);
    asr_fifo_skip (fifo, G_GUINT64_CONSTANT (1) << 40);
  }
  g_assert_cmpint (asr_fifo_get_end (fifo), ==,
      3 * ((G_GINT64_CONSTANT (1) << 40) + 1));
  g_assert_cmpint (asr_fifo_find_audio (fifo, 1), ==,
      (G_GINT64_CONSTANT (1) << 40) + 1);
  asr_fifo_skip (fifo, G_MAXUINT64);
  asr_fifo_skip (fifo, G_MAXUINT64);
  asr_fifo_push (fifo, &sample, 1);
  asr_fifo_skip (fifo, G_MAXUINT64);
  last = asr_fifo_get_end (fifo) - 1;
  g_assert_cmpint (last, >, 0);
  g_assert_true (asr_fifo_read (fifo, last, 1, &out));
  g_assert_true (out == sample);
  asr_fifo_drop (fifo, G_MAXINT64);
  g_assert_cmpuint (asr_fifo_get_n_stored (fifo), ==, 0);
}

/* ---- Memory ---- */

static gsize
get_heap_bytes (void)
{
  struct mallinfo2 info = mallinfo2 ();

  return info.uordblks + info.hblkhd;
}

/* Three hours in buffers of 20 ms, every second one behind a gap of 50 ms,
 * read and dropped in windows of 30 s as a policy does. */
static void
test_hours (void)
{
  g_autoptr (AsrFifo) fifo = asr_fifo_new ();
  g_autofree float *window = g_new (float, 480000);
  float buffer[320];
  gsize before = get_heap_bytes (), most = 0;

  for (guint i = 0; i < 320; i++)
    buffer[i] = i / 320.0f;
  for (guint i = 0; i < 3 * 3600 * 50 / 2; i++) {
    asr_fifo_push (fifo, buffer, 320);
    asr_fifo_skip (fifo, i % 2 * 800);
    if (asr_fifo_get_end (fifo) - asr_fifo_get_start (fifo) >= 500000) {
      gint64 start = asr_fifo_get_start (fifo);

      most = MAX (most, get_heap_bytes () - before);
      g_assert_true (asr_fifo_read (fifo, start, 480000, window));
      asr_fifo_drop (fifo, start + 450000);
    }
  }
  g_test_message ("most in use: %" G_GSIZE_FORMAT " bytes", most);
  g_assert_cmpuint (most, <, 3000000);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/fifo/random", test_random);
  g_test_add_func ("/fifo/empty", test_empty);
  g_test_add_func ("/fifo/not-finite", test_not_finite);
  g_test_add_func ("/fifo/outside", test_outside);
  g_test_add_func ("/fifo/long-gaps", test_long_gaps);
  g_test_add_func ("/fifo/hours", test_hours);
  return g_test_run ();
}
