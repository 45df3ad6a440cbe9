package control

import (
	"cmp"
)

// rowNames are the rows of pipefs stats for counters whose names, the keys of --json, are too
// short to stand alone: by group and name.
var rowNames = map[[2]string]string{
	{"tree", "entries listed"}:                          "files and directories listed",
	{"tree", "directories and links that could not be"}: "directories and links not watched",
	{"tree", "passthrough"}:                             "kernel reads cached files itself",
	{"tree", "views that were forgotten"}:               "unused views closed",

	{"serve", "of these, originals"}:                        "originals rebuilt from a store",
	{"serve", "made and kept"}:                              "samples kept on disk",
	{"serve", "made, and not kept: the disk is slow"}:       "samples not kept: the disk is slow",
	{"serve", "could not be made"}:                          "samples that failed",
	{"serve", "contents opened"}:                            "files opened",
	{"serve", "reads of open contents"}:                     "reads of files already open",
	{"serve", "memory"}:                                     "memory in use",
	{"serve", "fetched"}:                                    "bytes read from disk or bucket",
	{"mix", "opened from what is materialized"}:             "files opened as stored",
	{"mix", "made from something shorter"}:                  "files computed from an earlier step",
	{"mix", "copies that had to be made again"}:             "damaged copies made again",
	{"mix", "share aimed at"}:                               "target share of files opened as stored",
	{"background", "kept on disk"}:                          "prepared data on disk",
	{"background", "full"}:                                  "limit reached",
	{"bugs", "panics"}:                                      "internal errors",
	{"epochs", "batches that could not be made"}:            "batches that failed",
	{"refused", "more directories"}:                         "more directories refused",
	{"gpu", "given up"}:                                     "GPU no longer used",
	{"gpu", "left to the processor"}:                        "pictures decoded by the processor instead",
	{"store", "newer ones were last looked for"}:            "last check for a newer generation",
	{"store", "what was wrong then"}:                        "error of that check",
	{"hints", "of these, read"}:                             "loaded ahead, then read",
	{"hints", "here already, or read before it was loaded"}: "not needed: loaded or read already",
	{"hints", "loaded for nothing: nobody has read it"}:     "loaded ahead, never read",
	{"hints", "dropped: the reader went on without it"}:     "dropped: the reader was faster",
	{"hints", "not there, or could not be loaded"}:          "missing, or failed to load",
	{"hints", "senders that read other files"}:              "programs that read other files than announced",
	{"hints", "memory"}:                                     "memory in use",

	{"hints", "of these, by a reader that came while it was loaded"}:      "loaded ahead, read while loading",
	{"epochs", "samples that are black: they could not be made"}:          "failed samples shown as black",
	{"epochs", "samples in the place of others: these could not be made"}: "failed samples replaced by others",
	{"background", "given back of samples that changed or went"}:          "freed: samples changed or were removed",
	{"bucket", "objects replaced since they were listed, and found so"}:   "objects replaced since they were listed",
	{"refused", "samples by themselves: the log names some"}:              "single samples refused (see the log)",

	{"disk cache", "blocks read from it"}:                         "blocks found in the cache",
	{"disk cache", "blocks that a reader waited for"}:             "blocks fetched while a reader waited",
	{"disk cache", "fetched"}:                                     "bytes fetched from the bucket",
	{"disk cache", "read from it"}:                                "bytes read from the cache",
	{"disk cache", "kept of this bucket"}:                         "bytes of this bucket in the cache",
	{"disk cache", "fetched, and not kept: it is full"}:           "bytes not cached: the cache is full",
	{"disk cache", "removed, to make room"}:                       "bytes evicted",
	{"disk cache", "blocks that were damaged, and fetched again"}: "damaged blocks fetched again",

	{"cache", "kept"}:                "bytes kept",
	{"cache", "kept for this epoch"}: "bytes kept for this epoch",
	{"cache", "kept for the next"}:   "bytes kept for the next epoch",
	{"cache", "samples of an epoch"}: "samples in one epoch",
	{"cache", "read in this one"}:    "samples read in this epoch",
}

// RowName is what pipefs stats calls a counter.
func RowName(c Counter) string {
	name := rowNames[[2]string{c.Group, c.Name}]
	if name == "" && c.Name == "read" {
		name = "bytes read" // of a view
	}
	return cmp.Or(name, c.Name)
}
