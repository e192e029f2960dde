/* SPDX-License-Identifier: MIT */
/*
 * Matrix products: which kernel, and how the work is cut for the threads.
 * Many f32 rows go to oneDNN, one call a thread; everything else to the
 * kernels of the instruction set.
 */
#include "engine/backend/cpu/linear.h"
#include <dnnl.h>

/* libgomp, which oneDNN runs on. It must not start threads of its own beside
 * the pool: they would spin on the same cores. */
extern int omp_get_max_threads (void);
extern void omp_set_num_threads (int n_threads);

#define FEW_ROWS 8        /* of f32, for the kernel that reads weights once */
#define SGEMM_ROWS 64     /* at least, of one call to oneDNN */
#define SGEMMS_PER_THREAD 2 /* each call packs the weights anew */
#define BLOCK_ROWS 16     /* of quantised rows that stay in a core's cache */
#define BLOCKS_PER_THREAD 4 /* else threads share the rows, not the panels */
#define PANELS_PER_PIECE 4

typedef struct {
  const AsrLinearKernels *kernels;
  const float *x;
  gsize ldx;
  guint n_rows;
  const AsrWeight *weight;
  const AsrEpilogue *finish;
  float *sums;       /* [n_rows, n_out] where y must wait, or NULL: in y */
  guint8 *q;         /* [n_threads * BLOCK_ROWS, 2, depth], or all rows */
  float *q_scales;   /* as many rows */
  gint status;       /* dnnl_status_t */
} Job;

const AsrLinearKernels *
asr_cpu_linear_get_kernels (AsrIsa isa)
{
#ifdef __x86_64__
  static const AsrLinearKernels *const kernels[] = { &asr_linear_kernels_c,
    &asr_linear_kernels_avx2, &asr_linear_kernels_avx512,
    &asr_linear_kernels_avx512_vnni, &asr_linear_kernels_amx };

  return kernels[isa];
#else
  return &asr_linear_kernels_c;
#endif
}

static AsrEpilogue
offset_epilogue (const AsrEpilogue *finish, guint row)
{
  AsrEpilogue moved = *finish;
  gsize offset = (gsize) row * finish->n_out;

  moved.y += offset;
  if (moved.residual)
    moved.residual += offset;
  return moved;
}

static void
quantise_rows (const Job *job, guint first, guint n, guint8 *q, float *scales)
{
  guint depth = job->weight->depth;

  for (guint i = 0; i < n; i++)
    job->kernels->quantise (job->x + (first + i) * job->ldx,
        job->weight->n_in, depth, q + (gsize) 2 * i * depth, scales + i);
}

/* Items are blocks of rows: each is quantised and used while it is warm. */
static void
run_blocks (gpointer data, guint begin, guint end, guint thread)
{
  Job *job = data;
  guint8 *q = job->q + (gsize) thread * 2 * BLOCK_ROWS * job->weight->depth;
  float *scales = job->q_scales + thread * BLOCK_ROWS;

  for (guint block = begin; block < end; block++) {
    guint first = block * BLOCK_ROWS;
    guint n = MIN (BLOCK_ROWS, job->n_rows - first);
    AsrProduct product = { q, scales, n, job->weight,
      offset_epilogue (job->finish, first) };

    quantise_rows (job, first, n, q, scales);
    job->kernels->product (&product, 0, job->weight->n_panels);
  }
}

/* Items are panels; all rows have been quantised. */
static void
run_panels (gpointer data, guint begin, guint end, guint thread)
{
  Job *job = data;
  AsrProduct product
      = { job->q, job->q_scales, job->n_rows, job->weight, *job->finish };

  job->kernels->product (&product, begin, end);
}

static void
run_i8 (AsrQueue *queue, Job *job)
{
  AsrThreads *threads = queue->device->threads;
  guint n_threads = asr_threads_get_n (threads);
  guint n_blocks = (job->n_rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
  gboolean by_block = n_blocks >= BLOCKS_PER_THREAD * n_threads;
  gsize n_rows = by_block ? (gsize) n_threads * BLOCK_ROWS : job->n_rows;
  gsize n_lines = (2 * n_rows + ASR_ROW_TILE - 1) / ASR_ROW_TILE
      * ASR_ROW_TILE;
  gsize n_bytes = n_lines * job->weight->depth;

  job->q = asr_cpu_get_scratch (queue, 0, n_bytes + n_rows * sizeof (float));
  if (!job->q)
    return;
  job->q_scales = (float *) (job->q + n_bytes);
  if (by_block) {
    asr_threads_run (threads, n_blocks, 1, run_blocks, job);
    return;
  }
  quantise_rows (job, 0, job->n_rows, job->q, job->q_scales);
  asr_threads_run (threads, job->weight->n_panels, PANELS_PER_PIECE,
      run_panels, job);
}

/* Items are panels. */
static void
run_few_f32 (gpointer data, guint begin, guint end, guint thread)
{
  Job *job = data;

  job->kernels->product_f32 (job->x, job->ldx, job->n_rows, job->weight,
      job->finish, begin, end);
}

/* Items are rows. */
static void
run_sgemm (gpointer data, guint begin, guint end, guint thread)
{
  Job *job = data;
  AsrEpilogue finish = offset_epilogue (job->finish, begin);
  const AsrWeight *weight = job->weight;
  float *sums = job->sums ? job->sums + (gsize) begin * weight->n_out
                          : finish.y;
  int n_before = omp_get_max_threads ();
  dnnl_status_t status;

  omp_set_num_threads (1);
  status = dnnl_sgemm ('N', 'T', end - begin, weight->n_out, weight->n_in,
      1.0f, job->x + begin * job->ldx, job->ldx, weight->f32, weight->n_in,
      0.0f, sums, weight->n_out);
  omp_set_num_threads (n_before);
  if (status != dnnl_success)
    g_atomic_int_set (&job->status, status);
  else
    job->kernels->finish (sums, &finish, end - begin);
}

static void
run_f32 (AsrQueue *queue, Job *job)
{
  AsrThreads *threads = queue->device->threads;
  guint n_threads = asr_threads_get_n (threads);
  gsize n_bytes = (gsize) job->n_rows * job->weight->n_out * sizeof (float);

  if (job->n_rows <= FEW_ROWS) {
    asr_threads_run (threads, job->weight->n_panels, PANELS_PER_PIECE,
        run_few_f32, job);
    return;
  }
  if (job->finish->residual == job->finish->y) {
    job->sums = asr_cpu_get_scratch (queue, 0, n_bytes);
    if (!job->sums)
      return;
  }
  asr_threads_run (threads, job->n_rows,
      MAX (SGEMM_ROWS, job->n_rows / (SGEMMS_PER_THREAD * n_threads)),
      run_sgemm, job);
  if (job->status != dnnl_success)
    asr_cpu_fail (queue,
        g_error_new (ASR_ERROR, ASR_ERROR_MEMORY,
            "oneDNN's matrix product of %u x %u x %u failed: status %d",
            job->n_rows, job->weight->n_out, job->weight->n_in,
            job->status));
}

void
asr_cpu_linear_run (AsrQueue *queue, const float *x, gsize ldx, guint n_rows,
    const AsrWeight *weight, const AsrEpilogue *finish)
{
  Job job = { queue->device->linear, x, ldx, n_rows, weight, finish };

  if (n_rows == 0)
    return;
  if (weight->i8)
    run_i8 (queue, &job);
  else
    run_f32 (queue, &job);
}

void
asr_cpu_linear (AsrQueue *queue, const AsrLinearParams *params)
{
  const AsrWeight *weight = params->weights.weight;
  AsrEpilogue finish = { params->weights.bias, params->activation,
    params->residual, params->y, params->n_out };

  if (weight->n_in != params->n_in || weight->n_out != params->n_out) {
    asr_cpu_fail (queue,
        g_error_new (ASR_ERROR, ASR_ERROR_ARGUMENT,
            "a product of %u x %u with a weight of %u x %u", params->n_out,
            params->n_in, weight->n_out, weight->n_in));
    return;
  }
  asr_cpu_linear_run (queue, params->x, params->n_in, params->n_rows, weight,
      &finish);
}
