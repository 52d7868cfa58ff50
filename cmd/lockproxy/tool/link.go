package tool

import (
	"errors"
	"sync"
	"time"
)

// link is a connection to a proxy with a goroutine that reads it. One goroutine uses it.
type link struct {
	*client
	frames chan frame // up to the error that ended reading
	done   chan struct{}
	end    sync.Once
}

// frame is a reply or push of the proxy, or the error that ended reading.
type frame struct {
	proxyReply
	err error
}

// newLink reads c, and closes it in the end.
func newLink(c *client) *link {
	l := &link{client: c, frames: make(chan frame), done: make(chan struct{})}
	go l.read()
	return l
}

func (l *link) read() {
	for {
		r, err := l.next()
		select {
		case l.frames <- frame{r, err}:
		case <-l.done:
			return
		}
		if err != nil {
			return
		}
	}
}

// Close closes the connection and ends the goroutine. It may be called again.
func (l *link) Close() error {
	l.end.Do(func() { close(l.done) })
	return l.client.Close()
}

var errNoAnswer = errors.New("no answer")

// call sends a command and returns its reply. It drops pushes, and the given number of replies to
// earlier commands.
func (l *link) call(timeout time.Duration, earlier int, args ...string) (proxyReply, error) {
	l.SetWriteDeadline(time.Now().Add(timeout))
	if err := l.send(args...); err != nil {
		return proxyReply{}, err
	}
	expired := time.After(timeout)
	for {
		select {
		case f := <-l.frames:
			switch {
			case f.err != nil:
				return proxyReply{}, f.err
			case f.Kind == '>':
			case earlier > 0:
				earlier--
			default:
				return f.proxyReply, nil
			}
		case <-expired:
			return proxyReply{}, errNoAnswer
		}
	}
}
