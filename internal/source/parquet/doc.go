// Package parquet finds where the values of Parquet files lie. A file holds its columns in groups
// of rows; in a group, the values of a column lie in pages, each compressed for itself. Other
// readers return values. This one returns byte ranges, so that a value can be read without the
// values around it.
//
// Whatever a file says of itself is checked before memory is allocated for it.
package parquet
