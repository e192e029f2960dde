/* SPDX-License-Identifier: MIT */
/*
 * The mel filter bank; see mel.h. Source: Slaney's Auditory Toolbox (1998),
 * as librosa.filters.mel has it by default.
 */
#include "engine/audio/mel.h"

#include <math.h>

#define MAX_HZ 8000.0
#define HZ_PER_BIN 40.0
/* Below, mels are linear in hertz; above, logarithmic. */
#define BREAK_HZ 1000.0
#define HZ_PER_MEL (200.0 / 3)
#define BREAK_MEL (BREAK_HZ / HZ_PER_MEL)
#define LOG_STEP (log (6.4) / 27)

static double
mel_to_hz (double mel)
{
  return mel < BREAK_MEL ? mel * HZ_PER_MEL
                         : BREAK_HZ * exp ((mel - BREAK_MEL) * LOG_STEP);
}

void
asr_mel_fill_filters (guint n_mels, float *filters)
{
  double max_mel = BREAK_MEL + log (MAX_HZ / BREAK_HZ) / LOG_STEP;

  for (guint m = 0; m < n_mels; m++) {
    double low = mel_to_hz (max_mel * m / (n_mels + 1));
    double centre = mel_to_hz (max_mel * (m + 1) / (n_mels + 1));
    double high = mel_to_hz (max_mel * (m + 2) / (n_mels + 1));

    for (guint k = 0; k < ASR_MEL_BINS; k++) {
      double hz = k * HZ_PER_BIN;
      double up = (hz - low) / (centre - low);
      double down = (high - hz) / (high - centre);

      filters[m * ASR_MEL_BINS + k]
          = MAX (0.0, MIN (up, down)) * 2 / (high - low);
    }
  }
}
