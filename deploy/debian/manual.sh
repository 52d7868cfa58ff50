#!/bin/sh
# Prints the manual: sh deploy/debian/manual.sh program version. The synopsis names the commands that
# the program's --help lists. The manual ends with that text, and the --help of each command.
set -eu
program=$1
version=$2
folder=$(dirname "$0")

# literal turns text into lines that man prints as they are.
literal() { sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'"'"']\)/\\\&\1/'; }

help=$("$program" --help 2>&1)
commands=$(printf '%s\n' "$help" | sed -n '/^Commands /,$s/^  \([a-z][a-z-]*\)  .*/\1/p')
[ -n "$commands" ] || { echo "$program --help lists no commands" >&2 && exit 1; }

# Unquoted, because each word is a command.
# shellcheck disable=SC2086
names=$(echo $commands | sed 's/ / | /g')
sed "s/@VERSION@/$version/; s/@COMMANDS@/$names/" "$folder/lockproxy.1"
printf '.SH OPTIONS\n.nf\n'
printf '%s\n' "$help" | literal
printf '.fi\n.SH COMMANDS\n'
for command in $commands; do
	text=$("$program" "$command" --help 2>&1)
	printf '.SS lockproxy %s\n.nf\n' "$command"
	printf '%s\n' "$text" | literal
	printf '.fi\n'
done
