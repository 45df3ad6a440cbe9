// Each kernel has one mistake.
typedef unsigned char u8;
typedef unsigned int u32;

extern "C" __global__ void overrun(u8 *p, u32 n) { p[threadIdx.x + n] = 1; }

extern "C" __global__ void misaligned(u8 *p) { *(u32 *)(p + threadIdx.x) = 1; }

extern "C" __global__ void unwritten(const u32 *in, u32 *out) { out[threadIdx.x] = in[threadIdx.x] + 1; }

extern "C" __global__ void race(u32 *out) {
    __shared__ u32 s[64];
    s[threadIdx.x] = 0;
    __syncthreads();
    s[threadIdx.x] = threadIdx.x + 1;
    out[threadIdx.x] = s[63 - threadIdx.x];
}

extern "C" __global__ void warprace(u32 *out) {
    __shared__ u32 s[32];
    s[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = s[31 - threadIdx.x];
}

extern "C" __global__ void overwrite(u32 *out) {
    __shared__ u8 s[64];
    s[threadIdx.x / 2] = (u8)threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void deadlock(u32 *out) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");
    else asm volatile("bar.sync 2, 64;");
    out[threadIdx.x] = 1;
}

extern "C" __global__ void absent(u32 *out) {
    if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffffffffu, threadIdx.x, 0);
    else asm volatile("bar.sync 1;");
}

extern "C" __global__ void endless(volatile u32 *p) {
    while (p[0] != 1) {}
}

extern "C" __global__ void trapped(u32 *p) {
    if (p[0] != 1) __trap();
    p[1] = 2;
}

extern "C" __global__ void sharedrun(u32 *out, u32 n) {
    __shared__ u32 s[32];
    s[threadIdx.x] = 0;
    __syncwarp();
    out[threadIdx.x] = s[threadIdx.x + n];
}

extern "C" __global__ void unset(u32 *out) {
    __shared__ u32 s[32];
    if (threadIdx.x != 3) s[threadIdx.x] = 0;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
