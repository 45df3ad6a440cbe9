// Package doctor looks at everything on a machine that decides whether pipefs works well
// there, and says what to do about it.
//
// # Nouns
//
// A [Machine] is what is looked at: files below a root, and functions for what files do not
// tell. Tests give it the files and answers of other machines. A [Finding] is one thing that
// was looked at, with a [Mark]: it is well, or costs something, or keeps something from
// working. What keeps every mount from being made is fatal.
package doctor
