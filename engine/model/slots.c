/* SPDX-License-Identifier: MIT */
/* Who holds which slot of a pool; see slots.h. */
#include "engine/model/slots.h"

struct _AsrSlots {
  guint n_slots;
  AsrSlotHolder **holders; /* [n_slots], NULL: free */
  guint64 clock;
};

AsrSlots *
asr_slots_new (guint n_slots)
{
  AsrSlots *slots = g_new0 (AsrSlots, 1);

  slots->n_slots = n_slots;
  slots->holders = g_new0 (AsrSlotHolder *, n_slots);
  return slots;
}

void
asr_slots_free (AsrSlots *slots)
{
  if (slots == NULL)
    return;
  g_free (slots->holders);
  g_free (slots);
}

/* A free slot, else the one that was idle longest; -1: all are busy. */
static gint
find_slot (const AsrSlots *slots)
{
  gint oldest = -1;

  for (guint i = 0; i < slots->n_slots; i++) {
    const AsrSlotHolder *holder = slots->holders[i];

    if (holder == NULL)
      return i;
    if (!holder->is_busy
        && (oldest < 0 || holder->last_use < slots->holders[oldest]->last_use))
      oldest = i;
  }
  return oldest;
}

gboolean
asr_slots_take (AsrSlots *slots, AsrSlotHolder *holder, gboolean *is_new)
{
  gint slot = holder->slot;

  if (slot < 0) {
    slot = find_slot (slots);
    if (slot < 0)
      return FALSE;
    if (slots->holders[slot])
      slots->holders[slot]->slot = -1;
    slots->holders[slot] = holder;
    *is_new = TRUE;
  } else {
    *is_new = FALSE;
  }
  holder->slot = slot;
  holder->is_busy = TRUE;
  holder->last_use = ++slots->clock;
  return TRUE;
}

void
asr_slots_rest (AsrSlots *slots, AsrSlotHolder *holder)
{
  holder->is_busy = FALSE;
  holder->last_use = ++slots->clock;
}

void
asr_slots_release (AsrSlots *slots, AsrSlotHolder *holder)
{
  if (holder->slot >= 0)
    slots->holders[holder->slot] = NULL;
  holder->slot = -1;
  holder->is_busy = FALSE;
}
