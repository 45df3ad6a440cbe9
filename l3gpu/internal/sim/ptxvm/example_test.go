package ptxvm_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/pipefs/pipefs/l3gpu/internal/sim/ptxvm"
)

// A kernel with one thread too many for its memory.
func Example() {
	m, err := ptxvm.Parse(`.version 7.0
.target sm_75
.address_size 64
.visible .entry number(.param .u64 out)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	mad.wide.u32 %rd2, %r1, 4, %rd1;
	st.global.u32 [%rd2], %r1;
	ret;
}`)
	if err != nil {
		log.Fatal(err)
	}
	d := ptxvm.NewDevice(ptxvm.Options{})
	p, err := d.Load(m)
	if err != nil {
		log.Fatal(err)
	}
	out, err := d.Alloc(4*7, 256)
	if err != nil {
		log.Fatal(err)
	}
	params, err := p.Pack("number", ptxvm.U64(out))
	if err != nil {
		log.Fatal(err)
	}
	for _, threads := range []uint32{7, 8} {
		stats, err := p.Launch("number", [3]uint32{1, 1, 1}, [3]uint32{threads, 1, 1}, 0, params)
		var f *ptxvm.Fault
		if errors.As(err, &f) {
			fmt.Printf("%s in line %d by thread %d\n", f.Kind, f.Line, f.Thread[0])
			continue
		}
		fmt.Println(stats.Total.Lanes, "instructions,", stats.GlobalStored, "bytes stored")
	}
	// Output:
	// 35 instructions, 28 bytes stored
	// out of bounds in line 11 by thread 7
}
