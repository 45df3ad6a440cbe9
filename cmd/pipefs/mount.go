package main

import (
	"time"

	"github.com/pipefs/pipefs/internal/mountd"
)

// mountConfig is all that a mount can be told.
type mountConfig struct {
	// The supervisor and the daemon are handed what is exported, as JSON.
	mountd.Config
	LogFormat string
	LogLevel  string
	Patience  time.Duration // until the mount answers
	Supervise bool
	Deaths    int           // within a minute, that end a supervised mount
	Hung      time.Duration // of its daemon, before it is started again
	SetUID    string        // name or number of a user; or ownerUser

	given       string // the source as the user wrote it
	followGiven bool   // --no-follow
	seedGiven   bool   // --seed
	foreground  bool
	dryRun      bool
	createStore bool
	nonempty    bool
	shared      bool
	takeover    bool
	holder      int // descriptor over which a holder is given its connection; 0 for none
}
