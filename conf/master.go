package conf

import (
	"errors"
	"regexp"
	"strings"
)

var (
	validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	errName   = errors.New("has a name before '@' that is not 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'")
)

// ParseMaster parses the address of a master: as ParseAddress does, or name@ and such an address.
// The name is 1 to 64 letters, digits, '.', '_' and '-'. Errors never repeat any part of s.
func ParseMaster(s string) (Address, error) {
	id, rest, named := cutName(s)
	if !named {
		return ParseAddress(s)
	}
	if !validName.MatchString(id) {
		return Address{}, errName
	}
	a, err := ParseAddress(rest)
	if err == nil {
		a.ID = id
	}
	return a, err
}

// cutName cuts the name off s, if it begins with one. A ':' before the first '@' belongs to a
// scheme or to credentials.
func cutName(s string) (id, rest string, named bool) {
	id, rest, named = strings.Cut(s, "@")
	if !named || strings.Contains(id, ":") {
		return "", s, false
	}
	return id, rest, true
}
