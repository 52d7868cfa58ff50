package adopt

import (
	"fmt"
	"strings"
)

// longestBody is the longest body that may have a form.
const longestBody = 16 << 10

// formOf returns the form of the body of a script: its tokens with one blank between them, with
// strings in double quotes, with the first argument of redis.call and redis.pcall in lower case,
// and with locals named v1, v2 and so on as they are declared. Two bodies of one form do the same.
//
// formOf reads a part of Lua 5.1: no functions, methods, goto, repeat, long strings or assignments
// to anything but locals, and only globals of a list. A body that it does not read to its end has
// no form.
//
//	> local token = redis.call('GET', KEYS[1]) -- mine?
//	< local v1 = redis . call ( "get" , KEYS [ 1 ] )
func formOf(body string) (form string, ok bool) {
	if len(body) > longestBody || strings.IndexByte(body, 0) >= 0 {
		return "", false
	}
	tokens, ok := lex(body)
	if !ok {
		return "", false
	}
	p := parser{tokens: tokens}
	return p.parse(false)
}

// longestMasked is how many bytes of a form the log shows.
const longestMasked = 200

// masked returns the beginning of the form of body for a log, without its strings and numbers. It
// keeps the names of commands. Of a body without a form it returns the tokens.
func masked(body string) string {
	tokens, ok := lex(body[:min(len(body), longestBody)])
	p := parser{tokens: tokens}
	text, parsed := p.parse(true)
	if !ok || !parsed {
		words := make([]string, 0, len(tokens))
		for _, t := range tokens {
			words = append(words, t.masked())
		}
		text = strings.Join(words, " ")
	}
	return printableForm(text[:min(len(text), longestMasked)])
}

// tokenKind is the kind of a token.
type tokenKind uint8

const (
	kindEnd    tokenKind = iota
	kindName             // an identifier
	kindWord             // a keyword
	kindNumber           // digits, perhaps with a fraction
	kindText             // a string: token.text is its value
	kindSymbol
)

// token is a token of Lua.
type token struct {
	kind tokenKind
	text string
	line int // counts line ends before it
}

func (t token) is(symbolOrWord string) bool {
	return (t.kind == kindSymbol || t.kind == kindWord) && t.text == symbolOrWord
}

// masked returns the token without the value of a literal.
func (t token) masked() string {
	switch t.kind {
	case kindText:
		return `"?"`
	case kindNumber:
		return "?"
	}
	return t.text
}

// String returns the token as forms have it.
func (t token) String() string {
	if t.kind != kindText {
		return t.text
	}
	quoted := []byte{'"'}
	for _, c := range []byte(t.text) {
		if c < ' ' || c == '"' || c == '\\' || c == 127 {
			quoted = fmt.Appendf(quoted, `\%03d`, c)
		} else {
			quoted = append(quoted, c)
		}
	}
	return string(append(quoted, '"'))
}

var keywords = setOf("and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
	"local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while")

// lexer cuts a body into tokens.
type lexer struct {
	body string
	at   int
	line int
}

// lex returns the tokens of body, without comments. If it is not ok, they are those before the
// first that lex does not read.
func lex(body string) (tokens []token, ok bool) {
	l := lexer{body: body}
	for {
		if !l.skip() {
			return tokens, false
		}
		t, ok := l.next()
		if !ok || t.kind == kindEnd {
			return tokens, ok
		}
		tokens = append(tokens, t)
	}
}

// skip passes over blanks and comments.
func (l *lexer) skip() bool {
	for l.at < len(l.body) {
		switch c := l.body[l.at]; {
		case c == '\n' || c == '\r':
			l.line++
			l.at++
		case c == ' ' || c == '\t':
			l.at++
		case strings.HasPrefix(l.body[l.at:], "--"):
			if !l.skipComment() {
				return false
			}
		default:
			return true
		}
	}
	return true
}

// skipComment passes over a comment, up to its line end or, if it is long, its closing bracket.
func (l *lexer) skipComment() bool {
	l.at += len("--")
	comment := l.body[l.at:]
	level, long := longBracket(comment)
	if !long {
		if n := strings.IndexAny(comment, "\r\n"); n >= 0 {
			l.at += n
		} else {
			l.at = len(l.body)
		}
		return true
	}
	closing := "]" + strings.Repeat("=", level) + "]"
	comment, _, closed := strings.Cut(comment[level+2:], closing)
	if level == 0 && strings.Contains(comment, "[[") {
		return false // Lua 5.1 refuses this
	}
	l.line += strings.Count(comment, "\n") + strings.Count(comment, "\r")
	l.at += level + 2 + len(comment) + len(closing)
	return closed
}

// longBracket reports whether s begins with [[ or [=[ and so on, and how many = that has.
func longBracket(s string) (level int, long bool) {
	if !strings.HasPrefix(s, "[") {
		return 0, false
	}
	level = len(s) - 1 - len(strings.TrimLeft(s[1:], "="))
	return level, strings.HasPrefix(s[1+level:], "[")
}

// symbols are the operators of more than one character that lex reads; it refuses "...".
var symbols = []string{"..", "==", "~=", "<=", ">="}

func (l *lexer) next() (t token, ok bool) {
	if l.at == len(l.body) {
		return token{kind: kindEnd, line: l.line}, true
	}
	from, c := l.at, l.body[l.at]
	switch {
	case isLetter(c):
		l.pass(func(c byte) bool { return isLetter(c) || isDigit(c) })
		t.kind = kindName
		if keywords[l.body[from:l.at]] {
			t.kind = kindWord
		}
	case isDigit(c):
		t.kind = kindNumber
		if !l.passNumber() {
			return t, false
		}
	case c == '"' || c == '\'':
		return l.text(c)
	default:
		t.kind = kindSymbol
		if !l.passSymbol() {
			return t, false
		}
	}
	t.text, t.line = l.body[from:l.at], l.line
	return t, true
}

// peek returns the next byte, 0 at the end.
func (l *lexer) peek() byte {
	if l.at < len(l.body) {
		return l.body[l.at]
	}
	return 0
}

func (l *lexer) pass(fits func(c byte) bool) {
	for l.at < len(l.body) && fits(l.body[l.at]) {
		l.at++
	}
}

// passNumber passes over digits with or without a fraction. It refuses exponents and hex.
func (l *lexer) passNumber() bool {
	l.pass(isDigit)
	if l.peek() == '.' {
		l.at++
		l.pass(isDigit)
	}
	return !isLetter(l.peek()) && l.peek() != '.'
}

func (l *lexer) passSymbol() bool {
	left := l.body[l.at:]
	if _, long := longBracket(left); long || strings.HasPrefix(left, "...") {
		return false
	}
	for _, s := range symbols {
		if strings.HasPrefix(left, s) {
			l.at += len(s)
			return true
		}
	}
	l.at++
	if left[0] == '.' && isDigit(l.peek()) {
		return false // a number
	}
	return strings.IndexByte("+-*/%^#<>=(){}[];,.", left[0]) >= 0
}

// text reads a string in quotes, with those escapes that mean the same to every Lua.
func (l *lexer) text(quote byte) (t token, ok bool) {
	var value []byte
	for l.at++; l.at < len(l.body); l.at++ {
		switch c := l.body[l.at]; c {
		case quote:
			l.at++
			return token{kindText, string(value), l.line}, true
		case '\n', '\r', 0:
			return t, false
		case '\\':
			c, ok = l.escape()
			if !ok {
				return t, false
			}
			value = append(value, c)
		default:
			value = append(value, c)
		}
	}
	return t, false
}

// escape reads an escape after its backslash, and stays on its last byte.
func (l *lexer) escape() (c byte, ok bool) {
	l.at++
	switch c := l.peek(); c {
	case '\\', '"', '\'':
		return c, true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	}
	value, digits := 0, 0
	for digits < 3 && isDigit(l.peek()) {
		value = value*10 + int(l.peek()-'0')
		l.at++
		digits++
	}
	l.at--
	return byte(value), digits == 3 && value < 256 // with fewer, the next character decides
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
