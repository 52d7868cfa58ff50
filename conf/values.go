package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/plain"
)

// value parses and shows one field of a Config. A set that fails leaves the field unchanged.
// Errors do not name the setting, and those of addresses repeat the input only if it cannot hold a
// password.
type value interface {
	set(text string) error
	String() string
}

// lister is a value that a list in the file sets item by item. Elsewhere it is comma-separated.
type lister interface {
	value
	setList(items []string) error
}

var (
	_ lister = addresses{}
	_ value  = address{}
	_ value  = duration{}
	_ value  = boolean{}
	_ value  = choice{}
	_ value  = number{}
	_ value  = text{}
	_ value  = mode{}
)

type text struct{ field *string }

func (v text) set(s string) error { *v.field = s; return nil }
func (v text) String() string     { return *v.field }

type choice struct {
	field *string
	words []string
}

func (v choice) set(s string) error {
	if !slices.Contains(v.words, s) {
		return fmt.Errorf("%q is not one of %s", s, strings.Join(v.words, ", "))
	}
	*v.field = s
	return nil
}
func (v choice) String() string { return *v.field }

type boolean struct {
	field   *bool
	yes, no string // how the setting is shown; on, off, true and false are all accepted
}

func (v boolean) set(s string) error {
	switch s {
	case "true", "on":
		*v.field = true
	case "false", "off":
		*v.field = false
	default:
		return fmt.Errorf("%q is not one of on, off, true, false", s)
	}
	return nil
}

func (v boolean) String() string {
	if *v.field {
		return v.yes
	}
	return v.no
}

type number struct{ field *int }

func (v number) set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return fmt.Errorf("%q is not a whole number from 0 to %d", s, math.MaxInt32)
	}
	*v.field = int(n)
	return nil
}
func (v number) String() string { return strconv.Itoa(*v.field) }

type duration struct{ field *time.Duration }

func (v duration) set(s string) error {
	d, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*v.field = d
	return nil
}
func (v duration) String() string { return plain.Duration(*v.field) }

var errDuration = errors.New("is not a time: digits with ms, s, m or h, such as 500ms, 30s or 1m30s")

// ParseDuration parses decimal digits with ms, s, m or h, or several of these with falling units:
// 1m30s. Unlike in commands, every value but 0 needs a unit. It refuses signs, fractions, blanks
// and values that overflow.
func ParseDuration(s string) (time.Duration, error) {
	ms, ok := plain.ParseMillis(s)
	switch {
	case !ok:
		return 0, fmt.Errorf("%q %w", s, errDuration)
	case ms > 0 && strings.Trim(s, "0123456789") == "":
		return 0, fmt.Errorf("%q has no unit; name a unit: %sms, %ss", s, s, s)
	case ms > math.MaxInt64/int64(time.Millisecond):
		return 0, fmt.Errorf("%q is too long", s)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

type mode struct{ field *fs.FileMode }

func (v mode) set(s string) error {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || len(s) < 3 || len(s) > 4 || n > 0o777 {
		return fmt.Errorf("%q is not a mode of three octal digits, such as 600 or 0660", s)
	}
	*v.field = fs.FileMode(n)
	return nil
}
func (v mode) String() string { return fmt.Sprintf("%04o", *v.field) }

type address struct{ field *Address }

func (v address) set(s string) error {
	a, err := ParseUpstream(s)
	if err != nil {
		return NameAddress(err, s)
	}
	*v.field = a
	return nil
}
func (v address) String() string { return v.field.String() }

type addresses struct {
	field *[]Address
	parse func(string) (Address, error)
}

func (v addresses) set(s string) error { return v.setList(strings.Split(s, ",")) }

func (v addresses) setList(items []string) error {
	var list []Address
	var errs []error
	for i, item := range items {
		a, err := v.parse(strings.TrimSpace(item))
		if err != nil && mayShow(strings.Join(items, "")) {
			err = NameAddress(err, strings.TrimSpace(item))
		}
		switch {
		case err == nil:
			list = append(list, a)
		case len(items) == 1:
			errs = append(errs, err)
		default:
			errs = append(errs, fmt.Errorf("entry %d of %d: %w", i+1, len(items), err))
		}
	}
	if len(items) == 0 {
		errs = append(errs, errors.New("has no entries"))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	*v.field = list
	return nil
}

func (v addresses) String() string {
	names := make([]string, 0, len(*v.field))
	for _, a := range *v.field {
		names = append(names, a.String())
	}
	return strings.Join(names, ",")
}
