/* SPDX-License-Identifier: MIT */
/* Registers the element; touches no device, so that scanning never fails. */
#include <gst/gst.h>

#include "gst/gstasr.h"

static gboolean
plugin_init (GstPlugin *plugin)
{
  return GST_ELEMENT_REGISTER (asr, plugin);
}

GST_PLUGIN_DEFINE (GST_VERSION_MAJOR, GST_VERSION_MINOR, asr,
    "Speech to timed text", plugin_init, PACKAGE_VERSION, "MIT/X11",
    "gst-asr", "unknown")
