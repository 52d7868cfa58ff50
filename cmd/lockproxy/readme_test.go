package main

import (
	"os"
	"strings"
	"testing"

	"lockproxy/conf"
)

// TestReadmeSettings keeps the README's table and the settings the same.
func TestReadmeSettings(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "| setting | default | |\n|---|---|---|\n")
	if !found {
		t.Fatal("the README has no table of settings")
	}
	table, _, _ := strings.Cut(rest, "\n\n")
	var want []string
	for _, s := range conf.Settings() {
		want = append(want, "| `"+s.Name+"` | "+s.Default+" | "+s.Help+" |")
	}
	if got := strings.Join(want, "\n"); table != got {
		t.Errorf("the README says\n%s\n\nwant\n%s", table, got)
	}
}
