// Blocks of version 2, see "Version 2: a patch" in docs/l3.md: codes, raw parts and the
// planes of Rice codes.

namespace v2 {

const u32 RICE = 9, PLANES = 8, MAX_QUOTIENTS = 56, HEAD = 4, STREAMS = 8;

// A bit for each sample of a block, the first 32 in the low word.
struct Plane {
  u32 low, high;
};

// units is the length of a block's raw part in units of 8 bytes.
__device__ u32 units(u32 code) { return code < RICE ? code : code - 8; }

// sum_codes adds the lengths of the raw parts of 8 codes, and says if there are Rice
// codes.
__device__ u32 sum_codes(u32 x, u32 &rice) {
  // The length is the lower three bits, except that of 8, which is 8.
  u32 top = x >> 3 & 0x11111111, some = (x | x >> 1 | x >> 2) & 0x11111111;
  rice |= top & some;
  u32 n = (x & 0x07070707) + (x >> 4 & 0x07070707);
  return (n * 0x01010101u >> 24) + 8 * __popc(top & ~some);
}

// window returns 8 bytes from any place on. Of the words that they lie in none is read
// that begins at end or after it.
__device__ Plane window(u64 src, u32 at, u32 end) {
  u32 word = at & ~3u;
  u32 a = load32(src + word), b = load32(src + word + 4), c = word + 8 < end ? load32(src + word + 8) : 0;
  return {__funnelshift_r(a, b, at * 8), __funnelshift_r(b, c, at * 8)};
}

// expand4 moves the lowest bits of each byte of x to where that byte of mask is set: by
// 4, by 2 and by 1, if there are so many more zeros of the mask below. It is the
// reverse of taking those bits out, from which it has the bits that move in each step.
__device__ u32 expand4(u32 x, u32 mask) {
  u32 m = mask, zeros = ~m << 1 & 0xfefefefe, moved[3];
#pragma unroll
  for (int i = 0; i < 3; i++) {
    u32 odd = zeros ^ zeros << 1 & 0xfefefefe;  // how many zeros are below, modulo 2
    odd ^= odd << 2 & 0xfcfcfcfc;
    odd ^= odd << 4 & 0xf0f0f0f0;
    moved[i] = odd & m;
    m = m ^ moved[i] | moved[i] >> (1 << i);
    zeros &= ~odd;
  }
#pragma unroll
  for (int i = 2; i >= 0; i--) x = x & ~moved[i] | x << (1 << i) & moved[i];
  return x & mask;
}

// split4 gives each byte of a mask the bits of x that are meant for it, and some more.
__device__ u32 split4(u32 x, u32 mask) {
  u32 n = mask - (mask >> 1 & 0x55555555);
  n = (n & 0x33333333) + (n >> 2 & 0x33333333);
  n = ((n + (n >> 4)) & 0x0f0f0f0f) * 0x01010100;  // bits of the bytes below
  u32 low = __byte_perm(x, __funnelshift_r(x, 0, n >> 8), 0x0040);
  return __byte_perm(low, __byte_perm(__funnelshift_r(x, 0, n >> 16), __funnelshift_r(x, 0, n >> 24), 0x0040), 0x5410);
}

// deposit moves the lowest bits of x to where mask is set. Where there may be MANY it does
// so for 4 bytes at a time, else for a bit after the other: bit k of x goes to the one by
// which the mask differs from itself without its lowest, after k have been taken away. So
// the sum of all is, modulo 2, that of the masks where x changes.
template <bool MANY>
__device__ Plane deposit(Plane x, Plane mask) {
  u32 second = __funnelshift_rc(x.low, x.high, __popc(mask.low));
  if (MANY) return {expand4(split4(x.low, mask.low), mask.low), expand4(split4(second, mask.high), mask.high)};
  u32 low = 0, high = 0, a = x.low ^ x.low << 1, b = second ^ second << 1;
  while (mask.low | mask.high) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      if (a >> i & 1) low ^= mask.low;
      if (b >> i & 1) high ^= mask.high;
      mask.low &= mask.low - 1;
      mask.high &= mask.high - 1;
    }
    a >>= 2, b >>= 2;
  }
  return {low, high};
}

// before is the sum of what the lanes before have; total that of all.
__device__ u32 before(u32 v, u32 &total) {
  const u32 lane = threadIdx.x % LANES;
  u32 sum = v;
#pragma unroll
  for (int d = 1; d < LANES; d *= 2) {
    u32 s = __shfl_up_sync(ALL, sum, d);
    if (lane >= d) sum += s;
  }
  total = __shfl_sync(ALL, sum, LANES - 1);
  return sum - v;
}

// Reader is what a warp knows of the patch that it decodes. Offsets are counted from
// its beginning.
struct Reader {
  u64 src;
  u32 length;         // of the patch
  u32 readable;       // of the patch and what follows it
  u32 codes;          // the next code word
  u32 words;          // how many there are left
  u32 raw;            // the raw part of the next block
  u32 pos[STREAMS];   // the bits of the streams that are next
};

// open checks the head of a patch, and finds its parts. The result is 0 or a Refusal.
template <int S>
__device__ u32 open(Reader &r, u32 count, u32 &head) {
  const u32 lane = threadIdx.x % LANES;
  r.readable = (r.length + 15 & ~15u) + 8;
  if (r.length < HEAD) return TRUNCATED;
  head = load32(r.src);
  u32 colour = head & 0xff, predictors = head >> 8 & 0xff, flags = head >> 16;
  if (colour > 2 || S < 3 && colour != 0 || predictors >> 2 * S != 0 || (predictors & predictors >> 1 & 0x55) != 0 || flags > 1) return BAD_HEADER;
  r.codes = HEAD + flags * 4 * STREAMS;
  r.words = count;
  if (r.codes > r.length || count > (r.length - r.codes) / 2) return TRUNCATED;
  r.raw = r.codes + 2 * count;
  u32 sum = 0, rice = 0;
  for (u32 i = 2 * lane; i < count; i += 2 * LANES) {
    u32 x = load32(r.src + r.codes + 2 * i);  // codes begin at a multiple of 4
    sum += sum_codes(i + 1 < count ? x : x & 0xffff, rice);
  }
  u32 total;
  before(sum, total);
  if (__any_sync(ALL, rice != 0) && flags == 0) return BAD_HEADER;
  // Codes are four to two bytes of a patch, so that this is at most 17 times its length.
  u64 end = r.raw + 8ull * total;
#pragma unroll
  for (int i = 0; i < STREAMS; i++) {
    r.pos[i] = (u32)end * 8;
    if (flags) end += load32(r.src + HEAD + 4 * i);
  }
  return end == r.length ? 0 : end > r.length ? TRUNCATED : BAD_LENGTHS;
}

// close checks that the streams have been used up. Lane i does so for stream i.
__device__ u32 close(const Reader &r, bool rice) {
  const u32 lane = threadIdx.x % LANES;
  u32 end = r.length;
  bool bad = false;
  if (rice) {
#pragma unroll
    for (int i = STREAMS - 1; i >= 0; i--) {
      if (lane == i) {
        u32 bit = r.pos[i] % 8, byte = r.pos[i] / 8;
        bad = byte + (bit != 0) != end || bit != 0 && load8(r.src + byte) >> bit != 0;
      }
      end -= load32(r.src + HEAD + 4 * i);
    }
  }
  return __any_sync(ALL, bad) ? BAD_STREAMS : 0;
}

// Block is what its lane knows of a block.
struct Block {
  u32 at;     // of its raw bits
  u32 n;      // how many there are of a sample
  bool rice;
  Plane escapes;
};

// next_block gives each of the first count lanes a block.
__device__ Block next_block(Reader &r, u32 count) {
  const u32 lane = threadIdx.x % LANES;
  u32 code = 0;
  if (lane < count && lane / 4 < r.words) code = load8(r.src + r.codes + lane / 2) >> (lane % 2 * 4) & 15;
  Block b = {0, code < RICE ? code : code - RICE, code >= RICE, {0, 0}};
  u32 total;
  b.at = r.raw + 8 * before(units(code), total);
  r.raw += 8 * total;
  u32 taken = min(count / 4, r.words);
  r.codes += 2 * taken;
  r.words -= taken;
  return b;
}

// quotients reads the planes of blocks with Rice codes. It leaves the quotients in
// numbers, bit by bit: number[i][b] has bit i of all samples of block b.
__device__ bool quotients(Reader &r, Block &b, uint2 (*number)[LANES]) {
  const u32 lane = threadIdx.x % LANES;
  Plane plane = {0, 0};
  if (b.rice) {
    plane = window(r.src, b.at, r.readable);
    b.at += 8;
  }
  bool bad = __popc(plane.low) + __popc(plane.high) > MAX_QUOTIENTS;
  if (__any_sync(ALL, bad)) return false;
  // Planes are like a thermometer: that one is set means that all before are. So the
  // bits of their number are these, those above the lowest from every second and every
  // fourth plane.
  Plane n0 = {0, 0}, n1 = {0, 0}, n2 = {0, 0};
#pragma unroll
  for (int i = 0; i < STREAMS - 1; i++) {
    if (!__any_sync(ALL, plane.low | plane.high)) break;
    n0.low ^= plane.low, n0.high ^= plane.high;
    if (i % 2 == 1) n1.low ^= plane.low, n1.high ^= plane.high;
    if (i == 3) n2 = plane;
    u32 total, pos = before(__popc(plane.low) + __popc(plane.high), total);
    pos += r.pos[i];
    r.pos[i] += total;
    if (pos > 8 * r.length) bad = true;
    Plane x = {0, 0};
    if ((plane.low | plane.high) != 0 && !bad) {
      u32 word = pos / 32 * 4;
      u32 v0 = load32(r.src + word), v1 = load32(r.src + word + 4), v2 = word + 8 < r.readable ? load32(r.src + word + 8) : 0;
      x = {__funnelshift_r(v0, v1, pos), __funnelshift_r(v1, v2, pos)};
    }
    plane = i < 3 ? deposit<true>(x, plane) : deposit<false>(x, plane);
    if ((i + 2) << b.n > 255 && (plane.low | plane.high) != 0) bad = true;
  }
  b.escapes = plane;
  number[0][lane] = make_uint2(n0.low, n0.high);
  number[1][lane] = make_uint2(n1.low, n1.high);
  number[2][lane] = make_uint2(n2.low, n2.high);
  return !__any_sync(ALL, bad);
}

__device__ u32 zigzag4(u32 z) { return z >> 1 & 0x7f7f7f7f ^ (z & 0x01010101) * 255; }

// escaped replaces the samples whose quotients have all planes. Those of block b begin
// at z, which has a step every 32 bytes.
template <bool WIDE>
__device__ bool escaped(Reader &r, const Block &b, u8 *z) {
  u32 low = b.escapes.low, high = b.escapes.high;
  if (!__any_sync(ALL, low | high)) return true;
  u32 total, pos = before((__popc(low) + __popc(high)) * (8 - b.n), total);
  pos += r.pos[STREAMS - 1];
  r.pos[STREAMS - 1] += total;
  bool bad = false;
  while ((low | high) != 0 && !bad) {
    u32 i = low != 0 ? __ffs(low) - 1 : __ffs(high) + 31;
    if (low != 0)
      low &= low - 1;
    else
      high &= high - 1;
    if (pos > 8 * r.length) {
      bad = true;
      break;
    }
    u32 q = (load8(r.src + pos / 8) | load8(r.src + pos / 8 + 1) << 8) >> pos % 8 & 255 >> b.n;
    pos += 8 - b.n;
    bad = q < PLANES;
    // Its raw bits are in step i / 8, lane i % 8.
    u32 v = 0;
    if (b.n != 0) {
      u32 at = b.at + i / 8 * b.n + i % 8 * b.n / 8;
      v = (load8(r.src + at) | load8(r.src + at + 1) << 8) >> i % 8 * b.n % 8 & (1 << b.n) - 1;
    }
    v |= q << b.n;
    z[i / 8 * LANES + i % 8] = WIDE ? v : v >> 1 ^ -(v & 1);
  }
  __syncwarp();
  return !__any_sync(ALL, bad);
}

}  // namespace v2
