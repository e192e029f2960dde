/* SPDX-License-Identifier: MIT */
/* The languages that Whisper has tokens for, in the order of the tokens. */
#include "engine/text/language.h"
#include <string.h>

static const struct {
  const char *code;
  const char *name;
} languages[ASR_N_LANGUAGES] = {
  { "en", "english" }, { "zh", "chinese" }, { "de", "german" },
  { "es", "spanish" }, { "ru", "russian" }, { "ko", "korean" },
  { "fr", "french" }, { "ja", "japanese" }, { "pt", "portuguese" },
  { "tr", "turkish" }, { "pl", "polish" }, { "ca", "catalan" },
  { "nl", "dutch" }, { "ar", "arabic" }, { "sv", "swedish" },
  { "it", "italian" }, { "id", "indonesian" }, { "hi", "hindi" },
  { "fi", "finnish" }, { "vi", "vietnamese" }, { "he", "hebrew" },
  { "uk", "ukrainian" }, { "el", "greek" }, { "ms", "malay" },
  { "cs", "czech" }, { "ro", "romanian" }, { "da", "danish" },
  { "hu", "hungarian" }, { "ta", "tamil" }, { "no", "norwegian" },
  { "th", "thai" }, { "ur", "urdu" }, { "hr", "croatian" },
  { "bg", "bulgarian" }, { "lt", "lithuanian" }, { "la", "latin" },
  { "mi", "maori" }, { "ml", "malayalam" }, { "cy", "welsh" },
  { "sk", "slovak" }, { "te", "telugu" }, { "fa", "persian" },
  { "lv", "latvian" }, { "bn", "bengali" }, { "sr", "serbian" },
  { "az", "azerbaijani" }, { "sl", "slovenian" }, { "kn", "kannada" },
  { "et", "estonian" }, { "mk", "macedonian" }, { "br", "breton" },
  { "eu", "basque" }, { "is", "icelandic" }, { "hy", "armenian" },
  { "ne", "nepali" }, { "mn", "mongolian" }, { "bs", "bosnian" },
  { "kk", "kazakh" }, { "sq", "albanian" }, { "sw", "swahili" },
  { "gl", "galician" }, { "mr", "marathi" }, { "pa", "punjabi" },
  { "si", "sinhala" }, { "km", "khmer" }, { "sn", "shona" },
  { "yo", "yoruba" }, { "so", "somali" }, { "af", "afrikaans" },
  { "oc", "occitan" }, { "ka", "georgian" }, { "be", "belarusian" },
  { "tg", "tajik" }, { "sd", "sindhi" }, { "gu", "gujarati" },
  { "am", "amharic" }, { "yi", "yiddish" }, { "lo", "lao" },
  { "uz", "uzbek" }, { "fo", "faroese" }, { "ht", "haitian creole" },
  { "ps", "pashto" }, { "tk", "turkmen" }, { "nn", "nynorsk" },
  { "mt", "maltese" }, { "sa", "sanskrit" }, { "lb", "luxembourgish" },
  { "my", "myanmar" }, { "bo", "tibetan" }, { "tl", "tagalog" },
  { "mg", "malagasy" }, { "as", "assamese" }, { "tt", "tatar" },
  { "haw", "hawaiian" }, { "ln", "lingala" }, { "ha", "hausa" },
  { "ba", "bashkir" }, { "jw", "javanese" }, { "su", "sundanese" },
  { "yue", "cantonese" },
};

const char *
asr_language_get_code (guint index)
{
  return index < ASR_N_LANGUAGES ? languages[index].code : NULL;
}

gint
asr_language_find (const char *name)
{
  gsize n_code = strcspn (name, "-_");

  for (guint i = 0; i < ASR_N_LANGUAGES; i++) {
    const char *code = languages[i].code;

    if (strlen (code) == n_code
        && g_ascii_strncasecmp (name, code, n_code) == 0)
      return (gint) i;
    if (g_ascii_strcasecmp (name, languages[i].name) == 0)
      return (gint) i;
  }
  return -1;
}

gboolean
asr_language_is_unspaced (const char *code)
{
  static const char *const unspaced[]
      = { "zh", "ja", "th", "lo", "my", "yue", NULL };

  return g_strv_contains (unspaced, code);
}
