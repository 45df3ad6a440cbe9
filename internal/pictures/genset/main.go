// Command genset writes a [pictures.Dataset].
package main

import (
	"flag"
	"log"

	"github.com/pipefs/pipefs/internal/pictures"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("genset: ")
	d := pictures.Flags(flag.CommandLine)
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: genset [flags] DIR")
	}
	if err := d.Write(flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}
