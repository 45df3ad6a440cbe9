// Package enhance changes the values of 8-bit pictures, grey or RGB, and moves their pixels,
// in place, as torchvision's transforms do on Pillow's pictures: bit for bit, but for [Picture.Blur],
// which torchvision computes in floats.
//
// The nouns:
//
//   - A table has a byte for each value of a channel. Whatever changes a value by itself is a
//     table; it is made once a picture, by the float32 operations of Pillow in their order.
//   - A blend is a + factor·(b-a), cut off to a byte, for two pictures a and b, as Pillow's
//     Image.blend.
//   - A warp takes the place of each pixel through an affine matrix, and blends the four
//     pixels around it. It is computed in integers, and again in doubles, as Pillow does, where
//     the integers lie so close to the next value that their error may count.
package enhance

// Picture is pixels without padding: Channels is 1 or 3.
type Picture struct {
	Pix                     []byte
	Width, Height, Channels int
	// Nearest: it is a mask. Its pixels are taken whole, and any number of channels will do, each of so
	// many Bytes. It can only be moved.
	Nearest bool
	Bytes   int
}
