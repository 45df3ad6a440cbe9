// Package prepare does work ahead of time.
//
// A [Background] makes the files of the views that are in use, and keeps them in the
// overlay of a mount, while nobody waits for anything else; it throttles itself where
// others need the machine. [Materializing] decides which samples of a store belong to a
// fraction of a view, and makes them. Package pack below this one says what a store keeps
// of a dataset.
package prepare
