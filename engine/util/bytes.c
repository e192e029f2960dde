/* SPDX-License-Identifier: MIT */
/* Checked little-endian reads; see bytes.h. */
#include "engine/util/bytes.h"
#include <string.h>

#define ADVICE "the file is damaged, fetch it again"

gboolean
asr_bytes_set_corrupt (const AsrBytes *bytes, gsize offset, GError **error,
    const char *format, ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, ASR_ERROR, ASR_ERROR_CORRUPT,
      "%s: at byte %" G_GSIZE_FORMAT ": %s; " ADVICE, bytes->file, offset,
      message);
  return FALSE;
}

gboolean
asr_bytes_take (AsrBytes *bytes, guint64 n, const char *what,
    const guint8 **out, GError **error)
{
  gsize left = bytes->n_bytes - bytes->offset;

  if (n > left) {
    return asr_bytes_set_corrupt (bytes, bytes->offset, error,
        "%s takes %" G_GUINT64_FORMAT " bytes, but only %" G_GSIZE_FORMAT
        " of %" G_GSIZE_FORMAT " are left", what, n, left, bytes->n_bytes);
  }
  *out = bytes->data + bytes->offset;
  bytes->offset += n;
  return TRUE;
}

gboolean
asr_bytes_read_u8 (AsrBytes *bytes, const char *what, guint8 *out,
    GError **error)
{
  const guint8 *p;

  if (!asr_bytes_take (bytes, 1, what, &p, error))
    return FALSE;
  *out = *p;
  return TRUE;
}

gboolean
asr_bytes_read_u16 (AsrBytes *bytes, const char *what, guint16 *out,
    GError **error)
{
  const guint8 *p;

  if (!asr_bytes_take (bytes, sizeof *out, what, &p, error))
    return FALSE;
  memcpy (out, p, sizeof *out);
  *out = GUINT16_FROM_LE (*out);
  return TRUE;
}

gboolean
asr_bytes_read_u32 (AsrBytes *bytes, const char *what, guint32 *out,
    GError **error)
{
  const guint8 *p;

  if (!asr_bytes_take (bytes, sizeof *out, what, &p, error))
    return FALSE;
  memcpy (out, p, sizeof *out);
  *out = GUINT32_FROM_LE (*out);
  return TRUE;
}

gboolean
asr_bytes_read_u64 (AsrBytes *bytes, const char *what, guint64 *out,
    GError **error)
{
  const guint8 *p;

  if (!asr_bytes_take (bytes, sizeof *out, what, &p, error))
    return FALSE;
  memcpy (out, p, sizeof *out);
  *out = GUINT64_FROM_LE (*out);
  return TRUE;
}
