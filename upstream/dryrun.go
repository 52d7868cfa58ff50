package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// maxRefusal bounds the text of a refusal, which repeats the key.
const maxRefusal = 64 << 10

var errDryRun = errors.New("unexpected reply to ACL DRYRUN")

// aclLink is a connection for questions about rights.
type aclLink struct {
	conn net.Conn
	in   *bufio.Reader
}

func (u *Upstream) dialACL(ctx context.Context) (*aclLink, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	conn, err := u.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &aclLink{conn, bufio.NewReader(conn)}, nil
}

// close closes the connection. A nil aclLink has none.
func (l *aclLink) close() {
	if l != nil {
		l.conn.Close()
	}
}

// ask sends questions in one packet. It sets refusal and err of each that is answered, in order,
// and passes it to settled. n is how many were answered. After an error the connection cannot be
// used any more. A *ReplyError in a question means that the upstream does not answer such
// questions.
func (l *aclLink) ask(ctx context.Context, questions []*inquiry, settled func(*inquiry)) (n int, err error) {
	defer context.AfterFunc(ctx, func() { l.conn.Close() })()
	var b []byte
	for _, q := range questions {
		b = append(b, encode(append([]string{"acl", "dryrun", q.about.user}, q.about.command()...))...)
	}
	l.conn.SetDeadline(time.Now().Add(askTime))
	if _, err := l.conn.Write(b); err != nil {
		return 0, err
	}
	for n, q := range questions {
		l.conn.SetReadDeadline(time.Now().Add(askTime))
		if q.refusal, q.err, err = l.read(); err != nil {
			return n, err
		}
		settled(q)
	}
	return len(questions), nil
}

// read reads one answer.
func (l *aclLink) read() (refusal string, said, err error) {
	line, err := readLine(l.in)
	switch {
	case err != nil:
		return "", nil, err
	case line == "+OK":
		return "", nil, nil
	// the user was deleted
	case strings.HasPrefix(line, "-") && strings.Contains(line, "not found"):
		return strings.TrimPrefix(line[1:], "ERR "), nil, nil
	case strings.HasPrefix(line, "-"):
		return "", &ReplyError{line[1:]}, nil
	}
	size, err := strconv.Atoi(strings.TrimPrefix(line, "$"))
	if err != nil || line[0] != '$' || size < 1 || size > maxRefusal {
		return "", nil, errDryRun
	}
	text := make([]byte, size+2)
	if _, err := io.ReadFull(l.in, text); err != nil {
		return "", nil, err
	}
	return string(text[:size]), nil, nil
}
