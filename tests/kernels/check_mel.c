/* SPDX-License-Identifier: MIT */
/*
 * Check of mel: windows of real speech beside what transformers makes of them
 * (make_mel_values.py), and random windows beside a plain transform in
 * double precision.
 */
#include "tests/kernels/harness.h"
#include "engine/audio/mel.h"
#include <math.h>
#include <string.h>

#define N_FRAMES 3000
#define N_WINDOW 480000
#define FFT 400
/* Of values a quarter of a decade apart in energy; the reference is printed
 * to 1e-5. */
#define TOLERANCE 1e-4

static void
run_mel (Check *check, const float *filters, guint n_mels,
    const float *const *samples, const guint *n_samples, guint n_rows,
    float *const *mel)
{
  AsrMelParams params = { n_rows, samples, n_samples, filters, n_mels, mel };

  check->table->mel (check->queue, &params);
  check_wait (check, "mel");
}

/* ---- what transformers makes ---- */

static char *
read_data (const char *name, gsize *n_bytes)
{
  const char *folder = g_getenv ("G_TEST_SRCDIR");
  g_autofree char *path
      = g_build_filename (folder ? folder : "tests/data", name, NULL);
  g_autoptr (GError) error = NULL;
  char *bytes;

  if (!g_file_get_contents (path, &bytes, n_bytes, &error))
    g_error ("%s", error->message);
  return bytes;
}

static void
check_speech (Check *check)
{
  gsize n_bytes;
  g_autofree gint16 *speech = (gint16 *) read_data ("speech.s16", &n_bytes);
  g_autofree char *values = read_data ("mel_values.tsv", NULL);
  g_auto (GStrv) lines = g_strsplit (values, "\n", -1);
  float *samples = check_new (N_WINDOW * sizeof (float));
  float *mel = check_new (128 * N_FRAMES * sizeof (float));
  float *filters = check_new (128 * ASR_MEL_BINS * sizeof (float));
  guint seen_mels = 0, seen_samples = G_MAXUINT;

  for (gsize i = 0; i < N_WINDOW; i++)
    samples[i] = speech[i % (n_bytes / 2)] / 32768.0f;
  for (guint i = 0; lines[i] != NULL && lines[i][0] != '\0'; i++) {
    g_auto (GStrv) fields = g_strsplit (lines[i], "\t", -1);
    guint n_mels = (guint) atoi (fields[0]);
    guint n_samples = (guint) atoi (fields[1]), frame = atoi (fields[2]);
    double expected[128];
    float got[128];

    if (n_mels != seen_mels || n_samples != seen_samples) {
      asr_mel_fill_filters (n_mels, filters);
      run_mel (check, filters, n_mels, (const float *const *) &samples,
          &n_samples, 1, &mel);
      seen_mels = n_mels;
      seen_samples = n_samples;
    }
    for (guint m = 0; m < n_mels; m++) {
      expected[m] = g_ascii_strtod (fields[3 + m], NULL);
      got[m] = mel[(gsize) m * N_FRAMES + frame];
    }
    if (!check_compare (check, "speech", got, expected, n_mels, TOLERANCE, 0))
      check_fail (check, "speech", "... at %u bands, %u samples, frame %u",
          n_mels, n_samples, frame);
  }
  check_free (samples);
  check_free (mel);
  check_free (filters);
}

/* ---- a plain transform ---- */

static double
get_padded (const float *samples, guint n, gint i)
{
  i = ABS (i);
  if (i >= N_WINDOW)
    i = 2 * (N_WINDOW - 1) - i;
  return i < (gint) n ? samples[i] : 0;
}

/* log10 energies of one frame */
static void
expect_frame (const float *samples, guint n, guint t, const float *filters,
    guint n_mels, double *out)
{
  double x[FFT], power[ASR_MEL_BINS];

  for (gint i = 0; i < FFT; i++)
    x[i] = get_padded (samples, n, (gint) t * 160 + i - 200)
        * (0.5 - 0.5 * cos (2 * G_PI * i / FFT));
  for (guint k = 0; k < ASR_MEL_BINS; k++) {
    double re = 0, im = 0;

    for (guint i = 0; i < FFT; i++) {
      re += x[i] * cos (2 * G_PI * (k * i % FFT) / FFT);
      im += x[i] * sin (2 * G_PI * (k * i % FFT) / FFT);
    }
    power[k] = re * re + im * im;
  }
  for (guint m = 0; m < n_mels; m++) {
    double energy = 0;

    for (guint k = 0; k < ASR_MEL_BINS; k++)
      energy += filters[m * ASR_MEL_BINS + k] * power[k];
    out[(gsize) m * N_FRAMES + t] = log10 (fmax (energy, 1e-10));
  }
}

static void
expect_mel (const float *samples, guint n, const float *filters, guint n_mels,
    double *out)
{
  double top = -10;

  for (gsize i = 0; i < (gsize) n_mels * N_FRAMES; i++)
    out[i] = -10;
  for (guint t = 0; t < N_FRAMES && t * 160 < n + 200; t++)
    expect_frame (samples, n, t, filters, n_mels, out);
  for (gsize i = 0; i < (gsize) n_mels * N_FRAMES; i++)
    top = fmax (top, out[i]);
  for (gsize i = 0; i < (gsize) n_mels * N_FRAMES; i++)
    out[i] = (fmax (out[i], top - 8) + 4) / 4;
}

/* Two windows in one call. */
static void
check_random (Check *check, guint n_mels)
{
  guint n_samples[] = { check_random_range (check, 1, 1000),
    check_random_range (check, 1, 8000) };
  float *samples[2], *mel[2];
  float *filters = check_new (n_mels * ASR_MEL_BINS * sizeof (float));
  g_autofree double *expected = g_new (double, n_mels * N_FRAMES);

  asr_mel_fill_filters (n_mels, filters);
  for (guint r = 0; r < 2; r++) {
    samples[r] = check_new_f32 (check, n_samples[r], r == 0 ? 0.1 : 1e-4);
    mel[r] = check_new (n_mels * N_FRAMES * sizeof (float));
  }
  run_mel (check, filters, n_mels, (const float *const *) samples, n_samples,
      2, mel);
  for (guint r = 0; r < 2; r++) {
    expect_mel (samples[r], n_samples[r], filters, n_mels, expected);
    check_compare (check, "random", mel[r], expected, n_mels * N_FRAMES,
        TOLERANCE, 0);
    check_free (samples[r]);
    check_free (mel[r]);
  }
  check_free (filters);
}

typedef struct {
  Check *check;
  AsrMelParams params;
} Bench;

static void
run_bench (gpointer data)
{
  Bench *bench = data;

  bench->check->table->mel (bench->check->queue, &bench->params);
}

static void
bench_mel (Check *check, guint n_samples)
{
  float *filters = check_new (80 * ASR_MEL_BINS * sizeof (float));
  float *samples = check_new_f32 (check, n_samples, 0.1);
  float *mel = check_new (80 * N_FRAMES * sizeof (float));
  Bench bench = { check, { 1, (const float *const *) &samples, &n_samples,
      filters, 80, &mel } };
  g_autofree char *name = g_strdup_printf ("mel of %u samples", n_samples);

  asr_mel_fill_filters (80, filters);
  check_bench (check, name, 0, 4.0 * (n_samples + 80 * N_FRAMES), run_bench,
      &bench);
  check_free (filters);
  check_free (samples);
  check_free (mel);
}

static void
check_mel (Check *check)
{
  check_speech (check);
  check_random (check, 80);
  check_random (check, 128);
  if (check->is_bench) {
    bench_mel (check, N_WINDOW);
    bench_mel (check, 48000);
  }
}

int
main (int argc, char **argv)
{
  return check_main (argc, argv, check_mel);
}
