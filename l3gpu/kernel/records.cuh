// Written by go generate from abi.go, which says what the fields mean.

struct Picture {
  u64 src;  // 0
  u64 dst;  // 8
  i64 row;  // 16
  i64 pixel;  // 24
  i64 channel;  // 32
  u32 width;  // 40
  u32 height;  // 44
  u32 patch_width;  // 48
  u32 patch_height;  // 52
  u8 channels;  // 56
  u8 depth;  // 57
  u8 output;  // 58
  u8 version;  // 59
  u32 columns;  // 60
  float scale[4];  // 64
  float bias[4];  // 80
};
static_assert(sizeof(Picture) == 96, "abi.go has another size");

struct Patch {
  u32 picture;  // 0
  u32 index;  // 4
  u32 offset[3];  // 8
  u32 length[3];  // 20
};
static_assert(sizeof(Patch) == 32, "abi.go has another size");

enum Output { AS_STORED = 0, FLOAT32 = 1, FLOAT16 = 2 };

// Why a patch was refused.
enum Refusal {
  BAD_HEADER = 1,  // its head is damaged
  TRUNCATED = 2,  // it is shorter than its parts
  BAD_LENGTHS = 3,  // it is longer than its parts
  BAD_BLOCKS = 4,  // a block is damaged
  BAD_STREAMS = 5,  // a stream is damaged
  BAD_ROWS = 6,  // its rows are damaged
  NO_SCRATCH = 7,  // it has no scratch row
};

#define LANES 32
// Warps of a block, each of which decodes a patch.
#define WARPS 2
// The rows of patches up to this width stay in shared memory for the band below.
#define NARROW 256
