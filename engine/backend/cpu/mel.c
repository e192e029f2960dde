/* SPDX-License-Identifier: MIT */
/*
 * Log-mel of whole windows. In: samples at 16 kHz. Out: [n_mels, 3000] as
 * transformers' WhisperFeatureExtractor defines it. Frames that begin behind
 * the last sample are silence and are not computed.
 */
#include "engine/backend/cpu/kernels.h"
#include <math.h>

#define GROUP 16          /* frames of one item: a multiple of every VEC_N */
#define SILENCE (-10.0f)  /* log10 (1e-10) */
#define N_GROUPS ((ASR_MEL_FRAMES + GROUP - 1) / GROUP)

typedef struct {
  const AsrKernels *kernels;
  AsrMelBlock block;
  guint n_frames;          /* that any sample reaches */
  float tops[N_GROUPS];    /* greatest value of each group */
  float floor;
} MelJob;

static void
run_groups (gpointer data, guint begin, guint end, guint thread)
{
  MelJob *job = data;

  for (guint i = begin; i < end; i++) {
    guint n = MIN (GROUP, job->n_frames - i * GROUP);

    job->tops[i] = job->kernels->mel_frames (&job->block, i * GROUP, n);
  }
}

/* Rows of mel: the frames behind the last sample, then the scale of all. */
static void
run_rows (gpointer data, guint begin, guint end, guint thread)
{
  MelJob *job = data;
  float silence = (MAX (SILENCE, job->floor) + 4.0f) / 4.0f;

  for (guint m = begin; m < end; m++) {
    float *row = job->block.mel + (gsize) m * ASR_MEL_FRAMES;

    job->kernels->mel_scale (row, job->n_frames, job->floor);
    for (guint t = job->n_frames; t < ASR_MEL_FRAMES; t++)
      row[t] = silence;
  }
}

static void
run_window (AsrQueue *queue, MelJob *job)
{
  guint n_samples = job->block.n_samples;
  guint n_groups;
  float top = SILENCE;

  job->n_frames = 0;
  if (n_samples > 0) /* frame t begins at sample 160 t - 200 */
    job->n_frames = (n_samples + ASR_MEL_FFT / 2 - 1) / ASR_MEL_HOP + 1;
  job->n_frames = MIN (job->n_frames, ASR_MEL_FRAMES);
  n_groups = (job->n_frames + GROUP - 1) / GROUP;
  asr_threads_run (queue->device->threads, n_groups, 4, run_groups, job);
  for (guint i = 0; i < n_groups; i++)
    top = MAX (top, job->tops[i]);
  job->floor = top - 8.0f;
  asr_threads_run (queue->device->threads, job->block.n_mels, 8, run_rows,
      job);
}

/* Each filter is a triangle: where it begins and ends. */
static void
find_bins (const float *filters, guint n_mels, guint16 *bins)
{
  for (guint m = 0; m < n_mels; m++) {
    const float *filter = filters + (gsize) m * ASR_MEL_BINS;
    guint first = 0, end = ASR_MEL_BINS;

    while (first < end && filter[first] == 0)
      first++;
    while (end > first && filter[end - 1] == 0)
      end--;
    bins[2 * m] = first;
    bins[2 * m + 1] = end;
  }
}

void
asr_cpu_mel (AsrQueue *queue, const AsrMelParams *params)
{
  gsize n_circle = 2 * ASR_MEL_FFT * sizeof (float);
  float *circle = asr_cpu_get_scratch (queue, ASR_SCRATCH_OP,
      n_circle + 2 * params->n_mels * sizeof (guint16));
  MelJob job = { asr_kernels_get (queue->device->isa) };
  guint16 *bins;

  if (circle == NULL)
    return;
  bins = (guint16 *) (circle + 2 * ASR_MEL_FFT);
  for (guint n = 0; n < ASR_MEL_FFT; n++) {
    circle[2 * n] = (float) cos (2 * G_PI * n / ASR_MEL_FFT);
    circle[2 * n + 1] = (float) sin (2 * G_PI * n / ASR_MEL_FFT);
  }
  job.block.circle = circle;
  job.block.bins = bins;
  job.block.filters = params->filters;
  job.block.n_mels = params->n_mels;
  find_bins (params->filters, params->n_mels, bins);
  for (guint r = 0; r < params->n_rows; r++) {
    job.block.samples = params->samples[r];
    job.block.n_samples = MIN (params->n_samples[r], ASR_MEL_SAMPLES);
    job.block.mel = params->mel[r];
    run_window (queue, &job);
  }
}
