// Package pack says what a store keeps of a dataset.
//
// A [Dataset] is the [store.Source] of `pipefs pack`, and its [store.Encoder]. A sample
// whose format can be split is stored as its parts, with the data that reconstructs the
// file from them ([Rebuild]), or with the file itself ([Keep]), or with neither
// ([Drop]). Any other sample is stored as the file it is, and where
// [Dataset.Represent] is set as a substitute representation, from which every view can
// be made. Every other file is stored as it is.
package pack
