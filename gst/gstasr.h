/* SPDX-License-Identifier: MIT */
#ifndef GST_ASR_H
#define GST_ASR_H

#include <gst/gst.h>

G_BEGIN_DECLS

#define GST_TYPE_ASR (gst_asr_get_type ())
G_DECLARE_FINAL_TYPE (GstAsr, gst_asr, GST, ASR, GstElement)

GST_ELEMENT_REGISTER_DECLARE (asr);

G_END_DECLS

#endif
