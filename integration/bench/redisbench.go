package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"time"
)

// loadShape is what redis-benchmark is to send.
type loadShape struct {
	command  string // get or set
	size     int    // bytes of the value
	clients  int
	pipeline int
}

// figures is what redis-benchmark found.
type figures struct {
	rate     float64       // requests per second
	p50, p99 time.Duration // of a request, or of a pipeline of them
}

// redisBenchmark sends n requests to a server.
func redisBenchmark(ctx context.Context, addr string, shape loadShape, n int) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	host, port, _ := net.SplitHostPort(addr)
	cmd := exec.CommandContext(ctx, "redis-benchmark", "-h", host, "-p", port, "--csv", "-t", shape.command,
		"-d", strconv.Itoa(shape.size), "-c", strconv.Itoa(shape.clients), "-P", strconv.Itoa(shape.pipeline), "-n",
		strconv.Itoa(n))
	cmd.SysProcAttr = childAttributes()
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return figures{}, fmt.Errorf("redis-benchmark: %w: %s", err, bytes.TrimSpace(problems.Bytes()))
	}
	return parseFigures(out)
}

// parseFigures reads the CSV of redis-benchmark:
//
//	"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
//	"GET","123456.78","0.123","0.040","0.119","0.159","0.207","0.527"
func parseFigures(out []byte) (figures, error) {
	at := bytes.Index(out, []byte(`"test",`)) // a warning may come before it
	if at < 0 {
		return figures{}, fmt.Errorf("redis-benchmark printed %q", out)
	}
	rows, err := csv.NewReader(bytes.NewReader(out[at:])).ReadAll()
	if err != nil || len(rows) != 2 {
		return figures{}, fmt.Errorf("redis-benchmark printed %q", out)
	}
	value := map[string]float64{}
	for i, name := range rows[0] {
		value[name], _ = strconv.ParseFloat(rows[1][i], 64)
	}
	millis := func(name string) time.Duration { return time.Duration(value[name] * float64(time.Millisecond)) }
	f := figures{rate: value["rps"], p50: millis("p50_latency_ms"), p99: millis("p99_latency_ms")}
	if f.rate <= 0 {
		return figures{}, fmt.Errorf("redis-benchmark printed %q", out)
	}
	return f, nil
}
