// What the host and the kernels agree on, and how memory is reached.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#include "records.cuh"

#define ALL 0xffffffffu

// The lowest patch of a picture that is refused is the one that counts, as it does
// where patches are decoded one after the other.
__device__ void refuse(u32 *status, const Patch &patch, u32 why) {
  if (threadIdx.x % LANES == 0) atomicMin(status + patch.picture, patch.index << 4 | why);
}

// Addresses come from records, so that the compiler cannot know that they are global.
__device__ void store8(u64 a, u32 v) { asm volatile("st.global.u8 [%0], %1;" ::"l"(a), "r"(v) : "memory"); }
__device__ void store16(u64 a, u32 v) { asm volatile("st.global.u16 [%0], %1;" ::"l"(a), "h"((u16)v) : "memory"); }
__device__ void store32(u64 a, u32 v) { asm volatile("st.global.u32 [%0], %1;" ::"l"(a), "r"(v) : "memory"); }
__device__ void store64(u64 a, u32 v, u32 w) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(a), "r"(v), "r"(w) : "memory");
}
__device__ void store128(u64 a, u32 v, u32 w, u32 x, u32 y) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(a), "r"(v), "r"(w), "r"(x), "r"(y) : "memory");
}
// Files do not change while they are decoded.
__device__ u32 load32(u64 a) {
  u32 v;
  asm("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(a));
  return v;
}
__device__ u32 load8(u64 a) {
  u32 v;
  asm("ld.global.nc.u8 %0, [%1];" : "=r"(v) : "l"(a));
  return v;
}
// A scratch row does.
__device__ u32 load_back16(u64 a) {
  u16 v;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(a) : "memory");
  return v;
}

// unpack4 makes bytes of 4 fields of n bits, which begin at bit 0 of x; n is at most 8.
struct Fields {
  u32 n, n2, mask, gap;
  __device__ explicit Fields(u32 bits) {
    n = bits;
    n2 = 2 * bits;
    // Multiplications, because the multipliers have less to do than the shifters and
    // adders, which the compiler would use.
    const u32 power = 1u << bits;
    asm("mad.lo.u32 %0, %1, 0x10001, -0x10001;" : "=r"(mask) : "r"(power));
    asm("mad.lo.u32 %0, %1, %2, 0x10000;" : "=r"(gap) : "r"(power), "r"(0 - power));
  }
  __device__ u32 unpack4(u32 x) const {
    // The upper two fields move to the upper half; the bits above them are undefined.
    x += (x >> n2) * gap;
    return (x & mask) + ((x >> n) & mask) * 256;
  }
};

// add4 adds bytes.
__device__ u32 add4(u32 a, u32 b) { return ((a & 0x7f7f7f7f) + (b & 0x7f7f7f7f)) ^ ((a ^ b) & 0x80808080); }
