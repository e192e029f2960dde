/* SPDX-License-Identifier: MIT */
/*
 * A model of a real shape with random weights beside what transformers
 * computed with them in f32 (make_random.py): encoder output, and
 * log-probabilities over 50 positions whose tokens are given. RANDOM_MODEL
 * names the folder; skips without it.
 *
 * Tolerances: relative error (norm of the difference by that of the values)
 * of the encoder output, and differences of log-probabilities. Those of f16
 * are about twice what transformers in f16 is off by.
 */
#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#include "engine/model/model.h"

#define N_SAMPLES 480000
#define MAX_POSITIONS 64
#define FEW 10

typedef struct {
  AsrComputeType type;
  double encoder;
  double max_log_prob, mean_log_prob;
} Case;

static const Case cases[] = {
  { ASR_COMPUTE_F32, 1e-5, 1e-3, 2e-4 },
  { ASR_COMPUTE_F16, 3e-3, 2e-2, 5e-3 },
};

static JsonObject *expected;

static void
check_encoder (AsrModel *model, const Case *c)
{
  JsonArray *pairs = json_object_get_array_member (expected, "encoder");
  g_autofree float *encoded
      = g_new (float, 1500 * asr_model_get_info (model)->d_model);
  double error = 0, norm = 0;
  g_autoptr (GError) failure = NULL;

  asr_model_read_output (model, ASR_METHOD_ENCODER, 0, encoded, &failure);
  g_assert_no_error (failure);
  for (guint i = 0; i < json_array_get_length (pairs); i++) {
    JsonArray *pair = json_array_get_array_element (pairs, i);
    double wanted = json_array_get_double_element (pair, 1);
    double found = encoded[json_array_get_int_element (pair, 0)];

    error += (found - wanted) * (found - wanted);
    norm += wanted * wanted;
  }
  error = sqrt (error / norm);
  g_test_message ("encoder: relative error %.2e", error);
  g_assert_cmpfloat (error, <=, c->encoder);
}

/* All positions at once, for one id of each. */
static void
score (AsrModel *model, guint column, double *log_probs)
{
  JsonArray *tokens = json_object_get_array_member (expected, "tokens");
  JsonArray *ids = json_object_get_array_member (expected, "ids");
  guint n = json_array_get_length (tokens);
  AsrMethodCost cost = { 0 };
  AsrRow rows[MAX_POSITIONS];
  AsrChoice choices[MAX_POSITIONS];
  AsrTokenRecord records[MAX_POSITIONS];
  g_autoptr (GError) error = NULL;

  g_assert_cmpuint (n, <=, MAX_POSITIONS);
  for (guint r = 0; r < n; r++) {
    rows[r] = (AsrRow){ json_array_get_int_element (tokens, r), r, 0, 0 };
    choices[r] = (AsrChoice){ ASR_CHOICE_SCORE, r < FEW ? r : r - FEW, 0,
      json_array_get_int_element (json_array_get_array_element (ids, r),
          column),
      (gint32) asr_model_get_info (model)->n_vocab };
  }
  /* steps of few rows and of many may go other ways */
  asr_model_decode (model, rows, FEW, choices, FEW, 1, ASR_METHOD_MASK_ALL,
      records, &cost, &error);
  g_assert_no_error (error);
  asr_model_decode (model, rows + FEW, n - FEW, choices + FEW, n - FEW, 1,
      ASR_METHOD_MASK_ALL, records + FEW, &cost, &error);
  g_assert_no_error (error);
  for (guint r = 0; r < n; r++)
    log_probs[r] = records[r].log_prob;
}

static void
check_log_probs (AsrModel *model, const Case *c)
{
  JsonArray *rows = json_object_get_array_member (expected, "log_probs");
  guint n = json_array_get_length (rows);
  guint n_ids
      = json_array_get_length (json_array_get_array_element (rows, 0));
  double found[MAX_POSITIONS], largest = 0, sum = 0;

  for (guint k = 0; k < n_ids; k++) {
    score (model, k, found);
    for (guint r = 0; r < n; r++) {
      double difference = fabs (found[r] - json_array_get_double_element (
          json_array_get_array_element (rows, r), k));

      sum += difference;
      if (!(difference <= largest))
        largest = difference;
    }
  }
  g_test_message ("log-probabilities: largest error %.2e, mean %.2e", largest,
      sum / (n * n_ids));
  g_assert_cmpfloat (largest, <=, c->max_log_prob);
  g_assert_cmpfloat (sum / (n * n_ids), <=, c->mean_log_prob);
}

static AsrCompute *
open_compute (AsrComputeType type)
{
  AsrDeviceParams device = { 0, type, 0 };
  g_autoptr (GError) error = NULL;
  AsrCompute *compute = asr_compute_open (g_getenv ("ASR_TEST_BACKEND")
          ? g_getenv ("ASR_TEST_BACKEND") : "cpu", &device, &error);

  if (g_error_matches (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED))
    g_test_skip (error->message);
  else
    g_assert_no_error (error);
  return compute;
}

static void
check_case (gconstpointer data)
{
  const Case *c = data;
  const char *folder = g_getenv ("RANDOM_MODEL");
  g_autofree char *path = g_build_filename (folder, "samples.f32", NULL);
  g_autoptr (AsrCompute) compute = open_compute (c->type);
  g_autoptr (AsrWeights) weights = NULL;
  g_autoptr (AsrModel) model = NULL;
  AsrModelLimits limits = ASR_MODEL_LIMITS_DEFAULT;
  AsrMethodCost costs[ASR_N_METHODS] = { { 0 } };
  g_autofree char *samples = NULL;
  g_autoptr (GError) error = NULL;
  AsrEncodeRow row = { NULL, N_SAMPLES, 0, ASR_METHOD_MASK_ALL, costs };
  gsize n_bytes;

  if (!compute)
    return;
  g_assert_true (g_file_get_contents (path, &samples, &n_bytes, &error));
  g_assert_cmpuint (n_bytes, ==, N_SAMPLES * sizeof (float));
  weights = asr_weights_open (folder, &error);
  g_assert_no_error (error);
  model = asr_model_load (compute, weights, &limits, NULL, NULL, &error);
  g_assert_no_error (error);
  row.samples = (const float *) samples;
  asr_model_encode (model, &row, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  check_encoder (model, c);
  check_log_probs (model, c);
}

int
main (int argc, char **argv)
{
  const char *folder = g_getenv ("RANDOM_MODEL");
  g_autofree char *path = NULL;
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) error = NULL;

  g_test_init (&argc, &argv, NULL);
  if (!folder) {
    g_print ("1..0 # SKIP RANDOM_MODEL is not set: see make_random.py\n");
    return 0;
  }
  path = g_build_filename (folder, "expected.json", NULL);
  json_parser_load_from_file (parser, path, &error);
  g_assert_no_error (error);
  expected = json_node_get_object (json_parser_get_root (parser));
  g_test_add_data_func ("/random/f32", &cases[0], check_case);
  g_test_add_data_func ("/random/f16", &cases[1], check_case);
  return g_test_run ();
}
