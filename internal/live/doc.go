// Package live serves the page of `pipefs live`: what a mount does, second by second.
//
// The server listens at 127.0.0.1 only. Every address on it begins with a random token, without which it answers 404:
// other users of the machine can connect, and see nothing. The page loads nothing from elsewhere.
package live
