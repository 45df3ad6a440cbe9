// Command l3 is this repository's half of `make bench-l3`, which compares L3 with
// other lossless codecs; compare.py is the other half and prints the tables.
//
// # Nouns
//
// A way is a codec with its settings. A set is pictures that every way is measured
// on; a pass encodes or decodes all pictures of a set once.
//
//	l3 generate DIR    writes sets that need no download, as PNG files
//	l3 measure         measures passes
//
// measure reads one request a line and answers each with a line, both of them JSON:
//
//	{"do":"load","ppm":["a.ppm"],"png":["a.png"]}   {"ways":[{"name":"L3 v2 fast","bytes":1,"encodes":true}]}
//	{"do":"decode","way":"L3 v2 fast","passes":5}   {"seconds":0.1}
//	{"do":"encode","way":"L3 v2 fast","passes":5}   {"seconds":0.2}
//
// Seconds are CPU time, of all threads of the process. So working in several threads
// gains nothing, and other processes on the machine disturb little. compare.py asks for
// passes of the two halves in turn.
package main
