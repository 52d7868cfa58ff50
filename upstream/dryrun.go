package upstream

import (
	"bufio"
	"context"
	"net"
	"strings"
	"time"

	"lockproxy/resp/respio"
)

// aclLink is a connection for questions about rights.
type aclLink struct {
	conn    net.Conn
	replies *respio.Reader
}

func (u *Upstream) dialACL(ctx context.Context) (*aclLink, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	conn, err := u.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &aclLink{conn, newReader(bufio.NewReader(conn))}, nil
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
		b = respio.AppendCommand(b, append([]string{"acl", "dryrun", q.about.user}, q.about.command()...)...)
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
	reply, err := readReply(l.replies, "ACL DRYRUN")
	switch {
	case err != nil:
		return "", nil, err
	case isOK(&reply):
		return "", nil, nil
	// the user was deleted
	case reply.IsError() && strings.Contains(reply.Text, "not found"):
		return strings.TrimPrefix(reply.Text, "ERR "), nil, nil
	case reply.IsError():
		return "", &ReplyError{reply.Text}, nil
	case reply.Kind != '$' || reply.Text == "":
		return "", nil, unexpected("ACL DRYRUN")
	}
	return reply.Text, nil, nil
}
