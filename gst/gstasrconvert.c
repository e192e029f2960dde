/* SPDX-License-Identifier: MIT */
/* Any raw audio to 16 kHz mono f32; see gstasrconvert.h. */
#include "gst/gstasrconvert.h"

#include <math.h>
#include <string.h>

/* A mix with less than this part of its loudest channel has cancelled; one
 * with more than the second is whole again. */
#define CANCELLED 0.01
#define WHOLE 0.05
/* Energies look back about this far. */
#define MEMORY_S 0.5

struct _GstAsrConvert {
  GstAudioInfo in, floats;       /* floats: as in, but F32 interleaved */
  GstAudioConverter *to_floats;
  GstAudioConverter *resampler;  /* mono F32 */
  guint rate;
  guint64 n_in;                  /* frames since the start or drain */
  guint64 n_out;                 /* samples given out since then */

  gfloat weights[64];            /* of each channel in the mix */
  double energies[64], mix_energy;
  gint channel;                  /* heard alone, or -1: the mix */

  GArray *interleaved, *mono, *out; /* float */
};

/* The centre where the layout has one, else the mean of all but the
 * low-frequency channel. */
static void
set_weights (GstAsrConvert *c)
{
  guint n = GST_AUDIO_INFO_CHANNELS (&c->in), n_heard = 0;
  gboolean is_positioned
      = !GST_AUDIO_INFO_IS_UNPOSITIONED (&c->in) && n > 2;

  for (guint i = 0; is_positioned && i < n; i++)
    if (c->in.position[i] == GST_AUDIO_CHANNEL_POSITION_FRONT_CENTER) {
      c->weights[i] = 1;
      return;
    }
  for (guint i = 0; i < n; i++) {
    c->weights[i] = !is_positioned
        || (c->in.position[i] != GST_AUDIO_CHANNEL_POSITION_LFE1
            && c->in.position[i] != GST_AUDIO_CHANNEL_POSITION_LFE2);
    n_heard += c->weights[i] > 0;
  }
  for (guint i = 0; i < n; i++)
    c->weights[i] /= MAX (n_heard, 1);
}

GstAsrConvert *
gst_asr_convert_new (const GstAudioInfo *info, guint rate)
{
  g_autoptr (GstAsrConvert) c = g_new0 (GstAsrConvert, 1);
  GstAudioInfo from, to;

  c->in = *info;
  c->rate = rate;
  c->channel = -1;
  c->interleaved = g_array_new (FALSE, FALSE, sizeof (float));
  c->mono = g_array_new (FALSE, FALSE, sizeof (float));
  c->out = g_array_new (FALSE, FALSE, sizeof (float));
  gst_audio_info_set_format (&c->floats, GST_AUDIO_FORMAT_F32,
      GST_AUDIO_INFO_RATE (info), GST_AUDIO_INFO_CHANNELS (info),
      GST_AUDIO_INFO_IS_UNPOSITIONED (info) ? NULL : info->position);
  set_weights (c);
  c->to_floats = gst_audio_converter_new (GST_AUDIO_CONVERTER_FLAG_NONE,
      &c->in, &c->floats, NULL);
  gst_audio_info_set_format (&from, GST_AUDIO_FORMAT_F32,
      GST_AUDIO_INFO_RATE (info), 1, NULL);
  gst_audio_info_set_format (&to, GST_AUDIO_FORMAT_F32, rate, 1, NULL);
  c->resampler = gst_audio_converter_new (GST_AUDIO_CONVERTER_FLAG_NONE,
      &from, &to,
      gst_structure_new ("GstAudioConverterConfig",
          GST_AUDIO_CONVERTER_OPT_RESAMPLER_METHOD,
          GST_TYPE_AUDIO_RESAMPLER_METHOD, GST_AUDIO_RESAMPLER_METHOD_KAISER,
          NULL));
  if (c->to_floats == NULL || c->resampler == NULL)
    return NULL;
  return g_steal_pointer (&c);
}

void
gst_asr_convert_free (GstAsrConvert *c)
{
  if (c == NULL)
    return;
  g_clear_pointer (&c->to_floats, gst_audio_converter_free);
  g_clear_pointer (&c->resampler, gst_audio_converter_free);
  g_array_unref (c->interleaved);
  g_array_unref (c->mono);
  g_array_unref (c->out);
  g_free (c);
}

gint
gst_asr_convert_choose_channel (double mix_energy, const double *energies,
    guint n, gint current)
{
  guint loudest = 0;
  double limit = current < 0 ? CANCELLED : WHOLE;

  for (guint i = 1; i < n; i++)
    if (energies[i] > energies[loudest])
      loudest = i;
  if (n < 2 || mix_energy >= limit * energies[loudest])
    return -1;
  /* stay with a channel that is about as loud: jumping clicks */
  if (current >= 0 && energies[current] * 2 > energies[loudest])
    return current;
  return loudest;
}

/* Energies of this buffer on top of what was before. */
static void
measure (GstAsrConvert *c, const float *x, gsize n_frames)
{
  guint n = GST_AUDIO_INFO_CHANNELS (&c->in);
  double keep
      = exp (-(double) n_frames / GST_AUDIO_INFO_RATE (&c->in) / MEMORY_S);
  double sums[64] = { 0 }, mix_sum = 0;

  for (gsize t = 0; t < n_frames; t++) {
    double mix = 0;

    for (guint i = 0; i < n; i++) {
      double value = x[t * n + i];

      sums[i] += value * value;
      mix += c->weights[i] * value;
    }
    mix_sum += mix * mix;
  }
  for (guint i = 0; i < n; i++)
    c->energies[i] = keep * c->energies[i] + sums[i];
  c->mix_energy = keep * c->mix_energy + mix_sum;
}

/* [n_frames] mono; NaN and infinity become 0. */
static const float *
mix_down (GstAsrConvert *c, float *x, gsize n_frames)
{
  guint n = GST_AUDIO_INFO_CHANNELS (&c->in);
  float *mono;

  for (gsize i = 0; i < n_frames * n; i++)
    if (!isfinite (x[i]))
      x[i] = 0;
  if (n == 1)
    return x;
  measure (c, x, n_frames);
  c->channel = gst_asr_convert_choose_channel (c->mix_energy, c->energies, n,
      c->channel);
  g_array_set_size (c->mono, n_frames);
  mono = (float *) c->mono->data;
  for (gsize t = 0; t < n_frames; t++) {
    float sum = 0;

    for (guint i = 0; c->channel < 0 && i < n; i++)
      sum += c->weights[i] * x[t * n + i];
    mono[t] = c->channel < 0 ? sum : x[t * n + c->channel];
  }
  return mono;
}

static const float *
resample (GstAsrConvert *c, const float *mono, gsize n_frames, gsize *n_out)
{
  gpointer in[1] = { (gpointer) mono }, out[1];

  *n_out = gst_audio_converter_get_out_frames (c->resampler, n_frames);
  g_array_set_size (c->out, *n_out);
  out[0] = c->out->data;
  if (*n_out > 0
      && !gst_audio_converter_samples (c->resampler,
          GST_AUDIO_CONVERTER_FLAG_NONE, in, n_frames, out, *n_out))
    memset (c->out->data, 0, *n_out * sizeof (float));
  else if (*n_out == 0)
    gst_audio_converter_samples (c->resampler, GST_AUDIO_CONVERTER_FLAG_NONE,
        in, n_frames, out, 0);
  c->n_out += *n_out;
  return (const float *) c->out->data;
}

const float *
gst_asr_convert_run (GstAsrConvert *c, const GstAudioBuffer *buffer,
    gsize *n_out)
{
  gsize n_frames = buffer->n_samples;
  gpointer out[1];

  g_array_set_size (c->interleaved,
      n_frames * GST_AUDIO_INFO_CHANNELS (&c->in));
  out[0] = c->interleaved->data;
  *n_out = 0;
  if (n_frames == 0
      || !gst_audio_converter_samples (c->to_floats,
          GST_AUDIO_CONVERTER_FLAG_NONE, buffer->planes, n_frames, out,
          n_frames))
    return NULL;
  c->n_in += n_frames;
  return resample (c, mix_down (c, out[0], n_frames), n_frames, n_out);
}

void
gst_asr_convert_reset (GstAsrConvert *c)
{
  gst_audio_converter_reset (c->resampler);
  c->n_in = c->n_out = 0;
}

guint64
gst_asr_convert_get_n_heard (const GstAsrConvert *c)
{
  return gst_util_uint64_scale_round (c->n_in, c->rate,
      GST_AUDIO_INFO_RATE (&c->in));
}

const float *
gst_asr_convert_drain (GstAsrConvert *c, gsize *n_out)
{
  guint64 n_heard = gst_asr_convert_get_n_heard (c), n_left;
  gsize n_latency = gst_audio_converter_get_max_latency (c->resampler) + 64;
  g_autofree float *silence = g_new0 (float, n_latency);
  const float *out;

  n_left = n_heard > c->n_out ? n_heard - c->n_out : 0;
  out = resample (c, silence, n_latency, n_out);
  *n_out = MIN (*n_out, n_left);
  gst_asr_convert_reset (c);
  return out;
}
