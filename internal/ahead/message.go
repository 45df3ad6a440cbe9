package ahead

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Version of the messages.
const Version = 1

// Command is the number of the ioctl by which messages are sent, without its size:
// _IOWR('p', 0xa1, MESSAGE). It returns 0, or 1 where the message is refused; its argument is
// then the reason, and ends with a zero byte.
const Command = 3<<30 | 'p'<<8 | 0xa1

// MaxMessage is the most bytes that a message can have: the size has 14 bits in the number of
// an ioctl.
const MaxMessage = 1<<14 - 1

// CommandSize is how large the argument of an ioctl is, and whether it is one of ours.
func CommandSize(command uint32) (size int, ok bool) {
	return int(command >> 16 & MaxMessage), command&^uint32(MaxMessage<<16) == Command
}

// header is the first line of a message, in JSON. What follows are paths below the root of the
// mount, each with a zero byte behind it; or with Digest, places in the list of Dir, each of
// four bytes, the lowest one first.
type header struct {
	V      int    `json:"v"`
	Stream string `json:"stream"` // chosen by the sender
	// Replace: what the stream has announced before is read, or will not be.
	Replace bool `json:"replace"`

	View string `json:"view"`
	Dir  string `json:"dir"` // of the dataset; empty for all of it
	// Digest is the SHA-256 of the names of the list, in hexadecimal digits: of the paths of
	// the samples that ImageFolder finds in Dir of the view, below that, each with a newline
	// behind it. With Own they are the paths in the dataset.
	Digest string `json:"digest"`
	Own    bool   `json:"own"`
}

// maxStream bounds the name of a stream, in bytes.
const maxStream = 64

// parse reads a message.
func parse(message []byte) (h header, rest []byte, err error) {
	line, rest, ok := bytes.Cut(message, []byte{'\n'})
	if !ok {
		return h, nil, errors.New("the message has no first line")
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, nil, fmt.Errorf("the first line of the message cannot be read: %w", err)
	}
	switch {
	case h.V != Version:
		return h, nil, fmt.Errorf("the daemon knows version %d of hints, not %d: use the pipefs that mounted", Version, h.V)
	case h.Stream == "" || len(h.Stream) > maxStream:
		return h, nil, fmt.Errorf("the name of a stream has 1 to %d bytes", maxStream)
	}
	return h, rest, nil
}

// paths reads what follows the first line.
func paths(rest []byte) ([]string, error) {
	text, ok := strings.CutSuffix(string(rest), "\x00")
	switch {
	case len(rest) == 0:
		return nil, nil
	case !ok:
		return nil, errors.New("the last path is cut short")
	}
	return strings.Split(text, "\x00"), nil
}

// places reads what follows the first line, of a list of n samples.
func places(rest []byte, n int) ([]uint32, error) {
	if len(rest)%4 != 0 {
		return nil, errors.New("the last place is cut short")
	}
	all := make([]uint32, len(rest)/4)
	for i := range all {
		all[i] = binary.LittleEndian.Uint32(rest[4*i:])
		if int64(all[i]) >= int64(n) {
			return nil, fmt.Errorf("there is no sample %d: the list has %d", all[i], n)
		}
	}
	return all, nil
}
