/* SPDX-License-Identifier: MIT */
/*
 * Engines of this process, so that elements with the same model, device and
 * threads share weights and batches. An engine lingers for some seconds after
 * its last user, so that PAUSED to NULL and back does not load twice.
 * Thread-safe.
 */
#ifndef GST_ASR_POOL_H
#define GST_ASR_POOL_H

#include "engine/asr.h"

G_BEGIN_DECLS

/**
 * gst_asr_pool_acquire: an engine that is loaded, perhaps by this call or by
 * another thread's; blocks until then.
 * @progress: (scope call): as asr_engine_new calls it; also called now and
 *   then while another thread loads, so that waiting can be cancelled
 *
 * Returns: (transfer full): give back with gst_asr_pool_release
 */
AsrEngine *gst_asr_pool_acquire (const AsrEngineParams *params,
    AsrProgressFunc progress, gpointer user_data, GError **error);

/* @engine: (nullable) */
void gst_asr_pool_release (AsrEngine *engine);

G_END_DECLS

#endif
