package v2

// encodeForms are those that there are on this processor.
var encodeForms = func() []encodeForm {
	f := []encodeForm{{"portable", func() { encodeAccelerated = false }}}
	if encodeAccelerated {
		f = append(f, encodeForm{"avx2", func() { encodeAccelerated = true }})
	}
	return f
}()
