package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readFile applies a file of the form
//
//	max-ttl: 30s
//	masters: [10.0.0.1:6379, 10.0.0.2:6379, 10.0.0.3:6379]
//
// Names are those of the settings. Unknown names, repeated names and empty values are faults.
func (l *loader) readFile(path string) {
	content, err := os.ReadFile(path)
	if err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		l.unread = true
		l.fault("config %s: %w", path, err)
		return
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return
	case err != nil:
		l.unread = true
		l.fault("config %s: %s%s", path, faultLine(content), yamlFault(err))
		return
	}
	if !errors.Is(decoder.Decode(&second), io.EOF) {
		l.unread = true
		l.fault("config %s: more than one document", path)
		return
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return // comments only
	}
	if root.Kind != yaml.MappingNode {
		l.unread = true
		l.fault("config %s: not of the form name: value", path)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		l.fileEntry(path, root.Content[i], root.Content[i+1], seen)
	}
}

func (l *loader) fileEntry(path string, key, node *yaml.Node, seen map[string]bool) {
	s, ok := lookup(key.Value)
	if !ok {
		l.fault("config %s: line %d: unknown setting %s%s", path, key.Line, quoteName(key.Value),
			suggest(key.Value, func(s settingRow) string { return s.name }))
		return
	}
	if seen[s.name] {
		l.fault("config %s: line %d: %s is set twice", path, key.Line, s.name)
		return
	}
	seen[s.name] = true
	l.faultIn(s.name, fmt.Sprintf("%s (config %s line %d)", s.name, path, key.Line), setNode(s.valueOf(&l.cfg), node))
}

// errTag is the fault of a value like !secret, which YAML would read as empty.
var errTag = errors.New("begins with '!', which YAML reads as a tag: put it in quotes")

func tagged(node *yaml.Node) bool { return node.Style&yaml.TaggedStyle != 0 && node.Tag != "!!str" }

func setNode(v value, node *yaml.Node) error {
	switch {
	case tagged(node):
		return errTag
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null":
		return errors.New("has no value")
	case node.Kind == yaml.ScalarNode:
		return v.set(node.Value)
	case node.Kind != yaml.SequenceNode:
		return errors.New("is not a single value or a list")
	}
	list, ok := v.(lister)
	if !ok {
		return errors.New("takes one value, not a list")
	}
	var items []string
	for _, item := range node.Content {
		if item.Kind != yaml.ScalarNode {
			return errors.New("has an entry that is not a single value")
		}
		if tagged(item) {
			return fmt.Errorf("has an entry that %w", errTag)
		}
		if item.Tag == "!!null" {
			item.Value = ""
		}
		items = append(items, item.Value)
	}
	return list.setList(items)
}

// faultLine returns "line 3: " for a file that stops being YAML in line 3. The parser itself often
// names an earlier line.
func faultLine(content []byte) string {
	lines := bytes.SplitAfter(content, []byte("\n"))
	end := len(content)
	for n := len(lines); n > 0; n-- {
		end -= len(lines[n-1])
		var node yaml.Node
		if yaml.Unmarshal(content[:end], &node) == nil {
			return fmt.Sprintf("line %d: ", n)
		}
	}
	return ""
}

// yamlFault describes a fault that the YAML parser found. For an unknown alias the parser's text
// repeats a piece of the file, which may be a password that begins with '*'.
func yamlFault(err error) string {
	if strings.Contains(err.Error(), "anchor") {
		return "a value begins with '*' or '&', which YAML reads as an alias: put it in quotes"
	}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if place, what, found := strings.Cut(text, ": "); found && strings.HasPrefix(place, "line ") {
		return what
	}
	return text
}
