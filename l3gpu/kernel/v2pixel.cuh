// Pixels of version 2 while they are decoded. All channels of a pixel lie in a word, or
// two, so that they move together; for arithmetic they lie in pairs, two samples of up to
// 16 bits side by side in a word.

namespace v2 {

// Pixel is what a pixel is stored as. Samples of 16 bits lie in their order. Those of 8
// bits lie where pairs are easily had: channels 0, 3, 2, 1; of two channels 0, -, 1, -.
template <int S, bool WIDE>
struct Pixel {
  static const int BYTES = S == 1 ? (WIDE ? 2 : 1) : WIDE && S > 2 ? 8 : 4;
  static const int WORDS = BYTES == 8 ? 2 : 1;
  static const int PAIRS = WIDE ? WORDS : S > 2 ? 2 : 1;
  static const u32 EVEN = 0x00ff00ff;
  u32 w[WORDS];

  // byte says where byte i of the samples is, channel by channel.
  static __device__ int byte(int i) { return WIDE || S == 1 ? i : S == 2 ? 2 * i : -i & 3; }

  static __device__ Pixel load(const u32 *p, u32 i) {
    if (BYTES == 1) return {((const u8 *)p)[i]};
    if (BYTES == 2) return {((const u16 *)p)[i]};
    if (BYTES == 4) return {p[i]};
    uint2 v = ((const uint2 *)p)[i];
    Pixel x;
    x.w[0] = v.x, x.w[WORDS - 1] = v.y;
    return x;
  }
  __device__ void save(u32 *p, u32 i) const {
    if (BYTES == 1)
      ((u8 *)p)[i] = w[0];
    else if (BYTES == 2)
      ((u16 *)p)[i] = w[0];
    else if (BYTES == 4)
      p[i] = w[0];
    else
      ((uint2 *)p)[i] = make_uint2(w[0], w[WORDS - 1]);
  }

  __device__ u32 sample(int c) const { return WIDE ? w[WORDS > 1 ? c / 2 : 0] >> 16 * (c % 2) & 0xffff : w[0] >> 8 * byte(c) & 0xff; }
  __device__ void set(int c, u32 v) { w[WIDE && WORDS > 1 ? c / 2 : 0] |= v << (WIDE ? 16 * (c % 2) : 8 * byte(c)); }

  // A pair's word has two samples and zeros.
  __device__ u32 pair(int i) const {
    if (WIDE) return w[WORDS > 1 ? i : 0];
    if (S <= 2) return w[0];
    return i == 0 ? w[0] & EVEN : S == 3 ? w[0] >> 24 : w[0] >> 8 & EVEN;
  }
  static __device__ Pixel of(const u32 *pairs) {
    Pixel x;
    x.w[0] = pairs[0];
    if (WIDE && WORDS > 1) x.w[WORDS - 1] = pairs[PAIRS - 1];
    if (!WIDE && PAIRS > 1) x.w[0] += pairs[PAIRS - 1] << (S == 3 ? 24 : 8);
    return x;
  }

  // residuals is a pair of the residuals that unpack left, with anything in its uppermost
  // byte if samples have 8 bits. Those of 16 bits are still zigzag-coded.
  __device__ u32 residuals(int i) const {
    if (!WIDE) return S == 3 && i == 0 ? w[0] : pair(i);
    u32 v = pair(i);
    return v >> 1 & 0x7fff7fff ^ (v & 0x00010001) * 0xffff;
  }
};

// join makes four pixels of the words that have 4 bytes of each channel, with 16 bits
// first their low bytes and then their high ones; they follow each other.
template <int S, bool WIDE>
__device__ void join(u32 *out, const u32 *v) {
  if (S == 1 && !WIDE) {
    out[0] = v[0];
  } else if (WIDE) {
    u32 t[4][2];  // two samples of a channel
#pragma unroll
    for (int c = 0; c < 4; c++) {
      t[c][0] = c < S ? __byte_perm(v[c < S ? 2 * c : 0], v[c < S ? 2 * c + 1 : 0], 0x5140) : 0;
      t[c][1] = c < S ? __byte_perm(v[c < S ? 2 * c : 0], v[c < S ? 2 * c + 1 : 0], 0x7362) : 0;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (S == 1) {
        if (i < 2) out[i] = t[0][i];
        continue;
      }
      const int words = S == 2 ? 1 : 2;
#pragma unroll
      for (int k = 0; k < words; k++) out[i * words + k] = __byte_perm(t[2 * k][i / 2], t[2 * k + 1][i / 2], i % 2 == 0 ? 0x5410 : 0x7632);
    }
  } else if (S == 2) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      u32 both = __byte_perm(v[0], v[S > 1], i == 0 ? 0x5140 : 0x7362);
      out[i] = __byte_perm(both, 0, 0x4140);
      out[i + 1] = __byte_perm(both, 0, 0x4342);
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const u32 order = i == 0 ? 0x5140 : 0x7362;
      u32 low = __byte_perm(v[0], S == 3 ? 0 : v[S > 3 ? 3 : 0], order), high = __byte_perm(v[S > 2 ? 2 : 0], v[S > 1], order);
      out[i] = __byte_perm(low, high, 0x5410);
      out[i + 1] = __byte_perm(low, high, 0x7632);
    }
  }
}

// part is the reverse of join, for pixels in a row of which at is the first; a row has
// COUNT, and begins again then.
template <int S, bool WIDE, int COUNT>
__device__ void part(Quad<WIDE> *q, const u32 *row, u32 at) {
  if constexpr (S == 1) {
    const u32 count = COUNT * Pixel<S, WIDE>::BYTES / 4, word = at * Pixel<S, WIDE>::BYTES / 4, shift = at * Pixel<S, WIDE>::BYTES * 8;
    u32 next = row[(word + 1) % count];
    q[0].v[0] = __funnelshift_r(row[word % count], next, shift);
    if (WIDE) q[0].v[WIDE] = __funnelshift_r(next, row[(word + 2) % count], shift);
  } else {
    Pixel<S, WIDE> p[4];
#pragma unroll
    for (int i = 0; i < 4; i++) p[i] = Pixel<S, WIDE>::load(row, (at + i) % COUNT);
    if (WIDE) {
#pragma unroll
      for (int c = 0; c < S; c++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
          const int k = Pixel<S, WIDE>::WORDS > 1 ? c / 2 : 0;
          q[c].v[WIDE ? i : 0] = __byte_perm(p[2 * i].w[k], p[2 * i + 1].w[k], c % 2 == 0 ? 0x5410 : 0x7632);
        }
      return;
    }
    const u32 order = S == 2 ? 0x6240 : 0x7340;
    u32 a = __byte_perm(p[0].w[0], p[1].w[0], order), b = __byte_perm(p[2].w[0], p[3].w[0], order);
    q[0].v[0] = __byte_perm(a, b, 0x5410);
    q[S > 1].v[0] = __byte_perm(a, b, 0x7632);
    if (S == 2) return;
    a = __byte_perm(p[0].w[0], p[1].w[0], 0x5162), b = __byte_perm(p[2].w[0], p[3].w[0], 0x5162);
    q[S > 2 ? 2 : 0].v[0] = __byte_perm(a, b, 0x5410);
    if (S > 3) q[S > 3 ? 3 : 0].v[0] = __byte_perm(a, b, 0x7632);
  }
}

// add2 adds, and sub2 subtracts, two numbers of 16 bits.
__device__ u32 add2(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 900
  u32 sum;
  asm("add.u16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
#else
  return (a & 0x7fff7fff) + (b & 0x7fff7fff) ^ (a ^ b) & 0x80008000;
#endif
}
__device__ u32 sub2(u32 a, u32 b) { return (a | 0x80008000) - (b & 0x7fff7fff) ^ (a ^ ~b) & 0x80008000; }

// average2 is their average, rounded up.
__device__ u32 average2(u32 a, u32 b) { return (a | b) - ((a ^ b) >> 1 & 0x7fff7fff); }

// clamped moves tl to between l and t, for two at a time. Older GPUs do so one by one.
__device__ u32 clamped(u32 tl, u32 l, u32 t) {
#if __CUDA_ARCH__ >= 900
  u32 v;
  asm("{.reg .b32 low, high;\n"
      "min.u16x2 low, %2, %3;\n"
      "max.u16x2 high, %2, %3;\n"
      "max.u16x2 low, low, %1;\n"
      "min.u16x2 %0, low, high;}"
      : "=r"(v)
      : "r"(tl), "r"(l), "r"(t));
  return v;
#else
  u32 a = l & 0xffff, b = t & 0xffff, c = l >> 16, d = t >> 16;
  u32 low = min(max(tl & 0xffff, min(a, b)), max(a, b)), high = min(max(tl >> 16, min(c, d)), max(c, d));
  return low | high << 16;
#endif
}

}  // namespace v2
