package lab

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Heard is the text from a connection and its state: answered (the sentinel), closed or silent.
type Heard struct{ Text, State string }

// Hear reads until the sentinel is answered, the connection is closed, or the text is complete.
// Each time the connection is silent for a while, enough decides whether the text is complete.
// Hear then reads once more, for bytes that came meanwhile.
func Hear(c *Conn, sentinel string, enough func(Heard) bool, silence time.Duration) Heard {
	end := "'" + sentinel + "', with args beginning with: \r\n"
	var b strings.Builder
	buf := make([]byte, 64<<10)
	complete := false
	for {
		if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return Heard{b.String(), err.Error()}
		}
		n, err := c.Reader.Read(buf)
		b.Write(buf[:n])
		switch {
		case strings.HasSuffix(b.String(), end):
			return Heard{b.String(), "answered"}
		case os.IsTimeout(err) && complete:
			return Heard{b.String(), "silent"}
		case os.IsTimeout(err):
			complete = enough(Heard{b.String(), "silent"})
		case err != nil:
			return Heard{b.String(), "closed"}
		}
	}
}

// HearEnd half-closes the connection and reads to its end.
func HearEnd(c *Client) Heard {
	if err := c.CloseWrite(); err != nil {
		return Heard{"", "closed"}
	}
	text, closed, _ := c.Rest(Patience)
	return Heard{text, fmt.Sprintf("closed after our end: %v", closed)}
}
