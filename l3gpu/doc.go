// Package l3gpu decodes L3 pictures on an NVIDIA GPU: it is a [l3.Backend]. All it
// needs of CUDA is the driver's own library, found at run time; the program for the
// GPU travels as PTX within ours.
//
// # Nouns
//
// A batch is what one call decodes: pictures of any sizes and kinds. It is cut into
// pieces, each of which goes to the GPU, is decoded and comes back at once. A slot is
// the room for one piece, on the GPU and, laid out in the same way, in memory here
// that the GPU reaches. There are three, so that one piece comes and one goes while a
// third is computed. Together they take what [Options] allow, and never more.
//
// A [Backend] decodes batches, to where l3.Targets say, or as one piece of memory in
// the [Numbers] that training wants, here or as a [Tensor] on the GPU. A [Gatherer]
// makes batches of pictures that many callers want at about the same time. [Start]
// puts all of it together for a program that does not know whether there is a GPU, or
// whether it is worth anything; what decides is [Compare].
//
// A tensor may be exported: then other processes of this user open it by its [Handle],
// and its memory outlives the backend, unless it is freed by one who knows that nobody
// has it open. Package share hands pictures over in this way.
//
// # Failures
//
// The processor has the last word. It decodes what the GPU cannot: pictures that no
// slot holds, pictures that the GPU's program refused, so that the errors are the
// processor's own, and whole batches when the GPU fails. A GPU that is lost, that does
// not answer, or fails three times in a row is not asked again. Nobody notices but by
// the time it takes and one line in the log.
package l3gpu
