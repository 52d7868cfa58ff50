package lab

import (
	"bufio"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockproxy/resp/respio"
)

// Encode writes a command.
//
//	Encode("GET", "a") = *2\r\n$3\r\nGET\r\n$1\r\na\r\n
func Encode(args ...string) string { return string(respio.AppendCommand(nil, args...)) }

// Bulk writes a bulk string reply.
func Bulk(s string) string { return string(respio.AppendBulk(nil, s)) }

// Integer writes an integer reply.
func Integer(n int) string { return fmt.Sprintf(":%d\r\n", n) }

// The null replies of the two protocol versions.
const (
	Null2 = "$-1\r\n"
	Null3 = "_\r\n"
)

// frameLimits accept all that a server may send.
var frameLimits = respio.Limits{Line: 1 << 30, Text: 1 << 30, Elems: 1 << 30, Depth: 64, Reply: math.MaxInt,
	RESP3: true}

// ReadFrame reads one whole reply of RESP2 or RESP3 and returns its bytes unchanged. An
// attribute (|) comes together with its reply; a push (>) is a frame of its own. After an error
// the frame is the part that was read.
func ReadFrame(r *bufio.Reader) (string, error) {
	frame, err := respio.NewReader(r, frameLimits).AppendFrame(nil)
	return string(frame), err
}

// IsPush reports whether a frame is a RESP3 push.
func IsPush(frame string) bool { return strings.HasPrefix(frame, ">") }

// TokenOf returns the token in a reply of LOCK, or "" for every other reply.
//
//	$57\r\n0000000000000007:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b\r\n
func TokenOf(frame string) string {
	token, ok := strings.CutPrefix(strings.TrimSuffix(frame, "\r\n"), "$57\r\n")
	if !ok || len(token) != 57 || token[16] != ':' {
		return ""
	}
	if strings.Trim(token[:16], "0123456789") != "" || strings.Trim(token[17:], "0123456789abcdef") != "" {
		return ""
	}
	return token
}

// Fields returns the elements of a flat array or map of scalars, decoded to their text.
func Fields(frame string) (list []string) {
	for _, element := range Elements(frame) {
		list = append(list, Scalar(element))
	}
	return list
}

// Scalar returns the text of a simple reply: the content of a bulk string, or the line without its
// type.
func Scalar(frame string) string {
	if strings.HasPrefix(frame, "$") && frame != Null2 {
		_, content, _ := strings.Cut(frame, "\r\n")
		return strings.TrimSuffix(content, "\r\n")
	}
	return strings.TrimSuffix(frame[1:], "\r\n")
}

// Elements splits an array or a map into its elements, raw; an element may be an array again.
func Elements(frame string) (list []string) {
	r := bufio.NewReader(strings.NewReader(frame))
	if _, err := r.ReadString('\n'); err != nil {
		return nil
	}
	for {
		element, err := ReadFrame(r)
		if err != nil {
			return list
		}
		list = append(list, element)
	}
}

// LastOf returns the last element of an array.
func LastOf(frame string) string {
	list := Elements(frame)
	if len(list) == 0 {
		return "_\r\n"
	}
	return list[len(list)-1]
}

// Number reads a decimal number; anything else fails the test.
func Number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Errorf("%q is no number", text)
	}
	return n
}

// MapOf returns a map of scalars, as RESP2 or RESP3 writes it.
func MapOf(frame string) map[string]string {
	m := map[string]string{}
	for pair := range slices.Chunk(Fields(frame), 2) {
		if len(pair) == 2 {
			m[pair[0]] = pair[1]
		}
	}
	return m
}
