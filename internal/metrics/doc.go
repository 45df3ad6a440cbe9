// Package metrics shows the counters of a mount to Prometheus, in the format OpenMetrics.
//
// The names follow Prometheus' conventions: seconds and bytes, and _total for counters. All of them begin with the mount
// and tell of views, never of files. docs/generated/metrics.md lists them.
package metrics
