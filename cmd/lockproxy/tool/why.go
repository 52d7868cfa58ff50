package tool

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"lockproxy/conf"
	"lockproxy/plain"
	"lockproxy/stat"
)

var whyCommand = Subcommand{
	Name: "why", args: "KEY",
	help: "show who holds a lock, who waits for it, and what to do",
	more: `It asks every proxy of --addr, and those of --proxies by HTTP. A proxy of --addr tells all it knows
with admin-commands on, or through its Unix socket; else only who holds the lock. Each proxy knows
the clients that wait there and the holders that it granted. Without a majority of the masters it
shows what the others have. It ends within 5 s.

exit codes: 0 a majority of the masters answered, whether the lock is held or free, 1 less than a
majority answered, 64 wrong flags or key, 69 no proxy answers, 77 they refuse the user
`,
	Define: func(flags *flag.FlagSet) func(context.Context, *invocation) int {
		w := &whyViewer{target: targetFlags(flags)}
		flags.Func("proxies", "also ask these at their admin-listen: host:port, https://host:port or unix:///path, "+
			"comma-separated", func(s string) error {
			w.proxies = append(w.proxies, strings.Split(s, ",")...)
			return nil
		})
		flags.StringVar(&w.tokenFile, "admin-token-file", "", "file of one line with the admin-token of --proxies")
		flags.BoolVar(&w.json, "json", false, "print it as JSON")
		return func(ctx context.Context, t *invocation) int {
			w.invocation = t
			if len(t.args) > 1 { // flags after the key
				if err := flags.Parse(t.args[1:]); err != nil {
					return t.fail(exitUsage, "%s --help lists the flags", flagFault(flags, err))
				}
			}
			if len(t.args) == 0 || t.args[0] == "" || len(t.args) > 1 && flags.NArg() > 0 {
				return t.fail(exitUsage, "needs one key")
			}
			w.key, w.target.operator = t.args[0], true
			return w.run(ctx)
		}
	},
}

// whyTime bounds all questions of lockproxy why.
const whyTime = 4 * time.Second

// maxWhy is the longest answer in bytes.
const maxWhy = 4 << 20

// whyViewer is one run of lockproxy why.
type whyViewer struct {
	*invocation
	target    *target
	proxies   []string
	tokenFile string
	json      bool
	key       string
}

// whyAnswer is the answer of one proxy.
type whyAnswer struct {
	Proxy string `json:"proxy"` // the address that was asked
	Error string `json:"error,omitempty"`
	// Limited is why the proxy answers LOCKINFO only.
	Limited  string `json:"limited,omitempty"`
	NoQuorum string `json:"no_quorum,omitempty"` // the proxy's Why.Error

	why stat.Why
	err error
	at  time.Time // when it came
}

// whyReport is the result, also as JSON: the answer of one proxy, with additions from the others.
type whyReport struct {
	stat.Why
	Proxies  []whyAnswer `json:"proxies"`
	Disagree []string    `json:"disagree,omitempty"` // who says what about the holder, and about the masters

	age     time.Duration // of the answer; times are as they are now
	limited bool          // the answer is LOCKINFO's
}

func (w *whyViewer) run(ctx context.Context) int {
	answers, err := w.askAll(ctx)
	if err != nil {
		return w.fail(exitUsage, "%v", err)
	}
	now := time.Now()
	report, ok := mergeWhy(answers, now)
	if !ok {
		code := exitUnavailable
		for _, a := range answers {
			w.say("%s: %s", a.Proxy, a.Error)
			if one := connectCode(a.err); one != exitUnavailable {
				code = one
			}
		}
		return code
	}
	if w.json {
		_ = json.NewEncoder(w.stdout).Encode(report)
	} else {
		io.WriteString(w.stdout, report.text(now))
	}
	return map[bool]int{true: 0, false: exitFailed}[report.Quorum]
}

// askAll asks all proxies at once. Its error is about the flags.
func (w *whyViewer) askAll(ctx context.Context) ([]whyAnswer, error) {
	ctx, cancel := within(ctx, whyTime)
	defer cancel()
	var pages []conf.Address
	for _, text := range w.proxies {
		a, err := conf.ParseAdmin(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("--proxies: %w", conf.NameAddress(err, text))
		}
		pages, w.target.https = append(pages, a), w.target.https || a.TLS
	}
	token := ""
	if w.tokenFile != "" {
		text, err := os.ReadFile(w.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--admin-token-file: %w", err)
		}
		token = strings.TrimRight(string(text), "\r\n")
	}
	addresses, err := w.addresses(w.target)
	if err != nil {
		return nil, err
	}
	answers := make([]whyAnswer, len(addresses)+len(pages))
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			a := &answers[i]
			if i < len(addresses) {
				a.Proxy = addresses[i].Name()
				a.err = w.askProxy(ctx, addresses[i], a)
			} else {
				page := pages[i-len(addresses)]
				a.Proxy = page.Name()
				a.err = w.askPage(ctx, page, token, a)
			}
			if a.at = time.Now(); a.err != nil {
				a.Error = plain.Escape(plain.Error(a.err).Error())
			}
			a.NoQuorum = a.why.Error
		})
	}
	wg.Wait()
	return answers, nil
}

// askProxy asks by LOCKPROXY WHY, or if the proxy refuses that, by LOCKINFO.
func (w *whyViewer) askProxy(ctx context.Context, address conf.Address, a *whyAnswer) error {
	c, err := w.target.dial(ctx, address, false)
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := answer(ctx, c, "LOCKPROXY", "WHY", w.key)
	switch {
	case strings.HasPrefix(r.Text, "NOPERM LOCKPROXY WHY "), strings.HasPrefix(r.Text, "ERR unknown subcommand"):
		a.Limited = plain.Escape(r.Text)
		return w.askInfo(ctx, c, a)
	case strings.HasPrefix(r.Text, "ERR unknown command"):
		return fmt.Errorf("is not a lockproxy: %w", err)
	case strings.HasPrefix(r.Text, "ERR invalid key"):
		return flagError{err}
	case err != nil:
		return err
	}
	return a.read([]byte(r.Text), w.key)
}

// askInfo asks by LOCKINFO.
func (w *whyViewer) askInfo(ctx context.Context, c *client, a *whyAnswer) error {
	r, err := answer(ctx, c, "LOCKINFO", w.key)
	a.why = stat.Why{Key: plain.Escape(w.key), Asked: a.Proxy, Quorum: true}
	switch {
	case strings.HasPrefix(r.Text, "NOQUORUM"):
		a.noQuorum(plain.Escape(r.Text))
		return nil
	case err != nil || r.Null:
		return err
	}
	var l stat.Lock
	info := r.Fields()
	stat.SetFields(l.Fields(), info)
	a.why.Held, a.why.Masters, a.why.TTL, a.why.Holders = int(l.Held), int(l.Masters), l.TTL, int(l.Holders)
	a.why.Fence, a.why.Owner, a.why.Waiting = uint64(l.Fence), plain.Escape(l.Owner), int(l.Waiting)
	a.why.Mode, a.why.Type = l.Mode, plain.Escape(info["type"])
	return nil
}

// noQuorum is the answer of a proxy that says no more than the error of LOCKINFO.
func (a *whyAnswer) noQuorum(text string) {
	a.why.Error = text
	_, _ = fmt.Sscanf(text, "NOQUORUM %d of %d masters", &a.why.Seen, &a.why.Masters)
	if a.why.Quorum = a.why.Seen > 0 && a.why.Seen >= a.why.Needed(); !a.why.Quorum {
		a.why.Advice = []string{"No lock can be granted or released until a majority of the masters votes: " +
			"lockproxy status shows the state of each."}
	}
}

// askPage asks by GET /why.
func (w *whyViewer) askPage(ctx context.Context, page conf.Address, token string, a *whyAnswer) error {
	transport := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, page.Network, page.Addr)
		}}
	target := url.URL{Scheme: "http", Host: page.Addr, Path: "/why", RawQuery: url.Values{"key": {w.key}}.Encode()}
	if host, _, err := net.SplitHostPort(page.Addr); err != nil || host == "" {
		target.Host = "localhost"
	}
	if page.TLS {
		config, err := w.target.tlsConfig(page)
		if err != nil {
			return err
		}
		target.Scheme, transport.TLSClientConfig = "https", config
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err == nil {
		defer response.Body.Close()
		var body []byte
		if body, err = io.ReadAll(io.LimitReader(response.Body, maxWhy)); err == nil {
			return a.readPage(response.StatusCode, body, w.key)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return pageError(err)
}

// pageError returns an error of GET /why without the address, in plain words.
func pageError(err error) error {
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return errors.New("does not speak TLS")
	}
	if errors.Is(err, io.EOF) || strings.Contains(err.Error(), "malformed HTTP") {
		return errors.New("does not answer by HTTP: it is not the admin-listen of a lockproxy")
	}
	return err
}

// readPage reads an answer of GET /why.
func (a *whyAnswer) readPage(status int, body []byte, key string) error {
	switch status {
	case http.StatusOK:
		return a.read(body, key)
	case http.StatusNotFound:
		return errors.New("the proxy is too old for /why, or this is not its admin-listen")
	}
	err := errors.New(plain.Short(string(body)))
	if status == http.StatusUnauthorized {
		err = fmt.Errorf("%w: %w (--admin-token-file)", errDenied, err)
	}
	return err
}

// read reads the JSON of an answer about key. Other programs answer JSON, too.
func (a *whyAnswer) read(body []byte, key string) error {
	if json.Unmarshal(body, &a.why) != nil || a.why.Hex != hex.EncodeToString([]byte(key)) {
		return errors.New("is not a lockproxy: its answer is not that of /why")
	}
	return nil
}
