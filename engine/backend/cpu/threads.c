/* SPDX-License-Identifier: MIT */
/*
 * A pool of threads for pieces of some microseconds. Workers spin a short
 * while for the next run before they sleep, since the decoder makes a run
 * every few microseconds; no longer, since the machine may be shared.
 *
 * A run is published in one word: its number above the count of pieces that
 * nobody has taken. Taking a piece is a compare-and-swap of that word, so a
 * worker that comes late can't take a piece of a run that it does not know,
 * and nobody waits for workers that never woke up. The run's description is
 * read only after a piece was taken, when it can't change until that piece
 * is done.
 *
 * POSIX mutexes, not GLib's, because the thread sanitizer knows those.
 */
#include "engine/backend/cpu/cpu.h"
#include <pthread.h>
#include <stdatomic.h>

#define SPIN_US 50
#define SPINS_PER_LOOK 64 /* at the clock */
#define PIECES_PER_THREAD 4
#define CACHE_LINE 64

typedef struct {
  AsrThreads *threads;
  pthread_t handle;
  guint index;
} Worker;

struct _AsrThreads {
  guint n_threads;
  guint n_workers;          /* started; n_threads - 1 unless that failed */
  Worker *workers;
  pthread_mutex_t caller;   /* one run at a time */

  pthread_mutex_t lock;     /* for sleeping only */
  pthread_cond_t work_came; /* workers */
  pthread_cond_t work_done; /* the caller */
  atomic_uint n_sleeping;   /* workers */
  atomic_bool is_waiting;   /* the caller sleeps */
  atomic_bool is_over;

  /* The run. */
  AsrThreadsFunc func;
  gpointer data;
  guint n_items, n_pieces;
  _Alignas (CACHE_LINE) atomic_uint_fast64_t ticket; /* run << 32 | untaken */
  _Alignas (CACHE_LINE) atomic_uint n_done;
};

static inline void
relax (void)
{
#ifdef __x86_64__
  __builtin_ia32_pause ();
#endif
}

/* FALSE: nothing is left to take. */
static gboolean
take_piece (AsrThreads *threads, guint *untaken)
{
  uint_fast64_t ticket = atomic_load (&threads->ticket);

  while ((guint32) ticket > 0) {
    if (atomic_compare_exchange_weak (&threads->ticket, &ticket, ticket - 1)) {
      *untaken = (guint32) ticket;
      return TRUE;
    }
  }
  return FALSE;
}

static void
finish_piece (AsrThreads *threads)
{
  guint n_pieces = threads->n_pieces; /* before this piece counts as done */

  if (atomic_fetch_add (&threads->n_done, 1) + 1 < n_pieces)
    return;
  if (!atomic_load (&threads->is_waiting))
    return;
  pthread_mutex_lock (&threads->lock);
  pthread_cond_signal (&threads->work_done);
  pthread_mutex_unlock (&threads->lock);
}

static void
run_pieces (AsrThreads *threads, guint thread)
{
  guint untaken;

  while (take_piece (threads, &untaken)) {
    guint64 piece = threads->n_pieces - untaken;
    guint begin = piece * threads->n_items / threads->n_pieces;
    guint end = (piece + 1) * threads->n_items / threads->n_pieces;

    threads->func (threads->data, begin, end, thread);
    finish_piece (threads);
  }
}

static gboolean
has_work (AsrThreads *threads)
{
  return (guint32) atomic_load (&threads->ticket) > 0
      || atomic_load (&threads->is_over);
}

static gboolean
is_done (AsrThreads *threads)
{
  return atomic_load (&threads->n_done) == threads->n_pieces;
}

static gboolean
spin_for (AsrThreads *threads, gboolean (*test) (AsrThreads *threads))
{
  gint64 end = g_get_monotonic_time () + SPIN_US;

  do {
    for (guint i = 0; i < SPINS_PER_LOOK; i++) {
      if (test (threads))
        return TRUE;
      relax ();
    }
  } while (g_get_monotonic_time () < end);
  return FALSE;
}

static void *
work (void *data)
{
  Worker *worker = data;
  AsrThreads *threads = worker->threads;

  while (!atomic_load (&threads->is_over)) {
    run_pieces (threads, worker->index);
    if (spin_for (threads, has_work))
      continue;
    pthread_mutex_lock (&threads->lock);
    atomic_fetch_add (&threads->n_sleeping, 1);
    while (!has_work (threads))
      pthread_cond_wait (&threads->work_came, &threads->lock);
    atomic_fetch_sub (&threads->n_sleeping, 1);
    pthread_mutex_unlock (&threads->lock);
  }
  return NULL;
}

/* A worker counts itself as sleeping before it looks for work a last time,
 * and this looks for sleepers after the work is there: one sees the other. */
static void
wake_workers (AsrThreads *threads)
{
  if (atomic_load (&threads->n_sleeping) == 0)
    return;
  pthread_mutex_lock (&threads->lock);
  pthread_cond_broadcast (&threads->work_came);
  pthread_mutex_unlock (&threads->lock);
}

static void
wait_for_others (AsrThreads *threads)
{
  if (spin_for (threads, is_done))
    return;
  pthread_mutex_lock (&threads->lock);
  atomic_store (&threads->is_waiting, TRUE);
  while (!is_done (threads))
    pthread_cond_wait (&threads->work_done, &threads->lock);
  atomic_store (&threads->is_waiting, FALSE);
  pthread_mutex_unlock (&threads->lock);
}

void
asr_threads_run (AsrThreads *threads, guint n_items, guint grain,
    AsrThreadsFunc func, gpointer data)
{
  guint n_pieces = n_items / MAX (grain, 1);
  uint_fast64_t run;

  n_pieces = MIN (n_pieces, threads->n_threads * PIECES_PER_THREAD);
  if (n_items == 0)
    return;
  if (n_pieces < 2 || threads->n_workers == 0) {
    func (data, 0, n_items, 0);
    return;
  }
  pthread_mutex_lock (&threads->caller);
  threads->func = func;
  threads->data = data;
  threads->n_items = n_items;
  threads->n_pieces = n_pieces;
  atomic_store (&threads->n_done, 0);
  run = (atomic_load (&threads->ticket) >> 32) + 1;
  atomic_store (&threads->ticket, run << 32 | n_pieces);
  wake_workers (threads);
  run_pieces (threads, 0);
  wait_for_others (threads);
  pthread_mutex_unlock (&threads->caller);
}

guint
asr_threads_get_n (AsrThreads *threads)
{
  return threads->n_threads;
}

AsrThreads *
asr_threads_new (guint n_threads)
{
  AsrThreads *threads = g_aligned_alloc0 (1, sizeof *threads, CACHE_LINE);

  threads->n_threads = MAX (n_threads, 1);
  threads->workers = g_new0 (Worker, threads->n_threads);
  pthread_mutex_init (&threads->caller, NULL);
  pthread_mutex_init (&threads->lock, NULL);
  pthread_cond_init (&threads->work_came, NULL);
  pthread_cond_init (&threads->work_done, NULL);
  /* Where the system gives no more threads, fewer do the work. */
  while (threads->n_workers < threads->n_threads - 1) {
    Worker *worker = &threads->workers[threads->n_workers];

    *worker = (Worker){ threads, 0, threads->n_workers + 1 };
    if (pthread_create (&worker->handle, NULL, work, worker) != 0)
      break;
    threads->n_workers++;
  }
  return threads;
}

void
asr_threads_free (AsrThreads *threads)
{
  if (!threads)
    return;
  atomic_store (&threads->is_over, TRUE);
  pthread_mutex_lock (&threads->lock);
  pthread_cond_broadcast (&threads->work_came);
  pthread_mutex_unlock (&threads->lock);
  for (guint i = 0; i < threads->n_workers; i++)
    pthread_join (threads->workers[i].handle, NULL);
  pthread_cond_destroy (&threads->work_done);
  pthread_cond_destroy (&threads->work_came);
  pthread_mutex_destroy (&threads->lock);
  pthread_mutex_destroy (&threads->caller);
  g_free (threads->workers);
  g_aligned_free (threads);
}
