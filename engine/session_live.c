/* SPDX-License-Identifier: MIT */
/*
 * The worker's side of speech that is decoded while it goes on: a window is
 * decoded again and again behind the words that are final in it, which are
 * never opened again. Owns no device, thread or clock but for the time that a
 * decode takes, to which the steps adapt.
 */
#include <string.h>

#include "engine/segment.h"
#include "engine/session_private.h"
#include "engine/session_text.h"
#include "engine/text/language.h"

/* Steps are never shorter: more decodes than this tell nothing new. */
#define MIN_STEP_SAMPLES (3 * 16000 / 10)
/* New audio that is waited for, by the time that a decode took. */
#define STEP_PER_DECODE 1.25
/* Earlier text of an utterance that stays as context. */
#define MAX_CONTEXT_TOKENS 64
/* Speech that a language is recognised by. */
#define LANGUAGE_SAMPLES (3 * 16000 / 2)
/* What a window without any words keeps when it gets too long. */
#define KEPT_SAMPLES (5 * 16000)

/* A word that is final and still in the window. */
typedef struct {
  guint n_tokens; /* with what follows it up to the next */
  gint64 end;
  gboolean ends_sentence;
} FinalWord;

struct _AsrSessionLive {
  AsrLiveParams params;
  AsrLive state;
  AsrLiveStep step;
  GArray *prefix;     /* gint32: tokens of the final words */
  GArray *final;      /* FinalWord */
  GArray *context;    /* gint32: text of the utterance before the window */
  GPtrArray *guess;   /* char: letters of the words that are not final */
  GArray *draft;      /* gint32: their tokens */
  AsrSpan left;       /* a window or its start, which other outputs have yet
                       * to be told of; empty: none */
  gboolean is_translating;
  gint64 began_us;
  double decode_s;    /* what a decode takes, smoothed */
};

AsrSessionLive *
asr_session_live_new (void)
{
  AsrSessionLive *live = g_new0 (AsrSessionLive, 1);

  live->prefix = g_array_new (FALSE, FALSE, sizeof (gint32));
  live->final = g_array_new (FALSE, FALSE, sizeof (FinalWord));
  live->context = g_array_new (FALSE, FALSE, sizeof (gint32));
  live->guess = g_ptr_array_new_with_free_func (g_free);
  live->draft = g_array_new (FALSE, FALSE, sizeof (gint32));
  return live;
}

void
asr_session_live_free (AsrSessionLive *live)
{
  if (live == NULL)
    return;
  g_array_unref (live->prefix);
  g_array_unref (live->final);
  g_array_unref (live->context);
  g_ptr_array_unref (live->guess);
  g_array_unref (live->draft);
  g_free (live);
}

static void
forget_window (AsrSessionLive *live)
{
  g_array_set_size (live->prefix, 0);
  g_array_set_size (live->final, 0);
  g_array_set_size (live->context, 0);
  g_ptr_array_set_size (live->guess, 0);
  g_array_set_size (live->draft, 0);
}

void
asr_session_live_reset (AsrSession *session)
{
  AsrSessionLive *live = session->live;
  const AsrStream *stream = session->stream;

  live->params = (AsrLiveParams){
    .max_window_samples = session->params.max_window_samples,
    .latency_samples = stream->latency_samples,
    .step_samples = MIN_STEP_SAMPLES,
    .needs_agreement = stream->policy == ASR_POLICY_LOCAL_AGREEMENT,
    .may_skip = stream->is_live,
  };
  live->state = (AsrLive){ 0 };
  live->decode_s = 0;
  live->left = (AsrSpan){ 0 };
  live->is_translating = FALSE;
  forget_window (live);
}

void
asr_session_live_set_latency (AsrSessionLive *live, guint64 latency_samples)
{
  live->params.latency_samples = latency_samples;
}

gboolean
asr_session_live_is_translating (const AsrSessionLive *live)
{
  return live->is_translating;
}

static gboolean
has_left (const AsrSessionLive *live)
{
  return live->left.end > live->left.start;
}

gint64
asr_session_live_get_position (const AsrSessionLive *live)
{
  return live->state.position;
}

/* ---- what to do next ---- */

static AsrHeard
get_heard (AsrSession *session, AsrSpan *all)
{
  AsrHeard heard = asr_session_get_heard (session);

  /* without a detector everything is speech */
  if (!session->params.use_gate && heard.end > 0) {
    *all = (AsrSpan){ 0, G_MAXINT64 };
    heard.spans = all;
    heard.n_spans = 1;
  }
  return heard;
}

static void
tell_skipped (AsrSession *session, const AsrLiveStep *step)
{
  g_mutex_lock (&session->stream->lock);
  session->stream->stats.skipped_samples += step->end - step->start;
  g_mutex_unlock (&session->stream->lock);
  asr_stream_take_segment (session->stream,
      asr_segment_new (ASR_SEGMENT_SKIPPED, 0, session->epoch, step->start,
          step->end, NULL, 0, ""));
}

/* The first output is told word by word, the others when a window is left. */
static void
tell_silence (AsrSession *session)
{
  const AsrSessionLive *live = session->live;
  gint64 position = live->state.position, others = position;

  if (has_left (live))
    others = live->left.start;
  else if (live->state.decoded > live->state.start)
    others = MIN (position, live->state.start);
  for (guint i = session->n_outputs; i-- > 1;)
    asr_session_tell_silence (session, i, others);
  asr_session_tell_silence (session, 0, position);
}

static void
move_on (AsrSession *session)
{
  const AsrSessionLive *live = session->live;
  gint64 needed = asr_live_get_needed (&live->state);

  if (has_left (live))
    needed = MIN (needed, live->left.start);
  asr_session_move_on (session, live->state.position, needed);
}

static void
take_silence (AsrSession *session, const AsrLiveStep *step)
{
  AsrSessionLive *live = session->live;

  asr_live_take_silence (&live->state, step);
  if (step->is_anew) {
    forget_window (live);
    /* another speaker may speak another language */
    session->language = session->wished_language;
  }
  if (step->action == ASR_LIVE_SKIP)
    tell_skipped (session, step);
  tell_silence (session);
  move_on (session);
}

/* Whether the window has text that is to be translated before it is left. */
static gboolean
leaves_window (const AsrSession *session, const AsrLiveStep *step)
{
  const AsrSessionLive *live = session->live;

  if (session->n_outputs < 2 || live->final->len == 0)
    return FALSE;
  if (step->action == ASR_LIVE_END)
    return session->is_draining;
  return step->is_anew && step->action != ASR_LIVE_DECODE;
}

static void
start_translation (AsrSession *session)
{
  AsrSessionLive *live = session->live;

  live->is_translating = TRUE;
  session->step = (AsrOfflineStep){ ASR_OFFLINE_DECODE, live->left.start,
    live->left.end };
  session->state = ASR_SESSION_ENCODE;
}

gboolean
asr_session_live_update (AsrSession *session)
{
  AsrSessionLive *live = session->live;
  AsrSpan all;
  AsrHeard heard = get_heard (session, &all);
  AsrLiveStep step;

  step = asr_live_next (&live->state, &live->params, &heard);
  if (!has_left (live) && leaves_window (session, &step))
    live->left = (AsrSpan){ live->state.start, live->state.decoded };
  if (has_left (live)) {
    start_translation (session);
    return TRUE;
  }
  switch (step.action) {
    case ASR_LIVE_WAIT:
      return FALSE;
    case ASR_LIVE_SILENCE:
    case ASR_LIVE_SKIP:
      take_silence (session, &step);
      return TRUE;
    case ASR_LIVE_DECODE:
      if (session->language < 0 && !step.is_last
          && step.end - step.start
              < MIN (LANGUAGE_SAMPLES, live->params.latency_samples / 2))
        return FALSE;
      live->step = step;
      live->began_us = g_get_monotonic_time ();
      session->step
          = (AsrOfflineStep){ ASR_OFFLINE_DECODE, step.start, step.end };
      session->state = ASR_SESSION_ENCODE;
      return TRUE;
    case ASR_LIVE_END:
      break;
  }
  if (!session->is_ended && session->is_draining) {
    asr_session_tell_end (session);
    asr_stream_notify (session->stream);
  }
  return FALSE;
}

void
asr_session_live_get_params (const AsrSession *session,
    AsrDecodingParams *params, GArray *prompt)
{
  const AsrSessionLive *live = session->live;

  g_array_append_vals (prompt, live->context->data, live->context->len);
  params->prompt = (const gint32 *) prompt->data;
  params->n_prompt = prompt->len;
  params->is_growing = TRUE;
  params->prefix = (const gint32 *) live->prefix->data;
  params->n_prefix = live->prefix->len;
  /* who wants to see logits wants them of every token */
  if (!asr_session_is_tapped (session, ASR_METHOD_DECODER)) {
    params->draft = (const gint32 *) live->draft->data;
    params->n_draft = live->draft->len;
  }
}

/* ---- what came of it ---- */

/* Words that were not final before the window was decoded. */
typedef struct {
  GArray *words;      /* AsrWord (owned) */
  GArray *token_ends; /* guint: tokens of the text up to each word's end */
} NewWords;

/* Where a final word has grown, what was added to it is a word of its own
 * without a blank; added punctuation comes too late. */
static gboolean
cut_word (const AsrVocab *vocab, const AsrDecodingResult *result,
    guint n_prefix, const AsrTimedWord *word, AsrTimedWord *rest)
{
  guint end = word->first_token + word->n_tokens;
  g_autoptr (GString) bytes = g_string_new (NULL);
  g_autofree char *letters = NULL;

  *rest = *word;
  if (word->first_token >= n_prefix)
    return TRUE;
  if (end <= n_prefix)
    return FALSE;
  asr_vocab_append_text (vocab, result->text + n_prefix, end - n_prefix,
      bytes);
  rest->text = g_utf8_make_valid (bytes->str, bytes->len);
  letters = asr_text_get_letters (rest->text);
  if (*letters == '\0')
    g_clear_pointer (&rest->text, g_free);
  return rest->text != NULL;
}

/* What follows without a blank belongs to the word before it: it would not be
 * one word any more once that is final. */
static void
join_last (NewWords *new)
{
  AsrWord *word = &g_array_index (new->words, AsrWord, new->words->len - 2);
  g_autofree char *first = (char *) word->text;

  word->text = g_strconcat (first, word[1].text, NULL);
  word->end = word[1].end;
  word->confidence = MIN (word->confidence, word[1].confidence);
  g_array_set_size (new->words, new->words->len - 1);
  g_array_set_size (new->token_ends, new->token_ends->len - 1);
}

static NewWords
get_new_words (AsrSession *session, const AsrHeard *heard,
    const AsrDecodingResult *result)
{
  NewWords new = { asr_text_new_words (),
    g_array_new (FALSE, FALSE, sizeof (guint)) };
  AsrSessionOutput *output = &session->outputs[0];
  const char *language = asr_session_get_language (session, 0);
  double typical_s, offset_s = session->step.start / (double) ASR_SAMPLE_RATE;
  guint n_prefix = session->live->prefix->len;
  gint64 told = output->told;
  g_autoptr (GArray) timed = NULL;

  if (result->is_silence || result->n_text <= n_prefix)
    return new;
  timed = asr_words_from_tokens (session->vocab, result->text, result->n_text,
      result->frames, result->probabilities, language, &typical_s);
  for (guint i = 0; i < timed->len; i++) {
    const AsrTimedWord *word = &g_array_index (timed, AsrTimedWord, i);
    guint end = word->first_token + word->n_tokens, n_before = new.words->len;
    AsrTimedWord rest;

    if (!cut_word (session->vocab, result, n_prefix, word, &rest))
      continue;
    rest.start_s += offset_s;
    rest.end_s += offset_s;
    asr_text_append_word (new.words, &rest, heard->spans, heard->n_spans,
        FALSE, &told);
    if (rest.text != word->text)
      g_free (rest.text);
    if (new.words->len == n_before)
      continue;
    if (n_before > 0 && !asr_language_is_unspaced (language)
        && !g_array_index (new.words, AsrWord, n_before).space_before)
      join_last (&new);
    g_array_append_val (new.token_ends, end);
  }
  return new;
}

/* How many words from the first on the decode before gave as well. */
static guint
count_agreed (AsrSessionLive *live, GArray *words)
{
  guint n = 0;
  gboolean agrees = TRUE;

  for (guint i = 0; agrees && i < MIN (words->len, live->guess->len); i++) {
    g_autofree char *letters
        = asr_text_get_letters (g_array_index (words, AsrWord, i).text);

    agrees = strcmp (letters, g_ptr_array_index (live->guess, i)) == 0;
    n += agrees;
  }
  return n;
}

/* Words from @first on, whose tokens follow the prefix, are what the next
 * decode starts from and is compared with. */
static void
keep_guess (AsrSessionLive *live, const AsrDecodingResult *result,
    GArray *words, guint first)
{
  guint n_prefix = live->prefix->len;

  g_array_set_size (live->draft, 0);
  if (result->n_text > n_prefix)
    g_array_append_vals (live->draft, result->text + n_prefix,
        result->n_text - n_prefix);
  g_ptr_array_set_size (live->guess, 0);
  for (guint i = first; i < words->len; i++)
    g_ptr_array_add (live->guess,
        asr_text_get_letters (g_array_index (words, AsrWord, i).text));
}

/* Final words stay in the window as its prefix. */
static void
keep_final (AsrSessionLive *live, const AsrDecodingResult *result,
    const NewWords *new, guint n_final)
{
  for (guint i = 0; i < n_final; i++) {
    const AsrWord *word = &g_array_index (new->words, AsrWord, i);
    guint end = g_array_index (new->token_ends, guint, i);
    FinalWord final = { end - live->prefix->len, word->end,
      asr_text_ends_sentence (word->text) };

    g_array_append_vals (live->prefix, result->text + live->prefix->len,
        final.n_tokens);
    g_array_append_val (live->final, final);
  }
}

/* A window that got long begins behind a sentence, or behind any word. */
static void
shorten_window (AsrSession *session)
{
  AsrSessionLive *live = session->live;
  gint64 start = live->state.start;
  gboolean takes_any = asr_live_is_too_long (&live->state, &live->params);
  guint n_words = 0, n_tokens = 0, n_excess;

  if (!asr_live_is_long (&live->state, &live->params))
    return;
  for (guint i = live->final->len; i > 0 && n_words == 0; i--) {
    const FinalWord *word = &g_array_index (live->final, FinalWord, i - 1);

    if (takes_any || word->ends_sentence)
      n_words = i;
  }
  if (n_words == 0) {
    if (takes_any) {
      forget_window (live);
      asr_live_shorten (&live->state, live->state.decoded - KEPT_SAMPLES);
    }
    return;
  }
  for (guint i = 0; i < n_words; i++)
    n_tokens += g_array_index (live->final, FinalWord, i).n_tokens;
  asr_live_shorten (&live->state,
      g_array_index (live->final, FinalWord, n_words - 1).end);
  if (session->n_outputs > 1)
    live->left = (AsrSpan){ start, live->state.start };
  g_array_append_vals (live->context, live->prefix->data, n_tokens);
  n_excess = MAX (live->context->len, MAX_CONTEXT_TOKENS) - MAX_CONTEXT_TOKENS;
  g_array_remove_range (live->context, 0, n_excess);
  g_array_remove_range (live->prefix, 0, n_tokens);
  g_array_remove_range (live->final, 0, n_words);
}

static void
tell_words (AsrSession *session, GArray *words, guint n_final)
{
  AsrSessionOutput *output = &session->outputs[0];
  const char *language = asr_session_get_language (session, 0);
  const AsrWord *all = (const AsrWord *) words->data;

  if (n_final > 0) {
    asr_stream_take_segment (session->stream,
        asr_segment_new (ASR_SEGMENT_TEXT, 0, session->epoch, output->told,
            all[n_final - 1].end, all, n_final, language));
    output->told = all[n_final - 1].end;
  }
  tell_silence (session);
  if (session->live->step.is_last)
    asr_session_tell_event (session, ASR_SEGMENT_PAUSE,
        session->live->state.position);
  if (n_final < words->len) {
    AsrSegment *guess = asr_segment_new (ASR_SEGMENT_TEXT, 0, session->epoch,
        all[n_final].start, all[words->len - 1].end, all + n_final,
        words->len - n_final, language);

    guess->is_final = FALSE;
    asr_stream_take_segment (session->stream, guess);
  }
}

/* Decodes come as often as the machine can, and no lag grows. */
static void
adapt_step (AsrSessionLive *live)
{
  double took_s = (g_get_monotonic_time () - live->began_us) / 1e6;

  live->decode_s = live->decode_s == 0
      ? took_s
      : MAX (took_s, 0.8 * live->decode_s + 0.2 * took_s);
  live->params.decode_samples = live->decode_s * ASR_SAMPLE_RATE;
  live->params.step_samples = CLAMP (
      (gint64) (STEP_PER_DECODE * live->params.decode_samples),
      MIN_STEP_SAMPLES, MAX (MIN_STEP_SAMPLES,
          live->params.max_window_samples / 4));
}

/* A window that was left has been told to all outputs but the first. */
static void
take_translation (AsrSession *session)
{
  AsrSessionLive *live = session->live;

  /* else the window has moved on already */
  if (live->left.start == live->state.start) {
    forget_window (live);
    asr_live_shorten (&live->state, live->left.end);
  }
  live->left = (AsrSpan){ 0 };
  live->is_translating = FALSE;
  tell_silence (session);
  move_on (session);
}

/* A window that live speech has left, for all outputs but the first. */
static void
finish_translation (AsrSession *session)
{
  gint64 reached = 0, hole = G_MAXINT64;

  for (guint i = 1; i < session->n_outputs; i++) {
    g_autoptr (GArray) phrases = NULL;
    AsrDecodingResult result;

    asr_decoding_get_result (session->outputs[i].decoding, &result);
    phrases = asr_session_take_output (session, i, &result, &reached, &hole);
    asr_session_tell_phrases (session, i, phrases);
  }
  asr_session_add_stats (session);
  take_translation (session);
}

static void
finish_growing (AsrSession *session)
{
  AsrSessionLive *live = session->live;
  AsrSpan all;
  AsrHeard heard = get_heard (session, &all);
  g_autoptr (GArray) places = g_array_new (FALSE, FALSE, sizeof (AsrSpan));
  AsrDecodingResult result;
  NewWords new;
  guint n_final;

  asr_decoding_get_result (session->outputs[0].decoding, &result);
  if (result.language >= 0)
    session->language = result.language;
  new = get_new_words (session, &heard, &result);
  for (guint i = 0; i < new.words->len; i++) {
    const AsrWord *word = &g_array_index (new.words, AsrWord, i);
    AsrSpan place = { word->start, word->end };

    g_array_append_val (places, place);
  }
  n_final = asr_live_take_text (&live->state, &live->params, &heard,
      &live->step, (const AsrSpan *) places->data, new.words->len,
      count_agreed (live, new.words));
  keep_final (live, &result, &new, n_final);
  keep_guess (live, &result, new.words, n_final);
  asr_session_add_stats (session);
  tell_words (session, new.words, n_final);
  shorten_window (session);
  adapt_step (live);
  move_on (session);
  g_array_unref (new.words);
  g_array_unref (new.token_ends);
}

void
asr_session_live_finish (AsrSession *session)
{
  if (session->live->is_translating)
    finish_translation (session);
  else
    finish_growing (session);
}
