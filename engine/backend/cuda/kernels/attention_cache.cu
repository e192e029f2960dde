/* SPDX-License-Identifier: MIT */
/*
 * Attention of decoder rows over what their slots keep. A block takes one
 * row and one head; eight lanes share a key, each with eight dimensions, and
 * every such group carries its own softmax, merged at the end. Over the
 * frames of an audio slot the work is also split between blocks: the last
 * of them to finish merges (as in flash-decoding, Dao et al. 2023).
 */
#include "engine/backend/cuda/kernels/common.cuh"

#define HEAD ASR_HEAD_SIZE
#define THREADS 256
#define GROUPS (THREADS / 8)
#define AHEAD 4 /* keys of a group in flight */

/* Keys [begin, end) that a block sees. */
struct Keys {
  unsigned begin, end;
  unsigned first_new; /* from here on in qkv, not in the pool */
};

template <typename T> struct Heads {
  T *k, *v;           /* of the pool, [n_ctx, 64] */
  const T *new_k, *new_v;
  size_t stride;      /* of new_k and new_v */
};

static __device__ __forceinline__ AsrRow
get_row (const AsrCacheAttention &p, unsigned r)
{
  const int *from = reinterpret_cast<const int *> (p.rows + r);
  int slots = __ldcg (from + 2);

  static_assert (sizeof (AsrRow) == 12, "three words");
  return { __ldcg (from), (unsigned) __ldcg (from + 1),
    (guint16) (slots & 0xffff), (guint16) (slots >> 16 & 0xffff) };
}

/* Finished slots may stand behind the end. */
static __device__ __forceinline__ unsigned
get_position (const AsrCacheAttention &p, const AsrRow &row)
{
  unsigned position = row.token == ASR_TOKEN_CHOSEN
      ? __ldcg (&p.states[row.text_slot].position)
      : row.position;

  return min (position, p.pool.n_ctx - 1);
}

template <typename T>
static __device__ __forceinline__ T *
get_keys (const AsrCacheAttention &p, unsigned slot, unsigned head)
{
  return static_cast<T *> (p.pool.data)
      + (((size_t) slot * p.pool.n_layers + p.layer) * 2 * p.pool.n_heads
            + head)
      * p.pool.n_ctx * HEAD;
}

/* First of the rows next to @r that share its text slot. */
static __device__ __forceinline__ unsigned
find_first (const AsrCacheAttention &p, unsigned r)
{
  unsigned lane = threadIdx.x % 32;
  bool is_other = lane < r
      && get_row (p, lane).text_slot != get_row (p, r).text_slot;
  unsigned others = __ballot_sync (ALL_LANES, is_other);

  return others == 0 ? 0 : 32 - __clz ((int) others);
}

/* Softmax over some keys, not yet divided. */
struct State {
  float o[8], top, sum;
};

static __device__ __forceinline__ void
merge (State &a, const float o[8], float top, float sum)
{
  float greatest = fmaxf (a.top, top);

  if (greatest == -INFINITY)
    return;
  float mine = expf (a.top - greatest), other = expf (top - greatest);

  a.top = greatest;
  a.sum = a.sum * mine + sum * other;
#pragma unroll
  for (int j = 0; j < 8; j++)
    a.o[j] = a.o[j] * mine + o[j] * other;
}

/* What a group has in flight. */
template <typename T> struct Batch {
  Eight<T> k[AHEAD], v[AHEAD];
};

/* Keys first + group, and on in steps of GROUPS; behind the end the last. */
template <typename T>
static __device__ __forceinline__ void
fetch_batch (const Heads<T> &heads, const Keys &keys, unsigned first,
    Batch<T> &batch)
{
  unsigned group = threadIdx.x / 8, part = threadIdx.x % 8;

#pragma unroll
  for (int i = 0; i < AHEAD; i++) {
    unsigned key = min (first + i * GROUPS + group, keys.end - 1);
    bool is_new = key >= keys.first_new;
    size_t old_place = (size_t) key * HEAD + 8 * part;
    size_t new_place = (size_t) (key - keys.first_new) * heads.stride
        + 8 * part;

    fetch8 (is_new ? heads.new_k + new_place : heads.k + old_place,
        batch.k[i]);
    fetch8 (is_new ? heads.new_v + new_place : heads.v + old_place,
        batch.v[i]);
  }
}

template <typename T>
static __device__ __forceinline__ void
take_batch (const Batch<T> &batch, const Keys &keys, unsigned first,
    const float q[8], float *scores, State &state)
{
  unsigned group = threadIdx.x / 8, part = threadIdx.x % 8;
  float score[AHEAD], greatest = state.top;

#pragma unroll
  for (int i = 0; i < AHEAD; i++) {
    unsigned key = first + i * GROUPS + group;
    float k[8];

    unpack8 (batch.k[i], k);
    score[i] = 0;
#pragma unroll
    for (int j = 0; j < 8; j++)
      score[i] += q[j] * k[j];
#pragma unroll
    for (int bit = 4; bit > 0; bit >>= 1)
      score[i] += __shfl_xor_sync (ALL_LANES, score[i], bit);
    score[i] = key < keys.end ? score[i] * 0.125f : -INFINITY;
    if (scores != NULL && part == 0 && key < keys.end)
      scores[key] = score[i];
    greatest = fmaxf (greatest, score[i]);
  }
  if (greatest == -INFINITY)
    return;
  float shrink = expf (state.top - greatest);

  state.top = greatest;
  state.sum *= shrink;
#pragma unroll
  for (int j = 0; j < 8; j++)
    state.o[j] *= shrink;
#pragma unroll
  for (int i = 0; i < AHEAD; i++) {
    float e = expf (score[i] - greatest), v[8];

    unpack8 (batch.v[i], v);
    state.sum += e;
#pragma unroll
    for (int j = 0; j < 8; j++)
      state.o[j] += e * v[j];
  }
}

/* Over the groups of a block; the first warp returns the whole, lane n with
 * dimensions n and n + 32 in out, and top and sum in all lanes. */
static __device__ void
merge_block (State &state, float out[2], float *top, float *sum)
{
  __shared__ float merged[THREADS / 32][HEAD + 2];
  unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;

#pragma unroll
  for (int bit = 8; bit <= 16; bit <<= 1) {
    float o[8];

#pragma unroll
    for (int j = 0; j < 8; j++)
      o[j] = __shfl_xor_sync (ALL_LANES, state.o[j], bit);
    float other_top = __shfl_xor_sync (ALL_LANES, state.top, bit);
    float other_sum = __shfl_xor_sync (ALL_LANES, state.sum, bit);

    merge (state, o, other_top, other_sum);
  }
  if (lane < 8) {
#pragma unroll
    for (int j = 0; j < 8; j++)
      merged[warp][8 * lane + j] = state.o[j];
    if (lane == 0) {
      merged[warp][HEAD] = state.top;
      merged[warp][HEAD + 1] = state.sum;
    }
  }
  __syncthreads ();
  if (warp != 0)
    return;
  *top = -INFINITY;
  *sum = out[0] = out[1] = 0;
#pragma unroll
  for (int w = 0; w < THREADS / 32; w++)
    *top = fmaxf (*top, merged[w][HEAD]);
#pragma unroll
  for (int w = 0; w < THREADS / 32; w++) {
    /* a block may have no key at all */
    float weight = *top == -INFINITY ? 0 : expf (merged[w][HEAD] - *top);

    *sum += weight * merged[w][HEAD + 1];
    out[0] += weight * merged[w][lane];
    out[1] += weight * merged[w][lane + 32];
  }
}

/* The first warp of the last block to come here merges all parts. */
template <typename T>
static __device__ void
merge_parts (const AsrCacheAttention &p, unsigned item, float out[2],
    float top, float sum, T *y)
{
  unsigned lane = threadIdx.x % 32, n = p.n_parts, ticket = 0;
  float *parts = p.parts + (size_t) item * n * ASR_CUDA_PART_SIZE;
  float *mine = parts + blockIdx.x * ASR_CUDA_PART_SIZE;

  mine[lane] = out[0];
  mine[lane + 32] = out[1];
  if (lane == 0) {
    mine[HEAD] = top;
    mine[HEAD + 1] = sum;
  }
  __threadfence ();
  __syncwarp ();
  if (lane == 0)
    ticket = atomicInc (&p.counters[item], n - 1);
  if (__shfl_sync (ALL_LANES, ticket, 0) != n - 1)
    return;
  __threadfence ();
  float greatest = -INFINITY, total = 0, a = 0, b = 0;

  for (unsigned i = 0; i < n; i++)
    greatest = fmaxf (greatest,
        __ldcg (&parts[i * ASR_CUDA_PART_SIZE + HEAD]));
  for (unsigned i = 0; i < n; i++) {
    const float *part = parts + i * ASR_CUDA_PART_SIZE;
    float weight = expf (__ldcg (&part[HEAD]) - greatest);

    total += weight * __ldcg (&part[HEAD + 1]);
    a += weight * __ldcg (&part[lane]);
    b += weight * __ldcg (&part[lane + 32]);
  }
  store (y + lane, a / total);
  store (y + lane + 32, b / total);
}

/* Where row @row finds its keys; K and V of this row go into the pool. */
template <typename T>
static __device__ __forceinline__ void
locate_self (const AsrCacheAttention &p, unsigned r, unsigned position,
    const T *qkv, Heads<T> &heads, Keys &keys)
{
  size_t d = p.n_heads * HEAD;

  keys = { 0, position + 1, position + 1 };
  if (!p.appends)
    return;
  unsigned first = find_first (p, r);

  keys.first_new = position - min (r - first, position);
  heads.stride = 3 * d;
  heads.new_k = qkv + first * heads.stride + d;
  heads.new_v = heads.new_k + d;
}

template <typename T>
static __device__ __forceinline__ void
append_row (const AsrCacheAttention &p, unsigned r, unsigned position,
    const T *qkv, const Heads<T> &heads)
{
  unsigned i = threadIdx.x % HEAD, d = p.n_heads * HEAD;
  T *to = threadIdx.x < HEAD ? heads.k : heads.v;

  if (threadIdx.x < 2 * HEAD)
    to[(size_t) position * HEAD + i]
        = qkv[(size_t) r * 3 * d + (threadIdx.x < HEAD ? d : 2 * d) + i];
}

/* @p.rows, states and the pool's older keys were written at least two kernels
 * ahead, unless these rows' keys went to the pool right before. */
template <typename T>
static __global__ void
__launch_bounds__ (THREADS)
attend_rows (const __grid_constant__ AsrCacheAttention p)
{
  unsigned head = blockIdx.y, r = blockIdx.z, d = p.n_heads * HEAD;
  unsigned position = 0;
  const T *qkv = static_cast<const T *> (p.qkv) + head * HEAD;
  T *y = static_cast<T *> (p.y) + (size_t) r * d + head * HEAD;
  bool is_early = p.is_early && (!p.is_self || p.appends);
  float q[8], *scores = NULL, out[2], top, sum;
  State state = { {}, -INFINITY, 0 };
  Heads<T> heads = {};
  Batch<T> batch;
  Keys keys, early;

  if (!is_early)
    wait_for_predecessor ();
  AsrRow row = get_row (p, r);

  heads.k = get_keys<T> (p, p.is_self ? row.text_slot : row.audio_slot, head);
  heads.v = heads.k + (size_t) p.pool.n_heads * p.pool.n_ctx * HEAD;
  if (p.is_self) {
    position = get_position (p, row);
    locate_self (p, r, position, qkv, heads, keys);
  } else {
    unsigned size = (p.pool.n_ctx + p.n_parts - 1) / p.n_parts;

    keys.begin = min (blockIdx.x * size, p.pool.n_ctx);
    keys.end = min (keys.begin + size, p.pool.n_ctx);
    keys.first_new = p.pool.n_ctx;
    if (p.scores != NULL && p.score_index[head] >= 0
        && r < p.max_score_rows)
      scores = p.scores
          + ((size_t) p.score_index[head] * p.max_score_rows + r)
          * p.pool.n_ctx;
  }
  /* what is in the pool, before the wait; new keys behind it */
  early = keys;
  early.end = min (keys.end, keys.first_new);
  unsigned first = keys.begin;

  if (early.end > early.begin)
    fetch_batch (heads, early, first, batch);
  if (is_early)
    wait_for_predecessor ();
  release_successor ();
  load8 (qkv + (size_t) r * (p.is_self ? 3 * d : d) + 8 * (threadIdx.x % 8),
      q);
  if (p.is_self && p.appends)
    append_row (p, r, position, qkv, heads);
  while (first < early.end) {
    take_batch (batch, early, first, q, scores, state);
    first += AHEAD * GROUPS;
    if (first < early.end)
      fetch_batch (heads, early, first, batch);
  }
  for (first = early.end; first < keys.end; first += AHEAD * GROUPS) {
    fetch_batch (heads, keys, first, batch);
    take_batch (batch, keys, first, q, scores, state);
  }
  merge_block (state, out, &top, &sum);
  if (threadIdx.x >= 32)
    return;
  if (!p.is_self && p.n_parts > 1) {
    merge_parts (p, r * p.n_heads + head, out, top, sum, y);
    return;
  }
  store (y + threadIdx.x, out[0] / sum);
  store (y + threadIdx.x + 32, out[1] / sum);
}

template <typename T>
static __global__ void
append_rows (const __grid_constant__ AsrCacheAttention p)
{
  unsigned head = blockIdx.y, r = blockIdx.x, d = p.n_heads * HEAD;
  unsigned i = threadIdx.x % HEAD, is_v = threadIdx.x / HEAD;

  wait_for_predecessor ();
  release_successor ();
  AsrRow row = get_row (p, r);
  T *to = get_keys<T> (p, row.text_slot, head)
      + is_v * (size_t) p.pool.n_heads * p.pool.n_ctx * HEAD;

  to[(size_t) get_position (p, row) * HEAD + i]
      = static_cast<const T *> (p.qkv)[(size_t) r * 3 * d + (1 + is_v) * d
          + head * HEAD + i];
}

cudaError_t
asr_cuda_append (const AsrLaunch *launch, const AsrCacheAttention *params)
{
  return start (launch,
      launch->is_f32 ? append_rows<float> : append_rows<__half>,
      dim3 (params->n_rows, params->n_heads), dim3 (2 * HEAD), 0, *params);
}

cudaError_t
asr_cuda_attention_cache (const AsrLaunch *launch,
    const AsrCacheAttention *params)
{
  return start (launch,
      launch->is_f32 ? attend_rows<float> : attend_rows<__half>,
      dim3 (params->is_self ? 1 : params->n_parts, params->n_heads,
          params->n_rows),
      dim3 (THREADS), 0, *params);
}
