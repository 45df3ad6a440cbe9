// Package tune finds the mix of representations with which a store is read fastest here.
// It is the offline profiler of Liquid (section 4.1), for a loader that reads files.
//
// # Nouns
//
// The calibration samples are some samples of the store, evenly spread, that are
// materialized for the length of the measurement. A pair is what is mixed: materialized
// pixels, and an encoded representation of the same pixels. The encoded one is decoded by
// the mount, or by the loader if it is given the files themselves. The costs of a pair
// are the seconds that loading and decoding take, measured apart. They predict the rate
// of every ratio. The ratios around the best prediction, and both ends, are then measured
// as a training would read: mounted, with nothing in the page cache, by a loader on as
// many workers.
//
// A [Row] is a view at a ratio, and what was measured of it; a [Report] is all of
// them and the verdict.
package tune
