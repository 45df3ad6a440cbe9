// Decoders of L3 files, both versions of docs/l3.md. Each warp takes one patch of the
// list that the host made, and needs no other warp. doc.go describes the records.

template <bool C, class A, class B>
struct std_conditional {
  typedef A type;
};
template <class A, class B>
struct std_conditional<false, A, B> {
  typedef B type;
};

#include "abi.cuh"
#include "place.cuh"
#include "v1.cuh"
#include "v2blocks.cuh"
#include "v2rice.cuh"
#include "v2pixel.cuh"
#include "v2.cuh"

// blocks is how many of them a multiprocessor is to hold, which limits the registers; more
// do not fit into its shared memory.
#define ENTRY(name, version, blocks, memory, ...)                                                                                \
  extern "C" __global__ void __launch_bounds__(WARPS *LANES, blocks)                                                             \
      name(const Picture *pictures, const Patch *patches, u32 count, u32 *status) {                                              \
    __shared__ version::memory shared[WARPS];                                                                                    \
    const u32 warp = threadIdx.x / LANES, i = blockIdx.x * WARPS + warp;                                                         \
    if (i < count) version::decode<__VA_ARGS__>(pictures[patches[i].picture], patches[i], status, shared[warp]);                 \
  }

ENTRY(l3v1_1, v1, 16, Memory<1>, 1)
ENTRY(l3v1_3, v1, 16, Memory<3>, 3)
#define COMMA ,
ENTRY(l3v2_1, v2, 16, Memory<1 COMMA false>, 1, false)
ENTRY(l3v2_2, v2, 12, Memory<2 COMMA false>, 2, false)
ENTRY(l3v2_3, v2, 12, Memory<3 COMMA false>, 3, false)
ENTRY(l3v2_4, v2, 11, Memory<4 COMMA false>, 4, false)
ENTRY(l3v2_1w, v2, 12, Memory<1 COMMA true>, 1, true)
ENTRY(l3v2_2w, v2, 10, Memory<2 COMMA true>, 2, true)
ENTRY(l3v2_3w, v2, 7, Memory<3 COMMA true>, 3, true)
ENTRY(l3v2_4w, v2, 7, Memory<4 COMMA true>, 4, true)
