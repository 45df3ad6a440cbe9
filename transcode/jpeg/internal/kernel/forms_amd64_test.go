package kernel

// forms are those that kernels have on this processor.
var forms = func() []form {
	f := []form{{"portable", func() { accelerated = false }}}
	if accelerated {
		f = append(f, form{"avx2", func() { accelerated = true }})
	}
	return f
}()
