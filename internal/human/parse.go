package human

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units of sizes: those of decimal prefixes, in which disks are sold and df -H
// counts, and those of binary ones. K, M, G and T alone are binary, as in most
// tools that take sizes.
var units = map[string]float64{
	"B": 1,
	"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
	"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// ErrNoUnit is that of a number that may mean bytes as well as megabytes. Only 0 means one
// thing.
var ErrNoUnit = errors.New("no unit")

// ParseSize reads a number of bytes: 512M, 10GiB, 50GB, 1.5T.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "BbIiKkMmGgTt ")
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || n < 0 || math.IsNaN(n) || strings.ContainsAny(digits, "eExXpP_+") {
		return 0, badSize(s)
	}
	name := strings.ToUpper(strings.TrimSpace(s[len(digits):]))
	unit, ok := units[name]
	switch {
	case name == "" && n != 0:
		return 0, fmt.Errorf("%q has %w: write %[1]sMB, %[1]sGB, or %[1]sB", digits, ErrNoUnit)
	case name == "":
		return 0, nil
	case !ok, n*unit >= math.MaxInt64, n != 0 && n*unit < 1:
		return 0, badSize(s)
	}
	return int64(n * unit), nil
}

func badSize(s string) error {
	return fmt.Errorf("%q is not a size; write a number and one of K, M, G, T (of 1024) or KB, MB, GB, TB (of 1000): 512M, 50GB", s)
}

var errShare = errors.New("want a share from 0 to 1, such as 0.3, 30% or 3/10")

// ParseShare reads 0.3, 30% or 3/10.
func ParseShare(s string) (float64, error) {
	of := 1.0
	if number, ok := strings.CutSuffix(s, "%"); ok {
		s, of = number, 100
	} else if number, below, ok := strings.Cut(s, "/"); ok {
		var err error
		if of, err = strconv.ParseFloat(below, 64); err != nil || of <= 0 {
			return 0, errShare
		}
		s = number
	}
	share, err := strconv.ParseFloat(s, 64)
	if err != nil || !(share >= 0 && share <= of) {
		return 0, errShare
	}
	return share / of, nil
}
