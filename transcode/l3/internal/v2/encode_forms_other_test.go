//go:build !amd64

package v2

var encodeForms = []encodeForm{{"portable", func() {}}}
