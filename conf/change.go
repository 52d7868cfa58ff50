package conf

import (
	"fmt"
	"strings"
)

// Live returns the names of the settings that change on reload, in the order of --help.
func Live() []string {
	var names []string
	for _, s := range table {
		if s.live {
			names = append(names, s.name)
		}
	}
	return names
}

// Change is a setting that differs between two Configs.
type Change struct {
	Name     string
	From, To string // without passwords: equal if only a password differs
	Live     bool   // it changes on reload
}

// String returns the change for the log.
func (c Change) String() string {
	if c.From == c.To {
		return fmt.Sprintf("%s %q has other credentials", c.Name, c.From)
	}
	return fmt.Sprintf("%s %q becomes %q", c.Name, c.From, c.To)
}

// Changes returns what differs between two Configs, in the order of --help.
func Changes(from, to Config) []Change {
	var changes []Change
	for _, s := range table {
		before, after := s.valueOf(&from), s.valueOf(&to)
		if before.String() != after.String() || secrets(before) != secrets(after) {
			changes = append(changes, Change{s.name, before.String(), after.String(), s.live})
		}
	}
	return changes
}

// secrets returns the credentials that the text of a value leaves out.
func secrets(v value) string {
	var list []Address
	switch v := v.(type) {
	case secret:
		return *v.field
	case address:
		list = []Address{*v.field}
	case addresses:
		list = *v.field
	}
	var all []string
	for _, a := range list {
		all = append(all, fmt.Sprintf("%q:%q", a.User, a.Password))
	}
	return strings.Join(all, ",")
}

// Take returns c with the live settings of to. An error means that the result is not valid: a live
// setting of to fits only together with one that needs a restart.
func (c Config) Take(to Config) (Config, error) {
	for _, s := range table {
		if !s.live {
			continue
		}
		if err := s.valueOf(&c).set(s.valueOf(&to).String()); err != nil {
			return c, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return c, c.Validate()
}
