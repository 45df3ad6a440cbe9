// Package compare is pipefs bench: it opens what is to be measured, sets the limits, chooses the
// views and the loader, and runs package bench.
package compare
