/* SPDX-License-Identifier: MIT */
/*
 * Which backends there are: "cpu" is built in, "cuda" a module that is opened
 * when asked for and stays open, since its driver may not be unloaded.
 */
#include "engine/backend/registry.h"
#include <dlfcn.h>
#include <gmodule.h>

#define CUDA_FILE "libasrbackend-cuda." G_MODULE_SUFFIX
#define CUDA_SYMBOL "asr_backend_cuda"

extern const AsrBackend asr_backend_cpu;

/* Where the module may lie: what the environment says and nothing else, or
 * beside the library that this code is in (also as the build tree has it),
 * or where it is installed.
 * Returns: (transfer full): NULL-terminated */
static char **
list_folders (void)
{
  const char *wanted = g_getenv ("ASR_BACKEND_DIR");
  g_autoptr (GStrvBuilder) folders = g_strv_builder_new ();
  Dl_info here;

  if (wanted) {
    g_strv_builder_add (folders, wanted);
    return g_strv_builder_end (folders);
  }
  if (dladdr (&asr_backend_cpu, &here) && here.dli_fname) {
    g_autofree char *beside = g_path_get_dirname (here.dli_fname);
    g_autofree char *built
        = g_build_filename (beside, "backend", "cuda", NULL);

    g_strv_builder_add (folders, beside);
    g_strv_builder_add (folders, built);
  }
  g_strv_builder_add (folders, ASR_MODULE_DIR);
  return g_strv_builder_end (folders);
}

/* Returns: (transfer full) (nullable): the module's file */
static char *
find_cuda (GError **error)
{
  g_auto (GStrv) folders = list_folders ();
  g_autofree char *list = NULL;

  for (guint i = 0; folders[i]; i++) {
    g_autofree char *path = g_build_filename (folders[i], CUDA_FILE, NULL);

    if (g_file_test (path, G_FILE_TEST_IS_REGULAR))
      return g_steal_pointer (&path);
  }
  list = g_strjoinv (", ", folders);
  g_set_error (error, ASR_ERROR, ASR_ERROR_NOT_FOUND,
      "%s is in none of: %s; install or build the CUDA backend, or name its "
      "folder in ASR_BACKEND_DIR", CUDA_FILE, list);
  return NULL;
}

static gboolean
check_table (const AsrBackend *table, const char *path, GError **error)
{
  if (table->abi == ASR_BACKEND_ABI && table->n_bytes == sizeof *table)
    return TRUE;
  g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
      "%s belongs to another version of this library: its table has version "
      "%u and %u bytes, not %d and %" G_GSIZE_FORMAT "; install both from "
      "one build", path, table->abi, table->n_bytes, ASR_BACKEND_ABI,
      sizeof *table);
  return FALSE;
}

static const AsrBackend *
open_cuda (GError **error)
{
  g_autofree char *path = find_cuda (error);
  GModule *module;
  gpointer table;

  if (!path)
    return NULL;
  module = g_module_open (path, G_MODULE_BIND_LOCAL);
  if (!module) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
        "%s can't be loaded: %s", path, g_module_error ());
    return NULL;
  }
  if (!g_module_symbol (module, CUDA_SYMBOL, &table)) {
    g_set_error (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED,
        "%s is no backend: it has no %s", path, CUDA_SYMBOL);
    g_module_close (module);
    return NULL;
  }
  if (!check_table (table, path, error)) {
    g_module_close (module);
    return NULL;
  }
  g_module_make_resident (module);
  return table;
}

const AsrBackend *
asr_backend_find (const char *name, GError **error)
{
  if (g_str_equal (name, "cpu"))
    return &asr_backend_cpu;
  if (g_str_equal (name, "cuda"))
    return open_cuda (error);
  g_set_error (error, ASR_ERROR, ASR_ERROR_ARGUMENT,
      "there is no backend \"%s\": use auto, cpu or cuda", name);
  return NULL;
}
