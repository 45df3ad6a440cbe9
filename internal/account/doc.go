// Package account tells where the time of reads goes, and what holds a training back.
//
// A [Ledger] belongs to one mount. The file system notes the begin and end of each LOOKUP, OPEN and READ
// in it, without a lock and without allocating. Each request counts for a view ([View]) and for the thread
// that sent it. The server notes in a [Spent] what a request waited for. Once a second a sampler groups
// threads into processes and looks at how much processor time they used between their reads. It keeps the
// last minute.
//
// Terms:
//
//   - waited: the time in which a thread had a request under way
//   - away: the time between the end of a request and the begin of the next one of that thread. It is
//     divided into computed, queued (waiting for a core) and slept, by the processor time of the process.
//   - part: what a request waited for. Source is reading the dataset, store or overlay; Worker a place among
//     those that compute; Compute the steps of the view; Memory a limit on memory. The remainder is Copy:
//     names, and copying to the kernel.
//
// [Judge] is a pure function of two snapshots. It says which of these holds the training back, or that
// this cannot be told.
//
// A [Recorder] belongs to one mount, too. It records single requests while somebody asks for them, and
// [Summarize] tells what they have in common: the slowest files, files that were read again, and the order
// of reading. It is off until [Recorder.Take] is called, and goes off again when nobody has called it for a
// few seconds; the path of a read pays for one atomic load then. It keeps the last [KeptEvents] requests;
// how many were lost is told.
package account
