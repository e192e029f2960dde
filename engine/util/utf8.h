/* SPDX-License-Identifier: MIT */
/*
 * UTF-8 that arrives in pieces: which bytes are whole characters, which may
 * become one, and which never will. Stateless; who streams keeps the tail.
 */
#ifndef ASR_UTIL_UTF8_H
#define ASR_UTIL_UTF8_H

#include <glib.h>

G_BEGIN_DECLS

/**
 * asr_utf8_scan:
 * @n_valid: (out): bytes at the front that are whole, valid characters
 * @n_tail: (out): bytes after those that begin a character and end with
 *   @bytes, 0 to 3. Where @n_valid + @n_tail < @n, the byte at @n_valid
 *   begins nothing valid
 */
void asr_utf8_scan (const guint8 *bytes, gsize n, gsize *n_valid,
    gsize *n_tail);

/**
 * asr_utf8_append: appends valid text; each invalid sequence (the longest
 * part that could have begun a character, as Unicode recommends) becomes one
 * U+FFFD, and so does a NUL, since the text ends in a C string.
 * @final: nothing follows: an unfinished tail becomes one U+FFFD
 *
 * Returns: bytes used: @n, or fewer by the unfinished tail
 */
gsize asr_utf8_append (GString *text, const guint8 *bytes, gsize n,
    gboolean final);

G_END_DECLS

#endif
