//go:build race

package kernel

// raceDetector says that what the interpreter does takes twenty times as long.
const raceDetector = true
