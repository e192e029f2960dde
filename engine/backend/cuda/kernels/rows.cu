/* SPDX-License-Identifier: MIT */
/*
 * Products for the few rows of a decoder step. What takes the time is
 * reading the weights, so each is read once, straight into the registers
 * that the tensor cores take: a tile is 16 rows of x (those missing are
 * zeros) times 8 rows of the weights. Both operands may have their inner
 * dimension in any order as long as it is the same one, so a lane takes 8
 * neighbours of each: 16 bytes. Such a kernel lasts some microseconds, in
 * which a warp issues some hundred instructions: their number counts, so
 * sizes are known to the compiler.
 *
 * The norm before a product does not come before it here. With g and b the
 * norm's gamma and beta, m and s a row's mean and scale,
 *   W (s (x - m) g + b) = s (W (g x) - m W g) + W b,
 * where W g and W b are two more rows of the same product, and m and s come
 * from sums that the tensor cores make beside it: x times ones, x times x.
 *
 * Weights do not depend on the kernel ahead: they are fetched before the
 * wait for it.
 */
#include "engine/backend/cuda/kernels/common.cuh"

#define CHUNK 32       /* of the inner dimension that a warp takes at a time */
#define TILE_OUT 8
#define MIN_BLOCKS 264 /* two for each multiprocessor of a large device */
#define MAX_SHARED_BYTES (80 * 1024)
#define ONES 0x3c003c00u /* two halfs */

/* g x may be large before s makes it small again */
#define GAMMA_SCALE 0.125f

static __device__ __forceinline__ void
multiply (float c[4], unsigned low0, unsigned high0, unsigned low1,
    unsigned high1, unsigned b0, unsigned b1)
{
  asm ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
       "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
       : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
       : "r"(low0), "r"(high0), "r"(low1), "r"(high1), "r"(b0), "r"(b1));
}

/* A chunk: 16 rows of which @low are the first and @high the last eight. */
static __device__ __forceinline__ void
multiply_chunk (float c[4], const uint4 &low, const uint4 &high,
    const uint4 &b)
{
  multiply (c, low.x, high.x, low.y, high.y, b.x, b.y);
  multiply (c, low.z, high.z, low.w, high.w, b.z, b.w);
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

static __device__ __forceinline__ uint4
load_x (const __half *from, bool is_there, unsigned offset)
{
  uint4 nothing = make_uint4 (0, 0, 0, 0);

  return is_there ? *reinterpret_cast<const uint4 *> (from + offset)
                  : nothing;
}

static __device__ __forceinline__ uint4
pack_floats (const float *from, float scale)
{
  float v[8];
  uint4 packed;

  load8 (from, v);
#pragma unroll
  for (int i = 0; i < 8; i++)
    v[i] *= scale;
  store8 (reinterpret_cast<__half *> (&packed), v);
  return packed;
}

static __device__ __forceinline__ uint4
scale_chunk (const uint4 &x, const uint4 &gamma)
{
  const __half2 *a = reinterpret_cast<const __half2 *> (&x);
  const __half2 *b = reinterpret_cast<const __half2 *> (&gamma);
  uint4 y;
  __half2 *to = reinterpret_cast<__half2 *> (&y);

#pragma unroll
  for (int i = 0; i < 4; i++)
    to[i] = __hmul2 (a[i], b[i]);
  return y;
}

/* What the warps have of a tile, and of the rows' moments. */
template <int WARPS, bool HIGH> struct Sums {
  float2 rows[WARPS][HIGH ? 64 : 32]; /* as the tensor cores lay them out */
  float2 norm[WARPS][8];              /* W g in four, W b in four */
};

template <int WARPS> struct Moments {
  float sum[WARPS][16], squares[WARPS][16];
};

/* c: x times ones; q: x times its first eight rows; r: its last */
template <int WARPS, bool HIGH>
static __device__ __forceinline__ void
keep_moments (Moments<WARPS> &to, const float c[4], const float q[4],
    const float r[4])
{
  unsigned warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4;
  bool is_odd = group & 1;

  if (threadIdx.x % 4 != group / 2) /* whose columns are not the row's own */
    return;
  to.sum[warp][group] = c[0];
  to.squares[warp][group] = is_odd ? q[1] : q[0];
  if (HIGH) {
    to.sum[warp][group + 8] = c[2];
    to.squares[warp][group + 8] = is_odd ? r[3] : r[2];
  }
}

/* Two neighbours of row @row of y. */
static __device__ __forceinline__ void
write_pair (const AsrRowsLinear &p, unsigned row, unsigned n, float2 value,
    float2 bias, float2 residual)
{
  size_t place = (size_t) row * p.n_out + n;

  value.x += bias.x;
  value.y += bias.y;
  if (p.gelu) {
    value.x = gelu (value.x);
    value.y = gelu (value.y);
  }
  if (p.y_is_f32) { /* a vocabulary may be odd */
    static_cast<float *> (p.y)[place] = value.x;
    if (n + 1 < p.n_out)
      static_cast<float *> (p.y)[place + 1] = value.y;
    return;
  }
  *reinterpret_cast<__half2 *> (static_cast<__half *> (p.y) + place)
      = __floats2half2_rn (value.x + residual.x, value.y + residual.y);
}

static __device__ __forceinline__ float2
get_bias (const AsrRowsLinear &p, unsigned n)
{
  float2 bias = make_float2 (0, 0);

  if (p.bias != NULL && n < p.n_out)
    bias.x = p.bias[n];
  if (p.bias != NULL && n + 1 < p.n_out)
    bias.y = p.bias[n + 1];
  return bias;
}

static __device__ __forceinline__ float2
get_residual (const AsrRowsLinear &p, unsigned row, unsigned n)
{
  const __half *residual = static_cast<const __half *> (p.residual);

  if (residual == NULL || row >= p.n_rows || n >= p.n_out)
    return make_float2 (0, 0);
  return __half22float2 (*reinterpret_cast<const __half2 *> (
      residual + (size_t) row * p.n_out + n));
}

template <int WARPS>
static __device__ __forceinline__ float2
measure (const Moments<WARPS> &moments, unsigned row, unsigned n)
{
  float sum = 0, squares = 0;

#pragma unroll
  for (int w = 0; w < WARPS; w++) {
    sum += moments.sum[w][row];
    squares += moments.squares[w][row];
  }
  float mean = sum / n;

  return make_float2 (mean,
      rsqrtf (fmaxf (squares / n - mean * mean, 0) + 1e-5f));
}

/* A tile, by one warp: lane (group, quad) has row group, columns 2 quad and
 * the next, and with HIGH also row group + 8. */
template <int WARPS, bool NORM, bool HIGH>
static __device__ __forceinline__ void
write_tile (const AsrRowsLinear &p, const Sums<WARPS, HIGH> &sums,
    const Moments<WARPS> &moments, unsigned first_n, float2 bias,
    float2 residual)
{
  unsigned lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
  unsigned n = first_n + 2 * quad;
  float2 gamma = make_float2 (0, 0), beta = gamma;

  if (NORM) {
    float2 mine = make_float2 (0, 0);

    if (lane < 8)
#pragma unroll
      for (int w = 0; w < WARPS; w++) {
        mine.x += sums.norm[w][lane].x;
        mine.y += sums.norm[w][lane].y;
      }
    gamma.x = __shfl_sync (ALL_LANES, mine.x, quad);
    gamma.y = __shfl_sync (ALL_LANES, mine.y, quad);
    beta.x = __shfl_sync (ALL_LANES, mine.x, 4 + quad);
    beta.y = __shfl_sync (ALL_LANES, mine.y, 4 + quad);
  }
#pragma unroll
  for (int half = 0; half < (HIGH ? 2 : 1); half++) {
    unsigned row = group + 8 * half;
    float2 value = make_float2 (0, 0);

    if (row >= p.n_rows || n >= p.n_out)
      continue;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      value.x += sums.rows[w][lane + 32 * half].x;
      value.y += sums.rows[w][lane + 32 * half].y;
    }
    if (NORM) {
      float2 m = measure (moments, row, p.n_in);

      value.x = m.y * (value.x - m.x * gamma.x) / GAMMA_SCALE + beta.x;
      value.y = m.y * (value.y - m.x * gamma.y) / GAMMA_SCALE + beta.y;
    }
    if (half == 1)
      residual = get_residual (p, row, n);
    write_pair (p, row, n, value, bias, residual);
  }
}

/* gamma where it meets x; and, as rows of the product, gamma in group 0 and
 * beta in group 1. @place: of the lane's first values */
template <int MINE, unsigned STEP>
static __device__ __forceinline__ void
fetch_norm (const AsrRowsLinear &p, unsigned place, uint4 gamma[MINE],
    uint4 norm[MINE])
{
  unsigned group = threadIdx.x % 32 / 4;

#pragma unroll
  for (int i = 0; i < MINE; i++) {
    gamma[i] = pack_floats (p.gamma + place + i * STEP, GAMMA_SCALE);
    norm[i] = group == 0 ? gamma[i] : make_uint4 (0, 0, 0, 0);
    if (group == 1)
      norm[i] = pack_floats (p.beta + place + i * STEP, 1);
  }
}

/* The rows' moments, and gamma into the rows. */
template <int WARPS, int MINE, bool HIGH>
static __device__ __forceinline__ void
take_norm (uint4 low[MINE], uint4 *high, const uint4 gamma[MINE],
    Moments<WARPS> &moments)
{
  const uint4 ones = make_uint4 (ONES, ONES, ONES, ONES);
  float c[4] = {}, q[4] = {}, r[4] = {};

#pragma unroll
  for (int i = 0; i < MINE; i++) {
    const uint4 last = HIGH ? high[HIGH ? i : 0] : make_uint4 (0, 0, 0, 0);

    multiply_chunk (c, low[i], last, ones);
    multiply_chunk (q, low[i], last, low[i]);
    if (HIGH)
      multiply_chunk (r, low[i], last, last);
    low[i] = scale_chunk (low[i], gamma[i]);
    if (HIGH)
      high[HIGH ? i : 0] = scale_chunk (last, gamma[i]);
  }
  keep_moments<WARPS, HIGH> (moments, c, q, r);
}

/* A row of the weights is SECTIONS of WARPS * MINE chunks. A block takes
 * @n_tiles tiles one after the other, section by section, and has the
 * weights of the next STAGES sections in flight. */
template <int WARPS, int MINE, int SECTIONS, bool NORM, bool HIGH>
static __global__ void
__launch_bounds__ (32 * WARPS, MINE >= 4 && HIGH ? 1 : 2)
rows_linear (const __grid_constant__ AsrRowsLinear p, unsigned n_tiles)
{
  constexpr int STAGES = 2;
  constexpr int X_STAGES = SECTIONS == 1 ? 1 : STAGES;
  constexpr unsigned STEP = WARPS * CHUNK;
  extern __shared__ __align__ (16) unsigned char shared[];
  __shared__ Moments<WARPS> moments;
  Sums<WARPS, HIGH> *sums = reinterpret_cast<Sums<WARPS, HIGH> *> (shared);
  unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned group = lane / 4, quad = lane % 4;
  unsigned first_n = blockIdx.x * n_tiles * TILE_OUT;
  unsigned place = warp * CHUNK + 8 * quad, n_units = n_tiles * SECTIONS;
  const uint4 nothing = make_uint4 (0, 0, 0, 0);
  uint4 w[STAGES][MINE], gamma[NORM ? MINE : 1], norm[NORM ? MINE : 1];
  uint4 low[X_STAGES][MINE], high[HIGH ? X_STAGES : 1][HIGH ? MINE : 1];

  auto fetch = [&] (unsigned unit, int stage) {
    unsigned n = min (first_n + unit / SECTIONS * TILE_OUT + group,
        p.n_out - 1);
    const __half *from = static_cast<const __half *> (p.weight)
        + (size_t) n * p.n_in + unit % SECTIONS * MINE * STEP + place;

#pragma unroll
    for (int i = 0; i < MINE; i++)
      w[stage][i] = load_weight (from + i * STEP);
  };

#pragma unroll
  for (int s = 0; s < STAGES; s++)
    if ((unsigned) s < n_units)
      fetch (s, s);
  if (NORM)
    fetch_norm<NORM ? MINE : 1, STEP> (p, place, gamma, norm);
  float2 bias = get_bias (p, first_n + warp * TILE_OUT + 2 * quad);

  wait_for_predecessor ();
  release_successor ();

  bool has_low = group < p.n_rows, has_high = HIGH && group + 8 < p.n_rows;
  const __half *x = static_cast<const __half *> (p.x);
  const __half *x_low = x, *x_high = x;

  if (has_low)
    x_low += (size_t) (p.gather ? p.gather[group] : group) * p.n_in + place;
  if (has_high)
    x_high += (size_t) (p.gather ? p.gather[group + 8] : group + 8) * p.n_in
        + place;

  auto fetch_x = [&] (unsigned section, int stage) {
#pragma unroll
    for (int i = 0; i < MINE; i++) {
      unsigned offset = section * MINE * STEP + i * STEP;

      low[stage][i] = load_x (x_low, has_low, offset);
      if (HIGH)
        high[stage][i] = load_x (x_high, has_high, offset);
    }
  };

#pragma unroll
  for (int s = 0; s < X_STAGES; s++)
    fetch_x (s, s);
  float2 residual = get_residual (p, group,
      first_n + warp * TILE_OUT + 2 * quad);

  if (NORM)
    take_norm<WARPS, NORM ? MINE : 1, HIGH> (low[0], high[0], gamma, moments);

  float c[4] = {}, n[4] = {};

  for (unsigned first = 0; first < n_units; first += STAGES) {
#pragma unroll
    for (int s = 0; s < STAGES; s++) {
      constexpr int MASK = X_STAGES - 1;
      unsigned unit = first + s, tile = unit / SECTIONS;

      if (unit >= n_units)
        break;
#pragma unroll
      for (int i = 0; i < MINE; i++) {
        /* the norm's rows have room behind eight rows or fewer */
        multiply_chunk (c, low[s & MASK][i],
            HIGH       ? high[HIGH ? s & MASK : 0][HIGH ? i : 0]
                : NORM ? norm[NORM ? i : 0]
                       : nothing,
            w[s][i]);
        if (NORM && HIGH)
          multiply_chunk (n, norm[NORM ? i : 0], nothing, w[s][i]);
      }
      if (unit + STAGES < n_units) {
        fetch (unit + STAGES, s);
        if (SECTIONS > 1)
          fetch_x ((unit + STAGES) % SECTIONS, s & MASK);
      }
      if (SECTIONS > 1 && unit % SECTIONS != SECTIONS - 1)
        continue;
      sums[tile].rows[warp][lane] = make_float2 (c[0], c[1]);
      if (HIGH)
        sums[tile].rows[warp][lane + 32] = make_float2 (c[2], c[3]);
      if (NORM && lane < 8)
        sums[tile].norm[warp][lane] = HIGH ? make_float2 (n[0], n[1])
                                           : make_float2 (c[2], c[3]);
#pragma unroll
      for (int k = 0; k < 4; k++)
        c[k] = n[k] = 0;
    }
  }
  __syncthreads ();
  for (unsigned tile = warp; tile < n_tiles; tile += WARPS) {
    unsigned n = first_n + tile * TILE_OUT;

    if (tile != warp) {
      bias = get_bias (p, n + 2 * quad);
      residual = get_residual (p, group, n + 2 * quad);
    }
    write_tile<WARPS, NORM, HIGH> (p, sums[tile], moments, n, bias,
        residual);
  }
}

template <int WARPS, int MINE, int SECTIONS, bool NORM, bool HIGH>
static cudaError_t
start_sized (const AsrLaunch *launch, const AsrRowsLinear *p)
{
  unsigned n_all = (p->n_out + TILE_OUT - 1) / TILE_OUT;
  unsigned n_bytes = sizeof (Sums<WARPS, HIGH>);
  unsigned n_tiles = MIN ((n_all + MIN_BLOCKS - 1) / MIN_BLOCKS,
      MAX_SHARED_BYTES / n_bytes);

  return start (launch, rows_linear<WARPS, MINE, SECTIONS, NORM, HIGH>,
      dim3 ((n_all + n_tiles - 1) / n_tiles), dim3 (32 * WARPS),
      (size_t) n_tiles * n_bytes, *p, n_tiles);
}

template <int WARPS, int MINE, int SECTIONS>
static cudaError_t
start_plain (const AsrLaunch *launch, const AsrRowsLinear *p)
{
  if (p->gamma != NULL)
    return cudaErrorInvalidValue;
  if (p->n_rows > 8)
    return start_sized<WARPS, MINE, SECTIONS, false, true> (launch, p);
  return start_sized<WARPS, MINE, SECTIONS, false, false> (launch, p);
}

template <int WARPS, int MINE>
static cudaError_t
start_any (const AsrLaunch *launch, const AsrRowsLinear *p)
{
  if (p->gamma == NULL)
    return start_plain<WARPS, MINE, 1> (launch, p);
  if (p->n_rows > 8)
    return start_sized<WARPS, MINE, 1, true, true> (launch, p);
  return start_sized<WARPS, MINE, 1, true, false> (launch, p);
}

gboolean
asr_cuda_rows_linear_fits (guint n_in, gboolean has_norm)
{
  static const guint sizes[] = { 64, 128, 384, 512, 768, 1024, 1280 };
  static const guint plain_sizes[] = { 256, 1536, 2048, 3072, 4096, 5120 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    if (n_in == sizes[i])
      return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (plain_sizes) && !has_norm; i++)
    if (n_in == plain_sizes[i])
      return TRUE;
  return FALSE;
}

cudaError_t
asr_cuda_rows_linear (const AsrLaunch *launch, const AsrRowsLinear *params)
{
  switch (params->n_in) {
    case 64:
      return start_any<2, 1> (launch, params);
    case 128:
      return start_any<4, 1> (launch, params);
    case 256:
      return start_plain<8, 1, 1> (launch, params);
    case 384:
      return start_any<4, 3> (launch, params);
    case 512:
      return start_any<8, 2> (launch, params);
    case 768:
      return start_any<8, 3> (launch, params);
    case 1024:
      return start_any<8, 4> (launch, params);
    case 1280:
      return start_any<8, 5> (launch, params);
    case 1536:
      return start_plain<8, 3, 2> (launch, params);
    case 2048:
      return start_plain<8, 4, 2> (launch, params);
    case 3072:
      return start_plain<8, 4, 3> (launch, params);
    case 4096:
      return start_plain<8, 4, 4> (launch, params);
    case 5120:
      return start_plain<8, 5, 4> (launch, params);
  }
  return cudaErrorInvalidValue;
}
