/* SPDX-License-Identifier: MIT */
/*
 * Who holds which slot of a pool. When all are taken, the oldest idle holder
 * gives its up and makes its content again when it needs it. Pure
 * bookkeeping; belongs to one thread at a time.
 */
#ifndef ASR_MODEL_SLOTS_H
#define ASR_MODEL_SLOTS_H

#include <glib.h>

G_BEGIN_DECLS

/**
 * AsrSlotHolder: a place in its owner's struct; zero-filled but for slot.
 * @slot: index in the pool, or -1
 * @is_busy: must not lose its slot now
 */
typedef struct {
  gint slot;
  gboolean is_busy;
  guint64 last_use;
} AsrSlotHolder;

#define ASR_SLOT_HOLDER_INIT { -1, FALSE, 0 }

typedef struct _AsrSlots AsrSlots;

AsrSlots *asr_slots_new (guint n_slots);
void asr_slots_free (AsrSlots *slots);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AsrSlots, asr_slots_free)

/**
 * asr_slots_take: makes @holder busy with a slot: the one it has, the lowest
 * free one, or that of the idle holder that was used longest ago.
 * @is_new: (out): the slot's content is not what the holder left there
 *
 * Returns: FALSE when every slot is busy
 */
gboolean asr_slots_take (AsrSlots *slots, AsrSlotHolder *holder,
    gboolean *is_new);

/* The holder keeps its slot but may lose it from now on. */
void asr_slots_rest (AsrSlots *slots, AsrSlotHolder *holder);

/* Gives the slot back; fine for a holder without one. */
void asr_slots_release (AsrSlots *slots, AsrSlotHolder *holder);

G_END_DECLS

#endif
