/* SPDX-License-Identifier: MIT */
/* Engines of this process; see gstasrpool.h. */
#include "gst/gstasrpool.h"

#define LINGER_US (5 * G_USEC_PER_SEC)
#define POLL_US (G_USEC_PER_SEC / 10)

typedef struct {
  char *key;
  AsrEngine *engine;   /* NULL while it loads */
  gboolean has_failed;
  guint n_users;       /* those who wait for it included */
  gint64 idle_since;   /* while nobody uses it */
} Entry;

typedef struct {
  GMutex lock;
  GCond changed;
  GPtrArray *entries;  /* Entry */
  gboolean has_reaper;
} Pool;

static Pool *
get_pool (void)
{
  static gsize once = 0;

  if (g_once_init_enter (&once)) {
    Pool *pool = g_new0 (Pool, 1);

    g_mutex_init (&pool->lock);
    g_cond_init (&pool->changed);
    pool->entries = g_ptr_array_new ();
    g_once_init_leave (&once, (gsize) pool);
  }
  return (Pool *) once;
}

static void
free_entry (Entry *entry)
{
  asr_engine_unref (entry->engine);
  g_free (entry->key);
  g_free (entry);
}

static Entry *
find_entry (Pool *pool, const char *key)
{
  for (guint i = 0; i < pool->entries->len; i++) {
    Entry *entry = g_ptr_array_index (pool->entries, i);

    if (!entry->has_failed && g_str_equal (entry->key, key))
      return entry;
  }
  return NULL;
}

/* With the lock held. */
static void
leave_entry (Pool *pool, Entry *entry)
{
  entry->n_users--;
  if (entry->n_users == 0 && entry->has_failed) {
    g_ptr_array_remove (pool->entries, entry);
    free_entry (entry);
  }
}

/* Loads without the lock; others wait for the entry meanwhile. */
static gboolean
load_entry (Pool *pool, Entry *entry, const AsrEngineParams *params,
    AsrProgressFunc progress, gpointer user_data, GError **error)
{
  AsrEngine *engine;

  g_mutex_unlock (&pool->lock);
  engine = asr_engine_new (params, progress, user_data, error);
  g_mutex_lock (&pool->lock);
  entry->engine = engine;
  entry->has_failed = engine == NULL;
  g_cond_broadcast (&pool->changed);
  return engine != NULL;
}

/* Returns: FALSE when the waiting was cancelled */
static gboolean
wait_for_entry (Pool *pool, Entry *entry, AsrProgressFunc progress,
    gpointer user_data, GError **error)
{
  while (entry->engine == NULL && !entry->has_failed) {
    gboolean goes_on;

    g_cond_wait_until (&pool->changed, &pool->lock,
        g_get_monotonic_time () + POLL_US);
    g_mutex_unlock (&pool->lock);
    goes_on = progress == NULL || progress (0, user_data);
    g_mutex_lock (&pool->lock);
    if (!goes_on) {
      g_set_error_literal (error, ASR_ERROR, ASR_ERROR_CANCELLED,
          "loading was cancelled");
      return FALSE;
    }
  }
  return TRUE;
}

AsrEngine *
gst_asr_pool_acquire (const AsrEngineParams *params, AsrProgressFunc progress,
    gpointer user_data, GError **error)
{
  Pool *pool = get_pool ();
  g_autofree char *key = g_strdup_printf ("%s|%s|%u|%d|%u", params->model,
      params->backend, params->device, params->compute_type,
      params->n_threads);
  AsrEngine *engine = NULL;

  g_mutex_lock (&pool->lock);
  while (engine == NULL) {
    Entry *entry = find_entry (pool, key);
    gboolean is_ours = entry == NULL, ok;

    if (is_ours) {
      entry = g_new0 (Entry, 1);
      entry->key = g_strdup (key);
      g_ptr_array_add (pool->entries, entry);
    }
    entry->n_users++;
    ok = is_ours
        ? load_entry (pool, entry, params, progress, user_data, error)
        : wait_for_entry (pool, entry, progress, user_data, error);
    engine = entry->engine;
    if (engine == NULL || !ok) {
      leave_entry (pool, entry);
      engine = NULL;
    }
    /* who only waited for a load that failed loads itself: the other may
     * have been cancelled */
    if (!ok)
      break;
  }
  if (engine)
    asr_engine_ref (engine);
  g_mutex_unlock (&pool->lock);
  return engine;
}

/* Frees what nobody has used for a while; ends when nothing is left idle. */
static gpointer
reap (gpointer data)
{
  Pool *pool = data;
  gboolean has_idle = TRUE;

  g_mutex_lock (&pool->lock);
  while (has_idle) {
    g_autoptr (GPtrArray) dead
        = g_ptr_array_new_with_free_func ((GDestroyNotify) free_entry);
    gint64 now = g_get_monotonic_time ();

    has_idle = FALSE;
    for (guint i = pool->entries->len; i > 0; i--) {
      Entry *entry = g_ptr_array_index (pool->entries, i - 1);

      if (entry->n_users > 0)
        continue;
      if (now - entry->idle_since < LINGER_US) {
        has_idle = TRUE;
        continue;
      }
      g_ptr_array_remove_index (pool->entries, i - 1);
      g_ptr_array_add (dead, entry);
    }
    if (!has_idle)
      pool->has_reaper = FALSE;
    g_mutex_unlock (&pool->lock);
    g_ptr_array_set_size (dead, 0);
    if (has_idle)
      g_usleep (G_USEC_PER_SEC / 2);
    g_mutex_lock (&pool->lock);
  }
  g_mutex_unlock (&pool->lock);
  return NULL;
}

void
gst_asr_pool_release (AsrEngine *engine)
{
  Pool *pool = get_pool ();

  if (engine == NULL)
    return;
  g_mutex_lock (&pool->lock);
  for (guint i = 0; i < pool->entries->len; i++) {
    Entry *entry = g_ptr_array_index (pool->entries, i);

    if (entry->engine != engine)
      continue;
    entry->idle_since = g_get_monotonic_time ();
    leave_entry (pool, entry);
    if (!pool->has_reaper) {
      pool->has_reaper = TRUE;
      g_thread_unref (g_thread_new ("asr-reaper", reap, pool));
    }
    break;
  }
  g_mutex_unlock (&pool->lock);
  asr_engine_unref (engine);
}
