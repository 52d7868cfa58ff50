package main

import (
	"os"
	"regexp"
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

// TestReadmeRights: the rights that the README gives to lockproxy's user are those that package quorum is tested with.
func TestReadmeRights(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	tested, err := os.ReadFile("../../quorum/real_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^ACL SETUSER lockproxy on >password (.*)$`).FindSubmatch(readme)
	rules := regexp.MustCompile(`rules := "on >pw (.*)"`).FindSubmatch(tested)
	if shown == nil || rules == nil {
		t.Fatalf("the README has %q, the test of quorum %q", shown, rules)
	}
	if string(shown[1]) != string(rules[1]) {
		t.Errorf("the README says\n%s\ntested is\n%s", shown[1], rules[1])
	}
}
