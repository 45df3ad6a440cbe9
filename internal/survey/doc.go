// Package survey looks at the samples of a dataset or store, and says what there is, what views
// do to it, and which views to train from.
package survey
