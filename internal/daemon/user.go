package daemon

import (
	"fmt"
	"os/user"
	"strconv"
	"syscall"
)

// User is the user that a child runs as.
type User struct {
	Name     string // for messages
	UID, GID int
	Groups   []int
	Home     string // empty if there is none
}

// LookupUser finds a user by name or number.
func LookupUser(name string) (*User, error) {
	found, err := user.Lookup(name)
	if number, bad := strconv.Atoi(name); err != nil && bad == nil {
		found, err = user.LookupId(strconv.Itoa(number))
	}
	if err != nil {
		return nil, fmt.Errorf("there is no user %s", name)
	}
	u := &User{Name: found.Username, Home: found.HomeDir}
	ids, err := found.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("the groups of user %s: %w", name, err)
	}
	for _, id := range ids {
		gid, err := strconv.Atoi(id)
		if err != nil {
			return nil, fmt.Errorf("the groups of user %s: %w", name, err)
		}
		u.Groups = append(u.Groups, gid)
	}
	u.UID, err = strconv.Atoi(found.Uid)
	if err == nil {
		u.GID, err = strconv.Atoi(found.Gid)
	}
	return u, err
}

func (u *User) credential() *syscall.Credential {
	c := &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}
	for _, g := range u.Groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}
