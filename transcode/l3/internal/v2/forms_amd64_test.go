package v2

import "github.com/pipefs/pipefs/transcode/internal/codectest"

var encodeForms = codectest.FormsOf(&encodeAccelerated)

// decodeForms: BMI2 is used beside AVX2 only.
var decodeForms = func() codectest.Forms {
	use := func(avx2, pdep bool) func() { return func() { decodeAVX2, decodePDEP = avx2, pdep } }
	f := codectest.Forms{{Name: "portable", Use: use(false, false)}}
	if decodeAVX2 {
		f = append(f, codectest.Form{Name: "avx2", Use: use(true, false)})
	}
	if decodePDEP {
		f = append(f, codectest.Form{Name: "avx2+bmi2", Use: use(true, true)})
	}
	return f
}()
