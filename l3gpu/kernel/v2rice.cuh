// Rice codes of version 2, see "Codes" in docs/l3.md. Streams have no gaps between
// blocks: plane i + 1 is one run of bits for all blocks that are unpacked at a time, with
// a bit for each bit that is set in plane i. So each lane takes 8 bits of a run, whatever
// block they belong to, and quotients are counted by position in the run first, by sample
// afterwards.

namespace v2 {

// Runs of up to SHORT bits are taken at once.
const u32 SHORT = 64;

// Rice is what is known of the quotients of COUNT blocks.
template <int COUNT>
struct Rice {
  uint2 plane[LANES];    // plane 1 of each block
  uint2 rank[LANES];     // how many bits are set below each of its bytes
  uint2 escapes[LANES];  // the samples that are set in plane 8
  u32 q[COUNT * MAX_QUOTIENTS / 4 + 4];  // bytes: the quotients of the samples that are set in plane 1, in their order
};

// quotients8 gives 8 samples their quotients: those of samples that mask has follow each
// other from q[at] on, the others are 0.
__device__ Plane quotients8(u32 mask, const u32 *q, u32 at) {
  q += at / 4;
  u32 low = __funnelshift_r(q[0], q[1], at * 8), high = __funnelshift_r(q[1], q[2], at * 8);
  // Bit i to bit 4i.
  u32 spread = mask * 0x1001 & 0x000f000f;
  spread = spread * 0x41 & 0x03030303;
  spread = spread * 9 & 0x11111111;
  // Each sample of mask takes the next byte. The others take byte 7, which is cleared if
  // there are any.
  u32 from = spread * 0x11111110 | 0x77777777 - 7 * spread;
  if (mask != 255) high &= 0xffffff;
  return {__byte_perm(low, high, from & 0xffff), __byte_perm(low, high, from >> 16)};
}

// count8 has the number of bits in each byte.
__device__ u32 count8(u32 x) {
  x -= x >> 1 & 0x55555555;
  x = (x & 0x33333333) + (x >> 2 & 0x33333333);
  return x + (x >> 4) & 0x0f0f0f0f;
}

// short_runs reads runs from stream i on, of which the first has no more than SHORT bits
// if there is one, and finds the quotients of its samples: each lane follows two through
// the planes. set is how long the first run is, and then how many are set in the last.
__device__ bool short_runs(Reader &r, u32 i, u32 &set, u8 *out) {
  const u32 lane = threadIdx.x % LANES, count = set;
  u32 at[2] = {lane, lane + LANES}, q[2] = {1, 1};
#pragma unroll 1
  for (; i < STREAMS - 1 && set != 0; i++) {
    u32 pos = __shfl_sync(ALL, r.pos, i);
    if (pos + set > 8 * r.length) return false;
    if (lane == i) r.pos += set;
    u64 word = r.src + pos / 32 * 4;
    u32 x = load32(word), y = load32(word + 4), z = load32(word + 8);
    u64 run = (u64)__funnelshift_r(y, z, pos) << 32 | __funnelshift_r(x, y, pos);
    run &= ~0ull >> (64 - set);
#pragma unroll
    for (int k = 0; k < 2; k++) {
      // Bits after the end of the run are 0, so that samples that have ended stay so.
      u64 from = at[k] < SHORT ? run << (SHORT - 1 - at[k]) : 0;
      bool more = (i64)from < 0;
      q[k] += more;
      at[k] = more ? __popcll(from) - 1 : SHORT;
    }
    set = __popcll(run);
  }
#pragma unroll
  for (u32 k = 0; k < 2; k++)
    if (lane + k * LANES < count) out[lane + k * LANES] = q[k];
  // There is no run, but many samples are set in the last plane.
#pragma unroll 1
  for (u32 k = lane + SHORT; k < count; k += LANES) out[k] = 1;
  return true;
}

// quotients reads the planes of blocks, and leaves in escapes how many samples are set
// in all of them.
template <int COUNT>
__device__ bool quotients(Reader &r, Block &b, Rice<COUNT> &m, u32 &escapes) {
  const u32 lane = threadIdx.x % LANES;
  Plane plane = {0, 0};
  if (b.rice) {
    plane = window(r.src, b.at);
    b.at += 8;
  }
  const u32 half = __popc(plane.low), all = half + __popc(plane.high);
  if (__any_sync(ALL, all > MAX_QUOTIENTS)) return false;
  m.plane[lane] = make_uint2(plane.low, plane.high);
  m.rank[lane] = make_uint2(count8(plane.low) * 0x01010100, count8(plane.high) * 0x01010100 + half * 0x01010101);
  m.escapes[lane] = make_uint2(0, 0);
  // How long the runs are, that of stream i in lane i.
  u32 set, length = 0, i = 0;
  b.first = before(all, set);
  __syncwarp();
#pragma unroll 1
  for (; i < STREAMS - 1 && set > SHORT; i++) {
    u32 pos = __shfl_sync(ALL, r.pos, i);
    if (pos + set > 8 * r.length) return false;
    if (lane == i) length = set, r.pos += set;
    u32 sum = 0;
#pragma unroll 1
    for (u32 k = 32 * lane; k < set; k += 32 * LANES) {
      u32 x = bits(r.src, pos + k);
      sum += __popc(set - k < 32 ? x & (1u << set - k) - 1 : x);
    }
    set = sum_of(sum);
  }
  u32 known = set;
  if (!short_runs(r, i, set, (u8 *)m.q)) return false;
  escapes = set;
  __syncwarp();
  // From the last run to the first, the quotients above those of the samples that are
  // set in it are known; they move apart to make room for the others.
#pragma unroll 1
  while (i-- > 0) {
    u32 run = __shfl_sync(ALL, length, i), pos = __shfl_sync(ALL, r.pos, i) - run;
#pragma unroll 1
    for (int from = run - 1 & ~(8 * LANES - 1); from >= 0; from -= 8 * LANES) {
      u32 k = from + 8 * lane, mask = 0, count;
      if (k < run) mask = bits(r.src, pos + k) & (run - k < 8 ? (1u << run - k) - 1 : 255);
      u32 rank = before(__popc(mask), count);
      known -= count;
      Plane q = quotients8(mask, m.q, known + rank);
      __syncwarp();
      if (k < run) *(uint2 *)&m.q[k / 4] = make_uint2(q.low + 0x01010101, q.high + 0x01010101);
      __syncwarp();
    }
    known = run;
  }
  return true;
}

// gather4 makes 4 bits of the lowest ones of 4 bytes.
__device__ u32 gather4(u32 x) { return (x & 0x01010101) * 0x01020408 >> 24; }

// escaped replaces the samples of a lane's block whose quotients have all planes; at(i) is
// the address of sample i.
template <bool WIDE, class At>
__device__ bool escaped(Reader &r, const Block &b, Plane escapes, At at) {
  u32 low = escapes.low, high = escapes.high;
  if (!__any_sync(ALL, low | high)) return true;
  u32 total, pos = before((__popc(low) + __popc(high)) * (8 - b.n), total);
  pos += __shfl_sync(ALL, r.pos, STREAMS - 1);
  if (threadIdx.x % LANES == STREAMS - 1) r.pos += total;
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
    bad = q < ESCAPE;
    // Its raw bits are in step i / 8, lane i % 8.
    u32 v = 0;
    if (b.n != 0) {
      u32 from = b.at + i / 8 * b.n + i % 8 * b.n / 8;
      v = (load8(r.src + from) | load8(r.src + from + 1) << 8) >> i % 8 * b.n % 8 & (1 << b.n) - 1;
    }
    v |= q << b.n;
    *at(i) = WIDE ? v : v >> 1 ^ -(v & 1);
  }
  __syncwarp();
  return !__any_sync(ALL, bad);
}

}  // namespace v2
