/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the element share: a harness around it with the generated
 * model (TINY_MODEL), audio for it, and what came out, checked to cover the
 * time without holes.
 */
#ifndef ASR_TESTS_GST_SUITE_H
#define ASR_TESTS_GST_SUITE_H

#include <gst/audio/audio.h>
#include <gst/check/gstharness.h>

#include "engine/asr.h"
#include "gst/gstasr.h"

#define MS GST_MSECOND
#define CAPS_48K "audio/x-raw,format=S16LE,layout=interleaved,rate=48000," \
  "channels=2,channel-mask=(bitmask)0x3"
#define CAPS_16K "audio/x-raw,format=F32LE,layout=interleaved,rate=16000," \
  "channels=1"
/* What the model says in one window, words as the element joins them. */
#define SUITE_N_WORDS 10
extern const char *const suite_script[SUITE_N_WORDS];

GstElement *make_element (void);

/* A harness that is not live. */
GstHarness *make_harness (const char *caps);

/* Noise at @pts; the model does not care. */
GstBuffer *make_buffer (GstClockTime pts, guint n_bytes, guint rate,
    guint bpf);

/* @seconds of 48 kHz stereo in 20 ms buffers from @pts on. */
void push_seconds (GstHarness *h, GstClockTime pts, double seconds);

void push_eos (GstHarness *h);

typedef struct {
  GPtrArray *texts; /* char */
  GstClockTime start, end, first_text;
  guint n_gaps;
} Output;

/* Waits for EOS; returns what came, buffers and gaps by time, checked to cover
 * the time without holes or overlap. */
Output collect (GstHarness *h);
void clear_output (Output *o);

void assert_script (const Output *o, guint n_windows);

#endif
