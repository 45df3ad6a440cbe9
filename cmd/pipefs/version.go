package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
)

func versionCommand(env *environ) *cli.Command {
	return &cli.Command{
		Name: "version", ArgsUsage: "", Category: administration, Usage: "print the version and what was found on this machine",
		UsageText: "pipefs version    # for a bug report",
		Action: takes(0, 0, func(context.Context, []string) error {
			for _, line := range versions() {
				fmt.Fprintf(env.stdout, "%-14s%s\n", line[0], line[1])
			}
			return nil
		}),
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
	device := "ready"
	if err := mounts.CheckFUSE(""); err != nil {
		device = err.Error()
	}
	return [][2]string{
		{"pipefs", mountd.Version()},
		{"go", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
		{"go-fuse", gofuse},
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
