//go:build !amd64

package v2

var decodeForms = []decodeForm{{"portable", func() {}}}
