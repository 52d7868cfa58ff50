package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"lockproxy/resp/respio"
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
	reply, err := ask(conn, command...)
	switch {
	case err != nil:
		return err
	case isOK(&reply):
		return nil
	case reply.IsError():
		return &ReplyError{withoutSecrets(command, reply.Text)}
	}
	return unexpected(command[0])
}

func isOK(r *respio.Reply) bool { return r.Kind == '+' && r.Text == "OK" }

// withoutSecrets replaces an error text that repeats the arguments of AUTH. A server without that
// command quotes them, and clients see the text.
func withoutSecrets(command []string, text string) string {
	if command[0] != "AUTH" || !strings.Contains(text, command[len(command)-1]) &&
		!strings.Contains(text, "beginning with") {
		return text
	}
	return "ERR AUTH refused"
}

// maxLine bounds a line. Redis' own error texts are well under it.
const maxLine = 4096

// replyLimits bounds a reply. That to ROLE names every replica, and a refusal of ACL DRYRUN
// repeats the key.
var replyLimits = respio.Limits{Line: maxLine, Text: 64 << 10, Elems: 16 << 10, Depth: 8, Reply: 80 << 10}

// ask sends a command and reads its reply.
func ask(conn net.Conn, command ...string) (respio.Reply, error) {
	if _, err := conn.Write(respio.AppendCommand(nil, command...)); err != nil {
		return respio.Reply{}, err
	}
	return readReply(newReader(conn), command[0])
}

// newReader reads replies from in, and no byte beyond them, because the next bytes belong to the
// client.
func newReader(in io.Reader) *respio.Reader { return respio.NewReader(in, replyLimits) }

// readReply reads the reply to a command. An error does not quote bytes that are no reply: they
// may repeat a password.
func readReply(r *respio.Reader, command string) (reply respio.Reply, err error) {
	switch err = r.Read(&reply); {
	case errors.Is(err, respio.ErrTooLarge):
		err = fmt.Errorf("the reply to %s is larger than any server's", command)
	case errors.Is(err, respio.ErrMalformed):
		err = unexpected(command)
	}
	return reply, err
}

func unexpected(command string) error { return fmt.Errorf("unexpected reply to %s", command) }
