// Package bench holds the benchmarks of the mount itself, in Go's format:
//
//	go test -run '^$' -bench . ./bench
//
// Each compares two things in one run, A B A B, and reports the ratio of their
// medians beside the rates: absolute times say little on a shared machine. The
// daemon is a process of its own, so that its CPU seconds can be told from the
// reader's.
//
// The folders below are what `pipefs bench` and `pipefs tune` are made of. research
// is a module of its own, whose programs only developers run.
package bench
