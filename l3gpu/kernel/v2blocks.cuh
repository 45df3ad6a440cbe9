// Blocks of version 2, see "Version 2: a patch" in docs/l3.md: codes, raw parts and the
// planes of Rice codes.

namespace v2 {

const u32 RICE = 9, ESCAPE = 8, MAX_QUOTIENTS = 56, HEAD = 4, STREAMS = 8;

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

// window returns 8 bytes from any address on. It reads up to 12 bytes; after the end of
// the file there are zeros.
__device__ Plane window(u64 src, u32 at) {
  u64 word = src + (at & ~3u);
  u32 a = load32(word), b = load32(word + 4), c = load32(word + 8);
  return {__funnelshift_r(a, b, at * 8), __funnelshift_r(b, c, at * 8)};
}

// bits returns 32 bits from the bit at pos on.
__device__ u32 bits(u64 src, u32 pos) {
  u64 word = src + pos / 32 * 4;
  return __funnelshift_r(load32(word), load32(word + 4), pos);
}

// before is the sum of what the lanes before have; total that of all.
__device__ u32 before(u32 v, u32 &total) {
  u32 sum = v;
#pragma unroll
  for (u32 d = 1; d < LANES; d *= 2)
    // p says if there is such a lane.
    asm volatile(
        "{.reg .pred p; .reg .u32 t;\n"
        "shfl.sync.up.b32 t|p, %0, %1, 0, -1;\n"
        "@p add.u32 %0, %0, t;}"
        : "+r"(sum)
        : "r"(d));
  total = __shfl_sync(ALL, sum, LANES - 1);
  return sum - v;
}

// sum_of adds what all lanes have.
__device__ u32 sum_of(u32 v) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(ALL, v);
#else
#pragma unroll
  for (int d = 1; d < LANES; d *= 2) v += __shfl_xor_sync(ALL, v, d);
  return v;
#endif
}

// Reader is what a warp knows of the patch that it decodes. Offsets are counted from
// its beginning.
struct Reader {
  u64 src;
  u32 length;  // of the patch
  u32 codes;   // the next code word
  u32 words;   // how many there are left
  u32 raw;     // the raw part of the next block
  u32 pos;     // lane i: the bit of stream i that is next
  u32 end;     // lane i: the byte where stream i ends
};

// open checks the head of a patch, and finds its parts. The result is 0 or a Refusal.
template <int S>
__device__ u32 open(Reader &r, u32 count, u32 &head) {
  const u32 lane = threadIdx.x % LANES;
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
  u32 total, streams, length = 0;
  before(sum, total);
  if (__any_sync(ALL, rice != 0) && flags == 0) return BAD_HEADER;
  if (flags != 0 && lane < STREAMS) length = load32(r.src + HEAD + 4 * lane);
  if (__any_sync(ALL, length > r.length)) return TRUNCATED;
  // Codes are four to two bytes of a patch, so that this is at most 17 times its length;
  // the streams are at most 8 times.
  u64 end = r.raw + 8ull * total;
  r.pos = ((u32)end + before(length, streams)) * 8;
  r.end = r.pos / 8 + length;
  end += streams;
  return end == r.length ? 0 : end > r.length ? TRUNCATED : BAD_LENGTHS;
}

// close checks that the streams have been used up.
__device__ u32 close(const Reader &r) {
  u32 bit = r.pos % 8, byte = r.pos / 8;
  bool bad = byte + (bit != 0) != r.end || bit != 0 && load8(r.src + byte) >> bit != 0;
  return __any_sync(ALL, bad) ? BAD_STREAMS : 0;
}

// Block is what its lane knows of a block.
struct Block {
  u32 at;     // of its raw bits
  u32 n;      // how many there are of a sample
  u32 first;  // of its samples in plane 1, among those of the blocks unpacked with it
  bool rice;
};

// next_block gives each of the first count lanes a block.
__device__ Block next_block(Reader &r, u32 count) {
  const u32 lane = threadIdx.x % LANES;
  u32 code = 0;
  if (lane < count && lane / 4 < r.words) code = load8(r.src + r.codes + lane / 2) >> (lane % 2 * 4) & 15;
  Block b = {0, code < RICE ? code : code - RICE, 0, code >= RICE};
  u32 total;
  b.at = r.raw + 8 * before(units(code), total);
  r.raw += 8 * total;
  u32 taken = min(count / 4, r.words);
  r.codes += 2 * taken;
  r.words -= taken;
  return b;
}

__device__ u32 zigzag4(u32 z) { return z >> 1 & 0x7f7f7f7f ^ (z & 0x01010101) * 255; }

}  // namespace v2
