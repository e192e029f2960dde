/* SPDX-License-Identifier: MIT */
/* One text from one encoded window, as a state machine; see decoding.h. */
#include "engine/decode/decoding.h"

#include <math.h>

#include "engine/decode/phrases.h"

/* Half of the decoder's context, less one: openai/whisper's bounds. */
#define MAX_PROMPT 223
#define MAX_SAMPLED 224
#define TEXT_CTX 448
/* Text that repeats itself more than this is a loop of the decoder; the gate
 * of openai/whisper. */
#define MAX_COMPRESSION_RATIO 2.4
/* What a text that repeats itself must keep to be believed. */
#define MIN_REPEAT_LOG_PROB (-0.5)
#define MAX_REPEATS 8
#define MIN_BYTES_PER_SECOND 4
#define MAX_BYTES_PER_SECOND 30
#define END_MARK_SLACK 100 /* mel frames: the model rounds up */

typedef struct {
  GArray *tokens;        /* gint32, eot not included */
  GArray *probabilities; /* float, of each token */
  double sum_log_prob;
  AsrPassScore score;
  float temperature;
} Pass;

struct _AsrDecoding {
  const AsrVocab *vocab;
  const AsrSpecialTokens *special;
  AsrDecodingParams params; /* without its arrays: see below */
  AsrDecodingPhase phase;
  gint language;
  GArray *prompt;           /* gint32: start_of_prev, earlier text, start,
                             * prefix */
  GArray *prefix;           /* gint32 */
  GArray *draft;            /* gint32 */
  gboolean is_behind_draft; /* the text slot has not heard of the tokens that
                             * were verified */
  guint sot_row;            /* of the start token in prompt */
  guint max_sampled;
  double no_speech_prob;

  Pass passes[ASR_N_TEMPERATURES];
  guint attempt;            /* the pass that runs */
  guint n_sampled;
  guint chosen;             /* the pass that counts, once there is one */
  gboolean is_silence;

  GArray *phrases;
  guint advance_frames;
  gboolean is_whole;
  GArray *text;             /* gint32 */
  GArray *frames;           /* gint16 */
  GArray *probabilities;    /* float */
};

AsrDecoding *
asr_decoding_new (const AsrVocab *vocab)
{
  AsrDecoding *decoding = g_new0 (AsrDecoding, 1);

  decoding->vocab = vocab;
  decoding->special = asr_vocab_get_special (vocab);
  decoding->prompt = g_array_new (FALSE, FALSE, sizeof (gint32));
  decoding->prefix = g_array_new (FALSE, FALSE, sizeof (gint32));
  decoding->draft = g_array_new (FALSE, FALSE, sizeof (gint32));
  decoding->text = g_array_new (FALSE, FALSE, sizeof (gint32));
  decoding->frames = g_array_new (FALSE, FALSE, sizeof (gint16));
  decoding->probabilities = g_array_new (FALSE, FALSE, sizeof (float));
  for (guint i = 0; i < ASR_N_TEMPERATURES; i++) {
    decoding->passes[i].tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
    decoding->passes[i].probabilities
        = g_array_new (FALSE, FALSE, sizeof (float));
  }
  decoding->phase = ASR_DECODING_DONE;
  decoding->is_silence = TRUE;
  return decoding;
}

void
asr_decoding_free (AsrDecoding *decoding)
{
  if (decoding == NULL)
    return;
  g_array_unref (decoding->prompt);
  g_array_unref (decoding->prefix);
  g_array_unref (decoding->draft);
  g_array_unref (decoding->text);
  g_array_unref (decoding->frames);
  g_array_unref (decoding->probabilities);
  g_clear_pointer (&decoding->phrases, g_array_unref);
  for (guint i = 0; i < ASR_N_TEMPERATURES; i++) {
    g_array_unref (decoding->passes[i].tokens);
    g_array_unref (decoding->passes[i].probabilities);
  }
  g_free (decoding);
}

/* The sequence that makes the model write: sot alone for an English model,
 * sot, language and task otherwise. */
static void
append_start (const AsrDecoding *decoding, GArray *ids)
{
  const AsrSpecialTokens *special = decoding->special;
  gint32 start[3] = { special->sot, special->language_begin,
    decoding->params.task == ASR_TASK_TRANSLATE ? special->translate
                                                : special->transcribe };

  start[1] += MAX (decoding->language, 0);
  g_array_append_vals (ids, start, special->multilingual ? 3 : 1);
}

static void
start_pass (AsrDecoding *decoding)
{
  Pass *pass = &decoding->passes[decoding->attempt];

  g_array_set_size (pass->tokens, 0);
  g_array_set_size (pass->probabilities, 0);
  pass->sum_log_prob = 0;
  pass->temperature = asr_fallback_get_temperature (decoding->attempt);
  decoding->phase = ASR_DECODING_PROMPT;
}

/* @earlier: text in front of the start sequence, already in prompt */
static void
finish_prompt (AsrDecoding *decoding)
{
  decoding->sot_row = decoding->prompt->len;
  append_start (decoding, decoding->prompt);
  if (decoding->params.is_growing) {
    g_array_append_val (decoding->prompt, decoding->special->no_timestamps);
    g_array_append_vals (decoding->prompt, decoding->prefix->data,
        decoding->prefix->len);
  }
  decoding->max_sampled
      = MIN (MAX_SAMPLED, TEXT_CTX + 1 - decoding->prompt->len);
  g_array_set_size (decoding->draft,
      MIN (decoding->draft->len, decoding->max_sampled - 1));
  start_pass (decoding);
}

void
asr_decoding_start (AsrDecoding *decoding, const AsrDecodingParams *params)
{
  decoding->params = *params;
  decoding->params.prompt = decoding->params.prefix = NULL;
  decoding->params.draft = NULL;
  decoding->is_behind_draft = FALSE;
  decoding->attempt = 0;
  decoding->n_sampled = 0;
  decoding->is_silence = FALSE;
  decoding->no_speech_prob = 0;
  g_clear_pointer (&decoding->phrases, g_array_unref);
  g_array_set_size (decoding->text, 0);
  g_array_set_size (decoding->frames, 0);
  g_array_set_size (decoding->probabilities, 0);
  g_array_set_size (decoding->prompt, 0);
  g_array_set_size (decoding->prefix, 0);
  g_array_set_size (decoding->draft, 0);
  if (params->is_growing) {
    g_array_append_vals (decoding->prefix, params->prefix,
        MIN (params->n_prefix, ASR_DECODING_MAX_PREFIX));
    g_array_append_vals (decoding->draft, params->draft, params->n_draft);
  }
  if (params->n_prompt > 0) {
    guint n = MIN (params->n_prompt, MAX_PROMPT);

    g_array_append_val (decoding->prompt, decoding->special->start_of_prev);
    g_array_append_vals (decoding->prompt,
        params->prompt + params->n_prompt - n, n);
  }
  decoding->language = decoding->special->multilingual ? params->language : 0;
  if (decoding->language < 0)
    decoding->phase = ASR_DECODING_LANGUAGE;
  else
    finish_prompt (decoding);
}

AsrDecodingPhase
asr_decoding_get_phase (const AsrDecoding *decoding)
{
  return decoding->phase;
}

/* ---- rows out ---- */

static void
append_row (const AsrDecoding *decoding, GArray *rows, gint32 token,
    guint position)
{
  AsrRow row = { token, position, decoding->params.audio_slot,
    decoding->params.text_slot };

  g_array_append_val (rows, row);
}

static void
append_sample (const AsrDecoding *decoding, const GArray *rows,
    GArray *choices)
{
  AsrChoice choice = { ASR_CHOICE_SAMPLE, rows->len - 1,
    decoding->params.text_slot };

  g_array_append_val (choices, choice);
}

static void
append_score (const AsrDecoding *decoding, guint row, gint32 target,
    gint32 limit, GArray *choices)
{
  AsrChoice choice = { ASR_CHOICE_SCORE, row, decoding->params.text_slot,
    target, limit };

  g_array_append_val (choices, choice);
}

/* What follows the prompt, and each token of the draft if it is right. */
static void
append_draft (const AsrDecoding *decoding, GArray *rows, GArray *choices)
{
  guint n_prompt = decoding->prompt->len, n = decoding->draft->len;

  for (guint i = 0; i <= n; i++) {
    AsrChoice choice = { ASR_CHOICE_VERIFY, rows->len - 1,
      .target = decoding->prefix->len + i };

    g_array_append_val (choices, choice);
    if (i < n)
      append_row (decoding, rows, g_array_index (decoding->draft, gint32, i),
          n_prompt + i);
  }
}

/* The whole prompt; at a later temperature only its last row again, since the
 * cache still holds the others. */
static void
append_prompt (const AsrDecoding *decoding, GArray *rows, GArray *choices)
{
  const gint32 *ids = (const gint32 *) decoding->prompt->data;
  guint n = decoding->prompt->len, base = rows->len;

  for (guint i = decoding->attempt == 0 ? 0 : n - 1; i < n; i++)
    append_row (decoding, rows, ids[i], i);
  if (decoding->attempt == 0)
    append_score (decoding, base + decoding->sot_row,
        decoding->special->no_speech, decoding->special->n_vocab, choices);
  if (decoding->draft->len > 0)
    append_draft (decoding, rows, choices);
  else
    append_sample (decoding, rows, choices);
}

/* Start sequence, no_timestamps, text, eot: each row but the first ones
 * attends to where the text token after it is said. Nothing is chosen. */
static void
append_alignment (const AsrDecoding *decoding, GArray *rows)
{
  const AsrSpecialTokens *special = decoding->special;
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));

  append_start (decoding, ids);
  g_array_append_val (ids, special->no_timestamps);
  g_array_append_vals (ids, decoding->text->data, decoding->text->len);
  g_array_append_val (ids, special->eot);
  for (guint i = 0; i < ids->len; i++)
    append_row (decoding, rows, g_array_index (ids, gint32, i), i);
}

static AsrTextState
make_state (const AsrDecoding *decoding, AsrRuleMode mode, guint n_rows)
{
  AsrTextState state = { asr_rules_start (mode), -1, n_rows - 1 };

  state.temperature = decoding->passes[decoding->attempt].temperature;
  state.seed = decoding->params.seed + decoding->attempt;
  return state;
}

/* After a draft: as if its tokens had been sampled one by one. */
static AsrTextState
make_state_behind_draft (const AsrDecoding *decoding)
{
  const GArray *tokens = decoding->passes[0].tokens;
  AsrTextState state = make_state (decoding, ASR_RULES_TEXT,
      decoding->prompt->len + tokens->len);

  state.rules.n_sampled = decoding->prefix->len + tokens->len;
  state.token = g_array_index (tokens, gint32, tokens->len - 1);
  return state;
}

gboolean
asr_decoding_get_rows (const AsrDecoding *decoding, GArray *rows,
    GArray *choices, AsrTextState *state)
{
  switch (decoding->phase) {
    case ASR_DECODING_LANGUAGE:
      append_row (decoding, rows, decoding->special->sot, 0);
      append_sample (decoding, rows, choices);
      *state = make_state (decoding, ASR_RULES_LANGUAGE, 1);
      state->temperature = 0;
      return TRUE;
    case ASR_DECODING_PROMPT:
      append_prompt (decoding, rows, choices);
      *state = make_state (decoding, decoding->params.is_growing
              ? ASR_RULES_TEXT : ASR_RULES_TIMESTAMPS,
          decoding->prompt->len);
      /* after a prefix, the text may end or go on in the middle of a word */
      state->rules.n_sampled = decoding->prefix->len;
      return TRUE;
    case ASR_DECODING_STEP:
      append_row (decoding, rows, ASR_TOKEN_CHOSEN, 0);
      append_sample (decoding, rows, choices);
      if (decoding->is_behind_draft)
        *state = make_state_behind_draft (decoding);
      return decoding->is_behind_draft;
    case ASR_DECODING_ALIGN:
      append_alignment (decoding, rows);
      return FALSE;
    case ASR_DECODING_DONE:
      break;
  }
  g_return_val_if_reached (FALSE);
}

/* ---- records in ---- */

static void
score_pass (AsrDecoding *decoding, Pass *pass)
{
  g_autoptr (GString) bytes = g_string_new (NULL);
  g_autofree char *text = NULL;

  asr_vocab_append_text (decoding->vocab, (const gint32 *) pass->tokens->data,
      pass->tokens->len, bytes);
  text = g_utf8_make_valid (bytes->str, bytes->len);
  pass->score.avg_log_prob = pass->sum_log_prob / (pass->tokens->len + 1);
  pass->score.compression_ratio = asr_fallback_get_compression_ratio (text);
  pass->score.no_speech_prob = decoding->no_speech_prob;
}

/* Times of a translation: its words do not follow the audio's order, so each
 * phrase's tokens share its time by their length. */
static void
spread_phrase (AsrDecoding *decoding, const Pass *pass,
    const AsrPhrase *phrase)
{
  const gint32 *tokens = (const gint32 *) pass->tokens->data;
  guint n_bytes = 0, n_before = 0;

  for (guint i = phrase->first; i < phrase->first + phrase->n_tokens; i++)
    n_bytes += asr_vocab_get_bytes (decoding->vocab, tokens[i]).length;
  for (guint i = phrase->first; i < phrase->first + phrase->n_tokens; i++) {
    gint16 frame = phrase->start_mark
        + (phrase->end_mark - phrase->start_mark) * n_before
            / MAX (n_bytes, 1);

    if (tokens[i] >= decoding->special->eot)
      continue;
    g_array_append_val (decoding->frames, frame);
    n_before += asr_vocab_get_bytes (decoding->vocab, tokens[i]).length;
  }
}

static void
spread_all (AsrDecoding *decoding, const Pass *pass)
{
  gint16 end = 0;

  for (guint i = 0; i < decoding->phrases->len; i++) {
    const AsrPhrase *phrase = &g_array_index (decoding->phrases, AsrPhrase, i);

    spread_phrase (decoding, pass, phrase);
    end = phrase->end_mark;
  }
  g_array_append_val (decoding->frames, end);
}

/* Cuts the chosen pass into phrases and goes on to their alignment. */
static void
accept_pass (AsrDecoding *decoding, guint chosen)
{
  const Pass *pass = &decoding->passes[chosen];
  const gint32 *tokens = (const gint32 *) pass->tokens->data;
  const AsrSpecialTokens *special = decoding->special;

  decoding->chosen = chosen;
  decoding->phrases = asr_phrases_cut (tokens, pass->tokens->len,
      special->timestamp_begin, special->eot, decoding->params.n_mel_frames,
      &decoding->advance_frames, &decoding->is_whole);
  for (guint i = 0; i < decoding->phrases->len; i++) {
    const AsrPhrase *phrase = &g_array_index (decoding->phrases, AsrPhrase, i);

    for (guint k = phrase->first; k < phrase->first + phrase->n_tokens; k++)
      if (tokens[k] < special->eot) {
        g_array_append_val (decoding->text, tokens[k]);
        g_array_append_val (decoding->probabilities,
            g_array_index (pass->probabilities, float, k));
      }
  }
  decoding->phase = ASR_DECODING_DONE;
  if (decoding->params.task == ASR_TASK_TRANSLATE)
    spread_all (decoding, pass);
  else if (decoding->text->len > 0)
    decoding->phase = ASR_DECODING_ALIGN;
}

/* The text so far: what stays, and what the pass adds to it. */
static void
accept_growing (AsrDecoding *decoding)
{
  const Pass *pass = &decoding->passes[0];
  const float certain = 1;

  decoding->chosen = 0;
  decoding->phrases = g_array_new (FALSE, FALSE, sizeof (AsrPhrase));
  g_array_append_vals (decoding->text, decoding->prefix->data,
      decoding->prefix->len);
  for (guint i = 0; i < decoding->prefix->len; i++)
    g_array_append_val (decoding->probabilities, certain);
  if (pass->score.compression_ratio <= MAX_COMPRESSION_RATIO) {
    g_array_append_vals (decoding->text, pass->tokens->data,
        pass->tokens->len);
    g_array_append_vals (decoding->probabilities, pass->probabilities->data,
        pass->probabilities->len);
  }
  decoding->phase
      = decoding->text->len > 0 ? ASR_DECODING_ALIGN : ASR_DECODING_DONE;
}

/* People do say a thing three times. A text that repeats itself is believed
 * where it is likely, came to its own end, and each phrase has time marks that
 * give it as long as it takes to say: a loop of the decoder has not. */
static gboolean
is_said_again (const AsrDecoding *decoding, const Pass *pass)
{
  const gint32 *tokens = (const gint32 *) pass->tokens->data;
  const AsrSpecialTokens *special = decoding->special;
  g_autoptr (GArray) phrases = NULL;
  guint advance;
  gboolean is_whole;

  if (pass->score.avg_log_prob < MIN_REPEAT_LOG_PROB
      || pass->tokens->len == 0
      || pass->tokens->len >= decoding->max_sampled)
    return FALSE;
  phrases = asr_phrases_cut (tokens, pass->tokens->len,
      special->timestamp_begin, special->eot, decoding->params.n_mel_frames,
      &advance, &is_whole);
  for (guint i = 0; i < phrases->len; i++) {
    const AsrPhrase *phrase = &g_array_index (phrases, AsrPhrase, i);
    double length_s = (phrase->end_mark - phrase->start_mark) * 0.02;
    guint n_bytes = 0;

    for (guint k = 0; k < phrase->n_tokens; k++)
      n_bytes += asr_vocab_get_bytes (decoding->vocab,
          tokens[phrase->first + k]).length;
    if (n_bytes > length_s * MAX_BYTES_PER_SECOND
        || n_bytes < length_s * MIN_BYTES_PER_SECOND
        || phrase->end_mark * ASR_MEL_FRAMES_PER_MARK
            > decoding->params.n_mel_frames + END_MARK_SLACK)
      return FALSE;
  }
  /* closed by a mark: nothing was cut off */
  return tokens[pass->tokens->len - 1] >= special->timestamp_begin
      && phrases->len > 1 && phrases->len <= MAX_REPEATS;
}

static void
finish_pass (AsrDecoding *decoding)
{
  Pass *pass = &decoding->passes[decoding->attempt];
  AsrVerdict verdict;

  score_pass (decoding, pass);
  verdict = asr_fallback_judge (&pass->score);
  if (verdict == ASR_VERDICT_RETRY && is_said_again (decoding, pass))
    verdict = ASR_VERDICT_ACCEPT;
  g_debug ("temperature %.1f: %u tokens, log-probability %.3f, compression "
      "%.2f, no speech %.3f: %s", pass->temperature, pass->tokens->len,
      pass->score.avg_log_prob, pass->score.compression_ratio,
      pass->score.no_speech_prob, verdict == ASR_VERDICT_ACCEPT ? "accepted"
          : verdict == ASR_VERDICT_SILENCE                      ? "silence"
                                                                : "retry");
  switch (verdict) {
    case ASR_VERDICT_ACCEPT:
      break;
    case ASR_VERDICT_SILENCE:
      decoding->chosen = decoding->attempt;
      decoding->is_silence = TRUE;
      decoding->phase = ASR_DECODING_DONE;
      return;
    case ASR_VERDICT_RETRY:
      break;
  }
  if (decoding->params.is_growing) {
    accept_growing (decoding);
  } else if (verdict == ASR_VERDICT_ACCEPT) {
    accept_pass (decoding, decoding->attempt);
  } else if (decoding->attempt + 1 < ASR_N_TEMPERATURES) {
    decoding->attempt++;
    start_pass (decoding);
  } else {
    AsrPassScore scores[ASR_N_TEMPERATURES];

    for (guint i = 0; i < ASR_N_TEMPERATURES; i++)
      scores[i] = decoding->passes[i].score;
    accept_pass (decoding, asr_fallback_choose (scores, ASR_N_TEMPERATURES));
  }
}

static void
feed_token (AsrDecoding *decoding, const AsrTokenRecord *record)
{
  Pass *pass = &decoding->passes[decoding->attempt];

  if (record->flags & ASR_TOKEN_SKIPPED)
    return;
  decoding->phase = ASR_DECODING_STEP;
  decoding->n_sampled++;
  pass->sum_log_prob += record->log_prob;
  if (!(record->flags & ASR_TOKEN_EOT)) {
    float probability = expf (record->log_prob);

    g_array_append_val (pass->tokens, record->id);
    g_array_append_val (pass->probabilities, probability);
  }
  if ((record->flags & ASR_TOKEN_EOT)
      || pass->tokens->len >= decoding->max_sampled)
    finish_pass (decoding);
}

/* Tokens are the text's up to the first that the draft has not; that one as
 * well. */
static void
feed_draft (AsrDecoding *decoding, const AsrTokenRecord *records)
{
  guint n = decoding->draft->len, i = 0;
  gboolean agrees = TRUE;

  while (agrees) {
    feed_token (decoding, &records[i]);
    agrees = decoding->phase == ASR_DECODING_STEP && i < n
        && records[i].id == g_array_index (decoding->draft, gint32, i);
    i++;
  }
  decoding->is_behind_draft = TRUE;
}

void
asr_decoding_feed (AsrDecoding *decoding, const AsrTokenRecord *records,
    guint n_records)
{
  switch (decoding->phase) {
    case ASR_DECODING_LANGUAGE:
      decoding->language = records[0].id - decoding->special->language_begin;
      finish_prompt (decoding);
      break;
    case ASR_DECODING_PROMPT:
      if (decoding->attempt == 0)
        decoding->no_speech_prob = exp (records[0].log_prob);
      if (decoding->draft->len > 0)
        feed_draft (decoding, records + 1);
      else
        feed_token (decoding, &records[n_records - 1]);
      break;
    case ASR_DECODING_STEP:
      decoding->is_behind_draft = FALSE;
      feed_token (decoding, &records[0]);
      break;
    case ASR_DECODING_ALIGN:
    case ASR_DECODING_DONE:
      break;
  }
}

guint
asr_decoding_get_first_row (const AsrDecoding *decoding)
{
  /* the row of no_timestamps, right after the start sequence */
  return decoding->special->multilingual ? 3 : 1;
}

guint
asr_decoding_get_n_frames (const AsrDecoding *decoding)
{
  return MAX (1, decoding->params.n_mel_frames / ASR_MEL_FRAMES_PER_MARK);
}

void
asr_decoding_feed_frames (AsrDecoding *decoding, const gint16 *frames)
{
  g_return_if_fail (decoding->phase == ASR_DECODING_ALIGN);
  g_array_append_vals (decoding->frames, frames, decoding->text->len + 1);
  decoding->phase = ASR_DECODING_DONE;
}

void
asr_decoding_get_result (const AsrDecoding *decoding,
    AsrDecodingResult *result)
{
  const Pass *pass = &decoding->passes[decoding->chosen];

  g_return_if_fail (decoding->phase == ASR_DECODING_DONE);
  *result = (AsrDecodingResult){
    .language = decoding->special->multilingual ? decoding->language : -1,
    .is_silence = decoding->is_silence,
    .tokens = (const gint32 *) pass->tokens->data,
    .n_tokens = pass->tokens->len,
    .phrases = decoding->phrases,
    .advance_frames = decoding->advance_frames,
    .is_whole = decoding->is_whole,
    .text = (const gint32 *) decoding->text->data,
    .n_text = decoding->text->len,
    .frames = (const gint16 *) decoding->frames->data,
    .probabilities = (const float *) decoding->probabilities->data,
    .score = pass->score,
    .temperature = pass->temperature,
    .n_attempts = decoding->attempt + 1,
    .n_sampled = decoding->n_sampled,
  };
}
