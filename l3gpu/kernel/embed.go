package kernel

import _ "embed"

// PTX is the program: l3.cu in the form that NVIDIA's drivers compile when it is
// loaded. scripts/ptx makes it.
//
//go:embed l3.ptx
var PTX []byte
