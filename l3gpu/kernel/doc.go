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
// The records of pictures and patches are [PictureRecord] and [PatchRecord], without gaps;
// tables of them lie at a multiple of 16. What numbers become of samples is said at [Output].
//
// A scratch row is needed by patches of version 2 that are more than 256 wide and more than
// 32 high: 2·width·channels bytes at an even address. Patches more than 65536 wide are
// not for the GPU.
//
// The status of each picture is a u32, all ones before the launch and afterwards too if all
// went well. Otherwise it is 16·i + r for the first patch i that was refused, r being one of
// Refusal in records.cuh.
//
// An entry is called l3v1_C or l3v2_C, C being the number of channels, with a w at the end
// for 16 bits. Its parameters are [Params]; its patches are those for this entry only. Blocks
// have 64 threads, that is 2 patches, and no dynamic shared memory.
package kernel
