// Version 1, see "Version 1" in docs/l3.md: a warp decodes the patches of all channels
// at one place, row by row; a lane makes eight samples of a row at a time.

namespace v1 {

// ROWS rows are kept until they are written out. They are PITCH bytes apart: each has a
// word of zeros before and after it, which predictions at the edges read.
const int ROWS = 4, PITCH = 4 + 256 + 4;

template <int S>
struct Memory {
  u8 rows[S][ROWS][PITCH];
};

// predict is the sample that is added to a residual. pc is |a - b|, and that of the next
// sample afterwards.
__device__ u32 predict(u32 a, u32 b, u32 c, u32 &pc) {
  u32 pa = abs((int)(c - b)), pb = abs((int)(a + c - 2 * b));
  u32 usual = pa <= pc || c == 0 ? (pa <= pb ? a : b) : c;
  u32 p = a == 0 ? (pb <= pc ? b : c) : usual;
  pc = pa;
  return p;
}

template <int S>
__device__ void decode(const Picture &picture, const Patch &patch, u32 *status, Memory<S> &m) {
  const u32 lane = threadIdx.x % LANES;
  const u32 px = patch.index % picture.columns * picture.patch_width, py = patch.index / picture.columns * picture.patch_height;
  const u32 w = min(picture.patch_width, picture.width - px), h = min(picture.patch_height, picture.height - py);
  const u32 quads = (w + 3) / 4, octets = (w + 7) / 8;
  const Place place = place_of<S, false>(picture, px, py);
  for (u32 i = lane; i < sizeof(m.rows) / 4; i += LANES) ((u32 *)m.rows)[i] = 0;
  __syncwarp();
  // Lane c reads the heads of the rows of channel c.
  const u32 own = lane < S ? lane : 0;
  u32 at = patch.offset[0], end = patch.length[0];
  if (S > 1 && own == 1) at = patch.offset[1], end = patch.length[1];
  if (S > 2 && own == 2) at = patch.offset[2], end = patch.length[2];
  end += at;
  for (u32 y = 0; y < h; y++) {
    u32 head = 0, from = at;
    bool bad = end - at < 2;
    if (!bad) {
      head = load8(picture.src + at) | load8(picture.src + at + 1) << 8;
      u32 size = (12 + w * (head & 15) + 7) / 8;
      bad = (head & 15) > 8 || size > end - at;
      at += bad ? 0 : size;
    }
    if (__any_sync(ALL, bad)) return refuse(status, patch, BAD_ROWS);
    for (u32 first = 0; first < S * octets; first += LANES) {
      u32 i = first + lane, c = S == 1 ? 0 : (i >= octets) + (i >= 2 * octets), q = i - c * octets;
      u32 begin = __shfl_sync(ALL, from, min(c, S - 1)), code = __shfl_sync(ALL, head, min(c, S - 1));
      if (i >= S * octets) continue;
      u32 n = code & 15, bit = 12 + 8 * q * n, byte = begin + bit / 8, shift = byte % 4 * 8 + bit % 8;
      // The third word is read only for bits of these samples; zeros follow the file.
      u64 word = picture.src + (byte & ~3u);
      u32 x0 = load32(word), x1 = load32(word + 4), x2 = shift + 8 * n > 64 ? load32(word + 8) : 0;
      u32 low = __funnelshift_r(x0, x1, shift), high = __funnelshift_r(x1, x2, shift);
      Fields fields(n);
      const u32 base = (code >> 4 & 0xff) * 0x01010101u;
      u32 d[2] = {add4(fields.unpack4(low), base), add4(fields.unpack4(__funnelshift_rc(low, high, 4 * n)), base)};
      const u32 *above = (const u32 *)m.rows[c][(y - 1) % ROWS] + 2 * q;
      u32 *row = (u32 *)m.rows[c][y % ROWS] + 2 * q + 1;
      u32 here = above[1], a = above[0] >> 24, b = here & 0xff, pc = abs((int)(a - b));
#pragma unroll
      for (int j = 0; j < 2; j++) {
        u32 right = above[j + 2], p[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
          u32 next = k < 3 ? __byte_perm(here, 0, 0x4441 + k) : right & 0xff;
          p[k] = predict(a, b, next, pc);
          a = b, b = next;
        }
        here = right;
        row[j] = add4(d[j], __byte_perm(__byte_perm(p[0], p[1], 0x0040), __byte_perm(p[2], p[3], 0x0040), 0x5410));
      }
      // The next row reads zeros after the end of this one.
      if (q + 1 == octets && w % 8 != 0) {
        u32 left = w % 8 * 8;
        row[0] &= left < 32 ? (1u << left) - 1 : ALL;
        row[1] &= left > 32 ? (1u << (left - 32)) - 1 : 0;
      }
    }
    __syncwarp();
    if (y % ROWS != ROWS - 1 && y + 1 != h) continue;
    u32 top = y & ~(ROWS - 1u), count = (y - top + 1) * quads;
    for (u32 i = lane; i < count; i += LANES) {
      u32 row = (i >= quads) + (i >= 2 * quads) + (i >= 3 * quads), q = i - row * quads;
      Quad<false> v[S];
#pragma unroll
      for (int c = 0; c < S; c++) v[c].v[0] = ((u32 *)m.rows[c][row])[q + 1];
      if (4 * q + 4 <= w) {
        place_quad<S, false>(place, 4 * q, top + row, v);
      } else {
        for (u32 k = 0; k < w - 4 * q; k++) place_sample<S, false>(place, 4 * q + k, top + row, v, k);
      }
    }
    __syncwarp();
  }
  // The rows have to end where the table of the file says.
  if (__any_sync(ALL, at != end)) refuse(status, patch, BAD_ROWS);
}

}  // namespace v1
