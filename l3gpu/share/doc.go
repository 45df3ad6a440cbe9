// Package share lets several processes that train have their L3 pictures decoded by one
// decoder, that of a mount, into memory of the GPU that they see too.
//
// # Nouns
//
// A client is a process that trains, and the connection it has. It sits on a seat, of
// which there are as many as Options.Clients: a client more is refused, and none waits
// for another. A seat has [SlotsEach] slots. A slot is a piece of the GPU's memory, of
// Options.SlotBytes, made when it is first needed and exported: its handle is what a
// client opens it by (cuIpcOpenMemHandle). A batch is decoded into a slot and granted to
// the client under a generation, a number that no other batch has; until the client
// releases that generation the slot is his.
//
// # The protocol
//
// A stream socket in the file system, beside that of package control and kept in the
// same way: only the user of the daemon and root may connect. Its path is in
// MNT/.pipefs/gpu/socket. Each line is a JSON object, a [Request] or a [Reply], and each
// request has one reply, in their order:
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
// Paths are relative to the mount, without links. A client may send requests before it
// has the replies to earlier ones, up to a few: so the next batch is decoded while it
// trains on this one. It says close once it has closed all handles.
//
// # What is certain
//
// A reply to decode is sent when the GPU is done and the host has waited for that
// (cuEventSynchronize): a client needs no event of ours. An interprocess event would save
// that wait, which costs nothing here, since it is a goroutine that sleeps, and would
// need a second kind of handle with a lifetime of its own.
//
// A slot is written again only when its client released it, or when there is nobody
// left who could use it: the connection has ended, and the process is gone, which the
// kernel tells by its pidfd. An ended connection alone says nothing, since the GPU may
// still be working for the client. The kernel ends the connection when the last process
// has closed it that the client forked, which have its GPU open as well.
//
// Memory is freed only when no client may have it open: CUDA calls anything else
// undefined. If one has when the mount ends, the memory goes with the daemon's process.
//
// # Hostile clients
//
// They can hold their own seat, and nothing else. Lines, paths, pictures, files and what
// comes of them are bounded before anything is allocated. Who does not say open at once,
// does not read, or sends too much is cut off.
package share
