package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/jpeg/steps"
)

func versionCommand(env *environ) *command {
	var asJSON bool
	return &command{
		name: "version", args: "", min: 0, max: 0,
		brief: "print the version, and what pipefs found on this machine",
		examples: []example{
			{"pipefs version", "what to put into a bug report"},
			{"pipefs version --json", "the same for programs"},
		},
		options: []*option{{name: "json", set: intoBool(&asJSON), help: "print JSON"}},
		run: func(context.Context, []string) error {
			v := versions()
			if asJSON {
				object := map[string]string{}
				for _, line := range v {
					object[line[0]] = line[1]
				}
				return printJSON(env.stdout, object)
			}
			for _, line := range v {
				fmt.Fprintf(env.stdout, "%-14s%s\n", line[0], line[1])
			}
			return nil
		},
	}
}

// versions lists name and version of all that matters.
func versions() [][2]string {
	gofuse := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/hanwen/go-fuse/v2" {
				gofuse = dep.Version
			}
		}
	}
	turbo := "used, because this processor has no AVX2"
	if err := steps.Library(); err != nil {
		turbo = fmt.Sprintf("not used: %v", err)
	} else if jpeg.Vectorised {
		turbo = "found, and not needed"
	}
	device := "ready"
	if err := mounts.CheckFUSE(""); err != nil {
		device = err.Error()
	}
	return [][2]string{
		{"pipefs", mountd.Version()},
		{"go", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
		{"go-fuse", gofuse},
		{"libturbojpeg", turbo},
		{"fuse", device},
		{"kernel", kernelFUSE()},
	}
}

// kernelFUSE is the kernel's release, on which depends what FUSE can do.
func kernelFUSE() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return "Linux " + unix.ByteSliceToString(name.Release[:])
}
