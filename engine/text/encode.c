/* SPDX-License-Identifier: MIT */
/*
 * Byte-pair encoding by rank: of all neighbours whose joined bytes are a
 * token, those with the lowest id are joined first. That needs no list of
 * merges, which some published files have damaged.
 */
#include "engine/text/encode.h"
#include "engine/util/utf8.h"
#include <string.h>

/* Joining takes time with the square of a piece's length; no word of a
 * language is this long, so a longer run is cut. */
#define MAX_PIECE_BYTES 1024

struct _AsrEncoder {
  const AsrTokenBytes *tokens;
  GHashTable *ranks; /* (element-type AsrTokenBytes): key and id + 1 */
};

typedef enum {
  KIND_LETTER,
  KIND_NUMBER,
  KIND_SPACE,
  KIND_OTHER,
} Kind;

static guint
hash_bytes (gconstpointer key)
{
  const AsrTokenBytes *token = key;
  guint32 hash = 2166136261u; /* FNV-1a */

  for (guint32 i = 0; i < token->length; i++)
    hash = (hash ^ token->bytes[i]) * 16777619u;
  return hash;
}

static gboolean
equal_bytes (gconstpointer a, gconstpointer b)
{
  const AsrTokenBytes *first = a, *second = b;

  return first->length == second->length
      && memcmp (first->bytes, second->bytes, first->length) == 0;
}

AsrEncoder *
asr_encoder_new (const AsrTokenBytes *tokens, guint n_tokens)
{
  AsrEncoder *encoder = g_new (AsrEncoder, 1);

  encoder->tokens = tokens;
  encoder->ranks = g_hash_table_new (hash_bytes, equal_bytes);
  for (guint i = 0; i < n_tokens; i++) {
    /* Of two tokens with the same bytes the first has the rank. */
    if (tokens[i].length > 0
        && !g_hash_table_contains (encoder->ranks, &tokens[i]))
      g_hash_table_insert (encoder->ranks, (gpointer) &tokens[i],
          GUINT_TO_POINTER (i + 1));
  }
  return encoder;
}

void
asr_encoder_free (AsrEncoder *encoder)
{
  if (!encoder)
    return;
  g_hash_table_unref (encoder->ranks);
  g_free (encoder);
}

/* The id of @n bytes, G_MAXUINT if they are no token. */
static guint
get_rank (const AsrEncoder *encoder, const char *bytes, gsize n)
{
  AsrTokenBytes key = { (const guint8 *) bytes, (guint32) n };
  guint found = GPOINTER_TO_UINT (g_hash_table_lookup (encoder->ranks, &key));

  return found - 1;
}

static Kind
get_kind (gunichar c)
{
  switch (g_unichar_type (c)) {
    case G_UNICODE_LOWERCASE_LETTER:
    case G_UNICODE_UPPERCASE_LETTER:
    case G_UNICODE_TITLECASE_LETTER:
    case G_UNICODE_MODIFIER_LETTER:
    case G_UNICODE_OTHER_LETTER:
      return KIND_LETTER;
    case G_UNICODE_DECIMAL_NUMBER:
    case G_UNICODE_LETTER_NUMBER:
    case G_UNICODE_OTHER_NUMBER:
      return KIND_NUMBER;
    case G_UNICODE_SPACE_SEPARATOR:
    case G_UNICODE_LINE_SEPARATOR:
    case G_UNICODE_PARAGRAPH_SEPARATOR:
      return KIND_SPACE;
    default:
      /* The control characters with the property White_Space. */
      return (c >= '\t' && c <= '\r') || c == 0x85 ? KIND_SPACE : KIND_OTHER;
  }
}

/* Where the run of @kind that begins at @text ends. */
static const char *
skip_kind (const char *text, Kind kind)
{
  while (*text && get_kind (g_utf8_get_char (text)) == kind)
    text = g_utf8_next_char (text);
  return text;
}

gsize
asr_encode_next_piece (const char *text)
{
  static const char *const contractions[]
      = { "'s", "'t", "'re", "'ve", "'m", "'ll", "'d" };
  const char *start = text, *end;
  Kind kind;

  for (guint i = 0; i < G_N_ELEMENTS (contractions); i++) {
    if (g_str_has_prefix (text, contractions[i]))
      return strlen (contractions[i]);
  }
  if (*start == ' ' && start[1])
    start++;
  kind = get_kind (g_utf8_get_char (start));
  if (kind != KIND_SPACE)
    return skip_kind (start, kind) - text;
  /* The last blank of several belongs to what follows them. */
  end = skip_kind (text, KIND_SPACE);
  if (*end) {
    const char *last = g_utf8_prev_char (end);

    if (last > text)
      end = last;
  }
  return end - text;
}

/* Joins the parts of a piece; @starts: [n + 1] offsets of its n parts, the
 * last is the end; @ranks: [n] of each part joined with the next.
 * Returns: how many parts are left */
static guint
join_parts (const AsrEncoder *encoder, const char *piece, guint n,
    guint16 *starts, guint *ranks)
{
  for (;;) {
    guint best = 0;

    for (guint i = 1; i + 1 < n; i++) {
      if (ranks[i] < ranks[best])
        best = i;
    }
    if (n < 2 || ranks[best] == G_MAXUINT)
      return n;
    n--;
    memmove (starts + best + 1, starts + best + 2,
        (n - best) * sizeof *starts);
    memmove (ranks + best, ranks + best + 1, (n - best) * sizeof *ranks);
    for (guint i = best > 0 ? best - 1 : 0; i <= best && i + 1 < n; i++)
      ranks[i] = get_rank (encoder, piece + starts[i],
          starts[i + 2] - starts[i]);
  }
}

static void
encode_piece (const AsrEncoder *encoder, const char *piece, guint n,
    GArray *ids)
{
  guint16 starts[MAX_PIECE_BYTES + 1];
  guint ranks[MAX_PIECE_BYTES + 1];

  for (guint i = 0; i <= n; i++)
    starts[i] = i;
  for (guint i = 0; i < n; i++)
    ranks[i] = i + 1 < n ? get_rank (encoder, piece + i, 2) : G_MAXUINT;
  n = join_parts (encoder, piece, n, starts, ranks);
  for (guint i = 0; i < n; i++) {
    guint rank = get_rank (encoder, piece + starts[i],
        starts[i + 1] - starts[i]);
    gint32 id = (gint32) rank;

    if (rank != G_MAXUINT)
      g_array_append_val (ids, id);
  }
}

void
asr_encoder_encode (const AsrEncoder *encoder, const char *text, GArray *ids)
{
  g_autoptr (GString) valid = g_string_new (NULL);
  const char *at;

  asr_utf8_append (valid, (const guint8 *) text, strlen (text), TRUE);
  at = valid->str;
  while (*at) {
    gsize n = MIN (asr_encode_next_piece (at), MAX_PIECE_BYTES);

    /* A cut must not fall into a character: the next piece begins there. */
    while (n > 1 && ((guint8) at[n] & 0xc0) == 0x80)
      n--;
    encode_piece (encoder, at, n, ids);
    at += n;
  }
}
