/* SPDX-License-Identifier: MIT */
/*
 * Token embedding plus position. The first kernel of a decoder step: it also
 * puts what the step was given into device memory, where the kernels of a
 * recorded step find it.
 */
#include "engine/backend/cuda/kernels/common.cuh"

#define MAX_POSITIONS 448

template <typename T>
static __global__ void
embed_rows (const __grid_constant__ AsrEmbedArgument argument)
{
  const AsrEmbed &p = argument.embed;
  unsigned r = blockIdx.x;

  wait_for_predecessor ();
  release_successor ();
  if (p.kept != NULL && r == 0) {
    const unsigned *from = reinterpret_cast<const unsigned *> (
        &argument.input);
    unsigned *to = reinterpret_cast<unsigned *> (p.kept);

    for (unsigned i = threadIdx.x; i < sizeof argument.input / 4;
         i += blockDim.x)
      to[i] = from[i];
  }
  if (r >= p.n_rows)
    return;
  AsrRow row = p.rows ? p.rows[r] : argument.input.rows[r];
  int token = row.token;
  unsigned position = row.position;

  if (token == ASR_TOKEN_CHOSEN) {
    token = p.states[row.text_slot].token;
    position = p.states[row.text_slot].position;
  }
  /* A finished slot's state may stand behind the end. */
  token = min (max (token, 0), (int) p.n_vocab - 1);
  position = min (position, MAX_POSITIONS - 1u);
  const T *from = static_cast<const T *> (p.table) + (size_t) token * p.d;
  const float *add = p.positions + (size_t) position * p.d;
  T *y = static_cast<T *> (p.y) + (size_t) r * p.d;

  for (unsigned i = 8 * threadIdx.x; i < p.d; i += 8 * blockDim.x) {
    float a[8], b[8];

    load8 (from + i, a);
    load8 (add + i, b);
    for (int k = 0; k < 8; k++)
      a[k] += b[k];
    store8 (y + i, a);
  }
}

cudaError_t
asr_cuda_embed (const AsrLaunch *launch, const AsrEmbedArgument *argument)
{
  return start (launch,
      launch->is_f32 ? embed_rows<float> : embed_rows<__half>,
      dim3 (argument->embed.n_rows), dim3 (128), 0, *argument);
}
