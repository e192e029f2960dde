/* SPDX-License-Identifier: MIT */
/*
 * Matrix products through cuBLASLt. Products of one shape share a plan:
 * descriptors and the algorithm that cuBLASLt thinks best. Row-major here is
 * column-major there with everything transposed: y^T = W x^T.
 */
#include "engine/backend/cuda/cuda.h"
#include <string.h>

#define MAX_PLANS 256
/* Rows from here on have an algorithm of their own. */
#define MANY_ROWS 1024
#define BUCKET_ROWS 64

struct _AsrBlasPlan {
  AsrBlasShape shape;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t weight, x, y;
  cublasLtMatmulAlgo_t algo;
};

void
asr_cuda_blas_plan_free (AsrBlasPlan *plan)
{
  if (!plan)
    return;
  if (plan->y)
    cublasLtMatrixLayoutDestroy (plan->y);
  if (plan->x)
    cublasLtMatrixLayoutDestroy (plan->x);
  if (plan->weight)
    cublasLtMatrixLayoutDestroy (plan->weight);
  if (plan->desc)
    cublasLtMatmulDescDestroy (plan->desc);
  g_free (plan);
}

static cublasStatus_t
set_batches (cublasLtMatrixLayout_t layout, gint32 n, gint64 stride)
{
  cublasStatus_t status = cublasLtMatrixLayoutSetAttribute (layout,
      CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof n);

  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatrixLayoutSetAttribute (layout,
        CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  return status;
}

static cublasStatus_t
create_layouts (AsrBlasPlan *plan, cudaDataType_t type)
{
  const AsrBlasShape *s = &plan->shape;
  cublasStatus_t status = cublasLtMatrixLayoutCreate (&plan->weight, type,
      s->n_in, s->n_out, s->n_in);

  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatrixLayoutCreate (&plan->x, type, s->n_in, s->n_rows,
        s->n_in);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatrixLayoutCreate (&plan->y, type, s->n_out, s->n_rows,
        s->n_out);
  if (status != CUBLAS_STATUS_SUCCESS || s->n_batches == 1)
    return status;
  status = set_batches (plan->weight, s->n_batches,
      (gint64) s->n_out * s->n_in);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = set_batches (plan->x, s->n_batches, 0);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = set_batches (plan->y, s->n_batches,
        (gint64) s->n_rows * s->n_out);
  return status;
}

static cublasStatus_t
create_desc (AsrBlasPlan *plan)
{
  const AsrBlasShape *s = &plan->shape;
  cublasOperation_t transposed = CUBLAS_OP_T;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  gint64 stride = s->n_out;
  /* without the fast modes: no TF32 */
  cublasStatus_t status = cublasLtMatmulDescCreate (&plan->desc,
      CUBLAS_COMPUTE_32F, CUDA_R_32F);

  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulDescSetAttribute (plan->desc,
        CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
  if (status == CUBLAS_STATUS_SUCCESS && s->has_bias)
    status = cublasLtMatmulDescSetAttribute (plan->desc,
        CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  if (status == CUBLAS_STATUS_SUCCESS && s->has_bias && s->n_batches > 1)
    status = cublasLtMatmulDescSetAttribute (plan->desc,
        CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &stride, sizeof stride);
  return status;
}

static cublasStatus_t
find_algorithm (AsrQueue *queue, AsrBlasPlan *plan)
{
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t found;
  guint64 n_bytes = ASR_CUDA_WORKSPACE_BYTES;
  guint32 alignment = 16;
  int n_found = 0;
  cublasStatus_t status = cublasLtMatmulPreferenceCreate (&preference);

  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  cublasLtMatmulPreferenceSetAttribute (preference,
      CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &n_bytes, sizeof n_bytes);
  cublasLtMatmulPreferenceSetAttribute (preference,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment,
      sizeof alignment);
  status = cublasLtMatmulAlgoGetHeuristic (queue->device->blas, plan->desc,
      plan->weight, plan->x, plan->y, plan->y, preference, 1, &found,
      &n_found);
  cublasLtMatmulPreferenceDestroy (preference);
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (n_found == 0)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  plan->algo = found.algo;
  return found.state;
}

static void
keep_status (AsrQueue *queue, cublasStatus_t status, const AsrBlasShape *s)
{
  GError *error = NULL;

  if (asr_cuda_check_blas (queue->device, status, "cuBLASLt", &error))
    return;
  g_prefix_error (&error, "[%u, %u] x [%u, %u]: ", s->n_rows, s->n_in,
      s->n_in, s->n_out);
  asr_cuda_fail (queue, error);
}

static AsrBlasPlan *find_plan (AsrQueue *queue, const AsrBlasShape *shape);

/* A text's length is new with every text, and to ask cuBLASLt takes longer
 * than the product. So lengths up to a multiple of BUCKET_ROWS take the
 * algorithm of that multiple, where it can do them; which one that is depends
 * on no earlier text. */
static cublasStatus_t
choose_algorithm (AsrQueue *queue, AsrBlasPlan *plan)
{
  AsrBlasShape bucket = plan->shape;
  cublasLtMatmulHeuristicResult_t result;
  const AsrBlasPlan *other;

  bucket.n_rows = (bucket.n_rows + BUCKET_ROWS - 1) / BUCKET_ROWS
      * BUCKET_ROWS;
  if (bucket.n_rows == plan->shape.n_rows || bucket.n_rows > MANY_ROWS)
    return find_algorithm (queue, plan);
  other = find_plan (queue, &bucket);
  if (!other)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  plan->algo = other->algo;
  if (cublasLtMatmulAlgoCheck (queue->device->blas, plan->desc, plan->weight,
          plan->x, plan->y, plan->y, &plan->algo, &result)
      == CUBLAS_STATUS_SUCCESS
      && result.workspaceSize <= ASR_CUDA_WORKSPACE_BYTES)
    return CUBLAS_STATUS_SUCCESS;
  return find_algorithm (queue, plan);
}

static AsrBlasPlan *
find_plan (AsrQueue *queue, const AsrBlasShape *shape)
{
  GPtrArray *plans = queue->plans;
  AsrBlasPlan *plan;
  cublasStatus_t status;

  for (guint i = 0; i < plans->len; i++) {
    plan = g_ptr_array_index (plans, i);
    if (memcmp (&plan->shape, shape, sizeof *shape) == 0)
      return plan;
  }
  plan = g_new0 (AsrBlasPlan, 1);
  plan->shape = *shape;
  status = create_layouts (plan,
      queue->device->is_f32 ? CUDA_R_32F : CUDA_R_16F);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = create_desc (plan);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = choose_algorithm (queue, plan);
  if (status != CUBLAS_STATUS_SUCCESS) {
    keep_status (queue, status, shape);
    asr_cuda_blas_plan_free (plan);
    return NULL;
  }
  if (plans->len == MAX_PLANS)
    g_ptr_array_remove_index (plans, 0);
  g_ptr_array_add (plans, plan);
  return plan;
}

gboolean
asr_cuda_blas (AsrQueue *queue, const AsrBlasShape *shape, const void *x,
    const void *weight, const void *bias, const void *residual, void *y)
{
  AsrBlasPlan *plan = find_plan (queue, shape);
  const float one = 1.0f, zero = 0.0f;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

  if (!plan)
    return FALSE;
  if (shape->has_bias)
    status = cublasLtMatmulDescSetAttribute (plan->desc,
        CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = asr_cuda_call (queue->device, CUBLAS_STATUS_EXECUTION_FAILED,
        cublasLtMatmul (queue->device->blas, plan->desc, &one, weight,
            plan->weight, x, plan->x, shape->adds ? &one : &zero,
            shape->adds ? residual : y, plan->y, y, plan->y, &plan->algo,
            queue->workspace, ASR_CUDA_WORKSPACE_BYTES, queue->stream));
  keep_status (queue, status, shape);
  return status == CUBLAS_STATUS_SUCCESS;
}
