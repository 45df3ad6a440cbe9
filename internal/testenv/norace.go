//go:build !race

package testenv

// Race says that the test runs under the race detector, which takes ten times as long.
const Race = false
