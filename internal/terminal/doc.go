// Package terminal writes for people: tables, notes, how far something is, and why some of many
// files failed.
package terminal
