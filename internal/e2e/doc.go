// Package e2e tests pipefs as its users run it: the real binary, real mounts,
// real loaders, and other people's decoders as judges. It has no code of its
// own.
package e2e
