package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// encode writes a command as clients do: an array of bulk strings.
//
//	encode("GET", "a") = *2\r\n$3\r\nGET\r\n$1\r\na\r\n
func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// bulk writes a bulk string reply.
func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// integer writes an integer reply.
func integer(n int) string { return fmt.Sprintf(":%d\r\n", n) }

// The null replies of the two protocol versions.
const (
	null2 = "$-1\r\n"
	null3 = "_\r\n"
)

// readFrame reads one whole reply of RESP2 or RESP3 and returns its bytes as they came. An attribute (|) comes
// together with the reply that it belongs to; a push (>) is a frame of its own.
func readFrame(r *bufio.Reader) (string, error) {
	var b strings.Builder
	err := copyFrame(&b, r, 0)
	return b.String(), err
}

func copyFrame(b *strings.Builder, r *bufio.Reader, depth int) error {
	if depth > 64 {
		return errors.New("reply nested too deeply")
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	b.WriteString(line)
	if len(line) < 3 || !strings.HasSuffix(line, "\r\n") {
		return fmt.Errorf("not a reply: %.100q", line)
	}
	kind, count := line[0], 0
	if strings.IndexByte("$=!*~>%|", kind) >= 0 {
		if count, err = strconv.Atoi(line[1 : len(line)-2]); err != nil {
			return fmt.Errorf("not a length: %.100q", line)
		}
	}
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return nil
	case '$', '=', '!':
		if count < 0 {
			return nil
		}
		_, err = io.CopyN(b, r, int64(count)+2)
		return err
	case '%', '|':
		count *= 2
	case '*', '~', '>':
	default:
		return fmt.Errorf("not a reply: %.100q", line)
	}
	if kind == '|' {
		count++ // the reply that the attribute belongs to
	}
	for range count {
		if err := copyFrame(b, r, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// isPush tells whether a frame is a RESP3 push.
func isPush(frame string) bool { return strings.HasPrefix(frame, ">") }

// tokenOf returns the token in a reply of LOCK, or "" for every other reply.
//
//	$57\r\n0000000000000007:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b\r\n
func tokenOf(frame string) string {
	token, ok := strings.CutPrefix(strings.TrimSuffix(frame, "\r\n"), "$57\r\n")
	if !ok || len(token) != 57 || token[16] != ':' {
		return ""
	}
	if strings.Trim(token[:16], "0123456789") != "" || strings.Trim(token[17:], "0123456789abcdef") != "" {
		return ""
	}
	return token
}

// fields returns the elements of a flat array or map of scalars, decoded to their text.
func fields(frame string) []string {
	var list []string
	r := bufio.NewReader(strings.NewReader(frame))
	if _, err := r.ReadString('\n'); err != nil {
		return nil
	}
	for {
		element, err := readFrame(r)
		if err != nil {
			return list
		}
		list = append(list, scalar(element))
	}
}

// scalar returns the text of a simple reply: the content of a bulk string, or the line without its type.
func scalar(frame string) string {
	if strings.HasPrefix(frame, "$") && frame != null2 {
		_, content, _ := strings.Cut(frame, "\r\n")
		return strings.TrimSuffix(content, "\r\n")
	}
	return strings.TrimSuffix(frame[1:], "\r\n")
}
