/* SPDX-License-Identifier: MIT */
/*
 * Put in front of every file of a thread sanitizer build (-include). GLib's
 * mutexes are futexes of its own, which the sanitizer does not see; so each
 * lock and unlock tells it.
 */
#ifndef TESTS_SANITIZE_TSAN_H
#define TESTS_SANITIZE_TSAN_H

#include <glib.h>

void __tsan_acquire (void *address);
void __tsan_release (void *address);

static inline void
tsan_mutex_lock (GMutex *mutex)
{
  g_mutex_lock (mutex);
  __tsan_acquire (mutex);
}

static inline void
tsan_mutex_unlock (GMutex *mutex)
{
  __tsan_release (mutex);
  g_mutex_unlock (mutex);
}

static inline void
tsan_cond_wait (GCond *cond, GMutex *mutex)
{
  __tsan_release (mutex);
  g_cond_wait (cond, mutex);
  __tsan_acquire (mutex);
}

static inline gboolean
tsan_cond_wait_until (GCond *cond, GMutex *mutex, gint64 end_time)
{
  gboolean in_time;

  __tsan_release (mutex);
  in_time = g_cond_wait_until (cond, mutex, end_time);
  __tsan_acquire (mutex);
  return in_time;
}

#define g_mutex_lock tsan_mutex_lock
#define g_mutex_unlock tsan_mutex_unlock
#define g_cond_wait tsan_cond_wait
#define g_cond_wait_until tsan_cond_wait_until

#endif
