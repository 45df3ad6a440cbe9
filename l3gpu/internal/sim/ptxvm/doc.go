// Package ptxvm executes PTX, the assembly language that GPU kernels are shipped in, on the CPU. It is for tests: the
// very text that is embedded and given to the driver is run where there is no GPU, with every access checked.
//
// The nouns:
//
//   - A Module is a parsed PTX file. Parse refuses what it cannot execute, naming the line.
//   - A Device is memory with addresses. Allocations lie far apart, and each byte knows whether it was ever written.
//   - A Program is a module loaded into a device: its variables have addresses.
//   - A launch runs an entry, that is a kernel, for blocks of threads in one dimension. It ends with Stats or an error.
//   - A Fault is the error of a launch: what is wrong, in which kernel, block, thread and line.
//   - A warp is 32 threads of a block; its threads are lanes. Lanes at the same instruction execute it together, those
//     furthest behind in the text first, so that lanes which parted meet again where their paths do. No code may rely
//     on that: what needs lanes together says so (bar.warp.sync, shfl.sync), and the race checks hold it to that.
//   - A collective is an instruction for which lanes wait for each other.
//   - Time in the race check is counted in ticks: a warp's tick rises each time lanes of it meet others. Two accesses
//     are ordered when the later thread has heard of a tick after that of the earlier access.
//
// It knows the instructions that package kernel consists of, and their nearest relatives: integers, bits and bytes,
// float32 sums and products, shuffles and votes. Warps have nothing to say to each other there, so that barriers of a
// block are refused by Parse, like all else. It is not a model of time: Stats counts instructions, sectors and bank
// conflicts, from which costs can be compared.
//
// What it does not do: races of blocks in global memory are not looked for, but blocks run in another order for each
// seed. An assembler may make one instruction of mul.f32 and add.f32, which rounds once; here, each rounds. Registers
// that were never written hold what they held.
//
// Checks: bounds, alignment, freed memory, bytes read that were never written (global and shared memory), races in
// shared memory, lanes that wait for each other for ever, run-away loops.
package ptxvm
