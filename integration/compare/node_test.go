package compare

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// nodeSubject is node-redlock in one of its versions: redlock is 4, redlock5 is 5. run.sh names
// the folder in which they are installed, or why they are not.
func nodeSubject(name, dependency string) subject {
	s := subject{name: name, missing: os.Getenv("COMPARE_NODE_MISSING")}
	dir := os.Getenv("COMPARE_NODE")
	if dir == "" && s.missing == "" {
		s.missing = "COMPARE_NODE names no folder with it"
	}
	if s.missing != "" {
		return s
	}
	probe := exec.Command("node", filepath.Join(dir, "worker.cjs"), dependency) // without input it ends
	probe.Stderr = os.Stderr
	hello, err := probe.Output()
	var first nodeReply
	if err == nil {
		err = json.Unmarshal(hello, &first)
	}
	if err != nil {
		s.missing = fmt.Sprintf("it does not run: %v", err)
		return s
	}
	s.version = first.Version
	s.start = func(t *testing.T, f *field) [2]client {
		t.Helper()
		w := startWorker(t, filepath.Join(dir, "worker.cjs"), append([]string{dependency}, f.addrs...))
		return [2]client{nodeClient{w, 0}, nodeClient{w, 1}}
	}
	return s
}

// worker is a Node process with two clients. node/worker.cjs documents its input and output.
type worker struct {
	stdin io.WriteCloser

	mu      sync.Mutex
	last    int
	waiting map[int]chan nodeReply
	ended   bool
}

type nodeCommand struct {
	ID    int    `json:"id"`
	Who   int    `json:"who"`
	Op    string `json:"op"`
	Key   string `json:"key,omitempty"`
	TTL   int64  `json:"ttl,omitempty"`
	Limit int    `json:"limit,omitempty"`
	Grant int    `json:"grant,omitempty"`
}

type nodeReply struct {
	ID      int     `json:"id"`
	Until   float64 `json:"until"` // Unix time in ms
	Error   string  `json:"error"`
	Version string  `json:"version"`
}

var errEnded = errors.New("the Node process has ended")

func startWorker(t *testing.T, script string, args []string) *worker {
	t.Helper()
	cmd := exec.Command("node", append([]string{script}, args...)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &worker{stdin: stdin, waiting: map[int]chan nodeReply{}}
	done := make(chan struct{})
	go func() { defer close(done); w.read(stdout) }()
	t.Cleanup(func() {
		stdin.Close() // makes the process end
		select {
		case <-done:
		case <-time.After(lab.Patience):
			_ = cmd.Process.Kill()
			<-done
		}
		_ = cmd.Wait()
	})
	return w
}

// read delivers replies until the process ends.
func (w *worker) read(stdout io.Reader) {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var reply nodeReply
		if err := json.Unmarshal(lines.Bytes(), &reply); err != nil {
			reply.Error = err.Error()
		}
		w.mu.Lock()
		if ch := w.waiting[reply.ID]; ch != nil {
			ch <- reply
			delete(w.waiting, reply.ID)
		}
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for _, ch := range w.waiting {
		close(ch)
	}
}

// do sends a command and waits for its reply.
func (w *worker) do(c nodeCommand) (nodeReply, error) {
	ch := make(chan nodeReply, 1)
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		return nodeReply{}, errEnded
	}
	w.last++
	c.ID = w.last
	w.waiting[c.ID] = ch
	line, err := json.Marshal(c)
	if err == nil {
		_, err = w.stdin.Write(append(line, '\n'))
	}
	w.mu.Unlock()
	if err != nil {
		return nodeReply{}, err
	}
	reply, ok := <-ch
	if !ok {
		return nodeReply{}, errEnded
	}
	if reply.Error != "" {
		return nodeReply{}, errors.New(reply.Error)
	}
	return reply, nil
}

// nodeClient is one of the two clients of a worker.
type nodeClient struct {
	worker *worker
	who    int
}

func (n nodeClient) lock(key string, ttl time.Duration) (grant, error) {
	sent := time.Now()
	reply, err := n.worker.do(nodeCommand{Who: n.who, Op: "lock", Key: "lock:" + key, TTL: ttl.Milliseconds()})
	if err != nil {
		return grant{}, err
	}
	return grant{key: key, sent: sent, back: time.Now(), until: time.UnixMilli(int64(reply.Until)), mine: reply.ID}, nil
}

func (n nodeClient) unlock(g grant) error {
	_, err := n.worker.do(nodeCommand{Who: n.who, Op: "unlock", Grant: g.mine.(int)})
	return err
}
