// Package loader reads directories of pictures as a training does.
//
// # Nouns
//
// A [Loader] reads epochs; a [Job] says of what, and an [Epoch] is what that took.
// There are three: [Builtin] reads and decodes as Pillow does, on goroutines, so that
// views can be compared without Python; [Torch] is torchvision's ImageFolder and
// PyTorch's DataLoader, unmodified; [Command] is the user's own.
//
// A [Pass] reads a list of files once, on several workers, in the order of the
// list, and decodes each or not: whole files, in the blocks in which CPython reads
// them. A [Result] is what it took: seconds, CPU seconds of this process, bytes, and
// how long single files took.
//
// An accelerator is emulated by sleeping. The samples that a loader reads before its
// clock starts are warm-up; they count all the same where fewer follow them.
//
// [Forget] makes the page cache drop what lies below a directory, so that the next pass
// finds it on the disk, as the first epoch of a training does.
package loader
