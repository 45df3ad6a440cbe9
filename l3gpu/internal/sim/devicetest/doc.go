// Package devicetest is a device for tests: it computes on a Machine, works through
// its streams on goroutines of their own, fails where it is told to, and counts what
// was taken and what was given back.
//
// # Nouns
//
// A Machine is what holds the device's memory and runs programs. A GPU is the
// device.Device over it. A call is any call of it, or of what comes from it, that the
// real one could fail; calls are counted from 1.
package devicetest
