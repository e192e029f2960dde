/* SPDX-License-Identifier: MIT */
/*
 * Checked little-endian reads from bytes that nobody vouches for. Each read
 * either fits or fails with an error that names the file, the place and the
 * numbers; no read ever goes past the end.
 */
#ifndef ASR_UTIL_BYTES_H
#define ASR_UTIL_BYTES_H

#include "engine/asr.h"

G_BEGIN_DECLS

/**
 * AsrBytes: a place in borrowed bytes.
 * @file: for messages
 * @offset: never more than @n_bytes
 */
typedef struct {
  const char *file;
  const guint8 *data;
  gsize n_bytes;
  gsize offset;
} AsrBytes;

/**
 * asr_bytes_take: @n bytes at the offset, which moves on.
 * @what: names the field in the error
 * @out: (out) (transfer none): unaligned
 */
gboolean asr_bytes_take (AsrBytes *bytes, guint64 n, const char *what,
    const guint8 **out, GError **error);

gboolean asr_bytes_read_u8 (AsrBytes *bytes, const char *what, guint8 *out,
    GError **error);
gboolean asr_bytes_read_u16 (AsrBytes *bytes, const char *what, guint16 *out,
    GError **error);
gboolean asr_bytes_read_u32 (AsrBytes *bytes, const char *what, guint32 *out,
    GError **error);
gboolean asr_bytes_read_u64 (AsrBytes *bytes, const char *what, guint64 *out,
    GError **error);

/**
 * asr_bytes_set_corrupt: sets an ASR_ERROR_CORRUPT that begins with file and
 * @offset and ends with what to do about it.
 *
 * Returns: FALSE, so that it can end a function
 */
gboolean asr_bytes_set_corrupt (const AsrBytes *bytes, gsize offset,
    GError **error, const char *format, ...) G_GNUC_PRINTF (4, 5);

G_END_DECLS

#endif
