/* SPDX-License-Identifier: MIT */
/*
 * Frame of the backend suite: the same checks run on each backend, against
 * references in double precision. ASR_TEST_BACKEND and ASR_TEST_COMPUTE name
 * what is tested ("cuda", "f16"); where there is no such device the program
 * exits with 77. What a check allocates is freed when it ends.
 */
#ifndef TESTS_BACKEND_SUITE_H
#define TESTS_BACKEND_SUITE_H

#include "engine/backend/backend.h"

typedef struct {
  AsrCompute *compute;
  const AsrBackend *table;
  AsrQueue *queue;
  gboolean is_f16;      /* activations */
  gboolean is_kv_f16;
  gboolean has_plain_kv; /* pools hold rows of 64 in order of position, not
                          * an order of the backend's own */
  double act_tolerance; /* relative error of a result of activations */
  double kv_tolerance;  /* of one that went through a key/value pool */
  guint64 state;        /* of the random numbers */
  GArray *memories;     /* AsrMemory */
  GPtrArray *weights;   /* AsrWeight */
  GPtrArray *hosts;     /* g_malloc'ed */
} Suite;

/* Registers a check under @path. */
void suite_add (const char *path, void (*check) (Suite *suite));

/* Opens the device, runs what was added; an exit code. */
int suite_main (int argc, char **argv, void (*add_all) (void));

/* Normally distributed, times @amplitude, values that f16 can hold; freed
 * with the check. */
float *suite_random (Suite *suite, gsize n, double amplitude);
double suite_uniform (Suite *suite);
double *suite_doubles (Suite *suite, gsize n);

/* Device memory full of NaN. */
void *suite_device (Suite *suite, gsize n_bytes);
void *suite_pinned (Suite *suite, gsize n_bytes);
void *suite_upload (Suite *suite, const void *data, gsize n_bytes);
/* As activations, or as elements of a key/value pool. */
void *suite_upload_act (Suite *suite, const float *x, gsize n);
void *suite_upload_kv (Suite *suite, const float *x, gsize n);
void *suite_new_act (Suite *suite, gsize n);

/* Host copies, freed with the check; they wait for the queue. */
void *suite_download (Suite *suite, const void *device, gsize n_bytes);
float *suite_download_act (Suite *suite, const void *device, gsize n);
float *suite_download_kv (Suite *suite, const void *device, gsize n);

/* @n_taps: 1, or 3 for a convolution */
AsrWeight *suite_weight (Suite *suite, const float *w, guint n_out,
    guint n_in, guint n_taps);
AsrLinearWeights suite_linear (Suite *suite, guint n_out, guint n_in,
    double amplitude);
AsrNormWeights suite_norm (Suite *suite, guint d);

void suite_wait (Suite *suite);

/* Device memory that is free, by the CUDA runtime. */
gsize suite_get_free_bytes (void);

/* Fails where ||got - expected|| is more than @tolerance of ||expected||, or
 * one value is further off than 20 times that of the root mean square. */
void suite_compare (const char *name, const float *got,
    const double *expected, gsize n, double tolerance);

/* ---- reference.c ---- */

double reference_gelu (double x);
/* [n_rows, d] in place */
void reference_norm (double *x, guint n_rows, guint d, const float *gamma,
    const float *beta);
/* y [n_rows, n_out] = x W^T + bias */
void reference_linear (const double *x, guint n_rows, guint n_in,
    const float *w, const float *bias, guint n_out, double *y);
/* One query of 64 over @n_keys; @strides in elements; @scores: (nullable) */
void reference_attend (const double *q, const double *k, const double *v,
    gsize stride, guint n_keys, double *scores, double *y);

#endif
