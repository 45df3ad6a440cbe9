// Package report shows what bench and tune have measured: as text for a terminal, and as
// one HTML file that needs no network, fonts or scripts.
//
// # Nouns
//
// A [Document] is what is shown: the advice, facts about the run, and sections with a
// [Table], bars and notes. [OfViews] and [OfTuning] make one; [Document.Text] and
// [Document.HTML] write it.
//
// All text is taken for what it says, never for markup: names of files may hold
// anything.
package report
