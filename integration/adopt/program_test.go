package adopt

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
	"lockproxy/integration/redistest"
)

// A program has the clients of some libraries, each with connections of its own. Requests and
// answers are lines of JSON; answers come in any order, those of one client in the order of its
// requests:
//
//	> {"id":1,"who":1,"op":"connect","library":"redlock 5","addr":"127.0.0.1:6379"}
//	< {"id":1,"yes":true}
//	> {"id":2,"who":1,"op":"acquire","key":"lock:a","ttl":5000,"wait":0}
//	< {"id":2,"yes":true}   false: another client holds it
//	> {"id":3,"who":1,"op":"release"}
//	< {"id":3,"yes":true}   false: the library says that the lock was lost
//	< {"id":3,"error":"NOQUORUM ..."}
//
// extend (ttl) and release are about the client's last lock. add increments key with GET and SET
// over the client's own connection. Times are in ms. Other ops are of single libraries: held,
// force, replace, reacquire.
type request struct {
	ID      int    `json:"id"`
	Who     int    `json:"who"`
	Op      string `json:"op"`
	Library string `json:"library,omitempty"`
	Addr    string `json:"addr,omitempty"`
	Pass    string `json:"password,omitempty"`
	Key     string `json:"key"`
	TTL     int64  `json:"ttl"`
	Wait    int64  `json:"wait"`
}

type answer struct {
	ID    int    `json:"id"`
	Yes   bool   `json:"yes"`
	Error string `json:"error"`
}

func (a answer) String() string {
	switch {
	case a.Error != "":
		return "error: " + a.Error
	case a.Yes:
		return "yes"
	}
	return "no"
}

type program struct {
	name string
	in   io.WriteCloser

	mu      sync.Mutex
	last    int // id of a request
	clients int
	waiting map[int]chan answer // nil once the program has ended
}

// startProgram starts a program and ends it when the test ends: by the end of its input, else by
// SIGKILL.
func startProgram(t *testing.T, dir, path string, args ...string) (*program, error) {
	cmd := exec.Command(path, args...)
	errors := &lab.Output{}
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = dir, errors, redistest.ChildAttributes()
	p := &program{name: dir, waiting: map[int]chan answer{}}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.in = in
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.read(out)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		in.Close()
		select {
		case <-ended:
		case <-time.After(lab.Patience):
			_ = cmd.Process.Kill()
			<-ended
		}
		if text := errors.String(); t.Failed() && text != "" {
			t.Logf("stderr of %s: %s", p.name, text)
		}
	})
	return p, nil
}

func (p *program) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			continue // a library's own output
		}
		p.mu.Lock()
		if c := p.waiting[a.ID]; c != nil {
			c <- a
			delete(p.waiting, a.ID)
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, c := range p.waiting {
		c <- answer{ID: id, Error: p.name + " has ended"}
	}
	p.waiting = nil
}

// send sends a request and returns the channel of its answer, which has a capacity of 1.
func (p *program) send(r request) <-chan answer {
	c := make(chan answer, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		c <- answer{Error: p.name + " has ended"}
		return c
	}
	p.last++
	r.ID = p.last
	line, err := json.Marshal(r)
	if err == nil {
		p.waiting[r.ID] = c
		_, err = p.in.Write(append(line, '\n'))
	}
	if err != nil {
		delete(p.waiting, r.ID)
		c <- answer{Error: err.Error()}
	}
	return c
}

// client is one client of a library. Its methods are for any goroutine.
type client struct {
	p   *program
	who int
}

// connect adds a client. The end of the program closes its connections.
func (p *program) connect(library, addr, password string) (*client, error) {
	p.mu.Lock()
	p.clients++
	c := &client{p, p.clients}
	p.mu.Unlock()
	if got := c.do(request{Op: "connect", Library: library, Addr: addr, Pass: password}); !got.Yes {
		return nil, fmt.Errorf("connect %s to %s: got %v", library, addr, got)
	}
	return c, nil
}

// later sends a request.
func (c *client) later(r request) <-chan answer {
	r.Who = c.who
	return c.p.send(r)
}

// do sends a request and waits for its answer.
func (c *client) do(r request) answer {
	select {
	case a := <-c.later(r):
		return a
	case <-time.After(2 * lab.Patience):
		return answer{Error: fmt.Sprintf("no answer to %s after %v", r.Op, 2*lab.Patience)}
	}
}

func (c *client) acquire(key string, ttl, wait time.Duration) answer {
	return c.do(request{Op: "acquire", Key: key, TTL: ttl.Milliseconds(), Wait: wait.Milliseconds()})
}

func (c *client) release() answer { return c.do(request{Op: "release"}) }

func (c *client) extend(ttl time.Duration) answer {
	return c.do(request{Op: "extend", TTL: ttl.Milliseconds()})
}
