/* SPDX-License-Identifier: MIT */
/* The temperature ladder and its gates; see fallback.h. */
#include "engine/decode/fallback.h"

#include <string.h>
#include <zlib.h>

#define MAX_COMPRESSION_RATIO 2.4
#define MIN_AVG_LOG_PROB (-1.0)
#define MAX_NO_SPEECH_PROB 0.6

float
asr_fallback_get_temperature (guint attempt)
{
  return 0.2f * attempt;
}

AsrVerdict
asr_fallback_judge (const AsrPassScore *score)
{
  gboolean is_unlikely = score->avg_log_prob < MIN_AVG_LOG_PROB;

  if (score->no_speech_prob > MAX_NO_SPEECH_PROB && is_unlikely)
    return ASR_VERDICT_SILENCE;
  if (is_unlikely || score->compression_ratio > MAX_COMPRESSION_RATIO)
    return ASR_VERDICT_RETRY;
  return ASR_VERDICT_ACCEPT;
}

guint
asr_fallback_choose (const AsrPassScore *scores, guint n)
{
  gint best = -1, best_plain = -1;

  for (guint i = 0; i < n; i++) {
    if (best < 0 || scores[i].avg_log_prob > scores[best].avg_log_prob)
      best = i;
    if (scores[i].compression_ratio <= MAX_COMPRESSION_RATIO
        && (best_plain < 0
            || scores[i].avg_log_prob > scores[best_plain].avg_log_prob))
      best_plain = i;
  }
  return best_plain >= 0 ? best_plain : MAX (best, 0);
}

double
asr_fallback_get_compression_ratio (const char *text)
{
  g_autofree char *stripped = g_strstrip (g_strdup (text));
  gsize n_bytes = strlen (stripped);
  uLongf n_packed = compressBound (n_bytes);
  g_autofree Bytef *packed = g_malloc (n_packed);

  if (n_bytes == 0
      || compress (packed, &n_packed, (const Bytef *) stripped, n_bytes)
          != Z_OK)
    return 0;
  return (double) n_bytes / n_packed;
}
