package bucket

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// maxParts is how many parts a place is divided into, about. Each takes a request.
const maxParts = 512

// join makes one part of several directories whose names begin alike, where there are very many.
func join(parts []part) (joined []part) {
	n := countPrefixes(parts)
	if n <= maxParts {
		return parts
	}
	for k := 0; k < len(parts); {
		end := k
		for end < len(parts) && parts[end].prefix != "" {
			end++
		}
		if end == k {
			joined = append(joined, parts[k])
			k++
			continue
		}
		var j joiner
		if k > 0 {
			j.before = parts[k-1].listed.last
		}
		if end < len(parts) {
			j.behind = parts[end].listed.first
		}
		for _, group := range j.join(parts[k:end], maxParts*(end-k)/n) {
			joined = append(joined, part{prefix: common(group)})
		}
		k = end
	}
	return joined
}

// joiner joins directories that no object lies between.
type joiner struct {
	before, behind string // names of the objects next to them; empty where there are none
}

// join divides directories into groups that a prefix tells from all others: about most groups, or
// as few as there can be.
func (j *joiner) join(dirs []part, most int) [][]part {
	groups := [][]part{dirs}
	for {
		at := slices.IndexFunc(groups, func(g []part) bool { return len(g) > 1 && !j.alone(common(g)) })
		if at < 0 {
			if len(groups) >= most {
				return groups
			}
			at = largest(groups)
		}
		if len(groups[at]) == 1 {
			return groups
		}
		groups = slices.Replace(groups, at, at+1, split(groups[at])...)
	}
}

func largest(groups [][]part) (at int) {
	for k := range groups {
		if len(groups[k]) > len(groups[at]) {
			at = k
		}
	}
	return at
}

// split divides a group by the first byte in which its prefixes differ.
func split(group []part) (groups [][]part) {
	n := len(common(group))
	for len(group) > 0 {
		end := 1
		for end < len(group) && group[end].prefix[n] == group[0].prefix[n] {
			end++
		}
		groups = append(groups, group[:end])
		group = group[end:]
	}
	return groups
}

// alone reports whether no object next to the directories has a prefix, and whether a place can
// be asked for it.
func (j *joiner) alone(prefix string) bool {
	return prefix != "" && utf8.ValidString(prefix) && !strings.HasPrefix(j.before, prefix) && !strings.HasPrefix(j.behind, prefix)
}

// common is the prefix that the first and the last have in common, and all between them, as they
// are sorted.
func common(group []part) string {
	a, b := group[0].prefix, group[len(group)-1].prefix
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
