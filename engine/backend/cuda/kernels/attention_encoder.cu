/* SPDX-License-Identifier: MIT */
/*
 * Attention of the encoder: every frame of a sequence sees all of it. Halfs
 * go through the tensor cores with the softmax carried along the keys (Dao
 * et al. 2022), floats through a plain kernel.
 */
#include "engine/backend/cuda/kernels/common.cuh"

#define HEAD ASR_HEAD_SIZE
#define KEYS 64            /* of a tile */
#define THREADS 128
#define SCALE_LOG2 (0.125f * 1.4426950408889634f)

/* Place of 16 bytes in a tile of rows of 64 halfs, turned so that eight rows
 * are in eight different banks. */
static __device__ __forceinline__ unsigned
locate (unsigned row, unsigned chunk)
{
  return row * (HEAD * 2) + ((chunk ^ (row & 7)) << 4);
}

static __device__ __forceinline__ void
copy_async (unsigned to, const void *from, bool is_there)
{
  asm volatile ("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
      "l"(from), "r"(is_there ? 16 : 0));
}

/* Rows [first, first + n_rows) of a matrix with @stride halfs a row; those
 * from @end on are zeros. */
template <int N_ROWS>
static __device__ __forceinline__ void
load_tile (unsigned to, const __half *from, unsigned stride, unsigned first,
    unsigned end)
{
#pragma unroll
  for (unsigned i = 0; i < N_ROWS * 8 / THREADS; i++) {
    unsigned k = threadIdx.x + i * THREADS, row = k / 8;
    bool is_there = first + row < end;

    copy_async (to + locate (row, k % 8),
        from + (size_t) (is_there ? first + row : 0) * stride + k % 8 * 8,
        is_there);
  }
}

static __device__ __forceinline__ void
load_matrix (unsigned r[4], unsigned address)
{
  asm volatile (
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(address));
}

static __device__ __forceinline__ void
load_matrix_turned (unsigned r[4], unsigned address)
{
  asm volatile (
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(address));
}

static __device__ __forceinline__ void
multiply (float c[4], const unsigned a[4], unsigned b0, unsigned b1)
{
  asm ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
       "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
       : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
       : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ unsigned
pack (float low, float high)
{
  __half2 pair = __floats2half2_rn (low, high);

  return *reinterpret_cast<unsigned *> (&pair);
}

/* One block of 16 queries with one tile of keys: s [8][4] are the products
 * of 8 keys each, rows as the tensor cores lay them out. */
struct Softmax {
  float top[2], sum[2];
};

/* Exponentials in place, and by how much what came before shrinks. */
static __device__ __forceinline__ void
soften (Softmax &state, float s[8][4], float shrink[2])
{
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float top = state.top[half], sum = 0;

#pragma unroll
    for (int j = 0; j < 8; j++)
      top = fmaxf (top, fmaxf (s[j][2 * half], s[j][2 * half + 1]));
    top = fmaxf (top, __shfl_xor_sync (ALL_LANES, top, 1));
    top = fmaxf (top, __shfl_xor_sync (ALL_LANES, top, 2));
    float shift = top * SCALE_LOG2;

    shrink[half] = exp2f (state.top[half] * SCALE_LOG2 - shift);
#pragma unroll
    for (int j = 0; j < 8; j++) {
#pragma unroll
      for (int k = 2 * half; k < 2 * half + 2; k++) {
        s[j][k] = exp2f (s[j][k] * SCALE_LOG2 - shift);
        sum += s[j][k];
      }
    }
    state.top[half] = top;
    state.sum[half] = state.sum[half] * shrink[half] + sum;
  }
}

/* The end of a block of 16 queries: a lane holds columns @column and the next
 * of every eight in rows @row and @row + 8. */
static __device__ __forceinline__ void
store_block (const Softmax &state, const float (&o)[8][4], __half *y,
    unsigned row, unsigned column, unsigned n_frames, unsigned d)
{
#pragma unroll
  for (int half = 0; half < 2; half++) {
    unsigned here = row + 8 * half;
    float sum = state.sum[half];

    sum += __shfl_xor_sync (ALL_LANES, sum, 1);
    sum += __shfl_xor_sync (ALL_LANES, sum, 2);
    if (here >= n_frames)
      continue;
#pragma unroll
    for (int j = 0; j < 8; j++)
      *reinterpret_cast<unsigned *> (y + (size_t) here * d + j * 8 + column)
          = pack (o[j][2 * half] / sum, o[j][2 * half + 1] / sum);
  }
}

/* N: blocks of 16 queries that a warp takes, so 64 N in all */
template <int N>
static __global__ void
__launch_bounds__ (THREADS)
attend_halfs (const __half *qkv, __half *y, unsigned n_frames,
    unsigned n_heads)
{
  extern __shared__ __align__ (1024) unsigned char shared[];
  unsigned d = n_heads * HEAD, stride = 3 * d;
  unsigned first = blockIdx.x * 64 * N, head = blockIdx.y;
  unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned base = (unsigned) __cvta_generic_to_shared (shared);
  unsigned keys = base + 64 * N * HEAD * 2;    /* two tiles */
  unsigned values = keys + 2 * KEYS * HEAD * 2; /* two tiles */
  unsigned n_tiles = (n_frames + KEYS - 1) / KEYS;
  unsigned q[N][4][4];
  float o[N][8][4] = {};
  Softmax state[N];

  wait_for_predecessor ();
  release_successor ();
  qkv += (size_t) blockIdx.z * n_frames * stride + head * HEAD;
  y += (size_t) blockIdx.z * n_frames * d + head * HEAD;
  load_tile<64 * N> (base, qkv, stride, first, n_frames);
  load_tile<KEYS> (keys, qkv + d, stride, 0, n_frames);
  load_tile<KEYS> (values, qkv + 2 * d, stride, 0, n_frames);
  asm volatile ("cp.async.commit_group;");
#pragma unroll
  for (int b = 0; b < N; b++)
    state[b] = { { -INFINITY, -INFINITY }, { 0, 0 } };

  for (unsigned tile = 0; tile < n_tiles; tile++) {
    unsigned here = (tile & 1) * KEYS * HEAD * 2;
    unsigned next = KEYS * HEAD * 2 - here;

    if (tile + 1 < n_tiles) {
      load_tile<KEYS> (keys + next, qkv + d, stride, (tile + 1) * KEYS,
          n_frames);
      load_tile<KEYS> (values + next, qkv + 2 * d, stride, (tile + 1) * KEYS,
          n_frames);
      asm volatile ("cp.async.commit_group;");
      asm volatile ("cp.async.wait_group 1;");
    } else {
      asm volatile ("cp.async.wait_group 0;");
    }
    __syncthreads ();
    if (tile == 0) {
#pragma unroll
      for (int b = 0; b < N; b++)
#pragma unroll
        for (int k = 0; k < 4; k++)
          load_matrix (q[b][k], base + locate ((warp * N + b) * 16
              + (lane & 15), 2 * k + (lane >> 4)));
    }

    float s[N][8][4] = {};
#pragma unroll
    for (int k = 0; k < 4; k++) {
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        unsigned r[4];

        load_matrix (r, keys + here + locate (j * 8 + (lane >> 4) * 8
            + (lane & 7), 2 * k + (lane >> 3 & 1)));
#pragma unroll
        for (int b = 0; b < N; b++) {
          multiply (s[b][j], q[b][k], r[0], r[1]);
          multiply (s[b][j + 1], q[b][k], r[2], r[3]);
        }
      }
    }
    if ((tile + 1) * KEYS > n_frames) {
#pragma unroll
      for (int j = 0; j < 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++)
          if (tile * KEYS + j * 8 + lane % 4 * 2 + k % 2 >= n_frames)
#pragma unroll
            for (int b = 0; b < N; b++)
              s[b][j][k] = -INFINITY;
    }
#pragma unroll
    for (int b = 0; b < N; b++) {
      float shrink[2];

      soften (state[b], s[b], shrink);
#pragma unroll
      for (int j = 0; j < 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++)
          o[b][j][k] *= shrink[k / 2];
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
      unsigned p[N][4];

#pragma unroll
      for (int b = 0; b < N; b++) {
        p[b][0] = pack (s[b][2 * k][0], s[b][2 * k][1]);
        p[b][1] = pack (s[b][2 * k][2], s[b][2 * k][3]);
        p[b][2] = pack (s[b][2 * k + 1][0], s[b][2 * k + 1][1]);
        p[b][3] = pack (s[b][2 * k + 1][2], s[b][2 * k + 1][3]);
      }
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        unsigned r[4];

        load_matrix_turned (r, values + here + locate (k * 16
            + (lane >> 3 & 1) * 8 + (lane & 7), j + (lane >> 4)));
#pragma unroll
        for (int b = 0; b < N; b++) {
          multiply (o[b][j], p[b], r[0], r[1]);
          multiply (o[b][j + 1], p[b], r[2], r[3]);
        }
      }
    }
    __syncthreads ();
  }

#pragma unroll
  for (int b = 0; b < N; b++)
    store_block (state[b], o[b], y, first + (warp * N + b) * 16 + lane / 4,
        lane % 4 * 2, n_frames, d);
}

#define QUERIES 4 /* that share the reading of keys */

/* Eight lanes to a key, each with eight dimensions; every group of lanes has
 * its own keys, merged at the end. */
static __global__ void
__launch_bounds__ (THREADS)
attend_floats (const float *qkv, float *y, unsigned n_frames,
    unsigned n_heads)
{
  __shared__ float merged[THREADS / 8][QUERIES][HEAD + 2];
  unsigned d = n_heads * HEAD, stride = 3 * d;
  unsigned first = blockIdx.x * QUERIES, head = blockIdx.y;
  unsigned group = threadIdx.x / 8, part = threadIdx.x % 8;
  float q[QUERIES][8], o[QUERIES][8] = {}, top[QUERIES], sum[QUERIES];

  wait_for_predecessor ();
  qkv += (size_t) blockIdx.z * n_frames * stride + head * HEAD;
  y += (size_t) blockIdx.z * n_frames * d + head * HEAD;
  for (int i = 0; i < QUERIES; i++) {
    load8 (qkv + (size_t) min (first + i, n_frames - 1) * stride + 8 * part,
        q[i]);
    top[i] = -INFINITY;
    sum[i] = 0;
  }
  for (unsigned begin = 0; begin < n_frames; begin += THREADS / 8) {
    unsigned key = begin + group;
    const float *row = qkv + (size_t) min (key, n_frames - 1) * stride
        + 8 * part;
    float k[8], v[8];

    load8 (row + d, k);
    load8 (row + 2 * d, v);
#pragma unroll
    for (int i = 0; i < QUERIES; i++) {
      float score = 0;

#pragma unroll
      for (int j = 0; j < 8; j++)
        score += q[i][j] * k[j];
      for (int bit = 4; bit > 0; bit >>= 1)
        score += __shfl_xor_sync (ALL_LANES, score, bit);
      score = key < n_frames ? score * 0.125f : -INFINITY;
      float greater = fmaxf (top[i], score);

      if (greater == -INFINITY)
        continue;
      float shrink = expf (top[i] - greater), e = expf (score - greater);

      top[i] = greater;
      sum[i] = sum[i] * shrink + e;
#pragma unroll
      for (int j = 0; j < 8; j++)
        o[i][j] = o[i][j] * shrink + e * v[j];
    }
  }
  for (int i = 0; i < QUERIES; i++) {
    for (int j = 0; j < 8; j++)
      merged[group][i][8 * part + j] = o[i][j];
    merged[group][i][HEAD] = top[i];
    merged[group][i][HEAD + 1] = sum[i];
  }
  __syncthreads ();
  for (unsigned i = threadIdx.x; i < QUERIES * HEAD; i += THREADS) {
    unsigned query = i / HEAD;
    float greatest = -INFINITY, total = 0, value = 0;

    for (int g = 0; g < THREADS / 8; g++)
      greatest = fmaxf (greatest, merged[g][query][HEAD]);
    for (int g = 0; g < THREADS / 8; g++) {
      float weight = expf (merged[g][query][HEAD] - greatest);

      total += weight * merged[g][query][HEAD + 1];
      value += weight * merged[g][query][i % HEAD];
    }
    if (first + query < n_frames)
      y[(size_t) (first + query) * d + i % HEAD] = value / total;
  }
}

cudaError_t
asr_cuda_attention_encoder (const AsrLaunch *launch, const void *qkv, void *y,
    guint n_sequences, guint n_frames, guint n_heads)
{
  /* large blocks read keys less often, small ones fill the device */
  unsigned n = n_sequences * n_heads * ((n_frames + 127) / 128) >= 200 ? 2 : 1;
  dim3 grid ((n_frames + 64 * n - 1) / (64 * n), n_heads, n_sequences);
  size_t shared_bytes = (64 * n + 4 * KEYS) * HEAD * sizeof (__half);

  if (launch->is_f32)
    return start (launch, attend_floats,
        dim3 ((n_frames + QUERIES - 1) / QUERIES, n_heads, n_sequences),
        dim3 (THREADS), 0, static_cast<const float *> (qkv),
        static_cast<float *> (y), (unsigned) n_frames, (unsigned) n_heads);
  return start (launch, n == 2 ? attend_halfs<2> : attend_halfs<1>, grid,
      dim3 (THREADS), shared_bytes, static_cast<const __half *> (qkv),
      static_cast<__half *> (y), (unsigned) n_frames, (unsigned) n_heads);
}
