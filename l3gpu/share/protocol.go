package share

// Version of the protocol.
const Version = 1

// The operations.
const (
	OpOpen    = "open"    // take a seat
	OpDecode  = "decode"  // decode a batch into a slot
	OpRelease = "release" // give a slot back
	OpClose   = "close"   // all handles are closed
)

// The kinds of errors that clients tell apart, of a reply or of a picture.
const (
	KindDenied  = "denied"  // another user, or a process that memory cannot be shared with
	KindFull    = "full"    // every seat is taken
	KindGPU     = "gpu"     // there is none, or it fails
	KindSlots   = "slots"   // the client holds all of its slots
	KindLarge   = "large"   // a batch, or a picture, does not fit a slot
	KindRequest = "request" // the request makes no sense

	KindDamaged     = "damaged" // a picture's file
	KindTruncated   = "truncated"
	KindUnsupported = "unsupported"
	KindUnreadable  = "unreadable"
)

// Request is what a client sends.
type Request struct {
	V  int    `json:"v"`
	Op string `json:"op"`
	// PID is the client's, as it knows itself; with open.
	PID int `json:"pid,omitempty"`
	// Paths and what follows are of decode. Layout is HWC or CHW. Dtype is uint8, uint16,
	// float32, float16, or empty for samples as they are stored. A float is
	// sample·scale + bias, with scale = 1 / (maximum·std) and bias = −mean / std; Mean and
	// Std have a number for each channel, or one for all, or none for 0 and 1.
	Paths  []string  `json:"paths,omitempty"`
	Layout string    `json:"layout,omitempty"`
	Dtype  string    `json:"dtype,omitempty"`
	Mean   []float64 `json:"mean,omitempty"`
	Std    []float64 `json:"std,omitempty"`
	// Slot and Generation are what release gives back.
	Slot       int    `json:"slot,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
}

// Reply is what the daemon answers. Error is empty where it did as it was told; Fatal
// says that it closes the connection.
type Reply struct {
	V     int    `json:"v"`
	Error string `json:"error,omitempty"`
	Kind  string `json:"kind,omitempty"`
	Fatal bool   `json:"fatal,omitempty"`

	// Of open.
	Device    *Device `json:"device,omitempty"`
	Slots     int     `json:"slots,omitempty"`
	SlotBytes int64   `json:"slot_bytes,omitempty"`

	// Of decode. A slot has one handle as long as there is a daemon.
	Slot       int       `json:"slot"`
	Generation uint64    `json:"generation,omitempty"`
	Handle     []byte    `json:"handle,omitempty"` // 64 bytes, in base64
	Pictures   []Picture `json:"pictures,omitempty"`
}

// Device is the GPU.
type Device struct {
	UUID string `json:"uuid"`
	PCI  string `json:"pci"`
	Name string `json:"name"`
}

// Picture is one of a batch: where in the slot it begins and what is there, or why it
// was not decoded.
type Picture struct {
	Offset int64  `json:"offset"`
	Shape  []int  `json:"shape,omitempty"` // H, W, C or C, H, W
	Dtype  string `json:"dtype,omitempty"` // as of a Request, never empty
	Error  string `json:"error,omitempty"`
	Kind   string `json:"kind,omitempty"`
}
