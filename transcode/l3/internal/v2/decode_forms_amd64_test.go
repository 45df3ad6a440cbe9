package v2

// decodeForms are those that there are on this processor.
var decodeForms = func() []decodeForm {
	use := func(avx2, pdep bool) func() { return func() { decodeAVX2, decodePDEP = avx2, pdep } }
	f := []decodeForm{{"portable", use(false, false)}}
	if decodeAVX2 {
		f = append(f, decodeForm{"avx2", use(true, false)})
	}
	if decodePDEP {
		f = append(f, decodeForm{"avx2+bmi2", use(true, true)})
	}
	return f
}()
