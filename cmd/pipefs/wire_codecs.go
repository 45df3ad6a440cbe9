package main

import (
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/turbo"
)

// registry knows all formats and steps.
func registry(l transcode.Limits) *transcode.Registry { return codecs.Default(l) }

// turboAvailable says why JPEG files cannot be decoded.
func turboAvailable() error { return turbo.Available() }
