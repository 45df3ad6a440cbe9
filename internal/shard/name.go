package shard

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/pipefs/pipefs/store"
)

// Dir is the directory of plans in a store.
const Dir = "plans"

// room is where what belongs to a plan is, relative to its store.
func room(id store.ID) string { return fmt.Sprintf("%s/%x", Dir, id) }

// PlanName is the name of a plan's object, relative to its store.
func PlanName(id store.ID) string { return room(id) + ".plan" }

// MarkerDir is the directory of a plan's markers.
func MarkerDir(id store.ID) string { return room(id) + "/shards" }

// MarkerName is the name of the marker of a shard.
func MarkerName(id store.ID, shard int) string { return fmt.Sprintf("%s/%06d", MarkerDir(id), shard) }

// CommittedName is the name of the file that says that the packs of a plan count.
func CommittedName(id store.ID) string { return room(id) + "/COMMITTED" }

// URL is where a plan of a store is, as users name it. The store is a path or a URL.
func URL(place string, id store.ID) string {
	return strings.TrimRight(place, "/") + "/" + PlanName(id)
}

var planURL = regexp.MustCompile(`^(.*)/` + Dir + `/([0-9a-f]{32})\.plan$`)

// SplitURL returns the store and the id in what URL returned.
func SplitURL(url string) (place string, id store.ID, err error) {
	m := planURL.FindStringSubmatch(url)
	if m == nil {
		return "", id, fmt.Errorf("%s is no plan: pipefs plan prints the name of the one that it makes, which ends with /%s/ID.plan", url, Dir)
	}
	return m[1], id, id.UnmarshalText([]byte(m[2]))
}
