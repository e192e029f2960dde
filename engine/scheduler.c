/* SPDX-License-Identifier: MIT */
/*
 * The worker thread: each turn asks every session what it needs, encodes the
 * windows that wait, and runs one decoder batch over the rows of all texts
 * that are being written. Streams join and leave between turns.
 */
#include "engine/scheduler.h"

#include <string.h>

#include "engine/text/vocab.h"

struct _AsrScheduler {
  AsrModel *model;
  AsrSlots *audio_slots;
  AsrSlots *text_slots;
  GThread *thread;

  GMutex lock;
  GCond changed;
  /* guarded by lock */
  GPtrArray *sessions;     /* AsrSession */
  gboolean has_news;
  gboolean is_busy;        /* the worker is in a turn */
  gboolean is_quitting;
  guint n_waiting;         /* threads that want the worker to let go */

  /* the worker's, reused every turn */
  GPtrArray *turn;         /* AsrSession: this turn's */
  GArray *rows;            /* AsrRow */
  GArray *choices;         /* AsrChoice */
  GPtrArray *writers;      /* AsrSessionOutput: who has rows in the batch */
  GArray *n_choices;       /* guint: of each writer */
  GPtrArray *owners;       /* AsrSession: of each writer */
  AsrTokenRecord *records; /* [max_rows * steps ahead] */
  gint16 *frames;          /* [max_rows] */
};

/* ---- encode ---- */

/* A failed model tells everyone who was part of the work. */
static void
fail_all (GPtrArray *sessions, AsrSessionState state, const GError *error)
{
  gboolean is_sticky = error->code == ASR_ERROR_DEVICE;

  for (guint i = 0; i < sessions->len; i++) {
    AsrSession *session = g_ptr_array_index (sessions, i);

    if (is_sticky || asr_session_get_state (session) == state)
      asr_session_fail (session, error);
  }
}

static gboolean
is_stale (gpointer session)
{
  return asr_session_is_stale (session);
}

/* Mel and encoder output of a window, where the user wants them. */
static gboolean
tell_outputs (AsrScheduler *self, AsrSession *session, guint slot,
    GError **error)
{
  for (guint m = ASR_METHOD_MEL; m <= ASR_METHOD_ENCODER; m++) {
    AsrSegment *segment;
    guint shape[2];
    float *data;

    if (!asr_session_is_tapped (session, m))
      continue;
    asr_model_get_output_shape (self->model, m, shape);
    data = asr_session_make_output (session, m, shape[0], shape[1], &segment);
    if (!asr_model_read_output (self->model, m, slot, data, error)) {
      asr_segment_free (segment);
      return FALSE;
    }
    asr_session_tell_output (session, segment);
  }
  return TRUE;
}

/* Returns: whether a window was encoded */
static gboolean
encode_one (AsrScheduler *self, AsrSession *session)
{
  AsrSlotHolder *holder = asr_session_get_audio_holder (session);
  g_autoptr (GError) error = NULL;
  AsrEncodeRow row;
  gboolean is_new;

  if (!asr_slots_take (self->audio_slots, holder, &is_new))
    return FALSE;
  if (!is_new && !asr_session_is_stale (session)
      && asr_session_is_encoded (session)) {
    asr_session_start_decoding (session, TRUE);
    return TRUE;
  }
  if (!asr_session_get_window (session, &row)) {
    asr_slots_rest (self->audio_slots, holder);
    return TRUE;
  }
  if (!asr_model_encode (self->model, &row, 1, is_stale, session, &error)
      || (!asr_session_is_stale (session)
          && !tell_outputs (self, session, row.audio_slot, &error))) {
    fail_all (self->turn, ASR_SESSION_ENCODE, error);
    return TRUE;
  }
  if (!asr_session_is_stale (session))
    asr_session_start_decoding (session, FALSE);
  return TRUE;
}

static gboolean
encode (AsrScheduler *self)
{
  gboolean did = FALSE;

  for (guint i = 0; i < self->turn->len; i++) {
    AsrSession *session = g_ptr_array_index (self->turn, i);

    if (asr_session_get_state (session) == ASR_SESSION_ENCODE)
      did |= encode_one (self, session);
  }
  return did;
}

/* ---- decode ---- */

/* Adds an output's rows where the batch has room. */
static void
gather_output (AsrScheduler *self, AsrSession *session,
    AsrSessionOutput *output)
{
  guint max_rows = asr_model_get_limits (self->model)->max_rows;
  guint n_rows = self->rows->len, n_choices = self->choices->len, n;
  AsrTextState state;
  gboolean has_state = asr_decoding_get_rows (output->decoding, self->rows,
      self->choices, &state);

  if (self->rows->len > max_rows) {
    g_array_set_size (self->rows, n_rows);
    g_array_set_size (self->choices, n_choices);
    return;
  }
  if (has_state)
    asr_model_set_text_state (self->model, output->text.slot, &state);
  n = self->choices->len - n_choices;
  g_ptr_array_add (self->writers, output);
  g_ptr_array_add (self->owners, session);
  g_array_append_val (self->n_choices, n);
}

/* Outputs that wait for a text slot get one; the others give rows. */
static void
gather_session (AsrScheduler *self, AsrSession *session)
{
  guint n_outputs;
  AsrSessionOutput *outputs = asr_session_get_outputs (session, &n_outputs);

  for (guint i = 0; i < n_outputs; i++) {
    gboolean is_new;

    if (!outputs[i].text.is_busy) {
      if (!asr_slots_take (self->text_slots, &outputs[i].text, &is_new))
        continue;
      asr_session_start_output (session, &outputs[i]);
    }
    if (asr_decoding_get_phase (outputs[i].decoding) < ASR_DECODING_ALIGN)
      gather_output (self, session, &outputs[i]);
  }
}

/* Whether anyone in the batch wants to see logits: then each step is told. */
static gboolean
is_tapped (AsrScheduler *self)
{
  for (guint i = 0; i < self->owners->len; i++)
    if (asr_session_is_tapped (g_ptr_array_index (self->owners, i),
            ASR_METHOD_DECODER))
      return TRUE;
  return FALSE;
}

static void
tell_logits (AsrScheduler *self)
{
  guint n_vocab = asr_model_get_info (self->model)->n_vocab, at = 0;
  const float *logits = asr_model_get_host_logits (self->model);

  for (guint i = 0; i < self->owners->len; i++) {
    AsrSession *session = g_ptr_array_index (self->owners, i);
    guint n = g_array_index (self->n_choices, guint, i);
    AsrSegment *segment;

    if (n > 0 && asr_session_is_tapped (session, ASR_METHOD_DECODER)) {
      memcpy (asr_session_make_output (session, ASR_METHOD_DECODER, n,
                  n_vocab, &segment),
          logits + (gsize) at * n_vocab, (gsize) n * n_vocab * sizeof (float));
      asr_session_tell_output (session, segment);
    }
    at += n;
  }
}

static void
feed_records (AsrScheduler *self, guint n_steps)
{
  for (guint step = 0; step < n_steps; step++) {
    guint at = step * self->choices->len;

    for (guint i = 0; i < self->writers->len; i++) {
      AsrSessionOutput *output = g_ptr_array_index (self->writers, i);
      guint n = g_array_index (self->n_choices, guint, i);

      /* of several steps only those before the text's end are its own */
      if (step == 0
          || asr_decoding_get_phase (output->decoding) == ASR_DECODING_STEP)
        asr_decoding_feed (output->decoding, self->records + at, n);
      at += n;
    }
  }
}

/* One batch of all texts that are being written. */
static gboolean
decode (AsrScheduler *self)
{
  g_autoptr (GError) error = NULL;
  AsrMethodCost cost = { 0 };
  AsrSession *first = NULL;
  guint n_steps = asr_model_get_steps_ahead (self->model);
  guint skip_copy = ASR_METHOD_MASK_ALL;

  g_array_set_size (self->rows, 0);
  g_array_set_size (self->choices, 0);
  g_array_set_size (self->n_choices, 0);
  g_ptr_array_set_size (self->writers, 0);
  g_ptr_array_set_size (self->owners, 0);
  for (guint i = 0; i < self->turn->len; i++) {
    AsrSession *session = g_ptr_array_index (self->turn, i);

    if (asr_session_get_state (session) != ASR_SESSION_DECODE
        || asr_session_is_stale (session))
      continue;
    gather_session (self, session);
    skip_copy &= asr_session_get_skip_copy (session);
    if (first == NULL)
      first = session;
  }
  if (self->rows->len == 0)
    return FALSE;
  for (guint i = 0; i < self->writers->len; i++) {
    AsrSessionOutput *output = g_ptr_array_index (self->writers, i);

    if (asr_decoding_get_phase (output->decoding) != ASR_DECODING_STEP)
      n_steps = 1;
  }
  if (is_tapped (self))
    n_steps = 1;
  if (!asr_model_decode (self->model, (const AsrRow *) self->rows->data,
          self->rows->len, (const AsrChoice *) self->choices->data,
          self->choices->len, n_steps, skip_copy, self->records, &cost,
          &error)) {
    fail_all (self->turn, ASR_SESSION_DECODE, error);
    return TRUE;
  }
  asr_session_get_costs (first)[ASR_METHOD_DECODER].time_ns += cost.time_ns;
  asr_session_get_costs (first)[ASR_METHOD_DECODER].to_host_bytes
      += cost.to_host_bytes;
  if (is_tapped (self))
    tell_logits (self);
  feed_records (self, n_steps);
  return TRUE;
}

/* ---- align ---- */

static gboolean
align_output (AsrScheduler *self, AsrSession *session,
    AsrSessionOutput *output)
{
  AsrDecoding *decoding = output->decoding;
  g_autoptr (GError) error = NULL;
  AsrTextState unused;

  g_array_set_size (self->rows, 0);
  g_array_set_size (self->choices, 0);
  asr_decoding_get_rows (decoding, self->rows, self->choices, &unused);
  if (!asr_model_align (self->model, (const AsrRow *) self->rows->data,
          self->rows->len, asr_decoding_get_first_row (decoding),
          asr_decoding_get_n_frames (decoding), self->frames,
          asr_session_get_costs (session) + ASR_METHOD_DECODER, &error)) {
    fail_all (self->turn, ASR_SESSION_DECODE, error);
    return FALSE;
  }
  asr_decoding_feed_frames (decoding, self->frames);
  return TRUE;
}

/* Texts that are complete get their times; windows whose texts all have them
 * are told. */
static gboolean
finish (AsrScheduler *self, AsrSession *session)
{
  guint n_outputs;
  AsrSessionOutput *outputs = asr_session_get_outputs (session, &n_outputs);
  gboolean is_done = TRUE;

  for (guint i = 0; i < n_outputs; i++) {
    AsrDecoding *decoding = outputs[i].decoding;

    if (!outputs[i].text.is_busy) {
      is_done = FALSE;
      continue;
    }
    if (asr_decoding_get_phase (decoding) == ASR_DECODING_ALIGN
        && !align_output (self, session, &outputs[i]))
      return TRUE;
    is_done &= asr_decoding_get_phase (decoding) == ASR_DECODING_DONE;
  }
  if (is_done)
    asr_session_finish_window (session, self->audio_slots, self->text_slots);
  return is_done;
}

/* ---- turns ---- */

/* Returns: whether anything happened, so that another turn is due */
static gboolean
run_turn (AsrScheduler *self)
{
  gboolean did = FALSE;

  for (guint i = 0; i < self->turn->len; i++)
    did |= asr_session_update (g_ptr_array_index (self->turn, i),
        self->audio_slots, self->text_slots);
  did |= encode (self);
  did |= decode (self);
  for (guint i = 0; i < self->turn->len; i++) {
    AsrSession *session = g_ptr_array_index (self->turn, i);

    if (asr_session_get_state (session) == ASR_SESSION_DECODE
        && !asr_session_is_stale (session))
      did |= finish (self, session);
  }
  return did;
}

static gpointer
work (gpointer data)
{
  AsrScheduler *self = data;

  g_mutex_lock (&self->lock);
  while (!self->is_quitting) {
    gboolean did;

    if (self->n_waiting > 0 || !self->has_news) {
      g_cond_wait (&self->changed, &self->lock);
      continue;
    }
    self->has_news = FALSE;
    self->is_busy = TRUE;
    g_ptr_array_set_size (self->turn, 0);
    for (guint i = 0; i < self->sessions->len; i++)
      g_ptr_array_add (self->turn, g_ptr_array_index (self->sessions, i));
    g_mutex_unlock (&self->lock);
    did = run_turn (self);
    g_mutex_lock (&self->lock);
    self->is_busy = FALSE;
    self->has_news |= did;
    if (self->n_waiting > 0)
      g_cond_broadcast (&self->changed);
  }
  g_mutex_unlock (&self->lock);
  return NULL;
}

AsrScheduler *
asr_scheduler_new (AsrModel *model)
{
  AsrScheduler *self = g_new0 (AsrScheduler, 1);
  const AsrModelLimits *limits = asr_model_get_limits (model);

  self->model = model;
  self->audio_slots = asr_slots_new (limits->n_audio_slots);
  self->text_slots = asr_slots_new (limits->n_text_slots);
  self->sessions = g_ptr_array_new ();
  self->turn = g_ptr_array_new ();
  self->rows = g_array_new (FALSE, FALSE, sizeof (AsrRow));
  self->choices = g_array_new (FALSE, FALSE, sizeof (AsrChoice));
  self->writers = g_ptr_array_new ();
  self->n_choices = g_array_new (FALSE, FALSE, sizeof (guint));
  self->owners = g_ptr_array_new ();
  self->records = g_new (AsrTokenRecord,
      (gsize) limits->max_rows * asr_model_get_steps_ahead (model));
  self->frames = g_new (gint16, limits->max_rows);
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  self->thread = g_thread_new ("asr-worker", work, self);
  return self;
}

void
asr_scheduler_free (AsrScheduler *self)
{
  g_mutex_lock (&self->lock);
  self->is_quitting = TRUE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  g_thread_join (self->thread);
  g_assert (self->sessions->len == 0);

  asr_slots_free (self->audio_slots);
  asr_slots_free (self->text_slots);
  g_ptr_array_unref (self->sessions);
  g_ptr_array_unref (self->turn);
  g_array_unref (self->rows);
  g_array_unref (self->choices);
  g_ptr_array_unref (self->writers);
  g_array_unref (self->n_choices);
  g_ptr_array_unref (self->owners);
  g_free (self->records);
  g_free (self->frames);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  g_free (self);
}

void
asr_scheduler_add (AsrScheduler *self, AsrSession *session)
{
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->sessions, session);
  g_mutex_unlock (&self->lock);
}

void
asr_scheduler_remove (AsrScheduler *self, AsrSession *session)
{
  guint n_outputs;
  AsrSessionOutput *outputs;

  g_mutex_lock (&self->lock);
  self->n_waiting++;
  while (self->is_busy)
    g_cond_wait (&self->changed, &self->lock);
  g_ptr_array_remove (self->sessions, session);
  asr_slots_release (self->audio_slots,
      asr_session_get_audio_holder (session));
  outputs = asr_session_get_outputs (session, &n_outputs);
  for (guint i = 0; i < n_outputs; i++)
    asr_slots_release (self->text_slots, &outputs[i].text);
  self->n_waiting--;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

void
asr_scheduler_wake (AsrScheduler *self)
{
  g_mutex_lock (&self->lock);
  self->has_news = TRUE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}
