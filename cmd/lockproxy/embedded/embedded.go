package embedded

import (
	"fmt"
	"io"
	"net"
	"strings"

	"go.uber.org/zap"
)

// mastersCount is how many masters the embedded default has: as many as a real deployment should.
const mastersCount = 5

// Servers are the servers of a start without any server named: all in memory, gone at the end.
type Servers struct {
	Upstream *Server
	masters  []*Server
}

// New starts them. Close ends them.
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

// Close ends all servers. Their data is gone. A nil receiver has none.
func (e *Servers) Close() {
	if e == nil {
		return
	}
	for _, master := range e.masters {
		master.Close()
	}
	e.Upstream.Close()
}

// WriteNotice tells a newcomer what runs here and what to type next. listener is where clients connect.
func WriteNotice(w io.Writer, listener net.Listener) {
	cli := "redis-cli -p 6379"
	switch address := listener.Addr().(type) {
	case *net.TCPAddr:
		cli = fmt.Sprintf("redis-cli -p %d", address.Port)
	case *net.UnixAddr:
		cli = "redis-cli -s " + address.Name
	}
	io.WriteString(w, strings.ReplaceAll(`
This lockproxy is for trying out. No Redis server was named, so one upstream and five masters live in the memory
of this process. All data is gone when it ends.

Type in another terminal:
  CLI LOCK job 5000             the answer is a token: nobody else gets this lock for 5 seconds
  CLI LOCK job 5000             (nil) while it is held
  CLI UNLOCK job <token>        1: released
  CLI SET greeting hello        everything else goes to the upstream
  CLI GET greeting

With real servers, an odd number of independent masters that keep the locks:
  lockproxy --masters 10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379 --upstream 10.0.0.9:6379
All settings: lockproxy --help

`, "CLI", cli))
}

// Masters returns the masters; none of a nil receiver.
func (e *Servers) Masters() []*Server {
	if e == nil {
		return nil
	}
	return e.masters
}
