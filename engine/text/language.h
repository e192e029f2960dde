/* SPDX-License-Identifier: MIT */
/* Language codes in the order of Whisper's language tokens. */
#ifndef ASR_TEXT_LANGUAGE_H
#define ASR_TEXT_LANGUAGE_H

#include <glib.h>

G_BEGIN_DECLS

#define ASR_N_LANGUAGES 100

/* Returns: (nullable): "en", "zh", ...; NULL from ASR_N_LANGUAGES on */
const char *asr_language_get_code (guint index);

/**
 * asr_language_find: reads "en", "EN", "en-US", "en_US" or "english".
 * Returns: index, or -1
 */
gint asr_language_find (const char *name);

/* Written without blanks between words: zh ja th lo my yue. */
gboolean asr_language_is_unspaced (const char *code);

G_END_DECLS

#endif
