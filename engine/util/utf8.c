/* SPDX-License-Identifier: MIT */
/*
 * UTF-8 in pieces. Table 3-7 of the Unicode standard ("well-formed byte
 * sequences") as code: the first byte decides the length and the range of the
 * second byte; that range is what excludes overlong forms, surrogates and
 * what lies above U+10FFFF.
 */
#include "engine/util/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd"

/* Length of the character that @lead begins, 0 if it begins none, and the
 * range of its second byte. */
static guint
get_length (guint8 lead, guint8 *low, guint8 *high)
{
  *low = 0x80;
  *high = 0xbf;
  if (lead < 0x80)
    return 1;
  if (lead < 0xc2 || lead > 0xf4)
    return 0;
  if (lead < 0xe0)
    return 2;
  if (lead < 0xf0) {
    if (lead == 0xe0)
      *low = 0xa0;
    else if (lead == 0xed)
      *high = 0x9f;
    return 3;
  }
  if (lead == 0xf0)
    *low = 0x90;
  else if (lead == 0xf4)
    *high = 0x8f;
  return 4;
}

/* How many of the @n bytes, at least one, belong to the first character or to
 * what could have become one; @complete tells which. */
static guint
match_character (const guint8 *bytes, gsize n, gboolean *complete,
    gboolean *cut)
{
  guint8 low, high;
  guint length = get_length (bytes[0], &low, &high);
  guint i;

  *complete = length == 1;
  *cut = FALSE;
  if (length < 2)
    return 1;
  for (i = 1; i < length && i < n; i++) {
    if (bytes[i] < low || bytes[i] > high)
      return i;
    low = 0x80;
    high = 0xbf;
  }
  *complete = i == length;
  *cut = i < length;
  return i;
}

void
asr_utf8_scan (const guint8 *bytes, gsize n, gsize *n_valid, gsize *n_tail)
{
  gsize at = 0;
  gboolean complete = TRUE, cut = FALSE;
  guint length = 0;

  while (at < n) {
    length = match_character (bytes + at, n - at, &complete, &cut);
    if (!complete)
      break;
    at += length;
  }
  *n_valid = at;
  *n_tail = cut ? length : 0;
}

gsize
asr_utf8_append (GString *text, const guint8 *bytes, gsize n, gboolean final)
{
  gsize at = 0;

  while (at < n) {
    gboolean complete, cut;
    guint length = match_character (bytes + at, n - at, &complete, &cut);

    if (cut && !final)
      break;
    if (complete && bytes[at] != 0)
      g_string_append_len (text, (const char *) bytes + at, length);
    else
      g_string_append (text, REPLACEMENT);
    at += length;
  }
  return at;
}
