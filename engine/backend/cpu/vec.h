/* SPDX-License-Identifier: MIT */
/*
 * Vectors of f32 for the *_vec.c files. Each of those is one C body that is
 * compiled once for each tier of instructions, with that tier's flags and
 * -DASR_TIER; nothing here may be included by code that runs on any
 * processor. Without a known instruction set it is portable C (GCC's vector
 * extension, which clang has too).
 */
#ifndef ASR_BACKEND_CPU_VEC_H
#define ASR_BACKEND_CPU_VEC_H

#include "engine/tensor/dtype.h"
#include <float.h>
#include <math.h>
#include <string.h>

#if defined __AVX512F__ || defined __AVX2__
#include <immintrin.h>
#endif

#if defined __AVX512F__
#define VEC_N 16
#elif defined __AVX2__
#define VEC_N 8
#else
#define VEC_N 4
#endif

typedef float Vec __attribute__ ((vector_size (4 * VEC_N)));
typedef gint32 VecI __attribute__ ((vector_size (4 * VEC_N)));

static inline Vec
vec_set (float x)
{
#if defined __AVX512F__
  return (Vec) _mm512_set1_ps (x);
#elif defined __AVX2__
  return (Vec) _mm256_set1_ps (x);
#else
  return (Vec) { x, x, x, x };
#endif
}

static inline Vec
vec_load (const float *from)
{
  Vec v;

  memcpy (&v, from, sizeof (v));
  return v;
}

static inline void
vec_store (float *to, Vec v)
{
  memcpy (to, &v, sizeof (v));
}

/* @n below VEC_N; the other lanes are @rest. */
static inline Vec
vec_load_n (const float *from, guint n, float rest)
{
  Vec v = vec_set (rest);

  memcpy (&v, from, n * sizeof (float));
  return v;
}

/* a * b + c */
static inline Vec
vec_fma (Vec a, Vec b, Vec c)
{
#if defined __AVX512F__
  return (Vec) _mm512_fmadd_ps ((__m512) a, (__m512) b, (__m512) c);
#elif defined __AVX2__
  return (Vec) _mm256_fmadd_ps ((__m256) a, (__m256) b, (__m256) c);
#else
  return a * b + c;
#endif
}

/* @mask: all bits or none in each lane, as comparisons give it */
static inline Vec
vec_select (VecI mask, Vec yes, Vec no)
{
  return (Vec) ((mask & (VecI) yes) | (~mask & (VecI) no));
}

/* Where @a is not a number the result is @b. */
static inline Vec
vec_max (Vec a, Vec b)
{
#if defined __AVX512F__
  return (Vec) _mm512_max_ps ((__m512) a, (__m512) b);
#elif defined __AVX2__
  return (Vec) _mm256_max_ps ((__m256) a, (__m256) b);
#else
  return vec_select (a > b, a, b);
#endif
}

static inline Vec
vec_min (Vec a, Vec b)
{
#if defined __AVX512F__
  return (Vec) _mm512_min_ps ((__m512) a, (__m512) b);
#elif defined __AVX2__
  return (Vec) _mm256_min_ps ((__m256) a, (__m256) b);
#else
  return vec_select (a < b, a, b);
#endif
}

static inline float
vec_sum (Vec v)
{
  float lanes[VEC_N];

  vec_store (lanes, v);
  for (guint n = VEC_N / 2; n > 0; n /= 2)
    for (guint i = 0; i < n; i++)
      lanes[i] += lanes[i + n];
  return lanes[0];
}

static inline float
vec_top (Vec v)
{
  float lanes[VEC_N];

  vec_store (lanes, v);
  for (guint i = 1; i < VEC_N; i++)
    lanes[0] = lanes[i] > lanes[0] ? lanes[i] : lanes[0];
  return lanes[0];
}

static inline Vec
vec_load_f16 (const guint16 *from)
{
#if defined __AVX512F__
  return (Vec) _mm512_cvtph_ps (_mm256_loadu_si256 ((const __m256i *) from));
#elif defined __AVX2__
  return (Vec) _mm256_cvtph_ps (_mm_loadu_si128 ((const __m128i *) from));
#else
  Vec v;

  for (guint i = 0; i < VEC_N; i++)
    v[i] = asr_f16_widen (from[i]);
  return v;
#endif
}

/* Rounds to nearest even. */
static inline void
vec_store_f16 (guint16 *to, Vec v)
{
#if defined __AVX512F__
  _mm256_storeu_si256 ((__m256i *) to, _mm512_cvtps_ph ((__m512) v, 0));
#elif defined __AVX2__
  _mm_storeu_si128 ((__m128i *) to, _mm256_cvtps_ph ((__m256) v, 0));
#else
  for (guint i = 0; i < VEC_N; i++)
    to[i] = asr_f32_to_f16 (v[i]);
#endif
}

/* e^x within 2e-7 of itself for x up to 88; where x is below -87, minus
 * infinity included, it is about 1e-38 instead of less. */
static inline Vec
vec_exp (Vec x)
{
  const Vec magic = vec_set (0x1.8p23f); /* its unit is 1: adding it rounds */
  Vec shifted, n, r, p;

  x = vec_max (x, vec_set (-87.0f));
  shifted = vec_fma (x, vec_set (0x1.715476p0f), magic);
  n = shifted - magic;
  /* ln 2 in two parts, so that r = x - n ln 2 is exact. */
  r = vec_fma (n, vec_set (-0x1.62e4p-1f), x);
  r = vec_fma (n, vec_set (-0x1.7f7d1cp-20f), r);
  /* e^r = 1 + r + r^2 p (r) on |r| <= ln (2) / 2, Chebyshev fit */
  p = vec_fma (r, vec_set (1.393365249e-3f), vec_set (8.363181545e-3f));
  p = vec_fma (r, p, vec_set (4.166646490e-2f));
  p = vec_fma (r, p, vec_set (1.666657697e-1f));
  p = vec_fma (r, p, vec_set (5.000000013e-1f));
  p = vec_fma (r * r, p, r) + vec_set (1.0f);
  return (Vec) ((VecI) p + ((VecI) shifted << 23));
}

/* Natural logarithm of normal numbers above 0, within 2e-7. */
static inline Vec
vec_log (Vec x)
{
  const VecI half = (VecI) vec_set (0x1.6a09e6p-1f); /* sqrt (1/2) */
  VecI exponent = ((VecI) x - half) >> 23;
  Vec m = (Vec) ((VecI) x - (exponent << 23));       /* up to sqrt (2) */
  Vec n = __builtin_convertvector (exponent, Vec);
  Vec s = (m - 1.0f) / (m + 1.0f);
  Vec s2 = s * s, p;

  /* log m = 2 artanh s = 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.172 */
  p = vec_fma (s2, vec_set (2.0f / 9), vec_set (2.0f / 7));
  p = vec_fma (s2, p, vec_set (2.0f / 5));
  p = vec_fma (s2, p, vec_set (2.0f / 3));
  p = vec_fma (s2, p, vec_set (2.0f)) * s;
  return vec_fma (n, vec_set (0x1.62e43p-1f), p);
}

#endif
