//go:build race

package testmount

const raceEnabled = true
