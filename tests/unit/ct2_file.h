/* SPDX-License-Identifier: MIT */
/* Writes CTranslate2 files byte by byte, right ones and wrong ones. */
#ifndef TESTS_UNIT_CT2_FILE_H
#define TESTS_UNIT_CT2_FILE_H

#include <string.h>
#include <glib.h>

enum { CT2_F32, CT2_I8, CT2_I16, CT2_I32, CT2_F16, CT2_BF16 };

static inline void
put_u8 (GByteArray *file, guint8 value)
{
  g_byte_array_append (file, &value, 1);
}

static inline void
put_u16 (GByteArray *file, guint16 value)
{
  value = GUINT16_TO_LE (value);
  g_byte_array_append (file, (const guint8 *) &value, sizeof value);
}

static inline void
put_u32 (GByteArray *file, guint32 value)
{
  value = GUINT32_TO_LE (value);
  g_byte_array_append (file, (const guint8 *) &value, sizeof value);
}

static inline void
put_string (GByteArray *file, const char *text)
{
  put_u16 (file, strlen (text) + 1);
  g_byte_array_append (file, (const guint8 *) text, strlen (text) + 1);
}

/* Up to and with the number of variables. */
static inline void
put_header (GByteArray *file, guint32 version, guint32 n_variables)
{
  put_u32 (file, version);
  put_string (file, "WhisperSpec");
  put_u32 (file, 3);
  put_u32 (file, n_variables);
}

/* Up to and with the type; a size and data follow. */
static inline void
put_shape (GByteArray *file, const char *name, guint8 rank,
    const guint32 *dims, guint8 type)
{
  put_string (file, name);
  put_u8 (file, rank);
  for (guint i = 0; i < rank; i++)
    put_u32 (file, dims[i]);
  put_u8 (file, type);
}

static inline void
put_variable (GByteArray *file, const char *name, guint8 rank,
    const guint32 *dims, guint8 type, const void *data, guint32 n_bytes)
{
  put_shape (file, name, rank, dims, type);
  put_u32 (file, n_bytes);
  g_byte_array_append (file, data, n_bytes);
}

#endif
