//go:build !amd64

package v1

var forms = []form{{"portable", func() {}}}
