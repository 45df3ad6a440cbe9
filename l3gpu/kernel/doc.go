// Package kernel is the program that decodes L3 pictures on an NVIDIA GPU, and the
// tables that tell it what to do. It speaks to no driver.
//
// # Nouns
//
// A build is the program for GPUs of one compute capability and later ones: [Portable] and
// [Hopper]. A file is an L3 file, see docs/l3.md, in device memory. A target says where in
// device memory the samples of a picture go. A picture is a file and its target. The kernels
// read a record of each picture, and one of each of its patches. A warp, 32 threads, decodes
// one patch. A launch is one kernel for many patches; there is a kernel for each version,
// number of channels and depth. A status says whether a picture was decoded. A scratch row
// holds a row of a patch that is too wide for a multiprocessor's own memory.
//
// # How the kernels are launched
//
// Numbers are little-endian, addresses those of device memory.
//
// Files lie at any multiple of 16, each followed by 16 zeros. The host has to check what is
// before the patches (the sizes, the directory or table, the checksums if wanted), so that all
// patches lie within the file. The kernels check all else.
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
