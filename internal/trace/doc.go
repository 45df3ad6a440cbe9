// Package trace records single requests while somebody asks for them, and tells what they have in
// common: the slowest files, files that were read again, and the order of reading.
//
// A [Recorder] belongs to one mount. It is off until [Recorder.Take] is called, and goes off again
// when nobody has called it for a few seconds; the path of a read pays for one atomic load then.
// It keeps the last [Kept] requests; how many were lost is told.
package trace
