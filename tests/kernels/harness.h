/* SPDX-License-Identifier: MIT */
/*
 * Frame of the kernel checks: a device of the CPU backend at the tier that
 * ASR_CPU_ISA names, random shapes and data from a printed seed, comparison
 * with a reference in double precision, and with --bench the speed. A check
 * runs the op through the backend's table, as the engine does.
 *
 * Arguments: --seed N, --bench, --threads N.
 * Exit: 0, 1 where a value differs, 77 where the machine lacks the tier.
 */
#ifndef TESTS_KERNELS_HARNESS_H
#define TESTS_KERNELS_HARNESS_H

#include "engine/backend/backend.h"

typedef struct {
  const AsrBackend *table;
  AsrDevice *device;  /* ASR_COMPUTE_INT8 unless check_open changed it */
  AsrQueue *queue;
  const char *isa;    /* tier that runs, for names */
  guint n_threads;
  gboolean is_bench;
  guint64 seed;
  guint64 state;      /* of the random numbers */
  guint n_compared;
  guint n_failed;
} Check;

/* Parses arguments, opens the device, runs @body, reports; an exit code. */
int check_main (int argc, char **argv, void (*body) (Check *check));

/* Another device in place of the one before. */
void check_open (Check *check, AsrComputeType type, guint n_threads);

/* Waits for the queue; an error counts as a failure of @name. */
gboolean check_wait (Check *check, const char *name);

guint check_random_range (Check *check, guint least, guint greatest);
double check_random_uniform (Check *check, double least, double greatest);
double check_random_normal (Check *check);

/* Normally distributed, times @amplitude; free with check_free. Aligned to 64
 * bytes and not a byte too long, so that the address sanitizer sees reads past
 * the end. */
float *check_new_f32 (Check *check, gsize n, double amplitude);
void *check_new (gsize n_bytes);
void check_free (void *memory);

/* The element furthest off is reported where it is further than
 * absolute + |expected| * relative. */
gboolean check_compare (Check *check, const char *name, const float *got,
    const double *expected, gsize n, double absolute, double relative);

/* A failure that is not a comparison of numbers. */
void check_fail (Check *check, const char *name, const char *format, ...)
    G_GNUC_PRINTF (3, 4);

/* With --bench: the median time of @run, as Gop/s and GB/s; else nothing. */
void check_bench (Check *check, const char *name, double n_ops,
    double n_bytes, void (*run) (gpointer data), gpointer data);

#endif
