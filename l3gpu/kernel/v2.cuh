// Version 2, see "Version 2: a patch" in docs/l3.md: a warp decodes a patch. It unpacks
// blocks, with a lane for each step of a lane group; then it makes samples of the
// residuals, with a lane for each row, as the format has it; then it places what is
// complete.

namespace v2 {

// SLICE steps are decoded before samples are placed, SLICE of each row.
const int SLICE = 16, RING = 2 * SLICE;
// The rows of patches up to this width stay in shared memory for the band below.
const int NARROW = 256;

template <int S, bool WIDE>
struct Memory {
  typedef typename std_conditional<WIDE, u16, u8>::type Sample;
  static const int CODED = WIDE ? 2 * S : S;
  static const int GROUPS = CODED <= 4 ? 2 : 1;  // step groups that are unpacked at a time: one lane a block
  static const int PITCH = RING + 4 / sizeof(Sample);
  uint2 number[3][LANES];
  u8 z[GROUPS * CODED][8][LANES];
  // What was decoded in the last steps, by step modulo RING: position p of lane r is at
  // p + r. Lane r has row r + 1; before that of lane 0 is the last one of the band above,
  // as if a lane had decoded it one step earlier.
  Sample ring[S][LANES + 1][PITCH];
  Sample last[S][NARROW];  // the last row of a band, if it is narrow
};

// predicted is the prediction from left, above and above left.
__device__ u32 predicted(u32 predictor, u32 l, u32 t, u32 tl) {
  if (predictor == 1) return l + t + 1 >> 1;
  u32 clamped = min(max(tl, min(l, t)), max(l, t));
  if (predictor == 0) return l + t - clamped;
  u32 sum = l + t + 1;
  return (sum >> 1) + (sum - clamped) >> 1;
}

template <int S, bool WIDE>
struct Decoder {
  enum : u32 { MASK = WIDE ? 0xffff : 0xff, MIDDLE = WIDE ? 1 << 15 : 1 << 7 };
  typedef v2::Memory<S, WIDE> Memory;
  typedef typename Memory::Sample Sample;

  Memory &m;
  Reader r;
  Place place;
  u32 lane, w, h, band;  // band is how many positions it has
  u32 colour, predictors;
  u64 scratch;

  __device__ explicit Decoder(Memory &memory) : m(memory), lane(threadIdx.x % LANES) {}

  // unpack makes residuals of the blocks of the next step groups; those of 16 bits stay
  // zigzag-coded.
  __device__ bool unpack() {
    const int words = Memory::GROUPS * Memory::CODED;
    Block b = next_block(r, 4 * words);
    bool rice = __any_sync(ALL, b.rice);
    if (rice && !quotients(r, b, m.number)) return false;
    __syncwarp();
    const u32 step = lane % 8, group = lane / 8;
#pragma unroll 2
    for (int i = 0; i < words; i++) {
      u32 source = i * 4 + group, n = __shfl_sync(ALL, b.n, source), at = __shfl_sync(ALL, b.at, source) + step * n;
      Plane x = window(r.src, at, r.readable);
      Fields fields(n);
      u32 low = fields.unpack4(x.low), high = fields.unpack4(__funnelshift_rc(x.low, x.high, 4 * n));
      if (rice) {
        u32 q = 0, s = 0;
#pragma unroll
        for (int k = 0; k < 3; k++) {
          u32 bits = ((const u8 *)&m.number[k][source])[step];
          q += ((bits & 15) * 0x204081 & 0x01010101) << k;
          s += ((bits >> 4) * 0x204081 & 0x01010101) << k;
        }
        low += q << n, high += s << n;
      }
      if (!WIDE) low = zigzag4(low), high = zigzag4(high);
      *(uint2 *)&m.z[i][step][8 * group] = make_uint2(low, high);
    }
    __syncwarp();
    return !rice || escaped<WIDE>(r, b, &m.z[lane / 4 % words][0][8 * (lane % 4)]);
  }

  // residual of a step, z being those of the lane.
  static __device__ u32 residual(const u8 *z, int step) {
    if (!WIDE) return z[step * LANES];
    u32 v = z[step * LANES] | z[(8 + step) * LANES] << 8;
    return v >> 1 ^ -(v & 1);
  }

  // restore makes samples of the residuals of 8 steps of a channel. At an edge a lane may
  // begin a row, in step start; and up to step alone it has nothing above it.
  template <int PREDICTOR, bool EDGE>
  __device__ void restore(const u8 *z, int c, u32 step, u32 start, u32 alone) {
    Sample *row = &m.ring[c][lane + 1][step % RING];
    const Sample *above = row - Memory::PITCH;
    const Sample *before = &m.ring[c][lane + 1][step - 1 & RING - 1];
    u32 l = before[0], t = before[-Memory::PITCH], tl = m.ring[c][lane][step - 2 & RING - 1];
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
      if (i > 0) t = above[(int)i - 1];
      if (EDGE) {
        if (i == start)
          l = tl = t;
        else if (i < alone)
          t = l;
      }
      l = predicted(PREDICTOR, l, t, tl) + residual(z, i) & MASK;
      row[i] = l;
      tl = t;
      __syncwarp();
    }
  }

  // restore_all does so for all channels. x is where lane 0 is in its band.
  template <bool EDGE>
  __device__ void restore_all(int group, u32 step, u32 x, bool top) {
    u32 start = x <= lane ? lane - x : band + lane - x;
    u32 alone = !top || lane != 0 || x >= band ? 0 : x == 0 ? 8 : start;
#pragma unroll 1
    for (int c = 0; c < S; c++) {
      const u8 *z = &m.z[group * Memory::CODED + (WIDE ? 2 * c : c)][0][lane];
      u32 predictor = predictors >> 2 * c & 3;
      if (predictor == 0)
        restore<0, EDGE>(z, c, step, start, alone);
      else if (predictor == 1)
        restore<1, EDGE>(z, c, step, start, alone);
      else
        restore<2, EDGE>(z, c, step, start, alone);
    }
  }

  // above fetches SLICE samples of the row above lane 0, from x on; the first row has
  // none. below keeps those of lane 31.
  __device__ void above(u32 step, u32 x, bool top) {
#pragma unroll
    for (u32 i = lane; i < S * SLICE; i += LANES) {
      u32 c = i / SLICE, k = i % SLICE, from = x + k;
      if (from >= band) from -= band;
      u32 v = MIDDLE;
      if (h > LANES && (!top || x + k >= band))
        v = scratch == 0 ? m.last[c][from] : load_back16(scratch + 2 * (c * (u64)band + from));
      m.ring[c][0][step + k - 1 & RING - 1] = v;
    }
    __syncwarp();
  }

  __device__ void below(u32 step, u32 x) {
#pragma unroll
    for (u32 i = lane; i < S * SLICE; i += LANES) {
      u32 c = i / SLICE, k = i % SLICE, to = x + k + band - (LANES - 1);
      if (to >= 2 * band)
        to -= 2 * band;
      else if (to >= band)
        to -= band;
      u32 v = m.ring[c][LANES][step + k & RING - 1];
      if (scratch == 0)
        m.last[c][to] = v;
      else
        store16(scratch + 2 * (c * (u64)band + to), v);
    }
    __syncwarp();
  }

  // pixels fetches four samples of each channel of a row, which are not coloured then.
  __device__ void pixels(Quad<WIDE> *v, u32 row, u32 at) const {
    Quad<WIDE> q[S];
#pragma unroll
    for (int c = 0; c < S; c++) {
      // They begin anywhere in a word, and may be on both sides of the ring's end.
      const u32 *p = (const u32 *)m.ring[c][row + 1];
      const u32 count = RING * sizeof(Sample) / 4, word = (at + row) * sizeof(Sample) / 4, shift = row * sizeof(Sample) % 4 * 8;
      u32 next = p[(word + 1) % count];
      q[c].v[0] = __funnelshift_r(p[word % count], next, shift);
      if (WIDE) q[c].v[WIDE] = __funnelshift_r(next, p[(word + 2) % count], shift);
    }
    if (S >= 3 && colour != 0) {
#pragma unroll
      for (int i = 0; i < (WIDE ? 2 : 1); i++) {
        u32 g = q[0].v[i], red = add(q[S > 1].v[i], g);
        q[S > 1].v[i] = red;
        q[S > 2 ? 2 : 0].v[i] = add(q[S > 2 ? 2 : 0].v[i], colour == 1 ? g : average(red, g));
      }
    }
#pragma unroll
    for (int c = 0; c < S; c++) v[c] = q[S >= 3 && c < 2 ? 1 - c : c];
  }

  // add is a + b - MIDDLE, and average rounds up, of all samples of a word.
  static __device__ u32 add(u32 a, u32 b) {
    const u32 tops = WIDE ? 0x80008000 : 0x80808080;
    return (a & ~tops) + (b & ~tops) ^ (a ^ b ^ tops) & tops;
  }
  static __device__ u32 average(u32 a, u32 b) {
    const u32 tops = WIDE ? 0x80008000 : 0x80808080;
    return (a | b) - ((a ^ b) >> 1 & ~tops);
  }

  // flush places SLICE samples of each row, the last that are complete after a step.
  // first is the step in which the band of lane 0 begins, top its row.
  __device__ void flush(u32 step, u32 first, u32 top) {
#pragma unroll 1
    for (u32 i = lane; i < LANES * SLICE / 4; i += LANES) {
      u32 row = i / (SLICE / 4);
      int p = (int)(step - row & ~(SLICE - 1)) - SLICE + (int)(i % (SLICE / 4)) * 4;
      if (p < 0) continue;
      int x = p - (int)first, y = top + row;
      if (x < 0) x += band, y -= LANES;
      Quad<WIDE> v[S];
      pixels(v, row, p);
      if (x + 4 <= w) {
        if (y < h) place_quad<S, WIDE>(place, x, y, v);
        continue;
      }
#pragma unroll 1
      for (int k = 0; k < 4; k++) {
        // The next band may begin within the quad.
        int at = x + k, line = y;
        if (at >= band) at -= band, line += LANES;
        if (at < w && line < h) place_sample<S, WIDE>(place, at, line, v, k);
      }
    }
    __syncwarp();
  }

  __device__ u32 decode() {
    const u32 bands = (h + LANES - 1) / LANES;
    // Each position of a channel has a quarter of a byte of codes.
    if ((u64)bands * band * Memory::CODED > 4ull * r.length) return TRUNCATED;
    if (h > LANES && band > NARROW && scratch == 0) return NO_SCRATCH;
    const u32 groups = (bands * band + LANES - 1 + 7) / 8;
    u32 head = 0, refusal = open<S>(r, groups * Memory::CODED, head);
    if (refusal != 0) return refusal;
    colour = head & 0xff, predictors = head >> 8 & 0xff;
    for (u32 i = lane; i < sizeof(m.ring) / 4; i += LANES) ((u32 *)m.ring)[i] = 0;
        __syncwarp();
    // first is the step at which lane 0 begins a band, top the row.
    u32 first = 0, top = 0;
#pragma unroll 1
    for (u32 step = 0; step < 8 * groups; step += SLICE) {
      above(step, step - first, top == 0);
#pragma unroll 1
      for (int half = 0; half < 2; half += Memory::GROUPS) {
        if (!unpack()) return BAD_BLOCKS;
#pragma unroll 1
        for (int g = 0; g < Memory::GROUPS; g++) {
          u32 s = step + 8 * (half + g), x = s - first;
          if (x < LANES || x + 8 > band || top == 0 && x < band)
            restore_all<true>(g, s, x, top == 0);
          else
            restore_all<false>(g, s, x, false);
        }
      }
      if (h > LANES) below(step, step - first);
      if (step + SLICE - first >= band) first += band, top += LANES;
      flush(step + SLICE, first, top);
    }
    u32 step = 8 * groups + SLICE - 1 & ~(SLICE - 1);
    if (step + SLICE - first >= band) first += band, top += LANES;
    flush(step + SLICE, first, top);
    return close(r, (head >> 16 & 1) != 0);
  }
};

template <int S, bool WIDE>
__device__ void decode(const Picture &picture, const Patch &patch, u32 *status, Memory<S, WIDE> &m) {
  const u32 px = patch.index % picture.columns * picture.patch_width, py = patch.index / picture.columns * picture.patch_height;
  Decoder<S, WIDE> d(m);
  d.w = min(picture.patch_width, picture.width - px);
  d.h = min(picture.patch_height, picture.height - py);
  d.band = max(d.w, 64);
  d.scratch = (u64)patch.offset[2] << 32 | patch.offset[1];
  d.place = place_of<S, WIDE>(picture, px, py);
  d.r.src = picture.src + patch.offset[0];
  d.r.length = patch.length[0];
  u32 refusal = d.decode();
  if (refusal != 0) refuse(status, patch, refusal);
}

}  // namespace v2
