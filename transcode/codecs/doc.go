// Package codecs puts the usual registry together: the formats that samples come
// in, and the steps that views are made of. It is the one place that knows all
// codecs; a new one is added here.
//
// It has one noun of its own: the step `scan`, which cuts a JPEG between its
// progressive scans. The level in its argument, 1 to 10, says how much of the
// picture is wanted; each level is a number of scans, and level 10 is all of
// them, in grey files too, which have fewer scans.
package codecs
