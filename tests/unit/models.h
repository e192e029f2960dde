/* SPDX-License-Identifier: MIT */
/* Where the real models of the local cache are; tests skip without them. */
#ifndef TESTS_UNIT_MODELS_H
#define TESTS_UNIT_MODELS_H

#include <string.h>
#include "engine/weights/weights.h"

/* Returns: (transfer full) (nullable): NULL when the test was skipped */
static inline AsrWeights *
open_model (const char *name)
{
  g_autofree char *path = g_build_filename (g_get_user_data_dir (), "gst-asr",
      "models", name, NULL);
  g_autoptr (GError) error = NULL;
  AsrWeights *weights;

  if (!g_file_test (path, G_FILE_TEST_EXISTS)) {
    g_test_skip_printf ("no model %s: setup --model %s fetches it", path,
        name);
    return NULL;
  }
  weights = asr_weights_open (path, &error);
  g_assert_no_error (error);
  return weights;
}

#endif
