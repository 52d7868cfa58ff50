package conf

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"lockproxy/plain"
)

// The settings of the lock listener.

// off is the value of a setting that is not in use.
const off = "off"

// listeners are addresses to listen on; "off": none.
type listeners struct{ addresses }

var _ lister = listeners{}

func (v listeners) set(s string) error { return v.setList(strings.Split(s, ",")) }

func (v listeners) setList(items []string) error {
	if len(items) == 1 && items[0] == off {
		*v.field = nil
		return nil
	}
	return v.addresses.setList(items)
}

// maxPattern is the longest pattern, in bytes: that of a key.
const maxPattern = 1024

// patterns are patterns of KEYS. An entry ends at a comma, so a pattern cannot have one.
type patterns struct{ field *[]string }

var _ lister = patterns{}

func (v patterns) set(s string) error { return v.setList(strings.Split(s, ",")) }

func (v patterns) setList(items []string) error {
	list := make([]string, 0, len(items))
	for _, item := range items {
		item = strings.TrimSpace(item)
		switch {
		case item == "":
			return errors.New("has an empty pattern")
		case len(item) > maxPattern:
			return fmt.Errorf("has a pattern of %d bytes, more than %d", len(item), maxPattern)
		case strings.Contains(item, ","):
			return fmt.Errorf("has a comma in the pattern %q: write ? for it", item)
		}
		list = append(list, item)
	}
	if len(list) == 0 {
		return errors.New("has no entries")
	}
	*v.field = list
	return nil
}

func (v patterns) String() string { return strings.Join(*v.field, ",") }

// optionalDuration is a time; "off" is 0.
type optionalDuration struct{ field *time.Duration }

var _ value = optionalDuration{}

func (v optionalDuration) set(s string) error {
	if s == off {
		*v.field = 0
		return nil
	}
	d, err := ParseDuration(s)
	if err == nil && d == 0 {
		err = fmt.Errorf("%q is not positive: off for none", s)
	}
	if err == nil {
		*v.field = d
	}
	return err
}

func (v optionalDuration) String() string {
	if *v.field == 0 {
		return off
	}
	return plain.Duration(*v.field)
}

// LockKeys returns AdoptKeys in the form of the setting.
func (c Config) LockKeys() string {
	if len(c.AdoptKeys) == 0 {
		return "*"
	}
	return patterns{&c.AdoptKeys}.String()
}

// listeners calls yield with the addresses that clients connect to, and the setting of each.
func (c Config) listeners(yield func(name string, a Address) bool) {
	for _, a := range c.Listen {
		if !yield("listen", a) {
			return
		}
	}
	for _, a := range c.AdoptListen {
		if !yield("adopt-listen", a) {
			return
		}
	}
}

// checkAdopt checks the settings of the lock listener, but for its addresses.
func (c Config) checkAdopt(check checkFunc) {
	none := len(c.AdoptListen) == 0
	check(none && len(c.AdoptKeys) > 0, "adopt-listen adopt-keys", "adopt-keys %s without adopt-listen", c.LockKeys())
	ttl := plain.Duration(c.AdoptTTL)
	check(none && c.AdoptTTL != 0, "adopt-listen adopt-ttl", "adopt-ttl %s without adopt-listen", ttl)
	check(c.AdoptTTL != 0 && c.AdoptTTL < c.MinTTL, "adopt-ttl min-ttl",
		"adopt-ttl %s is under min-ttl %s", ttl, plain.Duration(c.MinTTL))
	check(c.AdoptTTL > c.MaxTTL, "adopt-ttl max-ttl",
		"adopt-ttl %s exceeds max-ttl %s", ttl, plain.Duration(c.MaxTTL))
}
