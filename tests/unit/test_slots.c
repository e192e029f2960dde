/* SPDX-License-Identifier: MIT */
/* Slots go to the lowest free place, then to whoever needs one most. */
#include "engine/model/slots.h"

static void
check_eviction (void)
{
  g_autoptr (AsrSlots) slots = asr_slots_new (2);
  AsrSlotHolder a = ASR_SLOT_HOLDER_INIT, b = ASR_SLOT_HOLDER_INIT,
                c = ASR_SLOT_HOLDER_INIT;
  gboolean is_new;

  g_assert_true (asr_slots_take (slots, &a, &is_new));
  g_assert_true (is_new);
  g_assert_true (asr_slots_take (slots, &b, &is_new));
  g_assert_cmpint (a.slot, ==, 0);
  g_assert_cmpint (b.slot, ==, 1);
  g_assert_false (asr_slots_take (slots, &c, &is_new)); /* all are busy */

  asr_slots_rest (slots, &b);
  asr_slots_rest (slots, &a);
  g_assert_true (asr_slots_take (slots, &c, &is_new)); /* b rested first */
  g_assert_cmpint (c.slot, ==, 1);
  g_assert_cmpint (b.slot, ==, -1);
  g_assert_true (asr_slots_take (slots, &a, &is_new));
  g_assert_false (is_new); /* what it left is still there */

  asr_slots_release (slots, &b); /* has none: fine */
  asr_slots_release (slots, &a);
  g_assert_true (asr_slots_take (slots, &b, &is_new));
  g_assert_cmpint (b.slot, ==, 0);
  g_assert_true (is_new);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/slots/eviction", check_eviction);
  return g_test_run ();
}
