/* SPDX-License-Identifier: MIT */
/* Backends by name; backend.c opens their devices. */
#ifndef ASR_BACKEND_REGISTRY_H
#define ASR_BACKEND_REGISTRY_H

#include "engine/backend/backend.h"

G_BEGIN_DECLS

/* Returns: (transfer none): "cpu" or "cuda", valid for the life of the
 * process */
const AsrBackend *asr_backend_find (const char *name, GError **error);

G_END_DECLS

#endif
