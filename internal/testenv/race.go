//go:build race

package testenv

// Race: the test runs under the race detector, which takes ten times as long.
const Race = true
