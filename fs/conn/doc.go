// Package conn is the connection of a mount to the kernel. It reads requests, has them
// answered by a file system of go-fuse's interface, and writes the replies.
//
// # Nouns
//
// A request is what the kernel asks: an opcode, a node, and what belongs to them. The
// unique number of a request is in its reply. FORGET and INTERRUPT have no reply.
//
// The handshake is INIT, the first request of a connection, and the reply to it: what both
// sides can do. The kernel sends it once. A process that takes a connection over from
// another one is given the handshake, and goes on reading requests.
//
// A notice is what the daemon tells the kernel without being asked: forget a name, forget
// what is known of a node, send again what nobody answered.
//
// A backing file is one that the kernel reads itself, instead of asking for its bytes.
//
// A reader is a goroutine that reads a request and answers it. While it does, another one
// reads: a request that takes long holds up no other.
//
// Requests that cost a training time (LOOKUP, GETATTR, OPEN, READ, RELEASE, and the IOCTL by
// which CPython asks each file whether it is a terminal) are answered here without leaving
// garbage. All others are go-fuse's: its ProtocolServer allocates for each request.
//
// # go-fuse 2.12
//
// ProtocolServer cannot be ended: cancelAll is not exported, so its requests are not cancelled
// when the connection dies. It answers READ with EIO if the ReadResult has neither Slices nor
// Readv. It truncates READLINK replies to the remaining space without an error. It answers an
// interrupt that it reads before its request with EAGAIN, and the kernel repeats it: this package
// remembers recent ones. MaxWrite sets both the receive buffers and the size of READ; a read-only
// file system can announce max_write 4096 and MaxPages 256, so that READ stays at 1 MiB and
// each reader needs 128 KiB.
package conn
