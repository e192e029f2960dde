/* SPDX-License-Identifier: MIT */
/*
 * Whisper's decoding rules as data, compiled by C and by CUDA so that they
 * exist once. In: a row's rule state. Out: which token ids may follow, and
 * the state after one of them was taken. Knows no logits and no memory.
 *
 * Source: openai/whisper decoding.py (ApplyTimestampRules, SuppressBlank,
 * SuppressTokens); MIT.
 */
#ifndef ASR_BACKEND_RULES_H
#define ASR_BACKEND_RULES_H

#include <stdint.h>

#ifdef __CUDACC__
#define ASR_RULES_INLINE static inline __host__ __device__
#else
#define ASR_RULES_INLINE static inline
#endif

/* Token ids of one model that the rules speak of. Ids from timestamp_begin
 * on are time marks, 0.02 s apart. */
typedef struct {
  int32_t n_vocab;
  int32_t eot;
  int32_t language_begin;
  int32_t language_end;          /* id after the last language */
  int32_t timestamp_begin;
  int32_t max_initial_timestamp; /* greatest id that may come first */
} AsrRuleTokens;

typedef enum {
  ASR_RULES_TIMESTAMPS, /* text between time marks */
  ASR_RULES_TEXT,       /* text without time marks */
  ASR_RULES_LANGUAGE,   /* one language id */
} AsrRuleMode;

/* What has been sampled so far, the prompt excluded. Zero-filled apart from
 * mode, with the three ids at -1, is the state before the first token. */
typedef struct {
  int32_t mode;             /* AsrRuleMode */
  int32_t n_sampled;
  int32_t last;             /* -1 before the first */
  int32_t before_last;      /* -1 before the second */
  int32_t latest_timestamp; /* -1 before the first time mark */
} AsrRuleState;

/* Suppress masks of a model, as bit sets over the vocabulary. */
typedef enum {
  ASR_MASK_NONE,
  ASR_MASK_STEP,  /* never wanted; the token "no time marks" among them */
  ASR_MASK_FIRST, /* also unwanted as the first token: blank, eot */
} AsrMaskId;
#define ASR_N_MASKS 3

/* Ids that may follow: two half-open ranges less the ids of one mask. */
typedef struct {
  int32_t text_begin, text_end;
  int32_t timestamp_begin, timestamp_end;
  int32_t mask;             /* AsrMaskId */
} AsrAllowed;

ASR_RULES_INLINE AsrRuleState
asr_rules_start (AsrRuleMode mode)
{
  AsrRuleState state = { (int32_t) mode, 0, -1, -1, -1 };

  return state;
}

/* If the summed probability of the allowed time marks is greater than that of
 * the likeliest allowed text id, only time marks remain: whoever chooses
 * applies that test, since it needs the logits. It holds in timestamp mode
 * wherever both ranges are non-empty. */
ASR_RULES_INLINE AsrAllowed
asr_rules_get_allowed (const AsrRuleTokens *t, const AsrRuleState *s)
{
  AsrAllowed a = { 0, t->timestamp_begin, 0, 0, ASR_MASK_STEP };
  int last_is_time = s->last >= t->timestamp_begin;
  int before_is_time
      = s->before_last < 0 || s->before_last >= t->timestamp_begin;

  if (s->mode == ASR_RULES_LANGUAGE) {
    a.text_begin = t->language_begin;
    a.text_end = t->language_end;
    a.mask = ASR_MASK_NONE;
    return a;
  }
  if (s->n_sampled == 0)
    a.mask = ASR_MASK_FIRST;
  if (s->mode == ASR_RULES_TEXT)
    return a;

  a.timestamp_begin = t->timestamp_begin;
  a.timestamp_end = t->n_vocab;
  if (s->n_sampled == 0) {
    a.text_end = 0;
    a.timestamp_end = t->max_initial_timestamp + 1;
    return a;
  }
  if (s->latest_timestamp >= 0) {
    /* a mark may repeat only to close the pair that it opened */
    int closes = last_is_time && !before_is_time;

    a.timestamp_begin = s->latest_timestamp + (closes ? 0 : 1);
  }
  if (last_is_time && before_is_time)
    a.timestamp_end = a.timestamp_begin;
  else if (last_is_time)
    a.text_begin = t->eot;
  return a;
}

/* Takes @token into the state. */
ASR_RULES_INLINE void
asr_rules_advance (const AsrRuleTokens *t, AsrRuleState *s, int32_t token)
{
  s->before_last = s->last;
  s->last = token;
  s->n_sampled++;
  if (token >= t->timestamp_begin)
    s->latest_timestamp = token;
}

/* Uniform in (0, 1), the same on every backend for the same arguments
 * (splitmix64's finaliser, Steele et al. 2014). */
ASR_RULES_INLINE float
asr_rules_uniform (uint64_t seed, uint32_t step, uint32_t id)
{
  uint64_t x = seed + 0x9e3779b97f4a7c15u * (((uint64_t) step << 32 | id) + 1);

  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return ((float) (x >> 41) + 0.5f) / 8388608.0f;
}

/* State of a text slot between steps; lives in device memory.
 *
 * Before the first choice, after a prompt of n tokens at positions 0 to
 * n - 1, the host sets rules to asr_rules_start, token to -1 and position to
 * n - 1. Every choice takes its token into rules, puts it into token, adds 1
 * to position (so the first chosen token stands at n) and sets is_finished
 * where the token is eot; a row with ASR_TOKEN_CHOSEN then embeds token at
 * position. For a finished slot a choice changes nothing and gives a record
 * with ASR_TOKEN_SKIPPED, id -1 and log_prob 0.
 *
 * Of equal values the lowest id is chosen. Sampling at a temperature takes
 * the largest logit / temperature - log (-log (u)), u from asr_rules_uniform
 * (seed, rules.n_sampled before the choice, id). Where no id is left, or
 * only logits that are no numbers, eot is taken with log_prob -INFINITY. */
typedef struct {
  AsrRuleState rules;
  int32_t token;        /* chosen last */
  uint32_t position;    /* where that token stands in the slot */
  uint32_t is_finished; /* eot was chosen; later steps change nothing */
  float temperature;    /* 0: the largest logit */
  uint32_t reserved;
  uint64_t seed;
} AsrTextState;

typedef enum {
  ASR_TOKEN_EOT = 1 << 0,     /* the text is complete */
  ASR_TOKEN_SKIPPED = 1 << 1, /* the slot was finished before this step */
} AsrTokenFlags;

/* All that comes back to the host for a token, but for its place. */
typedef struct {
  int32_t id;
  float log_prob;       /* in the masked, untempered distribution */
  uint32_t flags;       /* AsrTokenFlags */
} AsrTokenRecord;

#endif
