/* SPDX-License-Identifier: MIT */
/* A decoder of two layers with random weights, for whole steps. */
#ifndef TESTS_BACKEND_TINY_H
#define TESTS_BACKEND_TINY_H

#include "tests/backend/suite.h"

#define TINY_D 128
#define TINY_HEADS 2
#define TINY_LAYERS 2
#define TINY_VOCAB 1003
#define TINY_FRAMES 100
#define TINY_SLOTS 4
#define TINY_MAX_ROWS 40
#define TINY_MAX_LOGITS 24

typedef struct {
  Suite *suite;
  AsrLayerWeights layers[TINY_LAYERS];
  AsrWeight *table;
  float *positions;
  AsrNormWeights norm;
  AsrKvPool self, cross;
  AsrRuleTokens tokens;
  guint32 *masks;
  AsrTextState *states; /* device */
  float *logits;        /* device [TINY_MAX_LOGITS, TINY_VOCAB] */
  void *x, *scratch;
  AsrTokenRecord *records; /* [64 * TINY_MAX_ROWS] */
} Tiny;

void tiny_init (Tiny *tiny, Suite *suite);

/* A step of all that is the tiny model's; rows and choices are the caller's.
 * @first_record: of tiny's records */
AsrDecoderStepParams tiny_step (Tiny *tiny, const AsrRow *rows, guint n_rows,
    const AsrChoice *choices, guint n_choices, guint first_record);

/* States of all slots: text behind a prompt of four, at @temperature. */
void tiny_start (Tiny *tiny, float temperature);

#endif
