/* SPDX-License-Identifier: MIT */
/* The error domain and the names of the public enums. */
#include "engine/asr.h"

G_DEFINE_QUARK (asr-error-quark, asr_error)

const char *
asr_method_get_name (AsrMethod method)
{
  static const char *const names[ASR_N_METHODS]
      = { "mel", "encoder", "decoder" };

  g_return_val_if_fail ((guint) method < ASR_N_METHODS, NULL);
  return names[method];
}
