// Package mountd is a mount as a library: it opens what is to be mounted, mounts it,
// answers at the control socket, and ends in good order. It returns errors and knows no
// exit codes. What it tells the user names the options of pipefs mount.
//
// # Nouns
//
// A [Config] says what is mounted, where and how. [Start] makes a [Mount] of it, which
// answers when Start returns. [Mount.Supervise] is the life of a daemon: it returns when
// the mount is gone. A program that has something else to do calls [Mount.Stop] instead.
//
// [Config.Check] refuses what cannot work before anything is started.
//
// A [Source] is a dataset or a store that [OpenSource] has opened to be looked at, and to make files
// of without a mount. A [Listing] is the names in it, and a [Sample] is what is known of one of them
// without making anything.
//
// A daemon serves what its supervisor has mounted with [Attach].
//
// # Metrics
//
// A mount shows its counters to Prometheus, in the format OpenMetrics. The names follow Prometheus'
// conventions: seconds and bytes, and _total for counters. All of them begin with the mount and tell
// of views, never of files. docs/generated/metrics.md lists them.
//
// [Gaps] are the views of a store that lack samples, because neither the store nor a
// dataset has what they would show.
package mountd
