// Package kernel is the program that decodes L3 pictures on an NVIDIA GPU, and the
// tables that tell it what to do. It speaks to no driver.
//
// # Nouns
//
// A build is the program for GPUs from one compute capability on: [Portable] and [Hopper].
// A file is one of L3, as docs/l3.md has it, in device memory. A target is where the
// samples of a picture are wanted there. A picture is both; its record and those of its
// patches are what the kernels read. Each warp, 32 threads, decodes one patch. A launch
// is one kernel for many patches: there is one for each version, number of channels and
// depth. A status is what became of a picture. A scratch row keeps a row of a patch that
// is too wide for a multiprocessor's own memory.
//
// # For those who launch the kernels themselves
//
// Numbers are little-endian, addresses those of device memory.
//
// Files: anywhere, each at a multiple of 16, followed by 16 zeros. A program has to
// have checked what is before the patches (the sizes, the directory or table, the
// checksums if wanted), so that all patches lie within the file. The kernels check
// all else.
//
// A picture's record has 96 bytes, and lies at a multiple of 16:
//
//	 0  u64     address of the file
//	 8  u64     address of sample 0 of pixel 0, 0
//	16  i64     bytes from a row to the next one, of 32 bits with sign
//	24  i64     bytes from a pixel to the next one, the same
//	32  i64     bytes from a channel to the next one
//	40  u32     width
//	44  u32     height
//	48  u32     width of a patch, as in the file; N in version 1
//	52  u32     height of a patch
//	56  u8      channels
//	57  u8      bits of a sample, 8 or 16
//	58  u8      output: 0 as stored, 1 float32, 2 float16
//	59  u8      version, 1 or 2
//	60  u32     patches from the left edge to the right one
//	64  4 × f32 scale of each channel of the picture
//	80  4 × f32 bias of each channel
//
// Numbers are sample*scale + bias, the product and the sum each rounded to float32; for
// float16 that is rounded again. Addresses and distances have to be multiples of the size
// of an element.
//
// A patch's record has 32 bytes:
//
//	 0  u32     which picture
//	 4  u32     which patch of it, row by row, less than 2^27
//	 8  3 × u32 offset in the file. Version 1: of each channel's bytes. Version 2: of the
//	            patch, then the lower and the upper half of the address of its scratch
//	            row, or 0
//	20  3 × u32 length in bytes: version 1, of each channel's; version 2, of the patch, at
//	            most 2^28, and 0, 0
//
// A scratch row is needed by patches of version 2 that are more than 256 wide and more than
// 32 high: 2·width·channels bytes at an even address. Patches more than 65536 wide are
// not for the GPU.
//
// The status of each picture is a u32, all ones before the launch and afterwards too if all
// went well. Otherwise it is 16·i + r for the first patch i that was refused, r being one of
// Refusal in abi.cuh.
//
// An entry is called l3v1_C or l3v2_C, C being the number of channels, with a w at the end
// for 16 bits. Its parameters are the addresses of the pictures' records and of those
// of the patches (of this entry only), the number of patches as a u32, and the address of the
// statuses. Blocks have 64 threads, that is 2 patches, and no dynamic shared memory.
package kernel
