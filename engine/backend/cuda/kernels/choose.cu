/* SPDX-License-Identifier: MIT */
/*
 * From logits to one record: the rules of engine/backend/rules.h, the
 * suppress masks, the test of the time marks' mass and the choice, in one
 * pass over the logits. Several blocks share a choice; the last to finish
 * merges their pieces, writes the record to the host and takes the token
 * into the text slot's state.
 */
#include "engine/backend/cuda/kernels/common.cuh"
#include <limits.h>

#define THREADS 256
#define AHEAD 4
#define PIECES ASR_CUDA_CHOICE_PIECES
#define SIZE ASR_CUDA_CHOICE_SIZE

/* What is known of the allowed ids of one range. */
struct Range {
  float top; /* greatest logit */
  float sum; /* of exp (logit - top) */
  float best; /* greatest value that is chosen by */
  int id;    /* whose value that is, or -1 */
};

static __device__ __forceinline__ void
add_logit (Range &range, float logit, float value, int id)
{
  if (logit > range.top) {
    range.sum = range.sum * expf (range.top - logit) + 1;
    range.top = logit;
  } else if (logit != -INFINITY) { /* also where it is no number */
    range.sum += expf (logit - range.top);
  }
  if (value > range.best) {
    range.best = value;
    range.id = id;
  }
}

static __device__ __forceinline__ void
merge (Range &a, const Range &b)
{
  float top = fmaxf (a.top, b.top);

  if (top != -INFINITY)
    a.sum = a.sum * expf (a.top - top) + b.sum * expf (b.top - top);
  a.top = top;
  if (b.id >= 0
      && (a.id < 0 || b.best > a.best
          || (b.best == a.best && b.id < a.id))) {
    a.best = b.best;
    a.id = b.id;
  }
}

/* Over the lanes of a warp, which all end with the whole. */
static __device__ __forceinline__ void
merge_warp (Range ranges[2])
{
#pragma unroll
  for (int i = 0; i < 2; i++) {
    Range &r = ranges[i];
    float top = unorder_float (
        __reduce_max_sync (ALL_LANES, order_float (r.top)));
    int value = r.id >= 0 ? order_float (r.best) : INT_MIN;
    int greatest = __reduce_max_sync (ALL_LANES, value);
    int id = r.id >= 0 && value == greatest ? r.id : INT_MAX;

    id = __reduce_min_sync (ALL_LANES, id);
    r.sum = sum_lanes (top == -INFINITY ? 0 : r.sum * expf (r.top - top));
    r.top = top;
    r.id = id == INT_MAX ? -1 : id;
    r.best = r.id < 0 ? -INFINITY : unorder_float (greatest);
  }
}

static __device__ __forceinline__ AsrAllowed
get_allowed (const AsrChoose &p, const AsrChoice &choice,
    const AsrTextState &state)
{
  AsrAllowed allowed = { 0, 0, 0, 0, ASR_MASK_NONE };
  int n = p.tokens.n_vocab;

  if (choice.kind == ASR_CHOICE_SCORE)
    allowed.text_end = choice.limit;
  else
    allowed = asr_rules_get_allowed (&p.tokens, &state.rules);
  allowed.text_begin = min (max (allowed.text_begin, 0), n);
  allowed.text_end = min (allowed.text_end, n);
  allowed.timestamp_begin = min (max (allowed.timestamp_begin, 0), n);
  allowed.timestamp_end = min (allowed.timestamp_end, n);
  return allowed;
}

static __device__ __forceinline__ bool
is_allowed (const AsrAllowed &allowed, const guint32 *mask, int id)
{
  bool is_text = id >= allowed.text_begin && id < allowed.text_end;
  bool is_time
      = id >= allowed.timestamp_begin && id < allowed.timestamp_end;

  return (is_text || is_time)
      && (allowed.mask == ASR_MASK_NONE || !(mask[id / 32] >> id % 32 & 1));
}

/* Which of a thread's next AHEAD ids are allowed, as bits. Reads masks only:
 * they were there before the step. */
static __device__ __forceinline__ unsigned
find_allowed (const AsrAllowed &allowed, const guint32 *mask, int first,
    int end)
{
  unsigned bits = 0;

#pragma unroll
  for (int i = 0; i < AHEAD; i++) {
    int id = first + i * THREADS + (int) threadIdx.x;

    if (id < end && is_allowed (allowed, mask, id))
      bits |= 1u << i;
  }
  return bits;
}

/* This block's piece of the logits, AHEAD of them in flight for a thread.
 * @bits: of the first ones */
static __device__ void
walk_logits (const AsrAllowed &allowed, const AsrTextState &state,
    bool samples, const guint32 *mask, const float *logits, int begin,
    int end, unsigned bits, Range ranges[2])
{
  bool is_warm = samples && state.temperature > 0;

  for (int first = begin; first < end; first += AHEAD * THREADS) {
    float x[AHEAD];

    if (first != begin)
      bits = find_allowed (allowed, mask, first, end);
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      x[i] = bits >> i & 1
          ? logits[first + i * THREADS + (int) threadIdx.x]
          : -INFINITY;
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      int id = first + i * THREADS + (int) threadIdx.x;
      bool is_text = id >= allowed.text_begin && id < allowed.text_end;
      float value = x[i];

      if (x[i] == -INFINITY)
        continue;
      if (is_warm)
        value = x[i] / state.temperature
            - logf (-logf (asr_rules_uniform (state.seed,
                state.rules.n_sampled, id)));
      add_logit (ranges[is_text ? 0 : 1], x[i], value, id);
    }
  }
}

/* The first warp ends with the block's ranges. */
static __device__ void
merge_block (Range ranges[2])
{
  __shared__ Range shared[THREADS / 32][2];
  unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  merge_warp (ranges);
  if (lane == 0) {
    shared[warp][0] = ranges[0];
    shared[warp][1] = ranges[1];
  }
  __syncthreads ();
  if (warp != 0)
    return;
  for (int i = 0; i < 2; i++) {
    ranges[i] = { -INFINITY, 0, -INFINITY, -1 };
    if (lane < THREADS / 32)
      ranges[i] = shared[lane][i];
  }
  merge_warp (ranges);
}

static __device__ float
log_sum (const Range &range)
{
  return range.top == -INFINITY ? -INFINITY : range.top + logf (range.sum);
}

static __device__ float
add_logs (float a, float b)
{
  float top = fmaxf (a, b);

  return top == -INFINITY ? top : top + log1pf (expf (fminf (a, b) - top));
}

static __device__ void
sample (const AsrChoose &p, AsrTextState *state, const float *logits,
    Range ranges[2], AsrTokenRecord *record)
{
  float times = log_sum (ranges[1]);

  if (times > ranges[0].top) /* only time marks remain */
    ranges[0] = { -INFINITY, 0, -INFINITY, -1 };
  int winner = ranges[0].id >= 0
      && (ranges[1].id < 0 || ranges[0].best >= ranges[1].best) ? 0 : 1;

  record->id = ranges[winner].id;
  if (record->id >= 0) {
    /* without noise the value is the logit */
    record->log_prob = (state->temperature > 0 ? logits[record->id]
                                               : ranges[winner].best)
        - add_logs (log_sum (ranges[0]), times);
  } else { /* all suppressed: the text can only end */
    record->id = p.tokens.eot;
    record->log_prob = -INFINITY;
  }
  if (isnan (record->log_prob))
    record->log_prob = -INFINITY;
  asr_rules_advance (&p.tokens, &state->rules, record->id);
  state->token = record->id;
  state->position++;
  state->is_finished = record->id == p.tokens.eot;
  record->flags = state->is_finished ? ASR_TOKEN_EOT : 0;
}

static __device__ void
score (const AsrChoice &choice, int end, const float *logits,
    const Range &range, AsrTokenRecord *record)
{
  record->id = choice.target;
  record->log_prob = -INFINITY;
  if (choice.target < 0 || choice.target >= end)
    return;
  record->log_prob = logits[choice.target] - log_sum (range);
  if (isnan (record->log_prob))
    record->log_prob = -INFINITY;
}

static __device__ void
finish (const AsrChoose &p, const AsrChoice &choice, AsrTextState state,
    const float *logits, Range ranges[2])
{
  AsrTokenRecord record = { -1, 0, 0 };
  AsrTokenRecord *to = p.records ? p.records : p.input->records;

  if (choice.kind == ASR_CHOICE_SCORE)
    score (choice, min (choice.limit, p.tokens.n_vocab), logits, ranges[0],
        &record);
  else if (state.is_finished)
    record.flags = ASR_TOKEN_SKIPPED;
  else {
    sample (p, &state, logits, ranges, &record);
    if (choice.kind == ASR_CHOICE_SAMPLE)
      p.states[choice.text_slot] = state;
  }
  to[blockIdx.y] = record;
}

/* The first warp of each block, with the block's ranges. */
static __device__ void
merge_pieces (const AsrChoose &p, const AsrChoice &choice,
    const AsrTextState &state, const float *logits, Range ranges[2])
{
  unsigned lane = threadIdx.x, ticket = 0;
  float *pieces = p.pieces + (size_t) blockIdx.y * PIECES * SIZE;

  for (int i = 0; i < 2 && lane == 0; i++) {
    float *mine = pieces + blockIdx.x * SIZE + 4 * i;

    mine[0] = ranges[i].top;
    mine[1] = ranges[i].sum;
    mine[2] = ranges[i].best;
    mine[3] = __int_as_float (ranges[i].id);
  }
  __threadfence ();
  __syncwarp ();
  if (lane == 0)
    ticket = atomicInc (&p.counters[blockIdx.y], PIECES - 1);
  if (__shfl_sync (ALL_LANES, ticket, 0) != PIECES - 1)
    return;
  __threadfence ();
  for (int i = 0; i < 2; i++) {
    ranges[i] = { -INFINITY, 0, -INFINITY, -1 };
    for (unsigned k = lane; k < PIECES; k += 32) {
      const float *piece = pieces + k * SIZE + 4 * i;

      merge (ranges[i], { __ldcg (piece), __ldcg (piece + 1),
          __ldcg (piece + 2), __float_as_int (__ldcg (piece + 3)) });
    }
  }
  merge_warp (ranges);
  if (lane == 0)
    finish (p, choice, state, logits, ranges);
}

/* Within a step, choices, states and masks were written at least two kernels
 * ahead, so all but the logits is read before the wait. */
static __global__ void
__launch_bounds__ (THREADS)
choose_tokens (const __grid_constant__ AsrChoose p)
{
  const Range nothing = { -INFINITY, 0, -INFINITY, -1 };
  Range ranges[2] = { nothing, nothing };

  if (!p.is_early)
    wait_for_predecessor ();
  AsrChoice choice = fetch_struct (p.choices + blockIdx.y);
  AsrTextState state = {};
  int n = p.tokens.n_vocab, size = (n + PIECES - 1) / PIECES;
  int begin = blockIdx.x * size, end = min (begin + size, n);
  const float *logits = p.logits + (size_t) blockIdx.y * n;
  bool samples = choice.kind == ASR_CHOICE_SAMPLE;

  if (samples)
    state = fetch_struct (p.states + choice.text_slot);
  if (choice.kind == ASR_CHOICE_VERIFY) {
    state.rules = asr_rules_start (ASR_RULES_TEXT);
    state.rules.n_sampled = choice.target;
  }
  AsrAllowed allowed = get_allowed (p, choice, state);
  const guint32 *mask = p.masks + (size_t) allowed.mask * ((n + 31) / 32);
  unsigned bits = find_allowed (allowed, mask, begin, end);

  if (p.is_early)
    wait_for_predecessor ();
  release_successor ();
  if (!state.is_finished)
    walk_logits (allowed, state, samples, mask, logits, begin, end, bits,
        ranges);
  merge_block (ranges);
  if (threadIdx.x < 32)
    merge_pieces (p, choice, state, logits, ranges);
}

cudaError_t
asr_cuda_choose (const AsrLaunch *launch, const AsrChoose *params)
{
  return start (launch, choose_tokens, dim3 (PIECES, params->n_choices),
      dim3 (THREADS), 0, *params);
}
