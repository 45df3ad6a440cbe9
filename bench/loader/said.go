package loader

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// said is what a command prints about an epoch; 0 is what it does not print.
type said struct {
	rate    float64 // samples/s
	samples int
	bytes   int64
}

// rateWords match "1,234.5 images/s", and what else is written like it.
var rateWords = regexp.MustCompile(`(?i)(?:^|[^\w.,+-])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e[+-]?\d+)?)` +
	`\s*(?:samples|images|imgs?)\s*(?:/|per)\s*s(?:ec(?:ond)?s?)?\b`)

// parseSaid reads a rate from a line: a number and nothing else, an object of JSON, or
// a number with its unit. Where there are several it is the last.
func parseSaid(line string) said {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "{") {
		var object map[string]any
		if json.Unmarshal([]byte(line), &object) == nil {
			return ofObject(object)
		}
	}
	if rate, ok := parseRate(line); ok {
		return said{rate: rate}
	}
	if all := rateWords.FindAllStringSubmatch(line, -1); all != nil {
		rate, _ := parseRate(strings.ReplaceAll(all[len(all)-1][1], ",", ""))
		return said{rate: rate}
	}
	return said{}
}

func ofObject(object map[string]any) (s said) {
	number := func(names ...string) float64 {
		for _, name := range names {
			if v, ok := object[name].(float64); ok && v > 0 {
				return v
			}
		}
		return 0
	}
	s.rate = number("samples_per_s", "images_per_s", "samples_per_second", "images_per_second")
	s.samples = int(number("samples", "images"))
	s.bytes = int64(number("bytes"))
	return s
}

// parseRate reads a number that can be a rate.
func parseRate(s string) (float64, bool) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, false
	}
	return v, true
}
