package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/bench/loader"
)

// readerOption is --for: the loader of the training.
func readerOption(p *string) cli.Flag {
	names := loader.ReaderNames()
	return opt("for", strings.Join(names, "|"), "what most of them read", intoChoice(p, names...),
		"the loader of the training: torchvision's ImageFolder (torch), timm, Keras' image_dataset_from_directory, Ultralytics (yolo), DALI, Hugging Face's imagefolder (hf), OpenCV's imread (opencv), torchvision.io or TorchCodec. What it cannot read is neither measured nor recommended")
}
