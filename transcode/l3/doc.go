// Package l3 reads and writes L3 files: lossless pictures that decode at gigabytes
// a second on one core, after "L3: Accelerator-Friendly Lossless Image Format for
// High-Resolution, High-Throughput DNN Training" (ECCV 2022). docs/l3.md specifies
// both versions of the format byte by byte.
//
// # Nouns
//
// A patch is a rectangle of the picture that is coded on its own: it can be
// decoded without the others. Version 1 is the paper's format, with an extension
// for grey pictures and for sides that are no multiple of the patch's. Version 2
// is our own, smaller and for more kinds of pictures; it has two modes: dense, and
// fast, which is larger and decodes faster.
//
// A Target says where in memory the samples are to lie; any order of channels and
// rows will do, so that nothing has to be moved afterwards. A Backend decodes many
// pictures at once, on the processor or elsewhere.
package l3
