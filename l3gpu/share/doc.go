// Package share lets several processes that train have their L3 pictures decoded by one
// decoder, that of a mount, into memory of the GPU that they see too.
//
// # Nouns
//
// A client is a process that trains, and its connection. Each client takes a seat. There are
// Options.Clients seats; a client that finds none is refused, so that no client waits for
// another one. A seat has [SlotsEach] slots. A slot is Options.SlotBytes of the GPU's memory.
// It is made when it is first needed, and exported: the client opens it by its handle
// (cuIpcOpenMemHandle). A batch is decoded into a slot, and the reply gives it a generation, a
// number that no other batch has. The slot is the client's until it releases that generation.
//
// # The protocol
//
// The socket is a stream socket in the file system, beside that of package control: only the
// user of the daemon and root may connect. Its path is in MNT/.pipefs/gpu/socket. Each line is
// a JSON object, a [Request] or a [Reply]. Each request has one reply, in the order of the
// requests:
//
//	{"v":1,"op":"open","pid":4711}
//	{"v":1,"device":{"uuid":"GPU-…","pci":"0000:65:00.0","name":"…"},"slots":3,"slot_bytes":67108864}
//	{"v":1,"op":"decode","paths":["l3/cats/7.l3","l3/dogs/1.l3"],"layout":"CHW","dtype":"float32","mean":[0.5],"std":[0.25]}
//	{"v":1,"slot":0,"generation":9,"handle":"cGlwYw…","pictures":[{"offset":0,"shape":[3,480,640],"dtype":"float32"},{"error":"…","kind":"damaged"}]}
//	{"v":1,"op":"release","slot":0,"generation":9}
//	{"v":1}
//	{"v":1,"op":"close"}
//	{"v":1}
//
// Paths are relative to the mount, without links. A client may send a few requests before it
// has the replies to earlier ones. So the next batch is decoded while it trains on this one.
// It sends close when it has closed all handles.
//
// # What is certain
//
// A reply to decode is sent when the GPU is done and the host has waited for that
// (cuEventSynchronize), so that a client needs no event of ours. An interprocess event would
// save that wait. But the wait is a goroutine that sleeps, and the event would need a second
// kind of handle with a lifetime of its own.
//
// A slot is written again only when its client released it, or when no process can use it any
// more: the connection has ended, and the process has ended, as its pidfd says. The end of the
// connection is not enough, since the GPU may still work for the client. Processes that the
// client forked have its GPU open as well; the kernel ends the connection when the last of
// them has closed it.
//
// Memory is freed only when no client may have it open: CUDA does not define what happens
// otherwise. If a client has memory open when the mount ends, the memory is freed with the
// daemon's process.
//
// # Hostile clients
//
// A hostile client can hold its own seat, and nothing else. Lines, paths, pictures, files and
// what is made of them are bounded before anything is allocated. The connection of a client
// that does not send open at once, does not read, or sends too much is closed.
package share
