package adopt

import (
	"slices"
	"strconv"
	"strings"

	"lockproxy/plain"
)

// globals are the global names that a body with a form may use: those of the table's rows.
var globals = setOf("ARGV", "KEYS", "ipairs", "redis", "string", "tonumber")

// deepest limits the nesting of blocks and expressions. Lua allows 200.
const deepest = 50

// parser reads the tokens of a body, and writes its form. It panics with noForm at a token that it
// does not expect.
type parser struct {
	tokens []token
	at     int
	mask   bool // write no values of literals
	words  []string

	scopes  [][]local
	locals  int // declared so far
	nesting int
	loops   int
}

// local is a name in scope.
type local struct{ name, renamed string }

type noForm struct{}

// parse reads all tokens.
func (p *parser) parse(mask bool) (form string, ok bool) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case noForm:
			form, ok = "", false
		default:
			panic(r)
		}
	}()
	p.mask = mask
	p.block()
	if p.peek().kind != kindEnd {
		p.fail()
	}
	return strings.Join(p.words, " "), true
}

func (p *parser) fail() { panic(noForm{}) }

func (p *parser) peek() token { return p.peekAt(0) }

func (p *parser) peekAt(n int) token {
	if p.at+n >= len(p.tokens) {
		return token{}
	}
	return p.tokens[p.at+n]
}

// take writes the next token.
func (p *parser) take() token {
	t := p.peek()
	if t.kind == kindEnd {
		p.fail()
	}
	p.at++
	if p.mask {
		p.words = append(p.words, t.masked())
	} else {
		p.words = append(p.words, t.String())
	}
	return t
}

// accept writes the next token if it is symbolOrWord.
func (p *parser) accept(symbolOrWord string) bool {
	if !p.peek().is(symbolOrWord) {
		return false
	}
	p.take()
	return true
}

func (p *parser) expect(symbolOrWord string) {
	if !p.accept(symbolOrWord) {
		p.fail()
	}
}

func (p *parser) enter() {
	if p.nesting++; p.nesting > deepest {
		p.fail()
	}
}

func (p *parser) leave() { p.nesting-- }

// block reads statements, with a scope of their own that has the names at first.
func (p *parser) block(names ...local) {
	p.enter()
	p.scopes = append(p.scopes, names)
	for last := false; !last && !p.blockEnds(); {
		last = p.statement()
		p.accept(";")
	}
	p.scopes = p.scopes[:len(p.scopes)-1]
	p.leave()
}

// blockEnds reports whether the next token ends a block. The reader of the block expects which.
func (p *parser) blockEnds() bool {
	t := p.peek()
	return t.kind == kindEnd || t.is("end") || t.is("else") || t.is("elseif")
}

// statement reads a statement, and reports whether it must be the last of its block.
func (p *parser) statement() (last bool) {
	switch t := p.peek(); {
	case t.kind == kindName:
		p.assignmentOrCall()
	case p.accept("local"):
		p.declaration()
	case p.accept("if"):
		p.conditional()
	case p.accept("for"):
		p.loop()
	case p.accept("while"):
		p.expression()
		p.body()
	case p.accept("do"):
		p.block()
		p.expect("end")
	case p.accept("return"):
		if !p.blockEnds() && !p.peek().is(";") {
			p.expressions()
		}
		return true
	case p.loops > 0 && p.accept("break"):
		return true
	default:
		p.fail()
	}
	return false
}

// body reads the body of a loop.
func (p *parser) body(names ...local) {
	p.expect("do")
	p.loops++
	p.block(names...)
	p.loops--
	p.expect("end")
}

// newName reads the name of a new local, which is not yet in scope.
func (p *parser) newName() local {
	t := p.peek()
	if t.kind != kindName {
		p.fail()
	}
	p.at++
	p.locals++
	l := local{t.text, "v" + strconv.Itoa(p.locals)}
	p.words = append(p.words, l.renamed)
	return l
}

func (p *parser) newNames() []local {
	names := []local{p.newName()}
	for p.accept(",") {
		names = append(names, p.newName())
	}
	return names
}

// declaration reads the names and values after local. The names are not in scope of the values.
func (p *parser) declaration() {
	names := p.newNames()
	if p.accept("=") {
		p.expressions()
	}
	scope := &p.scopes[len(p.scopes)-1]
	*scope = append(*scope, names...)
}

func (p *parser) conditional() {
	for more := true; more; more = p.accept("elseif") {
		p.expression()
		p.expect("then")
		p.block()
	}
	if p.accept("else") {
		p.block()
	}
	p.expect("end")
}

// loop reads a loop after its for.
func (p *parser) loop() {
	names := p.newNames()
	if p.accept("in") {
		p.expressions()
		p.body(names...)
		return
	}
	p.expect("=")
	if n := p.expressions(); len(names) != 1 || n < 2 || n > 3 {
		p.fail()
	}
	p.body(names...)
}

// assignmentOrCall reads an assignment to locals, or a call.
func (p *parser) assignmentOrCall() {
	if next := p.peekAt(1); next.is("=") || next.is(",") {
		p.target()
		for p.accept(",") {
			p.target()
		}
		p.expect("=")
		p.expressions()
		return
	}
	if !p.suffixed() {
		p.fail()
	}
}

// target reads a local that is assigned to.
func (p *parser) target() {
	if t := p.peek(); t.kind != kindName || p.resolve(t.text) == "" {
		p.fail()
	}
	p.variable()
}

// resolve returns the new name of the local that name means here, or "".
func (p *parser) resolve(name string) string {
	for _, scope := range slices.Backward(p.scopes) {
		for _, l := range slices.Backward(scope) {
			if l.name == name {
				return l.renamed
			}
		}
	}
	return ""
}

// variable reads a local, or a global of the list, and returns the name of the global.
func (p *parser) variable() (global string) {
	t := p.peek()
	if renamed := p.resolve(t.text); renamed != "" {
		p.at++
		p.words = append(p.words, renamed)
		return ""
	}
	if !globals[t.text] {
		p.fail()
	}
	return p.take().text
}

// expressions reads one or more, and returns how many.
func (p *parser) expressions() int {
	p.expression()
	n := 1
	for ; p.accept(","); n++ {
		p.expression()
	}
	return n
}

var unary = []string{"not", "-", "#"}

var binary = []string{"==", "~=", "<", ">", "<=", ">=", "and", "or", "..", "+", "-", "*", "/", "%", "^"}

// expression reads operands and operators. Their precedence does not matter: it depends on the
// tokens alone, and the form keeps all of them.
func (p *parser) expression() {
	p.enter()
	for more := true; more; more = p.acceptAny(binary) {
		for p.acceptAny(unary) {
		}
		p.operand()
	}
	p.leave()
}

func (p *parser) acceptAny(list []string) bool { return slices.ContainsFunc(list, p.accept) }

func (p *parser) operand() {
	switch t := p.peek(); {
	case t.kind == kindNumber || t.kind == kindText || t.is("nil") || t.is("true") || t.is("false"):
		p.take()
	case p.accept("{"):
		for !p.accept("}") {
			p.expression()
			if !p.peek().is("}") {
				p.expect(",")
			}
		}
	default:
		p.suffixed()
	}
}

// suffixed reads a name or an expression in parentheses, and members, indexes and calls after it.
// It reports whether the last is a call.
func (p *parser) suffixed() (call bool) {
	global := ""
	switch {
	case p.peek().kind == kindName:
		global = p.variable()
	case p.accept("("):
		p.expression()
		p.expect(")")
	default:
		p.fail()
	}
	for i := 0; ; i++ {
		before := p.tokens[p.at-1]
		switch {
		case p.peek().is("(") && p.peek().line != before.line:
			p.fail() // Lua 5.1 refuses this: it may begin a statement
		case p.accept("("):
			p.arguments(i == 1 && global == "redis" && (before.text == "call" || before.text == "pcall"))
			call = true
		case p.accept("."):
			if p.peek().kind != kindName {
				p.fail()
			}
			p.take()
			call = false
		case p.accept("["):
			p.expression()
			p.expect("]")
			call = false
		default:
			return call
		}
	}
}

// arguments reads the arguments of a call. The first one of a command is its name, in any case.
func (p *parser) arguments(command bool) {
	if p.accept(")") {
		return
	}
	next := p.peekAt(1)
	if command && p.peek().kind == kindText && (next.is(",") || next.is(")")) {
		p.commandName()
		if p.accept(",") {
			p.expressions()
		}
	} else {
		p.expressions()
	}
	p.expect(")")
}

// commandName reads the name of a command. The log shows it if it looks like one.
func (p *parser) commandName() {
	t := p.peek()
	t.text = lowerASCII(t.text)
	p.at++
	shown := len(t.text) <= longestName && strings.Trim(t.text, "abcdefghijklmnopqrstuvwxyz._-") == ""
	if p.mask && !shown {
		p.words = append(p.words, t.masked())
		return
	}
	p.words = append(p.words, t.String())
}

// lowerASCII is strings.ToLower for ASCII: Redis knows no other letters.
func lowerASCII(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return 'A' <= r && r <= 'Z' }) < 0 {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// printableForm returns text as part of a line.
func printableForm(text string) string { return plain.Line(strings.ToValidUTF8(text, "")) }
