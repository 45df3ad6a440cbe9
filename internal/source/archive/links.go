package archive

import (
	"fmt"
	"path"
	"strings"
)

const (
	// maxLinks is how many links of one archive are followed.
	maxLinks = 1_000_000
	// maxHops is how many symbolic links are followed for one file, as by the system.
	maxHops = 40
)

// setLink makes a member a link to a path, which is in the archive whose members are below dir. given is what the archive says.
func (m *member) setLink(dir, given, to string) {
	to = path.Clean(clean(to))
	if path.IsAbs(given) || to == ".." || strings.HasPrefix(to, "../") {
		m.why = fmt.Sprintf("it is a link to %q, outside of the archive", given)
		return
	}
	m.link = dir + to
}

// targets are the members that links lead to, by path: files, and links themselves.
type targets map[string]*member

// targetsOf has an entry, without a member yet, for each path that a link leads to.
func targetsOf(links []*member) targets {
	t := targets{}
	for _, m := range links {
		t[m.link] = nil
	}
	return t
}

// take takes note of a member if a link leads to it. The last one of a path counts.
func (t targets) take(m member) {
	if _, is := t[m.path]; is && m.why == "" {
		t[m.path] = &m
	}
}

// follow gives a link the bytes of the file that it leads to, or says why there is none.
func (t targets) follow(m *member) {
	given := m.link
	for range maxHops {
		if m.link == "" {
			return
		}
		target := t[m.link]
		if target == nil {
			m.why = fmt.Sprintf("it is a link to %q, which is no file of the archive", m.link)
			m.link = ""
			return
		}
		m.entry, m.link = target.entry, target.link
	}
	m.link, m.why = "", fmt.Sprintf("it is a link to %q, which leads in a circle", given)
}

// follow walks through the tar again to find what its links lead to, and emits the groups that have links.
func (s *tarScan) follow(end int64) error {
	var links []*member
	for _, group := range s.later {
		for i := range group {
			if group[i].link != "" {
				links = append(links, &group[i])
			}
		}
	}
	found, next := targetsOf(links), 0
	_ = s.walk(0, end, "", 0, func(m member) error { // its damage was told at the first time
		if m.link != "" && next < len(links) {
			if target := found[m.link]; m.hard && target != nil { // a later member of that path is another file
				m.entry, m.link = target.entry, target.link
				links[next].entry, links[next].link = m.entry, m.link
			}
			next++
		}
		found.take(m)
		return nil
	})
	for _, m := range links {
		found.follow(m)
	}
	for _, group := range s.later {
		if err := s.pass(group); err != nil {
			return err
		}
	}
	return nil
}
