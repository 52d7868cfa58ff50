package embedded

import (
	"fmt"
	"io"
	"net"
	"strings"

	"go.uber.org/zap"
)

// mastersCount is the number of masters in the embedded default: five, the number recommended for
// a real deployment.
const mastersCount = 5

// Servers are the upstream and the masters of a start without any server named. They live in
// memory.
type Servers struct {
	Upstream *Redis
	masters  []*Redis
}

// New starts them. The caller closes them.
func New(log *zap.Logger) (*Servers, error) {
	e := &Servers{}
	var err error
	if e.Upstream, err = newServer("memory", log); err != nil {
		return nil, err
	}
	for i := range mastersCount {
		master, err := newServer(fmt.Sprintf("memory-%d", i+1), log)
		if err != nil {
			e.Close()
			return nil, err
		}
		e.masters = append(e.masters, master)
	}
	return e, nil
}

// Close ends all servers and drops their data. On nil it has no effect.
func (e *Servers) Close() {
	if e == nil {
		return
	}
	for _, master := range e.masters {
		master.Close()
	}
	e.Upstream.Close()
}

// WriteNotice explains to a newcomer which servers run and what to type next, on a screen of 80
// columns. Clients connect to addr. page is the address of the page for operators, or "".
func WriteNotice(w io.Writer, addr net.Addr, page string) {
	cli := "redis-cli"
	switch addr := addr.(type) {
	case *net.TCPAddr:
		cli = fmt.Sprintf("redis-cli -p %d", addr.Port)
	case *net.UnixAddr:
		cli = "redis-cli -s " + addr.Name
	}
	if page != "" {
		page = "In a browser, who holds what: " + page + "\n\n"
	}
	io.WriteString(w, strings.NewReplacer("CLI", cli, "PAGE\n", page).Replace(`
This lockproxy is for trying out: one upstream and five masters live in the
memory of this process. All data is gone when it ends (Ctrl-C).

Type in another terminal:
  CLI LOCK job 30s         # a token: locked for 30 seconds
  CLI LOCK job 30s         # (nil): it is taken
  CLI UNLOCK job TOKEN     # 1: released
  CLI SET greeting hello   # the rest is your Redis
  CLI LOCK HELP            # all lock commands

PAGE
With real servers, an odd number of independent masters that keep the locks:
  lockproxy --upstream 10.0.0.9:6379 \
      --masters 10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379
All settings: lockproxy --help
`))
}

// Masters returns the masters, or none of nil.
func (e *Servers) Masters() []*Redis {
	if e == nil {
		return nil
	}
	return e.masters
}
