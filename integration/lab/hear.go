package lab

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Heard is what a connection gave, and how it stands: the sentinel was answered, it was closed, or
// it is silent.
type Heard struct{ Text, State string }

// Hear reads until the sentinel is answered, the connection is closed, or nothing more comes: when
// nothing came for a while, enough decides whether that is all, and what comes until then still
// counts.
func Hear(c *Conn, sentinel string, enough func(Heard) bool, silence time.Duration) Heard {
	end := "'" + sentinel + "', with args beginning with: \r\n"
	var b strings.Builder
	buf := make([]byte, 64<<10)
	over := false
	for {
		if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return Heard{b.String(), err.Error()}
		}
		n, err := c.Reader.Read(buf)
		b.Write(buf[:n])
		switch {
		case strings.HasSuffix(b.String(), end):
			return Heard{b.String(), "answered"}
		case os.IsTimeout(err) && over:
			return Heard{b.String(), "silent"}
		case os.IsTimeout(err):
			over = enough(Heard{b.String(), "silent"})
		case err != nil:
			return Heard{b.String(), "closed"}
		}
	}
}

// HearEnd half-closes the connection and reads what still comes.
func HearEnd(c *Client) Heard {
	if err := c.CloseWrite(); err != nil {
		return Heard{"", "closed"}
	}
	text, closed, _ := c.Rest(Patience)
	return Heard{text, fmt.Sprintf("closed after our end: %v", closed)}
}
