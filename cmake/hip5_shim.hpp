#pragma once

// The headers of ROCm 5 name an intrinsic of LLVM that LLVM 17 dropped. Where a newer clang compiles with them (Debian
// 12 has ROCm 5.2 and clang 19), these functions take the builtin that replaced it.
#if defined(__HIP__) && __clang_major__ >= 17
#include <hip/hip_version.h>
#if HIP_VERSION_MAJOR < 6
#define atomicInc atomic_inc_before_llvm_17
#define atomicDec atomic_dec_before_llvm_17
#include <hip/hip_runtime.h>
#undef atomicInc
#undef atomicDec

__device__ inline unsigned int atomicInc(unsigned int* address, unsigned int most) {
  return __builtin_amdgcn_atomic_inc32(address, most, __ATOMIC_RELAXED, "agent");
}

__device__ inline unsigned int atomicDec(unsigned int* address, unsigned int most) {
  return __builtin_amdgcn_atomic_dec32(address, most, __ATOMIC_RELAXED, "agent");
}
#endif
#endif
