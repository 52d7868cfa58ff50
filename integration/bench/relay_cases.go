package main

import (
	"fmt"
	"strings"
)

// relayCase is one shape of load on a Redis, directly or through a proxy.
type relayCase struct {
	loadShape
	pilot int // requests of the first, unmeasured run, which warms up and finds the rate; 0: callers of our own
}

// name is how BENCH_CASES knows it.
func (c relayCase) name() string {
	size := fmt.Sprint(c.size)
	if c.size >= 1024 {
		size = fmt.Sprintf("%dk", c.size/1024)
	}
	if c.clients == 1 {
		return c.command + size + "-c1"
	}
	return fmt.Sprintf("%s%s-p%d", c.command, size, c.pipeline)
}

// title is how tables call it.
func (c relayCase) title() string {
	size := fmt.Sprintf("%d B", c.size)
	if c.size >= 1024 {
		size = fmt.Sprintf("%d KB", c.size/1024)
	}
	title := strings.ToUpper(c.command) + " " + size
	if c.clients == 1 {
		return title + ", 1 client"
	}
	return fmt.Sprintf("%s, pipeline %d", title, c.pipeline)
}

// relayCases are in an order in which memory rises.
func relayCases() []relayCase {
	var list []relayCase
	for _, command := range []string{"get", "set"} {
		list = append(list, relayCase{loadShape{command, 64, 1, 1}, 0})
	}
	for _, size := range []int{64, 16 << 10} {
		for _, pipeline := range []int{1, 16, 100} {
			for _, command := range []string{"get", "set"} {
				pilot := 10_000
				if size == 64 {
					pilot *= min(pipeline, 10)
				}
				list = append(list, relayCase{loadShape{command, size, 50, pipeline}, pilot})
			}
		}
	}
	return list
}
