// Shared memory and atomics.
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// transpose turns tiles of 32 x 32 by way of shared memory, 32 x 8 threads.
extern "C" __global__ void transpose(const u32 *in, u32 *out, int w, int h) {
    __shared__ u32 tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (x < w && y + i < h) tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * w + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (x < h && y + i < w) out[(y + i) * h + x] = tile[threadIdx.x][threadIdx.y + i];
}

// histogram counts bytes, first in shared memory of a size the launch gives.
extern "C" __global__ void histogram(const u8 *in, u32 n, u32 *out, u64 *sum) {
    extern __shared__ u32 count[];
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x) count[i] = 0;
    __syncthreads();
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&count[in[i]], 1);
        atomicAdd(sum, (u64)in[i]);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], count[i]);
}

// atomics has each operation once.
extern "C" __global__ void atomics(const int *in, int *out) {
    int v = in[blockIdx.x * blockDim.x + threadIdx.x];
    atomicMax(&out[0], v);
    atomicMin(&out[1], v);
    atomicOr((u32 *)&out[2], v);
    atomicAnd((u32 *)&out[3], v);
    atomicXor((u32 *)&out[4], v);
    atomicSub(&out[5], v);
    atomicInc((u32 *)&out[6], 9);
    int old = out[7], seen;
    do {
        seen = old;
        old = atomicCAS(&out[7], seen, seen + (v & 7));
    } while (old != seen);
    int was = atomicExch(&out[8], v);
    atomicAdd(&out[9], was);
    atomicMax((unsigned long long *)(out + 10), (u64)(u32)v << 8);
}

// reduce sums with warp barriers in place of block barriers at the end.
extern "C" __global__ void reduce(const u32 *in, u32 *out) {
    __shared__ volatile u32 s[256];
    u32 t = threadIdx.x;
    s[t] = in[blockIdx.x * 256 + t];
    for (int d = 128; d >= 32; d >>= 1) {
        __syncthreads();
        if (t < d) s[t] += s[t + d];
    }
    if (t < 32) {
        for (int d = 16; d; d >>= 1) {
            __syncwarp();
            u32 v = s[t + d];
            __syncwarp();
            s[t] = s[t] + v;
        }
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

// pipeline fetches ahead of itself with asynchronous copies, two buffers, where the GPU has them.
extern "C" __global__ void pipeline(const u32 *in, u32 *out, int rounds) {
    __shared__ __align__(16) u32 buf[2][128];
    u32 t = threadIdx.x;
#if __CUDA_ARCH__ >= 800
    u32 dst = (u32)__cvta_generic_to_shared(&buf[0][t]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n\tcp.async.commit_group;" ::"r"(dst), "l"(in + t) : "memory");
#else
    buf[0][t] = in[t];
#endif
    u32 acc = 0;
    for (int r = 0; r < rounds; r++) {
        if (r + 1 < rounds) {
#if __CUDA_ARCH__ >= 800
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(dst + 512 * ((r + 1) & 1)), "l"(in + 128 * (r + 1) + t) : "memory");
#else
            buf[(r + 1) & 1][t] = in[128 * (r + 1) + t];
#endif
        }
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 1;" ::: "memory");
#endif
        __syncthreads();
        acc = acc * 31 + buf[r & 1][127 - t];
        __syncthreads();
    }
    out[t] = acc;
}

// named has a producing and a consuming half, with a barrier of its own each way.
extern "C" __global__ void named(const u32 *in, u32 *out) {
    __shared__ u32 box[32];
    u32 t = threadIdx.x & 31;
    for (int r = 0; r < 4; r++) {
        if (threadIdx.x < 32) {
            box[t] = in[r * 32 + t] * 2;
            asm volatile("bar.arrive 1, 64;" ::: "memory");
            asm volatile("bar.sync 2, 64;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            out[r * 32 + t] = box[31 - t];
            asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
    }
}
