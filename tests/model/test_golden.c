/* SPDX-License-Identifier: MIT */
/*
 * Mel, encoder output, first logits and tokens of real weights on a real clip,
 * beside what transformers computed from the same weights (golden.json, made
 * by make_golden.py), so that a failure names its stage.
 *
 * Tolerances, absolute: f32 differs by the order of sums, and by keys and
 * values in f16; f16 by its rounding; int8 by its steps, so that it is held
 * to the mean error and to the tokens. What a backend does not compute in is
 * skipped.
 */
#include "engine/decode/decoding.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#include "engine/model/model.h"

#define CLIP "/usr/share/pocketsphinx/test/data/librivox/" \
  "sense_and_sensibility_01_austen_64kb-0880.wav"
#define WAV_HEADER_BYTES 44
#define MAX_RECORDS 512

typedef struct {
  const char *model;
  AsrComputeType type;
  double max_encoder, mean_encoder;
  double max_logit, mean_logit;
} Case;

static const Case cases[] = {
  { "base", ASR_COMPUTE_F32, 2e-3, 2e-4, 5e-3, 1e-3 },
  { "tiny.en", ASR_COMPUTE_F32, 2e-3, 2e-4, 5e-3, 1e-3 },
  { "base", ASR_COMPUTE_F16, 5e-2, 4e-3, 6e-2, 2e-2 },
  { "tiny.en", ASR_COMPUTE_F16, 5e-2, 4e-3, 6e-2, 2e-2 },
  { "base", ASR_COMPUTE_INT8, 0.5, 0.03, 1.0, 0.3 },
  { "tiny.en", ASR_COMPUTE_INT8, 0.5, 0.03, 1.5, 0.4 },
};

typedef struct {
  AsrWeights *weights;
  AsrCompute *compute;
  AsrModel *model;
  AsrMethodCost costs[ASR_N_METHODS];
} Fixture;

static JsonObject *golden;

static gboolean
open_fixture (Fixture *f, const Case *c)
{
  g_autofree char *path = g_build_filename (g_get_user_data_dir (), "gst-asr",
      "models", c->model, NULL);
  AsrDeviceParams device = { 0, c->type, 0 };
  AsrModelLimits limits = ASR_MODEL_LIMITS_DEFAULT;
  g_autoptr (GError) error = NULL;

  memset (f, 0, sizeof *f);
  if (!g_file_test (path, G_FILE_TEST_EXISTS)
      || !g_file_test (CLIP, G_FILE_TEST_EXISTS)) {
    g_test_skip ("no model or no clip: tests/run fetches them");
    return FALSE;
  }
  f->weights = asr_weights_open (path, &error);
  g_assert_no_error (error);
  f->compute = asr_compute_open (g_getenv ("ASR_TEST_BACKEND")
          ? g_getenv ("ASR_TEST_BACKEND") : "cpu", &device, &error);
  if (g_error_matches (error, ASR_ERROR, ASR_ERROR_UNSUPPORTED)) {
    g_test_skip (error->message);
    asr_weights_free (f->weights);
    return FALSE;
  }
  g_assert_no_error (error);
  f->model = asr_model_load (f->compute, f->weights, &limits, NULL, NULL,
      &error);
  g_assert_no_error (error);
  return TRUE;
}

static void
close_fixture (Fixture *f)
{
  asr_model_free (f->model);
  asr_compute_close (f->compute);
  asr_weights_free (f->weights);
}

static float *
read_clip (guint *n)
{
  g_autofree char *data = NULL;
  const guint8 *pcm;
  gsize n_bytes;
  float *samples;

  g_assert_true (g_file_get_contents (CLIP, &data, &n_bytes, NULL));
  pcm = (const guint8 *) data + WAV_HEADER_BYTES;
  *n = (n_bytes - WAV_HEADER_BYTES) / 2;
  samples = g_new (float, *n);
  for (guint i = 0; i < *n; i++)
    samples[i] = (gint16) (pcm[2 * i] | pcm[2 * i + 1] << 8) / 32768.0f;
  return samples;
}

/* @pairs: [[index, value], ...] */
static void
compare (const char *stage, const float *found, JsonArray *pairs,
    double max_error, double mean_error)
{
  guint n = json_array_get_length (pairs), worst = 0;
  double sum = 0, largest = 0;

  for (guint i = 0; i < n; i++) {
    JsonArray *pair = json_array_get_array_element (pairs, i);
    guint index = json_array_get_int_element (pair, 0);
    double error
        = fabs (found[index] - json_array_get_double_element (pair, 1));

    sum += error;
    if (!(error <= largest)) {
      largest = error;
      worst = index;
    }
  }
  g_test_message ("%s: largest error %.2g at %u, mean %.2g", stage, largest,
      worst, sum / n);
  g_assert_cmpfloat (largest, <=, max_error);
  g_assert_cmpfloat (sum / n, <=, mean_error);
}

static void
check_mel (Fixture *f)
{
  g_autofree float *mel = g_new (float, 80 * 3000);
  g_autoptr (GError) error = NULL;

  asr_model_read_output (f->model, ASR_METHOD_MEL, 0, mel, &error);
  g_assert_no_error (error);
  compare ("mel", mel, json_object_get_array_member (golden, "mel80"), 1e-3,
      1e-4);
}

static void
check_encoder (Fixture *f, const Case *c, JsonObject *model)
{
  g_autofree float *encoded = g_new (float,
      1500 * asr_model_get_info (f->model)->d_model);
  g_autoptr (GError) error = NULL;

  asr_model_read_output (f->model, ASR_METHOD_ENCODER, 0, encoded, &error);
  g_assert_no_error (error);
  compare ("encoder", encoded,
      json_object_get_array_member (model, "encoder"), c->max_encoder,
      c->mean_encoder);
}

/* Logits come as log-probabilities, so differences of pairs are compared: the
 * first of the list is the base. */
static void
check_logits (Fixture *f, const Case *c, JsonObject *model)
{
  JsonArray *start = json_object_get_array_member (model, "start");
  JsonArray *pairs = json_object_get_array_member (model, "logits");
  guint n_rows = json_array_get_length (start);
  guint n = json_array_get_length (pairs);
  gint32 n_vocab = json_object_get_int_member (model, "n_vocab");
  AsrRow rows[8];
  AsrChoice choices[128];
  AsrTokenRecord records[128];
  g_autoptr (GError) error = NULL;
  double sum = 0, largest = 0;

  for (guint i = 0; i < n_rows; i++)
    rows[i] = (AsrRow){ json_array_get_int_element (start, i), i, 0, 0 };
  for (guint i = 0; i < n; i++)
    choices[i] = (AsrChoice){ ASR_CHOICE_SCORE, n_rows - 1, 0,
      json_array_get_int_element (json_array_get_array_element (pairs, i), 0),
      n_vocab };
  asr_model_decode (f->model, rows, n_rows, choices, n, 1,
      ASR_METHOD_MASK_ALL, records, f->costs, &error);
  g_assert_no_error (error);
  for (guint i = 1; i < n; i++) {
    JsonArray *first = json_array_get_array_element (pairs, 0);
    JsonArray *pair = json_array_get_array_element (pairs, i);
    double wanted = json_array_get_double_element (pair, 1)
        - json_array_get_double_element (first, 1);
    double difference
        = fabs (records[i].log_prob - records[0].log_prob - wanted);

    sum += difference;
    largest = MAX (largest, difference);
  }
  g_test_message ("logits: largest error %.2g, mean %.2g", largest,
      sum / (n - 1));
  g_assert_cmpfloat (largest, <=, c->max_logit);
  g_assert_cmpfloat (sum / (n - 1), <=, c->mean_logit);
}

static void
decode_once (Fixture *f, AsrDecoding *decoding, GArray *rows, GArray *choices)
{
  AsrTokenRecord records[MAX_RECORDS];
  g_autoptr (GError) error = NULL;
  AsrTextState state;

  g_array_set_size (rows, 0);
  g_array_set_size (choices, 0);
  if (asr_decoding_get_rows (decoding, rows, choices, &state))
    asr_model_set_text_state (f->model, 0, &state);
  asr_model_decode (f->model, (const AsrRow *) rows->data, rows->len,
      (const AsrChoice *) choices->data, choices->len, 1, ASR_METHOD_MASK_ALL,
      records, f->costs, &error);
  g_assert_no_error (error);
  asr_decoding_feed (decoding, records, choices->len);
}

/* Decodes until the text is complete, which goes to @said.
 * Returns: batches that it took */
static guint
decode_all (Fixture *f, const AsrDecodingParams *params, gint32 *said,
    guint *n_said)
{
  g_autoptr (AsrDecoding) decoding
      = asr_decoding_new (asr_model_get_vocab (f->model));
  g_autoptr (GArray) rows = g_array_new (FALSE, FALSE, sizeof (AsrRow));
  g_autoptr (GArray) choices = g_array_new (FALSE, FALSE, sizeof (AsrChoice));
  guint n = 0;

  asr_decoding_start (decoding, params);
  for (; asr_decoding_get_phase (decoding) < ASR_DECODING_ALIGN; n++)
    decode_once (f, decoding, rows, choices);
  g_assert_cmpint (asr_decoding_get_phase (decoding), ==, ASR_DECODING_ALIGN);
  /* the alignment's rows hold the text */
  g_array_set_size (rows, 0);
  g_array_set_size (choices, 0);
  asr_decoding_get_rows (decoding, rows, choices, NULL);
  *n_said = 0;
  for (guint i = asr_decoding_get_first_row (decoding) + 1; i + 1 < rows->len;
       i++)
    said[(*n_said)++] = g_array_index (rows, AsrRow, i).token;
  return n;
}

static void
assert_said (JsonArray *wanted, const gint32 *said, guint n_said)
{
  /* the last time mark is a near tie that int8 may see otherwise */
  g_assert_cmpuint (n_said, ==, json_array_get_length (wanted) - 2);
  for (guint i = 0; i < n_said; i++)
    g_assert_cmpint (said[i], ==, json_array_get_int_element (wanted, i + 1));
}

/* A draft of the text takes one batch if it is right; else the tokens from the
 * first wrong one on take one each. It never changes the text. */
static void
check_draft (Fixture *f, JsonObject *model, guint n_samples)
{
  JsonArray *wanted = json_object_get_array_member (model, "tokens");
  gint32 draft[MAX_RECORDS], said[MAX_RECORDS];
  guint n = json_array_get_length (wanted) - 2, n_said;
  AsrDecodingParams params = { .n_mel_frames = n_samples / 160,
    .is_growing = TRUE, .draft = draft };

  for (guint i = 0; i < n; i++)
    draft[i] = json_array_get_int_element (wanted, i + 1);
  g_assert_cmpuint (decode_all (f, &params, said, &n_said), ==, n + 1);
  assert_said (wanted, said, n_said);

  params.n_draft = n;
  g_assert_cmpuint (decode_all (f, &params, said, &n_said), ==, 1);
  assert_said (wanted, said, n_said);

  params.n_draft = n / 2;
  g_assert_cmpuint (decode_all (f, &params, said, &n_said), ==,
      1 + n - n / 2);
  assert_said (wanted, said, n_said);

  params.n_draft = n;
  draft[n / 2]++;
  g_assert_cmpuint (decode_all (f, &params, said, &n_said), ==,
      1 + n - n / 2);
  assert_said (wanted, said, n_said);

  /* the text may end before the draft does */
  draft[n / 2]--;
  draft[n] = draft[0];
  params.n_draft = n + 1;
  g_assert_cmpuint (decode_all (f, &params, said, &n_said), ==, 1);
  assert_said (wanted, said, n_said);

  params.prefix = draft;
  params.n_prefix = 2;
  params.draft = draft + 2;
  params.n_draft = n - 2;
  g_assert_cmpuint (decode_all (f, &params, said, &n_said), ==, 1);
  assert_said (wanted, said, n_said);
}

static void
check_tokens (Fixture *f, JsonObject *model, guint n_samples)
{
  JsonArray *wanted = json_object_get_array_member (model, "tokens");
  AsrDecodingParams params = { 0, ASR_TASK_TRANSCRIBE, NULL, 0,
    n_samples / 160, 0, 0, 1 };
  gint32 said[MAX_RECORDS];
  guint n_said;

  decode_all (f, &params, said, &n_said);
  assert_said (wanted, said, n_said);
}

/* Outputs that go to the host and back change nothing but the traffic. */
static void
check_round_trip (Fixture *f, const float *samples, guint n_samples)
{
  g_autofree float *kept = g_new (float,
      1500 * asr_model_get_info (f->model)->d_model);
  g_autofree float *copied = g_new (float,
      1500 * asr_model_get_info (f->model)->d_model);
  AsrMethodCost costs[ASR_N_METHODS] = { { 0 } };
  AsrEncodeRow row = { samples, n_samples, 1, 0, costs };
  g_autoptr (GError) error = NULL;

  asr_model_read_output (f->model, ASR_METHOD_ENCODER, 0, kept, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (f->costs[ASR_METHOD_ENCODER].to_host_bytes, ==, 0);
  g_assert_true (asr_model_encode (f->model, &row, 1, NULL, NULL, &error));
  asr_model_read_output (f->model, ASR_METHOD_ENCODER, 1, copied, &error);
  g_assert_no_error (error);
  g_assert_true (memcmp (kept, copied,
      1500 * asr_model_get_info (f->model)->d_model * sizeof (float)) == 0);
  g_assert_cmpuint (costs[ASR_METHOD_ENCODER].to_host_bytes, ==,
      asr_model_get_slot_bytes (f->model, ASR_METHOD_ENCODER));
  g_assert_cmpuint (costs[ASR_METHOD_MEL].to_host_bytes, ==, 80 * 3000 * 4);
}

static void
check_case (gconstpointer data)
{
  const Case *c = data;
  JsonObject *model = json_object_get_object_member (
      json_object_get_object_member (golden, "models"), c->model);
  g_autoptr (GError) error = NULL;
  g_autofree float *samples = NULL;
  guint n_samples;
  Fixture f;

  if (!open_fixture (&f, c))
    return;
  samples = read_clip (&n_samples);
  {
    AsrEncodeRow row
        = { samples, n_samples, 0, ASR_METHOD_MASK_ALL, f.costs };

    asr_model_encode (f.model, &row, 1, NULL, NULL, &error);
    g_assert_no_error (error);
  }
  check_mel (&f);
  check_encoder (&f, c, model);
  check_logits (&f, c, model);
  check_tokens (&f, model, n_samples);
  check_draft (&f, model, n_samples);
  check_round_trip (&f, samples, n_samples);
  close_fixture (&f);
}

int
main (int argc, char **argv)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) error = NULL;

  g_test_init (&argc, &argv, NULL);
  json_parser_load_from_file (parser, g_getenv ("ASR_GOLDEN"), &error);
  g_assert_no_error (error);
  golden = json_node_get_object (json_parser_get_root (parser));
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *path = g_strdup_printf ("/golden/%s/%s", cases[i].model,
        cases[i].type == ASR_COMPUTE_F32       ? "f32"
            : cases[i].type == ASR_COMPUTE_F16 ? "f16"
                                               : "int8");

    g_test_add_data_func (path, &cases[i], check_case);
  }
  return g_test_run ();
}
