package daemon

import (
	"fmt"
	"os"
	"path/filepath"
)

// maxLog is the size from which on a log is put aside when a daemon starts.
const maxLog = 16 << 20 // bytes

// OpenLog opens a log to append to. One that grew large is kept as FILE.old.
func OpenLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > maxLog {
		_ = os.Rename(path, path+".old")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return f, nil
}
