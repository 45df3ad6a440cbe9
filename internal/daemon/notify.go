package daemon

import (
	"fmt"
	"net"
	"os"
	"time"
)

// What a service manager is told, see sd_notify(3).
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
)

// Notify tells the service manager, if NOTIFY_SOCKET names one.
func Notify(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	// a leading @ means the abstract name space, as it does to package net
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("telling %s at NOTIFY_SOCKET: %w", state, err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("telling %s at NOTIFY_SOCKET: %w", state, err)
	}
	return nil
}
