// Package fs presents an image dataset as a directory of views. It owns names,
// inodes, offsets and errno, and nothing else: what the files hold comes from package
// serve.
//
// # Nouns
//
// The tree is the dataset's tree of directories and files, as far as it was
// listed. An entry is a member of it; its id is a number that is given once. A
// file that changes in the dataset, told by its identity, becomes another entry
// with another id: the bytes of an entry never change.
//
// A view is a pipeline presented as a directory below the root of the mount. It
// shows the whole tree, each sample as the pipeline makes it, and all other files
// as they are. A view exists as soon as its spec is valid; only some are listed. Where
// thousands were entered, those that nobody uses are forgotten, and made again when they
// are entered again.
//
// A node is what the kernel calls an inode: one entry in one view. Its number is
// computed, view<<32 | entry, so nothing is stored for it. FORGET only counts: a view
// can go when the kernel knows no node of it. What a view shows as it is has the node
// of the view `original`, like a hard link, so that the page cache holds it once; what
// `bmp-own` or `stored-bmp` makes has the node of `bmp`. View 0
// has the nodes that belong to no view: the root, its links, and `.pipefs`.
//
// The own name of an entry is its name in the dataset. The listed name is the
// one under which a view lists it, with the extension of the format that the view
// makes of it: `a.jpg` is listed as `a.bmp`. A view of own names lists those. Every file has one listed name, and
// listed names are unique. The own name leads to the same node, though it is not
// listed, so that annotations which name `a.jpg` keep working.
//
// [FS.Walk] gives the names of a view without any mount.
//
// # The root
//
//	original/ scan5/ bmp/   views; any other valid spec can be entered as well
//	current -> scan5        a link that [FS.SetCurrent] moves
//	.draw/SEED/EPOCH/VIEW/  random views, not listed either
//	.pipefs/                not listed: to ImageFolder every directory is a class
//	    manifest, …         files of Options: what the views are, as JSON
//	    control             link to the daemon's socket
//	    lists/scan5.txt     the samples of a view, one path a line
//	    batches-NAME        what a reader asks for, any name, not listed
//
// # Other daemons
//
// A mount may outlive its daemon. What the kernel was told is in the [Journal]: entries and
// their attributes, listings, views, specials. The next daemon makes the same tree of it,
// with the same numbers, and looks every directory through for what changed meanwhile. Open
// files need no handles; the handle of a directory tells the version of its listing. What
// cannot be found again is ESTALE, for which the kernel looks the path up again.
//
// # Caches
//
// A file that changed gets another id, and the kernel is told to forget the names
// that led to the former one. Its pages need not be forgotten: no name leads to them.
// A reader that still has the former file open sees the cached bytes. Any other read
// of it returns ESTALE. Old and new bytes are never mixed.
//
// Changes are noticed when a directory is opened, when a name is looked up or not
// found, and when a file has to be read. What the kernel keeps it does not ask for,
// so [Freshness] says what else there is:
//
//   - [Watched]: names and attributes have no timeouts, and opens are not asked for.
//     Each directory is watched from before it is first listed. A change makes the
//     entries that the kernel may know other ones; nothing is listed until somebody
//     asks. A LOOKUP that was under way meanwhile is done again (dir.events).
//   - [Checked]: names and attributes expire after a second, and OPEN compares the
//     file with what was looked up. The kernel answers ESTALE by looking the name up
//     again.
//   - [Immutable]: there is nothing else.
//
// Files that are no samples, and what a Watched mount cannot watch, expire after a
// second.
//
// Listing never reads a file. The size of a sample in a view is found when it is
// looked up, and is exact.
package fs
