//go:build !amd64

package kernel

var forms = []form{{"portable", func() {}}}
