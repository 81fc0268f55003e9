//! Generated lines that try to run hidden commands.

/// Random numbers (xorshift): a seed gives the same lines everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }

    pub(crate) fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// Attacks that succeeded once, against this or another policy. `pwn` is the command that the attacker wants to run.
#[rustfmt::skip]
pub(crate) const ATTACKS: &[&str] = &[
    "echo ${_@P}", "echo '$(pwn)' ${_@P}", "echo ${x@P}", "echo ${x[_]}", "echo a[$y]", "echo ${y[$y]}", "echo $[y]",
    "echo $[a[$(pwn)]]", "echo \"`echo \\\"$(pwn)\\\"`\"", "echo \"`pwn`\"", "echo `pwn`", "echo $(pwn)", "echo \"$(pwn)\"",
    "echo $((a[$(pwn)]))", "printf -v 'a[$(pwn)]' x", "printf -va[$y] x", "printf %n 'a[$(pwn)]'", "printf '%d' 'a[$(pwn)]'",
    "test -v 'a[$(pwn)]'", "[ -v 'a[$(pwn)]' ]", "[ -R 'a[$(pwn)]' ]", "test x -a -v 'a[$(pwn)]'", "[[ -v a[$y] ]]",
    "[[ $y -eq 1 ]]", "[[ a[$y] -eq 1 ]]", "let 'a[$(pwn)]=1'", "cd 'a[$(pwn)]'", "read 'a[$(pwn)]' <<< x", "unset 'a[$(pwn)]'",
    "mapfile -C pwn -c 1 x </dev/null", "declare 'a[$(pwn)]=1'", "export 'a[$(pwn)]=1'", "a[$(pwn)]=1", "a[$y]=1 echo",
    "RANDOM='a[$(pwn)]'", "RANDOM='a[$(pwn)]' echo", "SECONDS='a[$(pwn)]' true", "echo {$(pwn),b}", "echo <(pwn)",
    "cat <<E\n$(pwn)\nE", "cat <<< $(pwn)", "echo a & pwn", "echo a &pwn", "echo a;pwn", "echo a\npwn", "echo a|pwn",
    "echo a |& pwn", "(pwn)", "{ pwn; }", "! pwn", "time pwn", "coproc pwn", "if pwn; then :; fi", "for i in a; do pwn; done",
    "while pwn; do break; done", "case a in a) pwn;; esac", "echo() { pwn; }; echo", "f() { pwn; }; f", "alias echo=pwn\necho",
    "shopt -s expand_aliases; alias echo=pwn\necho a", "PATH=.; ls", "PATH=. ls", "trap pwn EXIT", "trap pwn DEBUG; echo a",
    "eval pwn", "eval 'echo a; pwn'", "exec pwn", "command pwn", "builtin eval pwn", "source ./pwn", ". ./pwn", "./pwn",
    "enable -f ./pwn echo", "hash -p ./pwn ls; ls", "echo a > written", "echo a >> written", "echo a >| written",
    "echo a &> written", "echo a >& written", "echo a <> written", "echo a 2> written", "> written", "echo a >/dev/null > written",
    "echo a >/dev/null\\\n/../../written", "echo $\\\n(pwn)", "echo \"$\\\n(pwn)\"", "echo \\\n$(pwn)", "ec\\\nho a; pw\\\nn",
    "echo a #\npwn", "echo a # b\npwn", "echo 'a\npwn'", "echo \"a\npwn\"", "echo $'a'; pwn", "echo $'\\'; pwn; echo \\''",
    "echo $\"a$(pwn)\"", "echo \"$'$(pwn)'\"", "echo 'a'\"'\"$(pwn)\"'\"", "echo \\'$(pwn)\\'", "echo \"\\\"$(pwn)\\\"\"",
    "echo \"\\\\\"$(pwn)\"\"", "echo \\\"`pwn`\\\"", "echo a\rpwn", "echo a\u{a0}; pwn", "echo a\u{c}pwn", "set -k; ls PATH=.",
    "set -- pwn; $1", "pwn=pwn; $pwn", "$z", "\"$z\"", "$z a", "${z}", "echo $z", "ec$nothing'ho' a", "''pwn", "\"\"pwn", "p\\wn",
    "'pwn'", "p'w'n", "~/pwn", "command -p pwn", "exec -a echo pwn", "echo ${x:-$(pwn)}", "echo ${x:=`pwn`}", "echo ${!x}",
    "echo ${x/a/$(pwn)}", "echo ${x:$(pwn)}", "echo \"${x:a[$(pwn)]}\"", "echo ${#a[$(pwn)]}", "test -n a -o -v 'a[$(pwn)]'",
    "exit 'a[$(pwn)]'", "wait -p 'a[$(pwn)]' -n", "getopts a 'b[$(pwn)]'", "readonly 'a[$(pwn)]=1'", "[ 'a[$(pwn)]' -eq 1 ]",
    "test 'a[$(pwn)]' -gt 0", "printf '%s' \"$y\"", "printf \"$w\" \"$y\"", "test \"$v\" \"$y\"", "[ \"$v\" \"$y\" ]", "test $v $y",
    "[ $v $y ]", "printf $v $y", "cd \"$y\"", "cd $y", "declare -n r='a[$(pwn)]'; echo $r", "echo a;; pwn", "echo a ;& pwn",
    "true && pwn", "false || pwn", "true\n\n;pwn", "true;\npwn", "echo a\\\n; pwn", "true &&\n pwn", "true |\n\n pwn",
    "echo \"ä\\\"; pwn; echo \\\"ä\"", "echo a >&2 pwn", "echo a 2>&1pwn", "echo a >&1 >written", "echo 2>&1 | pwn",
];

/// Elements of lines.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    " ", " ", " ", " ", "\t", "\n", "\\\n", ";", "&", "&&", "||", "|", "|&", ";;", "(", ")", "{", "}", "<", ">", ">>", "<<", "<<<",
    ">&", "&>", "2>&1", ">/dev/null", "2>/dev/null", "&>/dev/null", "</dev/null", ">&2", ">written", "'", "'", "\"", "\"", "\\", "\\\\",
    "\\\"", "\\'", "$", "$x", "$y", "${x}", "$v", "\"$x\"", "\"${y}\"", "$_", "$z", "${_@P}", "${x[_]}", "$(pwn)", "`pwn`", "`", "$(",
    "$((", "))", "$[", "]", "[", "$'", "$\"", "#", "!", "~", "*", "?", "=", "a=b", "a[$(pwn)]", "a[$y]", "'a[$(pwn)]'", "-v", "-n", "--",
    "%n", "%s", "a", "b", "ä", "\r", "\u{a0}", "1", "2", "0", "echo", "echo", "ls", "cat", "git status", "true", "printf", "test", "cd",
    "[", "pwn", "pwn", "./pwn", "eval", "command", "exec", "builtin", "let", "read", "unset", "export", "declare", "set", "time", "if",
    "then", "fi", "for", "do", "done", "in", "[[", "]]", "x=", "+=", "@P", ":-", "{a,b}", "<(pwn)", "%1", "^", "type", "exit",
];

/// Programs that are harmless with any words.
pub(crate) const HARMLESS: [&str; 13] =
    ["echo", "ls", "cat", "git status", "true", "printf", "test", "[", "cd", "pwd", ":", "type", "exit"];

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "a", "-n", "-v", "-l", "--", "x=y", "a/b", "'a b'", "\"a b\"", "\"$x\"", "\"${y}\"", "\"a$\"", "'$(pwn)'", "'a[$(pwn)]'", "\\$x",
    "\\`pwn\\`", "\"\\$(pwn)\"", "\"\\`pwn\\`\"", "'`pwn`'", "';pwn;'", "\";pwn;\"", "\\;", "\\&", "\\|pwn", "\"'\"", "'\"'", "\"\\\"\"",
    "'\\'", "\"\\\\\"", "\\\\", "\\'", "\\\"", "a'b'\"c\"d", "%s", "'%d'", "'%n'", "]", "=", "!=", "-f", "-z", "1", "-eq", "HEAD~1", "~",
    "~/a", "hi!", "'#'", "\"#\"", "'\n'", "\"\n\"", "\\\n", "2>&1", ">/dev/null", "2>/dev/null", "</dev/null", "&>/dev/null", ">&2", "'ä'",
    "\"ä\"", "-", "+", "@", "%1", "a,b", "a:b", "''", "\"\"", "$x", "$y", "*", "a*", "[a]", "~root",
];

const JOINTS: &[&str] = &[" && ", " || ", "; ", " | ", "\n", " &&\n", " |\n ", ";", "|", "&&", " ;\n\n"];

/// Generates a line: mostly well formed, else random pieces, or a modified attack.
pub(crate) fn line(random: &mut Random) -> String {
    match random.below(10) {
        0..=4 => well_formed(random),
        5..=6 => {
            let mut line = well_formed(random);
            mutate(random, &mut line);
            line
        }
        7..=8 => {
            let mut line = random.one(ATTACKS).to_owned();
            mutate(random, &mut line);
            line
        }
        _ => (0..1 + random.below(12)).map(|_| random.one(PIECES)).collect(),
    }
}

fn well_formed(random: &mut Random) -> String {
    let mut line = String::new();
    for number in 0..1 + random.below(3) {
        if number > 0 {
            line += random.one(JOINTS);
        }
        line += if random.below(HARMLESS.len() + 1) == 0 { "pwn" } else { random.one(&HARMLESS) };
        for _ in 0..random.below(4) {
            line.push(' ');
            line += random.one(WORDS);
        }
    }
    line
}

/// Inserts, removes and replaces some pieces.
fn mutate(random: &mut Random, line: &mut String) {
    for _ in 0..1 + random.below(3) {
        let positions: Vec<usize> = line.char_indices().map(|(at, _)| at).chain([line.len()]).collect();
        let at = positions[random.below(positions.len())];
        let end = positions[random.below(positions.len())].clamp(at, line.len().min(at + 6));
        let end = positions.iter().copied().filter(|position| *position <= end).max().unwrap_or(at).max(at);
        match random.below(4) {
            0 => line.replace_range(at..end, ""),
            1 => line.replace_range(at..end, random.one(PIECES)),
            _ => line.insert_str(at, random.one(PIECES)),
        }
    }
}
