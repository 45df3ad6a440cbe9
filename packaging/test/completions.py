#!/usr/bin/env python3
"""Types command lines into bash, zsh and fish, presses Tab, and looks at what they make of
it. Usage: completions.py PROGRAM: the completions come from it, or are installed already
where INSTALLED=1 is set."""

import os
import shlex
import subprocess
import sys
import tempfile

import pexpect

program = os.path.abspath(sys.argv[1])
installed = os.environ.get("INSTALLED") == "1"
work = tempfile.TemporaryDirectory(prefix="pipefs-completions-")
os.makedirs(os.path.join(work.name, "home"))
os.makedirs(os.path.join(work.name, "pictures of mine"))

# What is typed, and what the line has to be after one Tab.
LINES = [
    ("pipefs umo", "pipefs umount "),
    ("pipefs mount --imm", "pipefs mount --immutable "),
    ("pipefs mount --log-format js", "pipefs mount --log-format json "),
    ("pipefs mount --log-format=js", "pipefs mount --log-format=json "),
    ("pipefs mount -o ro,log-format=js", "pipefs mount -o ro,log-format=json "),
    ("pipefs export s resize256-np", "pipefs export s resize256-npy "),
    ("pipefs views d res", "pipefs views d resize256-"),
    ("pipefs mount pict", r"pipefs mount pictures\ of\ mine/"),
    ("pipefs completion z", "pipefs completion zsh "),
]


def env():
    e = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "BASH", "ZDOT"))}
    path = [] if installed else [os.path.dirname(program)]
    e.update(HOME=os.path.join(work.name, "home"), TERM="dumb", PATH=":".join(path + [e["PATH"]]), LC_ALL="C.UTF-8")
    return e


def script(shell):
    return subprocess.run([program, "completion", shell], check=True, capture_output=True, text=True).stdout


def write(name, text):
    path = os.path.join(work.name, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def check(shell, typed, got, want):
    if got != want:
        sys.exit(f"completions: {shell} makes {got!r} of {typed!r}, not {want!r}")


def interactive(shell, args, show):
    """Types into a shell with a line editor: Tab, then Control-G, which shows the line."""
    p = pexpect.spawn(shell, args, env=env(), cwd=work.name, encoding="utf-8", timeout=60, dimensions=(50, 300))
    p.sendline(show)
    if not installed:
        p.sendline(f"source {write(shell, script(shell))}")
    p.sendline("echo rea''dy")
    p.expect("\r\nready")
    for typed, want in LINES:
        p.send(typed + "\t\x07")
        p.expect("<<<(.*)>>>")
        check(shell, typed, p.match.group(1), want)
        p.send("\x15")  # Control-U empties the line
    p.close(force=True)


def fish():
    """Asks fish for the candidates; putting one into the line is the business of fish."""
    prepare = "" if installed else f"source {write('fish', script('fish'))}; "
    for typed, want in LINES:
        out = subprocess.run(["fish", *([] if installed else ["--no-config"]), "-c", f"{prepare}complete -C {typed!r}"], env=env(), cwd=work.name,
                             check=True, capture_output=True, text=True, timeout=60).stdout
        check("fish", typed, out.splitlines()[0].split("\t")[0], shlex.split(want)[-1])


# bash-completion looks installed ones up by the name of the command.
bash_begin = ["--norc", "--noprofile", "-i"] if not installed else ["--rcfile", "/usr/share/bash-completion/bash_completion", "-i"]
interactive("bash", bash_begin, r"""bind -x '"\C-g": printf "<<<%s>>>\n" "$READLINE_LINE"'""")
zsh_begin = "autoload -Uz compinit && compinit -u; show() { print; print -r -- \"<<<$BUFFER>>>\" }; zle -N show; bindkey '^G' show"
interactive("zsh", ["-f", "-i"], zsh_begin)
fish()
print(f"completions: bash, zsh and fish complete {len(LINES)} lines")
