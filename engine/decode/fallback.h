/* SPDX-License-Identifier: MIT */
/*
 * Whether the text of a window is good enough, and what to try when it is
 * not: Whisper's temperature ladder with its gates. Pure. In: sums over a
 * pass. Out: a verdict. Source: openai/whisper transcribe.py (MIT).
 */
#ifndef ASR_DECODE_FALLBACK_H
#define ASR_DECODE_FALLBACK_H

#include <glib.h>

G_BEGIN_DECLS

#define ASR_N_TEMPERATURES 6

/* 0.0, 0.2, ... 1.0 */
float asr_fallback_get_temperature (guint attempt);

typedef enum {
  ASR_VERDICT_ACCEPT,
  ASR_VERDICT_SILENCE, /* no speech by the model's own judgement */
  ASR_VERDICT_RETRY,   /* at the next temperature */
} AsrVerdict;

/**
 * AsrPassScore: what one decoding pass came to.
 * @avg_log_prob: sum over the sampled tokens, eot included, by their number
 *   without eot + 1
 * @compression_ratio: bytes of the text by its bytes under zlib
 * @no_speech_prob: probability of the no-speech token at the start
 */
typedef struct {
  double avg_log_prob;
  double compression_ratio;
  double no_speech_prob;
} AsrPassScore;

AsrVerdict asr_fallback_judge (const AsrPassScore *score);

/* Which of @n failed passes to keep: the likeliest among those that do not
 * repeat themselves, or among all if all do. */
guint asr_fallback_choose (const AsrPassScore *scores, guint n);

/**
 * asr_fallback_get_compression_ratio:
 * @text: UTF-8; surrounding blanks do not count
 */
double asr_fallback_get_compression_ratio (const char *text);

G_END_DECLS

#endif
