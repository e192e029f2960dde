/* SPDX-License-Identifier: MIT */
/* Which instructions this processor has and its kernel saves; asked once for
 * each device. */
#include "engine/backend/cpu/cpu.h"

static const char *const names[]
    = { "c", "avx2", "avx512", "avx512_vnni", "amx" };

const char *
asr_isa_get_name (AsrIsa isa)
{
  g_return_val_if_fail ((guint) isa < G_N_ELEMENTS (names), NULL);
  return names[isa];
}

#ifdef __x86_64__

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux, arch/x86/include/uapi/asm/prctl.h */
#define REQUEST_STATE_PERMISSION 0x1023
#define STATE_TILE_DATA 18

/* State components that the kernel saves (Intel SDM vol. 1, 13.3). */
#define XCR0_AVX 0x6u
#define XCR0_AVX512 0xe6u
#define XCR0_AMX 0x60000u

/* Bits of CPUID leaves 1 and 7 (Intel SDM vol. 2A). */
#define LEAF1_ECX_AVX2 (bit_FMA | bit_F16C | bit_AVX | bit_OSXSAVE)
#define LEAF7_EBX_AVX512 (1u << 16 | 1u << 17 | 1u << 30 | 1u << 31)
#define LEAF7_ECX_VNNI (1u << 11)
#define LEAF7_EDX_AMX (1u << 22 | 1u << 24 | 1u << 25)
#define LEAF7_1_EAX_AVX512_BF16 (1u << 5)

static guint32
read_xcr0 (void)
{
  guint32 low, high;

  __asm__ volatile ("xgetbv" : "=a" (low), "=d" (high) : "c" (0));
  return low;
}

/* The kernel enlarges the saved state of a process only when asked. */
static gboolean
request_tiles (void)
{
  return syscall (SYS_arch_prctl, REQUEST_STATE_PERMISSION, STATE_TILE_DATA)
      == 0;
}

static AsrIsa
detect_hardware (void)
{
  guint a, b, c, d, bf16 = 0;
  guint32 saved;

  if (!__get_cpuid (1, &a, &b, &c, &d)
      || (c & LEAF1_ECX_AVX2) != LEAF1_ECX_AVX2)
    return ASR_ISA_C;
  saved = read_xcr0 ();
  if (!__get_cpuid_count (7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)
      || (saved & XCR0_AVX) != XCR0_AVX)
    return ASR_ISA_C;
  if ((b & LEAF7_EBX_AVX512) != LEAF7_EBX_AVX512
      || (saved & XCR0_AVX512) != XCR0_AVX512)
    return ASR_ISA_AVX2;
  if (!(c & LEAF7_ECX_VNNI))
    return ASR_ISA_AVX512;
  if (a >= 1) {
    guint b1, c1, d1;

    __cpuid_count (7, 1, bf16, b1, c1, d1);
  }
  if ((d & LEAF7_EDX_AMX) != LEAF7_EDX_AMX
      || !(bf16 & LEAF7_1_EAX_AVX512_BF16)
      || (saved & XCR0_AMX) != XCR0_AMX)
    return ASR_ISA_AVX512_VNNI;
  return ASR_ISA_AMX;
}

#else

static gboolean
request_tiles (void)
{
  return FALSE;
}

static AsrIsa
detect_hardware (void)
{
  return ASR_ISA_C;
}

#endif

AsrIsa
asr_isa_detect (void)
{
  const char *wanted = g_getenv ("ASR_CPU_ISA");
  AsrIsa isa = detect_hardware ();

  for (guint i = 0; wanted && i < G_N_ELEMENTS (names); i++) {
    if (g_str_equal (wanted, names[i]))
      isa = MIN (isa, (AsrIsa) i);
  }
  if (isa == ASR_ISA_AMX && !request_tiles ())
    isa = ASR_ISA_AVX512_VNNI;
  return isa;
}
