// Package tune finds the mix of representations that serves a store best here: the
// offline profiler of Liquid (section 4.1), for a loader that reads files.
//
// # Nouns
//
// The calibration samples are some of the store's, evenly spread, that are stored
// in full for the length of the measurement. A pair is what is mixed: the pixels in
// full, and an encoded representation of the same pixels, which the mount decodes, or
// the loader where it is given the files themselves. The costs of a pair are
// the seconds that loading and decoding take, measured apart; from them the rate of
// every ratio is predicted. The ratios around the best prediction, and both ends,
// are then measured as a training would meet them: mounted, nothing in the page
// cache, read through the mount by a loader on as many workers.
//
// A [Row] is a view at a ratio, and what was measured of it; a [Report] is all of
// them and the verdict.
package tune
