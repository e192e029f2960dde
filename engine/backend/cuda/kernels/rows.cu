/* SPDX-License-Identifier: MIT */
/*
 * Products for the few rows of a decoder step. What takes the time is
 * reading the weights, so each is read once, straight into the registers
 * that the tensor cores take: a tile is 16 rows of x (those missing are
 * zeros) times 8 rows of the weights. Both operands may have their inner
 * dimension in any order as long as it is the same one, so a lane takes 8
 * neighbours of each: 16 bytes.
 *
 * Weights do not depend on the kernel ahead: the first of them are fetched
 * before the wait for it.
 */
#include "engine/backend/cuda/kernels/common.cuh"

#define WARPS 8
#define CHUNK 32  /* of the inner dimension that a warp takes at a time */
#define AHEAD 8   /* chunks of weights in flight */
#define TILE_ROWS 16
#define TILE_OUT 8
#define PAD 8     /* so that rows in shared memory begin in other banks */

static __device__ __forceinline__ void
multiply (float c[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
    unsigned b0, unsigned b1)
{
  asm ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
       "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
       : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
       : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ uint4
load_weight (const __half *from)
{
  uint4 v;

  asm volatile ("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from));
  return v;
}

static __device__ __forceinline__ const __half *
get_row (const AsrRowsLinear &p, unsigned row)
{
  return static_cast<const __half *> (p.x)
      + (size_t) (p.gather ? p.gather[row] : row) * p.n_in;
}

/* Rows of x, normalised, to shared memory; a warp for each. */
static __device__ void
normalise (const AsrRowsLinear &p, __half *to)
{
  unsigned lane = threadIdx.x % 32;

  for (unsigned r = threadIdx.x / 32; r < p.n_rows; r += WARPS) {
    const __half *x = get_row (p, r);
    float v[8], sum = 0, squares = 0;

    for (unsigned k = 8 * lane; k < p.n_in; k += 256) {
      load8 (x + k, v);
      for (int j = 0; j < 8; j++)
        sum += v[j];
    }
    float mean = sum_lanes (sum) / p.n_in;

    for (unsigned k = 8 * lane; k < p.n_in; k += 256) {
      load8 (x + k, v);
      for (int j = 0; j < 8; j++)
        squares += (v[j] - mean) * (v[j] - mean);
    }
    float scale = rsqrtf (sum_lanes (squares) / p.n_in + 1e-5f);

    for (unsigned k = 8 * lane; k < p.n_in; k += 256) {
      float gamma[8], beta[8];

      load8 (x + k, v);
      load8 (p.gamma + k, gamma);
      load8 (p.beta + k, beta);
      for (int j = 0; j < 8; j++)
        v[j] = (v[j] - mean) * scale * gamma[j] + beta[j];
      store8 (to + (size_t) r * (p.n_in + PAD) + k, v);
    }
  }
}

static __device__ __forceinline__ void
finish (const AsrRowsLinear &p, unsigned row, unsigned n, float value)
{
  size_t i = (size_t) row * p.n_out + n;

  if (p.bias != NULL)
    value += p.bias[n];
  if (p.gelu)
    value = gelu (value);
  if (p.residual != NULL)
    value += __half2float (static_cast<const __half *> (p.residual)[i]);
  if (p.y_is_f32)
    static_cast<float *> (p.y)[i] = value;
  else
    static_cast<__half *> (p.y)[i] = __float2half_rn (value);
}

/* PARTS warps share a tile, each with its part of the inner dimension. */
template <int PARTS, bool NORM>
static __global__ void
__launch_bounds__ (32 * WARPS)
rows_linear (const __grid_constant__ AsrRowsLinear p)
{
  extern __shared__ __align__ (16) __half normalised[];
  __shared__ float sums[WARPS][TILE_ROWS * TILE_OUT];
  unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned group = lane / 4, quad = lane % 4, part = warp % PARTS;
  unsigned first_tile = blockIdx.x * (WARPS / PARTS);
  unsigned n = (first_tile + warp / PARTS) * TILE_OUT + group;
  unsigned n_chunks = p.n_in / CHUNK;
  const __half *weight = static_cast<const __half *> (p.weight)
      + (size_t) min (n, p.n_out - 1) * p.n_in + 8 * quad;
  uint4 w[AHEAD];
  float c[4] = { 0, 0, 0, 0 };

#pragma unroll
  for (int i = 0; i < AHEAD; i++)
    if (part + i * PARTS < n_chunks)
      w[i] = load_weight (weight + (part + i * PARTS) * CHUNK);
  release_successor ();
  wait_for_predecessor ();

  bool has_low = group < p.n_rows, has_high = group + 8 < p.n_rows;
  const __half *low = NULL, *high = NULL;

  if (NORM) {
    normalise (p, normalised);
    __syncthreads ();
    low = normalised + group * (p.n_in + PAD) + 8 * quad;
    high = low + 8 * (p.n_in + PAD);
  } else {
    if (has_low)
      low = get_row (p, group) + 8 * quad;
    if (has_high)
      high = get_row (p, group + 8) + 8 * quad;
  }

  for (unsigned first = part; first < n_chunks; first += AHEAD * PARTS) {
    if (first != part) {
#pragma unroll
      for (int i = 0; i < AHEAD; i++)
        if (first + i * PARTS < n_chunks)
          w[i] = load_weight (weight + (first + i * PARTS) * CHUNK);
    }
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      unsigned chunk = first + i * PARTS;

      if (chunk < n_chunks) {
        uint4 a = make_uint4 (0, 0, 0, 0), b = a;

        if (has_low)
          a = *reinterpret_cast<const uint4 *> (low + chunk * CHUNK);
        if (has_high)
          b = *reinterpret_cast<const uint4 *> (high + chunk * CHUNK);
        multiply (c, a.x, b.x, a.y, b.y, w[i].x, w[i].y);
        multiply (c, a.z, b.z, a.w, b.w, w[i].z, w[i].w);
      }
    }
  }

  float *sum = sums[warp];

  sum[group * TILE_OUT + 2 * quad] = c[0];
  sum[group * TILE_OUT + 2 * quad + 1] = c[1];
  sum[(group + 8) * TILE_OUT + 2 * quad] = c[2];
  sum[(group + 8) * TILE_OUT + 2 * quad + 1] = c[3];
  __syncthreads ();

  constexpr unsigned n_tiles = WARPS / PARTS;
  constexpr unsigned tile_size = TILE_ROWS * TILE_OUT;

  for (unsigned i = threadIdx.x; i < n_tiles * tile_size; i += 32 * WARPS) {
    /* neighbours in a row of y go to neighbours */
    unsigned row = i / (n_tiles * TILE_OUT);
    unsigned column = i % (n_tiles * TILE_OUT);
    unsigned tile = column / TILE_OUT;
    unsigned out = first_tile * TILE_OUT + column;
    float value = 0;

    if (row >= p.n_rows || out >= p.n_out)
      continue;
    for (int k = 0; k < PARTS; k++)
      value += sums[tile * PARTS + k][row * TILE_OUT + column % TILE_OUT];
    finish (p, row, out, value);
  }
}

template <int PARTS>
static cudaError_t
start_parts (const AsrLaunch *launch, const AsrRowsLinear *p)
{
  unsigned n_tiles = (p->n_out + TILE_OUT - 1) / TILE_OUT;
  dim3 grid ((n_tiles + WARPS / PARTS - 1) / (WARPS / PARTS));
  size_t shared_bytes
      = (size_t) p->n_rows * (p->n_in + PAD) * sizeof (__half);

  if (p->gamma == NULL)
    return start (launch, rows_linear<PARTS, false>, grid, dim3 (32 * WARPS),
        0, *p);
  return start (launch, rows_linear<PARTS, true>, grid, dim3 (32 * WARPS),
      shared_bytes, *p);
}

cudaError_t
asr_cuda_rows_linear (const AsrLaunch *launch, const AsrRowsLinear *params)
{
  /* enough warps to keep every multiprocessor's loads in flight */
  if (params->n_out <= 8 * 512)
    return start_parts<8> (launch, params);
  if (params->n_out <= 8 * 1024)
    return start_parts<4> (launch, params);
  return start_parts<2> (launch, params);
}
