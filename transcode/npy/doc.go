// Package npy writes NumPy's array format, version 1.0.
//
// # Nouns
//
// A file is a magic number, a version, the length of the header as 16 bits, the
// header (a Python dictionary of dtype, order and shape), padded with blanks so
// that the values begin at a multiple of 64 bytes, and the values in C order.
//
// # What is written
//
// What np.asarray gives of the picture that Pillow opens: (height, width,
// channels), or (height, width) where there is one channel; '|b1' for black and
// white, '|u1', '<u2' or '<f4' for the rest. After `chw` it is (channels,
// height, width), also for one channel. np.load(…, mmap_mode='r') maps it.
package npy
