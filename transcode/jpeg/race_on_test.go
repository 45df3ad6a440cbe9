//go:build race

package jpeg

const raceEnabled = true
