// Package text prints what bench and tune have measured as tables for a terminal.
package text
