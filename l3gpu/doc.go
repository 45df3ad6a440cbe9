// Package l3gpu decodes L3 pictures on an NVIDIA GPU: it is a [l3.Backend]. Of CUDA it needs
// only the driver's own library, which it opens at run time. The program for the GPU is
// embedded as PTX.
//
// # Nouns
//
// A batch is what one call decodes: pictures of any sizes and kinds. It is cut into pieces.
// A piece is copied to the GPU, decoded and copied back as one. A slot is the memory for one
// piece, on the GPU and, laid out in the same way, in memory here that the GPU reaches. There
// are three slots: while one piece is decoded, another one is copied there and a third one is
// copied back. Together they take the memory that [Options] allow, and never more.
//
// A [Backend] decodes a batch to where l3.Targets say. A [Gatherer] makes batches of pictures
// that several callers want at about the same time. [Start] puts this together for a program
// that does not know whether there is a GPU; [Compare] measures whether the GPU is faster than
// the processor.
//
// # Failures
//
// The processor decides in the end. It decodes what the GPU cannot: pictures that fit no slot;
// pictures that the GPU's program refused, so that the errors are the processor's own; and
// whole batches when the GPU fails. A GPU that is lost, does not answer, or fails three times
// in a row is not used again. Callers then notice the longer time only, and the log has one
// line.
package l3gpu
