// Bytes, wide numbers, tables and floating point.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// simd writes 32 words for each pair of words.
extern "C" __global__ void simd(const uint2 *in, u32 *out) {
    u32 t = blockIdx.x * blockDim.x + threadIdx.x;
    uint2 p = in[t];
    u32 a = p.x, b = p.y, *o = out + 32 * t;
    o[0] = __vadd4(a, b);
    o[1] = __vsub4(a, b);
    o[2] = __vavgu4(a, b);
    o[3] = __vabsdiffu4(a, b);
    o[4] = __vminu4(a, b);
    o[5] = __vmaxu4(a, b);
    o[6] = __vmins4(a, b);
    o[7] = __vmaxs4(a, b);
    o[8] = __vcmpgtu4(a, b);
    o[9] = __vcmpeq4(a, b);
    o[10] = __vsadu4(a, b);
    o[11] = __vaddus4(a, b);
    o[12] = __vsubus4(a, b);
    o[13] = __byte_perm(a, b, a);
    o[14] = __byte_perm(a, b, 0x3715);
    o[15] = __funnelshift_r(a, b, a >> 24);
    o[16] = __funnelshift_l(a, b, b & 31);
    o[17] = __funnelshift_rc(a, b, b & 63);
    o[18] = __popc(a);
    o[19] = __ffs(b);
    o[20] = __clz(a >> (b & 31));
    o[21] = __brev(a);
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(o[22]) : "r"(a), "r"(b), "r"(100));
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(o[23]) : "r"(a), "r"(b), "r"(7));
    o[24] = (u32)__mulhi((int)a, (int)b);
    o[25] = __umulhi(a, b);
    o[26] = (a >> (b & 15)) & 0x1ff;
    o[27] = (u32)(((int)a << 7) >> 20);
    o[28] = __vavgs4(a, b);
    o[29] = __vadd2(a, b);
    o[30] = __vabs4(a);
    o[31] = __usad(a, b, 5) + (a & b | ~a & 0x00ff00ff);
}

// wide writes 16 numbers of 64 bits for each pair.
extern "C" __global__ void wide(const u64 *in, u64 *out) {
    u32 t = blockIdx.x * blockDim.x + threadIdx.x;
    u64 a = in[2 * t], b = in[2 * t + 1], *o = out + 16 * t;
    o[0] = a + b;
    o[1] = a * b;
    o[2] = b ? a / b : 0;
    o[3] = b ? a % b : 0;
    o[4] = (b | 1) == ~0ull ? 0 : (i64)a / (i64)(b | 1);
    o[5] = a << (b & 63);
    o[6] = (u64)((i64)a >> (b & 63));
    o[7] = __umul64hi(a, b);
    o[8] = (u64)__popcll(a) << 32 | (u32)__clzll(b) << 8 | (u32)__ffsll(a);
    o[9] = __brevll(a);
    o[10] = (u64)(u32)a * (u32)b + a;
    o[11] = (u64)((i64)(int)a * (int)b);
    o[12] = a > b ? a - b : b - a;
    o[13] = (i64)a < (i64)b ? a & b : a ^ b;
    o[14] = (u64)(i64)(signed char)a + (u16)b;
    o[15] = (u64)__mul64hi(a, b);
}

__constant__ u16 table[32] = {1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987,
    1597, 2584, 4181, 6765, 10946, 17711, 28657, 46368, 9, 8, 7, 6, 5, 4, 3, 2};
__device__ u8 order[64] = {0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5};
__device__ const u16 *const pointer = table + 3;
__constant__ float weights[4] = {0.5f, -1.25f, 3.0f, 1e-3f};
__constant__ u32 set;

// tables looks things up: constant, global, and a local array filled at run time.
extern "C" __global__ void tables(const u8 *in, u32 *out) {
    u32 t = blockIdx.x * blockDim.x + threadIdx.x;
    u8 local[16];
    for (int i = 0; i < 16; i++) local[(i * 5 + in[t]) & 15] = (u8)(i * i);
    u32 v = in[t];
    out[t] = table[v & 31] + order[v & 63] * 65536u + local[v & 15] * 7 + pointer[v & 7] + (u32)(weights[v & 3] * 1000.f) + set;
}

struct Job {
    const u8 *in;
    float *out;
    u32 n;
    float scale[3], shift[3];
    short step;
};

// normalise takes its arguments by value, bytes to floats.
extern "C" __global__ void normalise(const Job j) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * j.step >= j.n) return;
    u32 c = i % 3;
    float v = (j.in[i * j.step] * (1 / 255.f) - j.shift[c]) / j.scale[c];
    j.out[2 * i] = v;
    j.out[2 * i + 1] = (float)(int)(v * 100) + sqrtf((float)i) + rintf(v) + floorf(v) + (float)((double)v * 1.1);
}

struct __align__(16) Quad { u32 a, b, c, d; };

// copy moves 16 bytes at a time, around the cache.
extern "C" __global__ void __launch_bounds__(128, 4) copy(const Quad *__restrict__ in, Quad *__restrict__ out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        Quad q = in[i];
        q.a = ~q.a;
        __stcs((uint4 *)out + i, make_uint4(q.a, q.b, q.c, q.d));
    }
}
