// Package listfiles finds files of a dataset that name its other files by absolute
// paths: lists of samples, CSV, JSON and YAML files. Shown in a view, such a file still
// leads to the dataset, past the mount.
//
// Only small files at the top of the dataset are looked through, and few of them: it
// is done each time that something is mounted.
package listfiles
