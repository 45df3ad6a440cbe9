// How samples are written to their destination. A quad is four samples of one
// channel that lie side by side in a row; its samples are the bytes of a word, or with
// 16 bits the halves of two.

// How a quad is written.
enum Kind { PIXELS, REVERSED, PLANES, SAMPLES };

// The destination of a patch.
struct Place {
  u64 dst;         // its first sample
  int row, pixel;  // the host has refused those that take more bits
  i64 channel;
  u32 output;
  Kind kind;
  const Picture *picture;
};

template <int S, bool WIDE>
__device__ Place place_of(const Picture &picture, u32 x, u32 y) {
  Place p = {picture.dst + y * picture.row + x * picture.pixel, (int)picture.row, (int)picture.pixel, picture.channel, picture.output, SAMPLES, &picture};
  if (!WIDE && p.output == AS_STORED) {
    if (p.pixel == S && (S == 1 || p.channel == 1)) p.kind = PIXELS;
    if (p.pixel == S && S > 1 && p.channel == -1) p.kind = REVERSED;
    if (p.pixel == 1 && S > 1) p.kind = PLANES;
  }
  return p;
}

template <bool WIDE>
struct Quad {
  u32 v[WIDE ? 2 : 1];
  __device__ u32 at(int i) const {
    return WIDE ? v[WIDE ? i / 2 : 0] >> (i % 2 * 16) & 0xffff : v[0] >> (8 * i) & 0xff;
  }
};

// normal is a sample as a number: the product and the sum are rounded one after the
// other, so that a processor gets the same bits.
__device__ float normal(const Place &p, u32 v, int c) {
  return __fadd_rn(__fmul_rn((float)v, p.picture->scale[c]), p.picture->bias[c]);
}

// half_bits rounds to the nearest half, to even if there are two.
__device__ u32 half_bits(float f) {
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}

// put writes one sample.
template <bool WIDE>
__device__ void put(const Place &p, u64 a, u32 v, int c) {
  if (p.output == FLOAT32)
    store32(a, __float_as_uint(normal(p, v, c)));
  else if (p.output == FLOAT16)
    store16(a, half_bits(normal(p, v, c)));
  else if (WIDE)
    store16(a, v);
  else
    store8(a, v);
}

// words writes N words that follow one another; a has to be a multiple of 4.
template <int N>
__device__ void words(u64 a, const u32 *w) {
  if (N % 4 == 0 && a % 16 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 4) store128(a + 4 * i, w[i], w[(i + 1) % N], w[(i + 2) % N], w[(i + 3) % N]);
  } else if (N % 2 == 0 && a % 8 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 2) store64(a + 4 * i, w[i], w[(i + 1) % N]);
  } else {
#pragma unroll
    for (int i = 0; i < N; i++) store32(a + 4 * i, w[i]);
  }
}

// interleaved makes pixels of S bytes of the words of S channels; the first one is the
// lowest byte.
template <int S>
__device__ void interleaved(u32 *w, const u32 *v) {
  if (S == 1) {
    w[0] = v[0];
  } else if (S == 2) {
    w[0] = __byte_perm(v[0], v[S > 1], 0x5140);
    w[1] = __byte_perm(v[0], v[S > 1], 0x7362);
  } else if (S == 3) {
    u32 r = v[0], g = v[S > 1], b = v[S > 2 ? 2 : 0];
    w[0] = __byte_perm(__byte_perm(r, g, 0x1040), b, 0x3410);
    w[1] = __byte_perm(__byte_perm(g, b, 0x2051), r, 0x3610);
    w[2] = __byte_perm(__byte_perm(r, g, 0x0730), b, 0x7216);
  } else {
    u32 a = __byte_perm(v[0], v[S > 1], 0x5140), b = __byte_perm(v[0], v[S > 1], 0x7362);
    u32 c = __byte_perm(v[S > 2 ? 2 : 0], v[S > 3 ? 3 : 0], 0x5140), d = __byte_perm(v[S > 2 ? 2 : 0], v[S > 3 ? 3 : 0], 0x7362);
    w[0] = __byte_perm(a, c, 0x5410);
    w[1] = __byte_perm(a, c, 0x7632);
    w[2] = __byte_perm(b, d, 0x5410);
    w[3] = __byte_perm(b, d, 0x7632);
  }
}

// place_sample writes one sample of each channel.
template <int S, bool WIDE>
__device__ void place_sample(const Place &p, int x, int y, const Quad<WIDE> *quads, int i) {
  u64 a = p.dst + (i64)y * p.row + (i64)x * p.pixel;
#pragma unroll
  for (int c = 0; c < S; c++) put<WIDE>(p, a + c * p.channel, quads[c].at(i), c);
}

// place_quad writes four whole pixels, the first one at x, y of the patch.
template <int S, bool WIDE>
__device__ void place_quad(const Place &p, int x, int y, const Quad<WIDE> *quads) {
  u64 a = p.dst + (i64)y * p.row + (i64)x * p.pixel;
  u32 w[4 * S];
  if (!WIDE && p.kind <= REVERSED) {
    // In the order of memory.
    u64 lowest = p.kind == REVERSED ? a - (S - 1) : a;
    if (lowest % 4 == 0) {
      u32 v[S];
#pragma unroll
      for (int c = 0; c < S; c++) v[c] = p.kind == REVERSED ? quads[S - 1 - c].v[0] : quads[c].v[0];
      interleaved<S>(w, v);
      words<S>(lowest, w);
      return;
    }
  } else if (!WIDE && p.kind == PLANES && (a | p.channel) % 4 == 0) {
#pragma unroll
    for (int c = 0; c < S; c++) store32(a + c * p.channel, quads[c].v[0]);
    return;
  }
  if (p.output == FLOAT32) {
#pragma unroll
    for (int c = 0; c < S; c++)
#pragma unroll
      for (int i = 0; i < 4; i++) w[c * 4 + i] = __float_as_uint(normal(p, quads[c].at(i), c));
    if (p.pixel == 4) {
#pragma unroll
      for (int c = 0; c < S; c++) words<4>(a + c * p.channel, w + 4 * c);
      return;
    }
    if (p.pixel == 4 * S && p.channel == 4) {
      u32 t[4 * S];
#pragma unroll
      for (int i = 0; i < 4 * S; i++) t[i] = w[i % S * 4 + i / S];
      words<4 * S>(a, t);
      return;
    }
  }
  if (p.pixel == 2 && (a | p.channel) % 4 == 0) {  // halves or samples of 16 bits, channel by channel
#pragma unroll
    for (int c = 0; c < S; c++) {
      u32 t[2];
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        u32 low = quads[c].at(i), high = quads[c].at(i + 1);
        if (p.output == FLOAT16) low = half_bits(normal(p, low, c)), high = half_bits(normal(p, high, c));
        t[i / 2] = low | high << 16;
      }
      words<2>(a + c * p.channel, t);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; i++) place_sample<S, WIDE>(p, x + i, y, quads, i);
}
