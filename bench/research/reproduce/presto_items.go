package main

const (
	prestoSetup = " CV, CV2-JPG and CV2-PNG have other pictures than ImageNet and Cube++, and the steps `resize256-center`. Two cores and a local disk stand in for eight threads and a Ceph cluster at 10 Gb/s."
	differsHDD  = "the slow disk is a cgroup: 150 reads/s and 200 MB/s"
	noPipefs    = "disks and memory, without pipefs"
	hardDisk    = 150   // reads a second
	hardDiskBPS = 200e6 // bytes a second
)

func prestoItems() []*item {
	return []*item{
		{
			paper: "presto", parts: []string{"Figure 1", "Figure 2", "Figure 4", "Figure 5"}, title: "sizes of data sets over the years, and pipelines, drawn",
			reason: "drawings",
		},
		{
			paper: "presto", parts: []string{"Figure 3"}, title: "rate of ResNet-50 on several GPUs and TPUs",
			reason: "accelerators",
		},
		{
			paper: "presto", parts: []string{"Table 1"}, title: "three strategies of the CV pipeline",
			says:    "All steps at every read 107 samples/s and 146 GB; all once 576 and 1,535 GB; until the resize step 1,789 and 494 GB.",
			differs: differsHDD,
			name:    "presto-table1", seconds: 120, run: prestoStrategies,
		},
		{
			paper: "presto", parts: []string{"Table 2"}, title: "the data sets",
			reason: "data sets",
		},
		{
			paper: "presto", parts: []string{"Table 3"}, title: "raw reads: one large file and many small ones",
			reason: noPipefs,
		},
		{
			paper: "presto", parts: []string{"Table 4"}, title: "throughput by concatenation",
			says:    "107 to 962 samples/s for CV on hard disks, 588 to 944 on SSD; 88 to 288 for CV2-JPG, 15 to 21 for CV2-PNG.",
			differs: differsHDD + "; no NLP",
			name:    "presto-table4", seconds: 60, run: prestoConcatenation,
		},
		{
			paper: "presto", parts: []string{"Table 5"}, title: "system-level and application-level caching of the last strategy",
			says:    "3.3 and 15.2 times for CV2-JPG, 3.5 and 14.5 times for CV2-PNG, against no cache.",
			differs: "no sound and signals",
			name:    "presto-table5", seconds: 45, run: prestoCaches,
		},
		{
			paper: "presto", parts: []string{"Figure 6"}, title: "storage and throughput of all strategies: CV, CV2-JPG, CV2-PNG",
			says:    "For all three the resized strategy is the fastest; pixel-centred takes four times its bytes and is slower.",
			differs: "no slow disk",
			name:    "presto-figure6", seconds: 1, run: prestoAll,
		},
		{
			paper: "presto", parts: []string{"Figure 7"}, title: "reading and deserialising by size of a sample",
			reason: noPipefs,
		},
		{
			paper: "presto", parts: []string{"Figure 8"}, title: "caching and throughput",
			says:    "Caching helps where the data fits and no expensive step is left.",
			differs: "CV, CV2-JPG and CV2-PNG only; no slow disk",
			name:    "presto-figure8", seconds: 1, run: prestoCaching,
		},
		{
			paper: "presto", parts: []string{"Figure 9"}, title: "caches by size of a sample",
			reason: noPipefs,
		},
		{
			paper: "presto", parts: []string{"Figure 10"}, title: "compression",
			says:    "1.6 to 2.4 times for pixel-centred; a loss for decoded JPEG (0.89).",
			differs: differsHDD,
			name:    "presto-figure10", seconds: 90, run: prestoCompression,
		},
		{
			paper: "presto", parts: []string{"Figure 11"}, title: "threads by size of a sample",
			reason: noPipefs,
		},
		{
			paper: "presto", parts: []string{"Figure 12"}, title: "threads and strategies",
			says:    "Most strategies gain by threads; the last ones less when they are cached.",
			differs: "one and two workers instead of 1, 2, 4 and 8; CV only",
			name:    "presto-figure12", seconds: 35, run: prestoThreads,
		},
		{
			paper: "presto", parts: []string{"Figure 13"}, title: "a step in NumPy and in TensorFlow",
			reason: "Python's lock",
		},
		{
			paper: "presto", parts: []string{"Figure 14"}, title: "a grey step before and after pixel-centring",
			says:    "Grey before it: 4,284 samples/s for the best strategy, 1,513 without; after it: 1,384 against 534 for the last.",
			differs: "other pictures",
			name:    "presto-figure14", seconds: 35, run: prestoGrey,
		},
		{
			paper: "presto", parts: []string{"Section 4.5"}, title: "what shuffling costs",
			reason: noPipefs,
		},
	}
}
