/* SPDX-License-Identifier: MIT */
/*
 * The voice detector, frame by frame, against Silero's own network run by
 * ONNX Runtime (tests/data/vad.tsv, written by tests/tools/make_vad_data.py)
 * on speech (tests/data/speech.s16), noise, silence and clicks.
 */
#include "engine/audio/vad.h"
#include <math.h>
#include <string.h>

#define FRAME ASR_VAD_FRAME_SAMPLES
#define MAX_DIFFERENCE 1e-3

static GArray *
read_speech (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "speech.s16",
      NULL);
  g_autofree char *data = NULL;
  GArray *samples = g_array_new (FALSE, FALSE, sizeof (gint16));
  gsize n_bytes;

  g_assert_true (g_file_get_contents (path, &data, &n_bytes, NULL));
  for (gsize i = 0; i + 1 < n_bytes; i += 2) {
    gint16 sample = (guint8) data[i] | (guint8) data[i + 1] << 8;

    g_array_append_val (samples, sample);
  }
  return samples;
}

/* Top bits of a linear congruential generator, -2048 to 2047. */
static gint16
next_noise (guint32 *state)
{
  *state = *state * 1664525u + 1013904223u;
  return (gint16) ((*state >> 20) - 2048);
}

/* Divides as Python does, downwards. */
static gint16
shift_down (gint16 sample, guint bits)
{
  return (gint16) floor (ldexp (sample, -(int) bits));
}

static void
append_n (GArray *signal, guint n, gint16 sample)
{
  for (guint i = 0; i < n; i++)
    g_array_append_val (signal, sample);
}

/* What make_vad_data.py's make_signal makes. Returns: (transfer full): i16 */
static GArray *
make_signal (void)
{
  g_autoptr (GArray) speech = read_speech ();
  const gint16 *s = (const gint16 *) speech->data;
  GArray *signal = g_array_new (FALSE, FALSE, sizeof (gint16));
  guint32 state = 1;
  guint clicks;

  g_array_append_vals (signal, s, speech->len);
  for (guint i = 0; i < 60 * FRAME; i++)
    append_n (signal, 1, next_noise (&state));
  append_n (signal, 40 * FRAME, 0);
  for (guint i = 0; i < speech->len; i++)
    append_n (signal, 1, shift_down (s[i], 5));
  clicks = signal->len;
  append_n (signal, 20 * FRAME, 0);
  for (guint i = 0; i < 20 * FRAME; i += 500)
    g_array_index (signal, gint16, clicks + i)
        = i % 1000 == 0 ? G_MAXINT16 : G_MININT16;
  state = 1;
  for (guint i = 0; i < 60 * FRAME; i++)
    append_n (signal, 1, (gint16) (shift_down (s[i], 2)
            + shift_down (next_noise (&state), 3)));
  return signal;
}

static double *
read_expected (guint *n)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "vad.tsv", NULL);
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;
  double *values;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  lines = g_strsplit (g_strchomp (text), "\n", -1);
  *n = g_strv_length (lines);
  values = g_new (double, *n);
  for (guint i = 0; i < *n; i++)
    values[i] = g_ascii_strtod (lines[i], NULL);
  return values;
}

static void
take_frame (const GArray *signal, guint i, float *frame)
{
  for (guint k = 0; k < FRAME; k++)
    frame[k] = g_array_index (signal, gint16, i * FRAME + k) / 32768.0f;
}

static void
test_silero (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (AsrVadModel) model = asr_vad_model_new (&error);
  g_autoptr (AsrVad) vad = NULL;
  g_autoptr (GArray) signal = make_signal ();
  guint n, n_speech = 0;
  g_autofree double *expected = read_expected (&n);
  double most = 0;

  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, signal->len / FRAME);
  vad = asr_vad_new (model);
  for (guint i = 0; i < n; i++) {
    float frame[FRAME], probability;

    take_frame (signal, i, frame);
    probability = asr_vad_run (vad, frame);
    g_assert_true (probability >= 0 && probability <= 1);
    most = MAX (most, fabs (probability - expected[i]));
    n_speech += expected[i] > 0.5;
  }
  g_test_message ("%u frames, %u of speech, largest difference %.2g", n,
      n_speech, most);
  g_assert_cmpfloat (most, <, MAX_DIFFERENCE);
  g_assert_cmpuint (n_speech, >, 50);
  g_assert_cmpuint (n - n_speech, >, 50);
}

/* Two timelines on one model don't see each other, and a reset one begins
 * anew. */
static void
test_state (void)
{
  g_autoptr (AsrVadModel) model = asr_vad_model_new (NULL);
  g_autoptr (AsrVad) a = asr_vad_new (model);
  g_autoptr (AsrVad) b = asr_vad_new (model);
  g_autoptr (GArray) signal = make_signal ();
  float first[50], frame[FRAME];

  for (guint i = 0; i < G_N_ELEMENTS (first); i++) {
    take_frame (signal, i, frame);
    first[i] = asr_vad_run (a, frame);
    take_frame (signal, 60 + i, frame);
    asr_vad_run (b, frame);
  }
  asr_vad_reset (b);
  for (guint i = 0; i < G_N_ELEMENTS (first); i++) {
    take_frame (signal, i, frame);
    g_assert_true (asr_vad_run (b, frame) == first[i]);
  }
}

/* However loud, what comes out is a probability, and the state recovers. */
static void
test_loud (void)
{
  g_autoptr (AsrVadModel) model = asr_vad_model_new (NULL);
  g_autoptr (AsrVad) vad = asr_vad_new (model);
  float frame[FRAME];

  for (guint i = 0; i < 20; i++) {
    float probability;

    for (guint k = 0; k < FRAME; k++)
      frame[k] = (k % 2 ? -1 : 1) * (i % 2 ? 1e15f : G_MAXFLOAT);
    probability = asr_vad_run (vad, frame);
    g_assert_true (probability >= 0 && probability <= 1);
  }
  memset (frame, 0, sizeof frame);
  for (guint i = 0; i < 100; i++)
    g_assert_true (asr_vad_run (vad, frame) <= 1);
  g_assert_cmpfloat (asr_vad_run (vad, frame), <, 0.1);
}

/* Not a limit, since machines differ: a figure to read. */
static void
test_speed (void)
{
  g_autoptr (AsrVadModel) model = asr_vad_model_new (NULL);
  g_autoptr (AsrVad) vad = asr_vad_new (model);
  g_autoptr (GArray) signal = make_signal ();
  gint64 best_us = G_MAXINT64;
  float frame[FRAME];

  take_frame (signal, 30, frame);
  for (guint round = 0; round < 20; round++) {
    gint64 start_us = g_get_monotonic_time ();

    for (guint i = 0; i < 100; i++)
      asr_vad_run (vad, frame);
    best_us = MIN (best_us, g_get_monotonic_time () - start_us);
  }
  g_test_message ("%.1f us a frame of 32 ms", best_us / 100.0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/vad/silero", test_silero);
  g_test_add_func ("/vad/state", test_state);
  g_test_add_func ("/vad/loud", test_loud);
  g_test_add_func ("/vad/speed", test_speed);
  return g_test_run ();
}
