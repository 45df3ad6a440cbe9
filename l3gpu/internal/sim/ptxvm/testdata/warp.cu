// What a warp's lanes say to each other.
typedef unsigned int u32;
typedef unsigned long long u64;
#define FULL 0xffffffffu

// scan is an inclusive prefix sum of each block's values; a block is any number of whole warps.
extern "C" __global__ void scan(const u32 *in, u32 *out, u32 n) {
    __shared__ u32 sums[32];
    u32 i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 v = i < n ? in[i] : 0;
    for (int d = 1; d < 32; d <<= 1) {
        u32 o = __shfl_up_sync(FULL, v, d);
        if (lane >= d) v += o;
    }
    if (lane == 31) sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        u32 s = lane < blockDim.x / 32 ? sums[lane] : 0;
        for (int d = 1; d < 32; d <<= 1) {
            u32 o = __shfl_up_sync(FULL, s, d);
            if (lane >= d) s += o;
        }
        sums[lane] = s;
    }
    __syncthreads();
    if (warp) v += sums[warp - 1];
    if (i < n) out[i] = v;
}

// talk writes 16 words a thread, each from another way of talking within a warp.
extern "C" __global__ void talk(const u32 *in, u32 *out) {
    u32 t = threadIdx.x, lane = t & 31, v = in[t], *o = out + 16 * t;
    o[0] = __shfl_sync(FULL, v, v & 31);
    o[1] = __shfl_down_sync(FULL, v, 3, 8);
    o[2] = __shfl_xor_sync(FULL, v, 5, 16);
    o[3] = __shfl_up_sync(FULL, v, 2, 4);
    o[4] = __ballot_sync(FULL, v & 1);
    o[5] = __any_sync(FULL, v == 7);
    o[6] = __all_sync(FULL, v < 1000);
    o[7] = __popc(__ballot_sync(FULL, v & 4) & ((1u << lane) - 1));
    o[8] = __match_any_sync(FULL, v & 3);
    u64 w = __shfl_xor_sync(FULL, (u64)v << 20, 1);
    o[9] = (u32)(w >> 4);
    u32 mask = __ballot_sync(FULL, lane < 20);
    if (lane < 20) {
        o[10] = __shfl_sync(mask, v, 19 - lane);
        o[11] = __activemask();
    } else {
        o[10] = o[11] = 1;
    }
    __syncwarp();
    o[12] = __shfl_sync(FULL, o[10], (lane + 1) & 31);
#if __CUDA_ARCH__ >= 800
    o[13] = __reduce_add_sync(FULL, v);
    o[14] = __reduce_max_sync(FULL, v) ^ __reduce_or_sync(FULL, v);
#else
    o[13] = o[14] = 0;
#endif
    int p;
    o[15] = __match_all_sync(FULL, v >> 31, &p) + p;
}

// collatz diverges: each thread has a loop of another length, with a branch inside.
extern "C" __global__ void collatz(const u32 *in, u32 *out, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u32 v = in[i], steps = 0;
    while (v != 1) {
        if (v & 1) v = 3 * v + 1;
        else v /= 2;
        steps++;
        if (steps > 500) break;
    }
    out[i] = steps;
}

// pick has a switch that becomes a table of branches.
extern "C" __global__ void pick(const u32 *in, u32 *out) {
    u32 v = in[threadIdx.x], r;
    switch (v % 9) {
    case 0: r = v * 3; break;
    case 1: r = v + 17; __threadfence(); break;
    case 2: r = v ^ 0x5555; break;
    case 3: r = __brev(v); break;
    case 4: r = __popc(v); break;
    case 5: r = __clz(v); __threadfence_block(); break;
    case 6: r = v >> 3; break;
    case 7: r = __ffs(v); break;
    default: r = ~v;
    }
    out[threadIdx.x] = r;
}
