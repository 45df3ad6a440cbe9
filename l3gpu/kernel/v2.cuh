// Version 2, see "Version 2: a patch" in docs/l3.md: a warp decodes a patch. It unpacks
// blocks, with a lane for each step of a lane group; then it makes samples of the
// residuals, with a lane for each row, as the format has it; then it places what is
// complete.

namespace v2 {

// SLICE steps are decoded before samples are placed, SLICE of each row.
const int SLICE = 16, RING = 2 * SLICE;

template <int S, bool WIDE>
struct Memory {
  typedef v2::Pixel<S, WIDE> Pixel;
  static const int CODED = WIDE ? 2 * S : S;
  static const int GROUPS = CODED <= 4 ? 2 : 1;  // step groups whose blocks are read at a time: one lane a block
  // Rows begin in different banks.
  static const int PITCH = RING * Pixel::BYTES / 4 + (Pixel::BYTES + 3) / 4;
  Rice<GROUPS * CODED * 4> rice;
  u32 z[8][LANES * Pixel::BYTES / 4];  // residuals of a step group
  // What each lane decoded in the last steps, by step modulo RING: position p of lane r is
  // at p + r.
  u32 ring[LANES][PITCH];
  u32 top[SLICE * Pixel::BYTES / 4];  // what is above lane 0, by step modulo SLICE
  u32 last[NARROW * Pixel::BYTES / 4];  // the last row of a band, if it is narrow
};

template <int S, bool WIDE>
struct Decoder {
  typedef v2::Memory<S, WIDE> Memory;
  typedef v2::Pixel<S, WIDE> Pixel;

  Memory &m;
  Reader r;
  Place place;
  u32 lane, w, h, band;  // band is how many positions it has
  u32 colour, unit;
  u32 not1[Pixel::PAIRS], only0[Pixel::PAIRS];  // masks of samples by their predictor
  Pixel left;                                   // the last pixel of the lane,
  u32 l[Pixel::PAIRS], tl[Pixel::PAIRS];        // its pairs, and those of the one above it
  u64 scratch;
  u32 line, next, start_of_line;  // for flush_rows: a lane's row, the next pixel of it to be placed, its first position

  __device__ explicit Decoder(Memory &memory) : m(memory), lane(threadIdx.x % LANES) {}

  // unpack makes residuals of the blocks of a step group, which the lanes from source on
  // hold. Residuals of 16 bits stay zigzag-coded.
  __device__ bool unpack(const Block &b, u32 source, bool rice, u32 escapes) {
    const int CODED = Memory::CODED;
    const u32 step = lane % 8, group = lane / 8;
    u32 n[CODED], low[CODED], high[CODED], bad = 0;
    Plane x[CODED];
#pragma unroll
    for (int i = 0; i < CODED; i++) {  // all loads first
      u32 from = source + i * 4 + group;
      n[i] = __shfl_sync(ALL, b.n, from);
      x[i] = window(r.src, __shfl_sync(ALL, b.at, from) + step * n[i]);
    }
#pragma unroll
    for (int i = 0; i < CODED; i++) {
      Fields fields(n[i]);
      low[i] = fields.unpack4(x[i].low), high[i] = fields.unpack4(__funnelshift_rc(x[i].low, x[i].high, 4 * n[i]));
    }
    if (rice) {
#pragma unroll
      for (int i = 0; i < CODED; i++) {
        u32 from = source + i * 4 + group, mask = ((const u8 *)&m.rice.plane[from])[step], rank = ((const u8 *)&m.rice.rank[from])[step];
        Plane q = quotients8(mask, m.rice.q, __shfl_sync(ALL, b.first, from) + rank);
        // No quotient may be above ⌊255 / 2^n⌋.
        bad |= (q.low | q.high) & ~((255u >> n[i]) * 0x01010101);
        low[i] += q.low << n[i], high[i] += q.high << n[i];
        if (escapes != 0) ((u8 *)&m.rice.escapes[from])[step] = gather4(q.low >> 3) | gather4(q.high >> 3) << 4;
      }
    }
    if (!WIDE) {
#pragma unroll
      for (int i = 0; i < CODED; i++) low[i] = zigzag4(low[i]), high[i] = zigzag4(high[i]);
    }
    u32 out[2 * Pixel::BYTES];
    join<S, WIDE>(out, low);
    join<S, WIDE>(out + Pixel::BYTES, high);
    u32 *z = m.z[step] + group * 2 * Pixel::BYTES;
#pragma unroll
    for (int i = 0; i < 2 * Pixel::BYTES; i += 2) *(uint2 *)&z[i] = make_uint2(out[i], out[i + 1]);
    __syncwarp();
    if (!rice) return true;
    if (__any_sync(ALL, bad != 0)) return false;
    if (escapes == 0) return true;
    Plane mine = {0, 0};
    const u32 block = lane - source;
    if (block < 4 * CODED) mine = {m.rice.escapes[lane].x, m.rice.escapes[lane].y};
    return escaped<WIDE>(r, b, mine, [&](u32 i) { return (u8 *)m.z[i / 8] + (block % 4 * 8 + i % 8) * Pixel::BYTES + Pixel::byte(block / 4); });
  }

  // plus is a + b, computed by the multipliers, which have less to do than the adders.
  // unit is 1; the compiler does not know that, so it keeps the multiplication.
  __device__ u32 plus(u32 a, u32 b) const { return a * unit + b; }

  // predicted is the prediction of two samples, plus their residuals. MED says that all
  // channels have that predictor, as those of mode fast do.
  template <bool MED>
  __device__ u32 predicted(int pair, u32 l, u32 t, u32 tl, u32 residuals) const {
    u32 middle = clamped(tl, l, t);
    // Terms that do not depend on the pixel to the left come first.
    if (MED) return WIDE ? add2(sub2(add2(t, residuals), middle), l) : plus(t, residuals) + l - middle & Pixel::EVEN;
    const u32 other = not1[pair], med0 = only0[pair];
    if (WIDE) {
      u32 med = sub2(add2(l, t), middle), average = average2(l, t);
      return add2(average2(med & other | average & ~other, med & med0 | average & ~med0), residuals);
    }
    // In an average, a bit of the upper sample gets above the lower sample. That does no
    // harm: a does not take it, and there is room for it above the sum.
    const u32 one = 0x00010001;
    u32 sum = l + t, med = sum - middle, average = plus(sum, one) >> 1;
    u32 a = med & other | average & ~other, b = med & med0 | average & ~med0;
    return (plus(b, plus(a, one)) >> 1) + residuals & Pixel::EVEN;
  }

  // from_above moves pixels from each lane to the next. Lane 0 keeps its own, or with
  // from_top loads the one at address.
  __device__ Pixel from_above(u32 address, bool from_top) const {
    Pixel t;
#pragma unroll
    for (int i = 0; i < Pixel::WORDS; i++) {
      t.w[i] = __shfl_up_sync(ALL, left.w[i], 1);
      // A predicate instead of a branch: the lanes do not diverge.
      const u32 yes = from_top;
      if (Pixel::BYTES == 1)
        asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; @p ld.shared.u8 %0, [%2];}" : "+r"(t.w[i]) : "r"(yes), "r"(address) : "memory");
      else if (Pixel::BYTES == 2)
        asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; @p ld.shared.u16 %0, [%2];}" : "+r"(t.w[i]) : "r"(yes), "r"(address) : "memory");
      else
        asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; @p ld.shared.u32 %0, [%2];}" : "+r"(t.w[i]) : "r"(yes), "r"(address + 4 * i) : "memory");
    }
    return t;
  }

  // restore makes pixels of the residuals of 8 steps. At an edge a lane may begin a row,
  // in step start, and lane 0 has nothing above it before step alone.
  template <bool EDGE, bool MED>
  __device__ void restore(u32 step, u32 start, u32 alone) {
    u32 *row = m.ring[lane] + step % RING * Pixel::BYTES / 4;
    const u32 top = __cvta_generic_to_shared(m.top) + step % SLICE * Pixel::BYTES;
    const bool first = lane == 0 && alone == 0;
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
      Pixel t = from_above(top + i * Pixel::BYTES, EDGE ? lane == 0 && i >= alone : first);
      Pixel z = Pixel::load(m.z[i], lane);
#pragma unroll
      for (int k = 0; k < Pixel::PAIRS; k++) {
        u32 above = t.pair(k);
        if (EDGE && i == start) l[k] = tl[k] = above;
        l[k] = predicted<MED>(k, l[k], above, tl[k], z.residuals(k));
        tl[k] = above;
      }
      left = Pixel::of(l);
      left.save(row, i);
    }
    __syncwarp();
  }

  // above fetches the pixels above lane 0 for the next steps, from x on; above the first
  // row there are none. below stores the pixels of lane 31.
  __device__ void above(u32 x, bool top) {
    u32 from = x + lane;
    if (h > LANES && lane < SLICE && (!top || from >= band)) {
      if (from >= band) from -= band;
      Pixel p = {};
      if (scratch == 0) {
        p = Pixel::load(m.last, from);
      } else {
#pragma unroll
        for (int c = 0; c < S; c++) p.set(c, load_back16(scratch + 2 * (c * (u64)band + from)));
      }
      p.save(m.top, lane);
    }
    __syncwarp();
  }

  __device__ void below(u32 step, u32 x) {
    if (lane < SLICE) {
      u32 to = x + lane + band - (LANES - 1);
      if (to >= 2 * band)
        to -= 2 * band;
      else if (to >= band)
        to -= band;
      Pixel p = Pixel::load(m.ring[LANES - 1], step % RING + lane);
      if (scratch == 0) {
        p.save(m.last, to);
      } else {
#pragma unroll
        for (int c = 0; c < S; c++) store16(scratch + 2 * (c * (u64)band + to), p.sample(c));
      }
    }
    __syncwarp();
  }

  // pixels fetches four samples of each channel of a row and reverts the colour transform.
  __device__ void pixels(Quad<WIDE> *v, u32 row, u32 step) const {
    Quad<WIDE> q[S];
    part<S, WIDE, RING>(q, m.ring[row], step);
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

  // add is a + b less the middle of the range, and average rounds up, of all samples of a
  // word.
  static __device__ u32 add(u32 a, u32 b) {
    const u32 tops = WIDE ? 0x80008000 : 0x80808080;
    return (a & ~tops) + (b & ~tops) ^ (a ^ b ^ tops) & tops;
  }
  static __device__ u32 average(u32 a, u32 b) {
    const u32 tops = WIDE ? 0x80008000 : 0x80808080;
    return (a | b) - ((a ^ b) >> 1 & ~tops);
  }

  // rgb makes 12 bytes, in the order of memory, of four pixels of three channels of 8 bits:
  // what pixels and interleaved do, but a pixel at a time and mostly by multiplications.
  template <Kind KIND>
  __device__ void rgb(u32 *out, u32 row, u32 step) const {
    // Red gets green; blue gets half of as many greens and reds.
    const u32 green = colour != 0, greens = colour == 1 ? 2 : green, reds = colour == 2;
    u32 p[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      // Bytes 0, 2 and 3 are green, blue and red. r is for red and b for blue: in b, the
      // carry of blue changes red. The half that blue loses goes to byte 1, which is empty.
      const u32 w = m.ring[row][plus(step, i) % RING], g = w & 0xff;
      const u32 r = plus(w + g * (green << 24), green << 31);
      const u32 b = plus(w + g * (greens << 15), (green << 23) + (reds << 15)) + (r >> 24) * (reds << 15);
      p[i] = __byte_perm(r, b, KIND == REVERSED ? 0x0306 : 0x0603);
    }
    out[0] = __byte_perm(p[0], p[1], 0x4210);
    out[1] = __byte_perm(p[1], p[2], 0x5421);
    out[2] = __byte_perm(p[2], p[3], 0x6542);
  }

  // flush writes out SLICE samples of each row, the last ones that are complete after a
  // step. Lane 0's band begins in step first and in row top.
  __device__ void flush(u32 step, u32 first, u32 top) {
#pragma unroll 1
    for (u32 i = lane; i < LANES * SLICE / 4; i += LANES) {
      u32 row = i / (SLICE / 4);
      int p = (int)(step - row & ~(SLICE - 1)) - SLICE + (int)(i % (SLICE / 4)) * 4;
      if (p < 0) continue;
      int x = p - (int)first, y = top + row;
      if (x < 0) x += band, y -= LANES;
      Quad<WIDE> v[S];
      pixels(v, row, p + row);
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

  // place_run writes the pixels [from, to) of SLICE neighbours in the lane's row. Pixel 0
  // of them is that of step; its address is a, a multiple of 16.
  template <Kind KIND>
  __device__ void place_run(u64 a, u32 step, int from, int to) const {
    const int N = SLICE / 4;
    u32 out[S][N];
#pragma unroll
    for (int i = 0; i < N; i++) {
      u32 in[S], w[S];
      if constexpr (S == 3 && KIND != PLANES) {
        rgb<KIND>(w, lane, step + 4 * i);
      } else {
        Quad<WIDE> v[S];
        pixels(v, lane, step + 4 * i);
#pragma unroll
        for (int c = 0; c < S; c++) in[c] = v[KIND == REVERSED ? S - 1 - c : c].v[0];
        if (KIND != PLANES) interleaved<S>(w, in);
      }
#pragma unroll
      for (int c = 0; c < S; c++) {
        if (KIND == PLANES)
          out[c][i] = in[c];
        else
          out[(S * i + c) / N][(S * i + c) % N] = w[c];
      }
    }
    const bool all = to - from == SLICE;
#pragma unroll
    for (int c = 0; c < S; c++) {
      const u64 at = a + (KIND == PLANES ? c * place.channel : 16 * c);
      if (all) {
        store128(at, out[c][0], out[c][1], out[c][2], out[c][3]);
        continue;
      }
#pragma unroll
      for (int i = 0; i < N; i++) {
        const int begin = (KIND == PLANES ? from : from * S - 16 * c) - 4 * i, end = (KIND == PLANES ? to : to * S - 16 * c) - 4 * i;
        if (begin <= 0 && end >= 4) {
          store32(at + 4 * i, out[c][i]);
        } else {
#pragma unroll
          for (int k = 0; k < 4; k++)
            if (begin <= k && k < end) store8(at + 4 * i + k, out[c][i] >> 8 * k);
        }
      }
    }
  }

  // can_run says if rows can be written SLICE pixels at a time, except for their ends.
  __device__ bool can_run() const {
    if (WIDE || place.kind == SAMPLES) return false;
    if (place.kind == PLANES) return place.channel % 16 == 0;
    // The address of some pixel has to be a multiple of 16.
    return S == 3 || (place.dst - (place.kind == REVERSED ? S - 1 : 0) | place.row) % S == 0;
  }

  // flush_rows writes the pixels of each lane's row that are complete after a step, in
  // runs that begin at a multiple of 16; the first and the last run may be shorter.
  __device__ void flush_rows(u32 step) {
    const u32 back = place.kind == REVERSED ? S - 1 : 0;
    for (;;) {
      const u64 a = place.dst + (i64)line * place.row - back;
      // phase is the number of pixels until the address is such a multiple; 3 times 11 is
      // 1 modulo 16.
      u32 off = -(u32)a, phase = place.kind == PLANES ? off : S == 3 ? off * 11 : off / S;
      const u32 run = place.kind == PLANES || S % 2 == 1 ? 16 : 16 / S;
      const u32 begun = next - phase & run - 1, to = min(next - begun + SLICE, w);
      const bool ready = line < h && (int)(step - lane - start_of_line - to) >= 0;
      if (!__any_sync(ALL, ready)) break;
      if (!ready) continue;
      const int x = next - begun;
      const u64 at = a + (i64)x * place.pixel;
      if (place.kind == PIXELS)
        place_run<PIXELS>(at, start_of_line + lane + x, begun, to - x);
      else if (place.kind == PLANES)
        place_run<PLANES>(at, start_of_line + lane + x, begun, to - x);
      else
        place_run<REVERSED>(at, start_of_line + lane + x, begun, to - x);
      next = to;
      if (to == w) next = 0, line += LANES, start_of_line += band;
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
    colour = head & 0xff;
    const u32 predictors = head >> 8 & 0xff;
    begin(predictors);
    const bool runs = can_run();
    // Lane 0 begins a band in step first and in row top.
    u32 first = 0, top = 0;
#pragma unroll 1
    for (u32 step = 0; step < 8 * groups; step += SLICE) {
      above(step - first, top == 0);
      Block b;
      bool rice = false;
      u32 escapes = 0;
#pragma unroll 1
      for (int half = 0; half < 2; half++) {
        const u32 source = half % Memory::GROUPS * 4 * Memory::CODED;
        if (source == 0) {
          b = next_block(r, Memory::GROUPS * 4 * Memory::CODED);
          rice = __any_sync(ALL, b.rice);
          if (rice && !quotients(r, b, m.rice, escapes)) return BAD_BLOCKS;
        }
        if (!unpack(b, source, rice, escapes)) return BAD_BLOCKS;
        u32 s = step + 8 * half, x = s - first;
        u32 alone = top != 0 || x >= band ? 0 : min(band - x, 8);
        const bool edge = x < LANES || x + 8 > band;
        const u32 start = !edge ? 8 : x <= lane ? lane - x : band + lane - x;
        if (predictors == 0)
          edge ? restore<true, true>(s, start, alone) : restore<false, true>(s, start, alone);
        else
          edge ? restore<true, false>(s, start, alone) : restore<false, false>(s, start, alone);
      }
      if (h > LANES) below(step, step - first);
      if (step + SLICE - first >= band) first += band, top += LANES;
      runs ? flush_rows(step + SLICE) : flush(step + SLICE, first, top);
    }
    u32 step = 8 * groups + SLICE - 1 & ~(SLICE - 1);
    if (step + SLICE - first >= band) first += band, top += LANES;
    runs ? flush_rows(step + SLICE) : flush(step + SLICE, first, top);
    return close(r);
  }

  // begin prepares for the first step: the pixels left of it and above it have the middle
  // of the range, and memory that is read before it is written is zero.
  __device__ void begin(u32 predictors) {
    const u32 middle = WIDE ? 1u << 15 : 1u << 7, ones = WIDE ? 0xffff : 0xff;
    left = {};
    line = lane, next = 0, start_of_line = 0;
    Pixel only_1 = {}, only_0 = {};
#pragma unroll
    for (int c = 0; c < S; c++) {
      u32 predictor = predictors >> 2 * c & 3;
      left.set(c, middle);
      only_1.set(c, predictor == 1 ? ones : 0);
      only_0.set(c, predictor == 0 ? ones : 0);
    }
#pragma unroll
    for (int k = 0; k < Pixel::PAIRS; k++) not1[k] = ~only_1.pair(k), only0[k] = only_0.pair(k), l[k] = tl[k] = left.pair(k);
    for (u32 i = lane; i < sizeof(m.ring) / 4; i += LANES) m.ring[0][i] = 0;
    for (u32 i = lane; i < sizeof(m.rice.q) / 4; i += LANES) m.rice.q[i] = 0;
    for (u32 i = lane; i < sizeof(m.top) / 4; i += LANES) m.top[i] = 0;
    __syncwarp();
  }
};

template <int S, bool WIDE>
__device__ void decode(const Picture &picture, const Patch &patch, u32 *status, Memory<S, WIDE> &m) {
  const u32 px = patch.index % picture.columns * picture.patch_width, py = patch.index / picture.columns * picture.patch_height;
  Decoder<S, WIDE> d(m);
  d.w = min(picture.patch_width, picture.width - px);
  d.h = min(picture.patch_height, picture.height - py);
  d.band = max(d.w, 64);
  d.unit = picture.version / 2;
  d.scratch = (u64)patch.offset[2] << 32 | patch.offset[1];
  d.place = place_of<S, WIDE>(picture, px, py);
  d.r.src = picture.src + patch.offset[0];
  d.r.length = patch.length[0];
  u32 refusal = d.decode();
  if (refusal != 0) refuse(status, patch, refusal);
}

}  // namespace v2
