// Package codecs puts the usual registry together: the formats that samples come
// in, and the steps that views are made of. It is the one place that knows all
// codecs; a new one is added here.
package codecs
