package main

import (
	"strings"

	"github.com/pipefs/pipefs/bench/loader"
)

// readerOption is --for: the loader of the training.
func readerOption(p *string) *option {
	names := loader.ReaderNames()
	return &option{name: "for", arg: strings.Join(names, "|"), def: "what most of them read", set: intoChoice(p, names...),
		help: "the loader of the training: torchvision's ImageFolder (torch), timm, Keras' image_dataset_from_directory, Ultralytics (yolo), DALI, Hugging Face's imagefolder (hf), OpenCV's imread (opencv), torchvision.io or TorchCodec. What it cannot read is neither measured nor recommended"}
}
