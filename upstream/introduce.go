package upstream

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// ReplyError is an error reply of the upstream: "WRONGPASS invalid username-password pair ...".
type ReplyError struct{ Text string }

// Error returns the reply without the leading dash.
func (e *ReplyError) Error() string { return e.Text }

// introduce authenticates, selects the database and checks the role, one command at a time. It
// leaves out the steps that are not needed.
//
//	> *3\r\n$4\r\nAUTH\r\n$3\r\napp\r\n$6\r\nsecret\r\n
//	< +OK\r\n
//	> *2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n
//	< +OK\r\n
func (u *Upstream) introduce(conn net.Conn) error {
	if user, password := u.opts.Login(); password != "" {
		auth := []string{"AUTH", password}
		if user != "" {
			auth = []string{"AUTH", user, password}
		}
		if err := expectOK(conn, auth); err != nil {
			return err
		}
	}
	if u.opts.DB != 0 {
		if err := expectOK(conn, []string{"SELECT", strconv.Itoa(u.opts.DB)}); err != nil {
			return err
		}
	}
	if u.sentinels != nil {
		return checkMaster(conn)
	}
	return nil
}

func expectOK(conn net.Conn, command []string) error {
	if _, err := conn.Write(encode(command)); err != nil {
		return err
	}
	line, err := readLine(conn)
	switch {
	case err != nil:
		return err
	case line == "+OK":
		return nil
	case strings.HasPrefix(line, "-"):
		return &ReplyError{withoutSecrets(command, line[1:])}
	}
	return fmt.Errorf("unexpected reply to %s", command[0])
}

// withoutSecrets replaces an error text that repeats the arguments of AUTH. A server without that
// command quotes them, and clients see the text.
func withoutSecrets(command []string, text string) string {
	if command[0] != "AUTH" || !strings.Contains(text, command[len(command)-1]) &&
		!strings.Contains(text, "beginning with") {
		return text
	}
	return "ERR AUTH refused"
}

func encode(args []string) []byte {
	b := append([]byte{'*'}, strconv.Itoa(len(args))...)
	for _, arg := range args {
		b = append(b, "\r\n$"...)
		b = strconv.AppendInt(b, int64(len(arg)), 10)
		b = append(b, "\r\n"...)
		b = append(b, arg...)
	}
	return append(b, "\r\n"...)
}

// maxLine bounds a reply. Redis' own error texts are well under it.
const maxLine = 4096

// readLine reads up to one CRLF and returns the line without it. It reads byte by byte, because
// the next bytes belong to the client.
func readLine(conn io.Reader) (string, error) {
	var line []byte
	var one [1]byte
	for len(line) < maxLine {
		if _, err := io.ReadFull(conn, one[:]); err != nil {
			return "", err
		}
		line = append(line, one[0])
		if bytes.HasSuffix(line, []byte("\r\n")) {
			return string(line[:len(line)-2]), nil
		}
	}
	return "", fmt.Errorf("reply of more than %d bytes", maxLine)
}
